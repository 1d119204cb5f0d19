// In place of the CUDA object: one of another version, of another layout, or with a kernel that
// takes other arguments.
#include <string_view>

#include "ember/driver/cuda_object.h"
#include "ember/driver/kernels.h"

namespace {

int count() noexcept { return 1; }

ember::Status run(const ember::driver::Params&, const ember::driver::CudaLaunch&) { return {}; }

ember::driver::kernels::Found implementation(const char* kernel) noexcept {
  if (std::string_view(kernel) != "sleep") return {};
  return {&run, ember::driver::arguments<ember::driver::kernels::SleepArgs>() ^ OTHER_ARGUMENTS};
}

constexpr ember::driver::CudaObject kObject{
    .version = OTHER_VERSION,
    .layout = ember::driver::layout_stamp() ^ OTHER_LAYOUT,
    .count_without_cuda = &count,
    .implementation = &implementation,
    .architectures = "sm_90",
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ember::driver::CudaObject*
ember_cuda_object() {
  return &kObject;
}
