#include "ember/ops/run.h"

#include "ember/base/error.h"
#include "ember/ops/factories.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/order.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ops {
namespace {

/// The CPU touches its memory as it is.
class CpuLaunch final : public driver::HostLaunch {
 public:
  explicit CpuLaunch(const driver::Context* context) noexcept
      : HostLaunch(-1, context, get_num_threads()) {}
  ~CpuLaunch() = default;

 private:
  void* resolve(void* pointer, const Touch&) const noexcept override {
    // A count of zero comes with a null pointer, which kernels would take for a failure.
    return pointer != nullptr ? pointer : const_cast<CpuLaunch*>(this);
  }
};

}  // namespace

void refuse_epochs(Device device) {
  throw AcceleratorError(Status(
      Code::context_is_destroyed,
      "the tensor's memory went with the reset of " + device.str() + "; make the tensor anew"));
}

void run(const Site& site, const driver::Kernel& kernel, const driver::Params& params,
         std::span<const cuda::Access> accesses) {
  if (site.device.is_cuda()) {
    try {
      cuda::launch_on_current(site.device.index(), site.epoch, site.peer, kernel, params, accesses);
    } catch (const AcceleratorError&) {
      // The driver knows of the stream only.
      if (cuda::device_epoch(site.device.index()) != site.epoch) refuse_epochs(site.device);
      throw;
    }
    return;
  }
  const Status status = run_here(kernel, params, accesses);
  if (status.code() == Code::device_assert) throw Error(status.detail());  // of an argument
  if (!status.ok()) throw Error(std::string(kernel.name.c_str()) + ": " + status.text());
}

void copy_bytes(const Tensor& target, const Tensor& source, const cuda::Stream& stream) {
  const bool is_target = target.device() == stream.device();
  const Tensor& here = is_target ? target : source;
  const Tensor& there = is_target ? source : target;
  cuda::copy_without_wait(stream, here.storage()->epoch(), peer_of(here.device(), there),
                          target.address(), source.address(), target.nbytes());
}

void order_behind(const Tensor& used, const cuda::Stream& earlier, const cuda::Stream& later) {
  cuda::order(earlier, later);
  used.storage()->require_alive();  // after it: a reset that comes later drops what the wait names
}

void note(std::span<const Use> uses) noexcept {
  for (const Use& use : uses) use.tensor.storage()->record_stream(use.stream);
}

void copy_out(void* target, const Tensor& source) {
  cuda::refuse_captured(source.device().index(), "copying a number to the host (item)");
  const cuda::HostWait wait(cuda::WaitKind::copy, "copying a number to the host");
  const cuda::Stream stream = cuda::current_stream(source.device());
  cuda::copy_in_epoch(stream, source.storage()->epoch(), {}, target, source.address(),
                      source.element_size());
  cuda::synchronize_in_epoch(wait, stream, source.storage()->epoch());
}

Status run_here(const driver::Kernel& kernel, const driver::Params& params,
                std::span<const cuda::Access> accesses) {
  if (accesses.data() != nullptr) [[unlikely]]
    tell_host_access(kernel.name.c_str(), accesses);
  cuda::settle_deferred();
  return kernel.host.run(params, CpuLaunch(kernel.context.get()));
}

driver::KernelNeeds needs_of(Device device, const driver::Kernel& kernel,
                             const driver::Params& params) {
  driver::KernelNeeds needs;
  const Status status = device.is_cuda() ? cuda::active_driver().launch_needs(kernel, params, needs)
                                         : kernel.host.ask(params, needs);
  if (!status.ok()) throw Error(status.text());
  return needs;
}

Tensor scratch_for(const Site& site, const driver::Kernel& kernel, const driver::Params& params) {
  const std::size_t bytes = needs_of(site.device, kernel, params).scratch;
  if (bytes == 0) return {};
  Tensor scratch = empty({static_cast<std::int64_t>(bytes)}, {Dtype::uint8, site.device});
  require_same_epoch(site, scratch);
  return scratch;
}

}  // namespace ember::inline v0::ops
