#include "tests/runtime/held_object.h"

#include "ember/driver/cuda_object.h"

namespace {

__attribute__((constructor)) void loaded() { ember_test_visit("load"); }

int count() noexcept {
  ember_test_visit("count");
  return 3;
}

constexpr ember::driver::CudaObject kObject{
    .count_without_cuda = &count,
    .implementation = [](const char*) noexcept { return ember::driver::kernels::Found(); },
    .architectures = "sm_90",
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ember::driver::CudaObject*
ember_cuda_object() {
  return &kObject;
}
