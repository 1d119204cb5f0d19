// The one symbol that this shared object exports (driver/cuda_object.h).
#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/nvml.h"
#include "ember/driver/cuda/nvrtc.h"
#include "ember/driver/cuda_object.h"

namespace ember::inline v0::driver::cuda {
namespace {

Status open(Driver*& out) noexcept {
  EMBER_TRY(load_api());
  std::unique_ptr<CudaDriver> made;
  EMBER_TRY(CudaDriver::make(made));
  out = made.release();
  return {};
}

constexpr CudaObject kObject{
    .count_without_cuda = &count_without_cuda,
    .devices_are_known = &devices_are_known,
    .open = &open,
    .implementation = &implementation,
    .sensor_without_cuda = &sensor_without_cuda,
    .processes_without_cuda = &processes_without_cuda,
    .uuids_without_cuda = &uuids_without_cuda,
    .compiler = &nvrtc_identity,
    .compile = &nvrtc_compile,
    .architectures = EMBER_CUDA_ARCHITECTURES,
};

}  // namespace
}  // namespace ember::inline v0::driver::cuda

extern "C" __attribute__((visibility("default"))) const ember::driver::CudaObject*
ember_cuda_object() {
  return &ember::driver::cuda::kObject;
}
