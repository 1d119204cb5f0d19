// In place of the CUDA object: one of another version, or of another layout.
#include "ember/driver/cuda_object.h"

namespace {

int count() noexcept { return 1; }

constexpr ember::driver::CudaObject kObject{
    .version = OTHER_VERSION,
    .layout = ember::driver::layout_stamp() ^ OTHER_LAYOUT,
    .count_without_cuda = &count,
    .architectures = "sm_90",
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ember::driver::CudaObject*
ember_cuda_object() {
  return &kObject;
}
