// Copies between tensors: on one device, between devices, between host and device. Chapter 15 of
// the documents has the rules; Note [Copies between devices] says how they are kept.
#include <array>
#include <optional>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/plan.h"
#include "ember/ops/recorder.h"
#include "ember/ops/run.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/order.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/work.h"
#include "ember/tensor/dense_strides.h"

namespace ember::inline v0 {
namespace {

// Note [Copies between devices]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Only rows of bytes travel between memories; everything else is done by a kernel on one side of
// the way. So a copy whose layouts or types differ goes through temporary tensors:
//
//   device to device   packed and converted on the source's device, unpacked on the target's
//   host to device     packed on the host; converted on the host if the copy blocks, on the device
//                      if it does not (so that the host is free again at once)
//   device to host     the same, backwards
//
// A copy between two devices runs on the source's current stream. That stream first waits for the
// target's current stream, which may still use the target, and the target's then waits for the
// copy. Both temporaries live on the streams that use them, so they may be freed at once.

/// One kernel on the device that both live on.
void copy_here(const Tensor& target, const Tensor& source) {
  const std::array<ops::PlanOperand, 2> operands{ops::memory_of(target, "self"),
                                                 ops::memory_of(source, "src")};
  ops::Loop loop{};
  ops::run_loop(target.device(), ops::cast_kernel(source.dtype(), target.dtype()), target.sizes(),
                operands, loop);
}

/// Whether the bytes of one are the bytes of the other.
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.sizes() == b.sizes() && a.strides() == b.strides() && is_dense(a.sizes(), a.strides());
}

Tensor packed(const Tensor& tensor, Dtype dtype) {
  if (tensor.dtype() == dtype && tensor.is_contiguous()) return tensor;
  Tensor made = empty(tensor.sizes(), {dtype, tensor.device()});
  copy_here(made, tensor);
  return made;
}

void between_devices(const Tensor& target, const Tensor& source) {
  const cuda::Stream from = cuda::current_stream(source.device());
  const cuda::Stream to = cuda::current_stream(target.device());
  // Without it the bytes would go through the host.
  cuda::use_peer_access(source.get_device(), target.get_device());
  const auto move = [&](const Tensor& arriving, const Tensor& leaving) {
    ops::with_uses(std::array{ops::Use{arriving, from}}, [&] {
      cuda::order(to, from);
      ops::copy_bytes(arriving, leaving, from);
      ops::order_behind(leaving, from, to);
    });
  };
  if (same_layout(target, source)) {
    move(target, source);
    return;
  }
  const Tensor leaving = packed(source, target.dtype());
  const Tensor arriving =
      target.is_contiguous() ? target : empty(target.sizes(), {target.dtype(), target.device()});
  move(arriving, leaving);
  if (!arriving.is(target)) copy_here(target, arriving);
}

/// A copy that goes on beside the program, whose memory on the host the program has pointers to: an
/// array's, or another process's.
void tell_unseen(const Tensor& host) {
  if (cuda::observed() && host.storage()->foreign() != nullptr) ops::tell_exposed("copy_", host);
}

void host_to_device(const Tensor& target, const Tensor& source, bool non_blocking) {
  const cuda::Stream stream = cuda::current_stream(target.device());
  Tensor leaving = source;
  Tensor arriving = target;
  if (!same_layout(target, source)) {
    leaving = packed(source, non_blocking ? source.dtype() : target.dtype());
    if (!target.is_contiguous() || leaving.dtype() != target.dtype())
      arriving = empty(target.sizes(), {leaving.dtype(), target.device()});
  }
  std::optional<cuda::HostWait> wait;
  if (!non_blocking) wait.emplace(cuda::WaitKind::copy, "a copy to a device");
  // Ordinary memory has been read when the call returns.
  if (!wait && cuda::observed() && leaving.is_pinned()) tell_unseen(leaving);
  ops::copy_bytes(arriving, leaving, stream);
  if (!arriving.is(target)) copy_here(target, arriving);
  if (wait)
    cuda::synchronize_in_epoch(*wait, stream, target.storage()->epoch());
  else
    leaving.storage()->record_stream(stream);
}

/// Copies what is left of the source to the host, and waits until it is there. Refuses it if it is
/// not what was to be there: another process that was to write it may have ended before.
void fetch(const Tensor& target, const Tensor& leaving, const cuda::Stream& stream,
           const Tensor& source) {
  const cuda::HostWait wait(cuda::WaitKind::copy, "a copy to the host");
  ops::copy_bytes(target, leaving, stream);
  cuda::synchronize_in_epoch(wait, stream, source.storage()->epoch());
  source.storage()->require_alive();
}

/// The same without waiting.
void send_off(const Tensor& target, const Tensor& leaving, const cuda::Stream& stream) {
  tell_unseen(target);
  ops::copy_bytes(target, leaving, stream);
  target.storage()->record_stream(stream);
}

void device_to_host(const Tensor& target, const Tensor& source, bool non_blocking) {
  const cuda::Stream stream = cuda::current_stream(source.device());
  const auto straight = [&](const Tensor& leaving) {
    if (non_blocking)
      send_off(target, leaving, stream);
    else
      fetch(target, leaving, stream, source);
  };
  if (same_layout(target, source)) return straight(source);
  const Tensor leaving = packed(source, non_blocking ? target.dtype() : source.dtype());
  if (target.is_contiguous() && target.dtype() == leaving.dtype()) return straight(leaving);
  // The last step is the host's own, so the copy has to be over.
  const Tensor arriving = empty(target.sizes(), leaving.dtype());
  fetch(arriving, leaving, stream, source);
  copy_here(target, arriving);
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) const {
  if (is(source)) return self();
  if (source.sizes() != sizes() && broadcast_shapes(sizes(), source.sizes()) != sizes())
    throw Error("output with shape " + sizes().str() + " doesn't match the broadcast shape " +
                broadcast_shapes(sizes(), source.sizes()).str());
  ops::require_no_internal_overlap(*this);
  if (ops::Recorder* const recorder = ops::recorder(); recorder != nullptr && numel() > 0)
    if (recorder->copy(*this, source)) return self();
  ops::require_no_partial_overlap(*this, source);
  const Tensor from = source.sizes() == sizes() ? source : source.expand(sizes());
  if (numel() == 0) return self();
  if (device() == from.device())
    copy_here(*this, from);
  else if (is_cuda() && from.is_cuda())
    between_devices(*this, from);
  else if (is_cuda())
    host_to_device(*this, from, non_blocking);
  else
    device_to_host(*this, from, non_blocking);
  return self();
}

// Not const: what assigns changes something, whatever copy_ may do to a const tensor.
// NOLINTBEGIN(readability-make-member-function-const)
Tensor& Tensor::operator=(const Tensor& value) && { return copy_(value); }

Tensor& Tensor::operator=(const Scalar& value) && { return fill_(value); }
// NOLINTEND(readability-make-member-function-const)

namespace {

Tensor make_without_gaps(const Tensor& like, Device place, Dtype type, bool pinned) {
  const Shape strides = dense_strides(like.sizes(), like.strides());
  return Tensor::make(place, type, like.sizes(), &strides, pinned);
}

}  // namespace

Tensor Tensor::to(const Options& options, bool non_blocking, bool copy) const {
  const Device place = options.device ? ops::resolve(*options.device) : device();
  const Dtype type = options.dtype.value_or(dtype());
  if (!copy && place == device() && type == dtype()) return *this;
  // Only pinned memory can be copied to without waiting.
  const bool pinned = options.pinned || (non_blocking && is_cuda() && !place.is_cuda());
  const bool dense = is_contiguous() || is_dense(sizes(), strides());
  if (ops::Recorder* const recorder = ops::recorder();
      recorder != nullptr && place == device() && !pinned && numel() > 0) {
    Tensor made;
    const Shape steps = dense ? strides() : dense_strides(sizes(), strides());
    if (recorder->convert(*this, type, steps, made)) return made;
  }
  Tensor made = dense ? Tensor::make(place, type, sizes(), &strides(), pinned)
                      : make_without_gaps(*this, place, type, pinned);
  if (numel() == 0) return made;
  if (place == device())
    copy_here(made, *this);
  else
    made.copy_(*this, non_blocking);
  return made;
}

Tensor Tensor::cuda(cuda::DeviceArg device, bool non_blocking) const {
  return to(Device(Device::Type::cuda, device.existing()), non_blocking);
}

Tensor Tensor::cpu() const { return to(Device(Device::Type::cpu)); }

Tensor Tensor::clone() const { return to(Options(), false, true); }

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  if (ops::Recorder* const recorder = ops::recorder(); recorder != nullptr && numel() > 0) {
    Tensor made;
    if (recorder->convert(*this, dtype(), contiguous_strides(sizes()), made)) return made;
  }
  Tensor made = empty(sizes(), {dtype(), device()});
  copy_here(made, *this);
  return made;
}

