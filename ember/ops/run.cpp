#include "ember/ops/run.h"

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"

namespace ember::ops {
namespace {

/// The CPU touches its memory as it is.
class CpuLaunch final : public driver::HostLaunch {
 public:
  CpuLaunch() noexcept : HostLaunch(-1) {}
  ~CpuLaunch() = default;

 private:
  void* resolve(void* pointer, std::size_t) const noexcept override {
    // A count of zero comes with a null pointer, which kernels would take for a failure.
    return pointer != nullptr ? pointer : const_cast<CpuLaunch*>(this);
  }
};

cuda::Access access(const Tensor& tensor, bool writes) {
  if (tensor.numel() == 0) return {nullptr, 0, writes};
  std::int64_t last = 0;
  for (int i = 0; i < tensor.dim(); ++i) last += (tensor.sizes()[i] - 1) * tensor.strides()[i];
  return {tensor.data_ptr(), static_cast<std::size_t>(last + 1) * tensor.element_size(), writes};
}

}  // namespace

void run(Device device, const driver::Kernel& kernel, const driver::Params& params,
         std::span<const cuda::Access> accesses) {
  if (device.is_cuda()) {
    cuda::launch_on_current(device.index(), kernel, params, accesses);
    return;
  }
  const Status status = run_here(kernel, params);
  if (!status.ok()) throw Error(std::string(kernel.name) + ": " + status.text());
}

Status run_here(const driver::Kernel& kernel, const driver::Params& params) {
  return kernel.host(params, CpuLaunch());
}

cuda::Access reads(const Tensor& tensor) { return access(tensor, false); }
cuda::Access writes(const Tensor& tensor) { return access(tensor, true); }

}  // namespace ember::ops