Tensor Tensor::pin_memory() const {
  if (is_cuda())
    throw Error("cannot pin 'torch.cuda." + std::string(legacy_name(dtype())) +
                "Tensor' only dense CPU tensors can be pinned");
  if (is_pinned()) return *this;
  Options options(dtype(), device(), true);
  return to(options, false, true);
}

Scalar Tensor::item() const {
  if (ops::Recorder* const recorder = ops::recorder()) [[unlikely]]
    recorder->refuse_value("item()");
  return ops::value_of(*this);
}

Scalar ops::value_of(const Tensor& tensor) {
  if (tensor.numel() != 1)
    throw Error("a Tensor with " + std::to_string(tensor.numel()) +
                " elements cannot be converted to Scalar");
  return with_type(tensor.dtype(), [&]<class T>() -> Scalar {
    T value;
    if (tensor.is_cuda())
      copy_out(&value, tensor);
    else {
      host_reads("item", tensor);
      value = *static_cast<const T*>(tensor.address());
    }
    return value;
  });
}

Tensor& Tensor::fill_(const Scalar& value) const {
  require_fits(value, dtype());
  // Elements that share memory by a stride of zero are written once.
  Shape written = sizes();
  for (int i = 0; !is_contiguous() && i < dim(); ++i)
    if (strides()[i] == 0) written[i] = std::min<std::int64_t>(written[i], 1);
  const std::array<ops::PlanOperand, 2> operands{{
      {address(), &written, &strides(), element_size(), storage()->epoch(), "self"},
      {},
  }};
  ops::Loop loop{};
  with_type(dtype(), [&]<class T>() {
    const T stored = value.to<T>();
    std::memcpy(loop.numbers[0], &stored, sizeof stored);
  });
  ops::run_loop(device(), ops::cast_kernel(dtype(), dtype()), written, operands, loop);
  return self();
}

}  // namespace ember::inline v0
