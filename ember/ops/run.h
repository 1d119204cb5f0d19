// Putting a kernel where its tensors are: on the CPU it runs at once, on a CUDA device it is
// enqueued on the current stream.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "ember/driver/handles.h"
#include "ember/runtime/device.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/work.h"
#include "ember/tensor/accesses.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Where a kernel runs: on a device, with memory of one of its epochs, and maybe of a peer. If
/// either device is reset before the kernel is enqueued, it is refused: the memory would be
/// somebody else's.
struct Site {
  Device device;
  std::uint32_t epoch = driver::kAnyEpoch;
  driver::PeerMemory peer{};
};

[[noreturn]] void refuse_epochs(Device device);
/// Throws unless the tensor is of the site's epoch, or lies elsewhere.
inline void require_same_epoch(const Site& site, const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  if (storage.epoch() != site.epoch && storage.device() == site.device) [[unlikely]]
    refuse_epochs(site.device);
}

/// A tensor's memory, for work on a stream of a device: none if it lies there itself, or on the
/// host.
inline driver::PeerMemory peer_of(Device device, const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  if (storage.device() == device || !storage.device().is_cuda()) [[likely]]
    return {};
  return {storage.device().index(), storage.epoch()};
}

/// The site of a kernel that touches these tensors: the device of the first one.
/// AcceleratorError if they are from different epochs of it.
template <class... Tensors>
Site at(const Tensor& first, const Tensors&... others) {
  const Storage& storage = *first.storage();
  const Site site{storage.device(), storage.epoch()};
  (require_same_epoch(site, others), ...);
  return site;
}
/// The same for a kernel that also touches the memory of another device, which is a peer.
inline Site at_with_peer(const Tensor& first, const Tensor& other) {
  Site site = at(first, other);
  site.peer = peer_of(site.device, other);
  return site;
}

/// Runs a kernel on the CPU, or enqueues it on the current stream of an existing CUDA device.
/// `accesses` is what observers see. Throws what the kernel reports (CPU), or what enqueueing does.
void run(const Site& site, const driver::Kernel& kernel, const driver::Params& params,
         std::span<const cuda::Access> accesses = {});

template <class Args>
requires(!std::is_same_v<Args, driver::Params>) void run(
    const Site& site, const driver::Kernel& kernel, const Args& args,
    std::span<const cuda::Access> accesses = {}) {
  run(site, kernel, driver::Params(args), accesses);
}

/// Enqueues a copy of the bytes of a dense tensor to another one of the same size, on a stream of
/// the device of either: refused if one of the devices was reset since its tensor was made.
void copy_bytes(const Tensor& target, const Tensor& source, const cuda::Stream& stream);
/// Later work of `later` waits for what `earlier` holds, which used the tensor's memory. Refused if
/// the tensor's device was reset since: the work may have been dropped, and a wait that is made in
/// the device's next epoch would not notice.
void order_behind(const Tensor& used, const cuda::Stream& earlier, const cuda::Stream& later);

/// A tensor whose memory work on another stream than its own uses.
struct Use {
  Tensor tensor;
  cuda::Stream stream;
};
/// Notes the streams with the memory (record_stream).
void note(std::span<const Use> uses) noexcept;
/// Calls `work`, which enqueues such uses and lets the memory's own streams wait for them. If it
/// throws before they do, as when a device faults or is reset, the streams are noted with the
/// memory: nobody gets it while a task that was enqueued may touch it.
template <class Work>
void with_uses(std::span<const Use> uses, const Work& work) {
  try {
    work();
  } catch (...) {
    note(uses);
    throw;
  }
}
/// Copies the first element of a tensor on a CUDA device to the host, and waits for it.
void copy_out(void* target, const Tensor& source);

/// Runs a kernel's host implementation on the CPU, and returns what it reports. Throws what an
/// observer has to say of the accesses.
Status run_here(const driver::Kernel& kernel, const driver::Params& params,
                std::span<const cuda::Access> accesses);

/// What the kernel's implementation for the device asks for before it is launched with these
/// arguments. Error if it cannot be launched with them.
driver::KernelNeeds needs_of(Device device, const driver::Kernel& kernel,
                             const driver::Params& params);
/// The scratch memory of needs_of(); undefined if there is none. It may go once the kernel is
/// launched on the current stream, like any memory. AcceleratorError if it is of another epoch.
Tensor scratch_for(const Site& site, const driver::Kernel& kernel, const driver::Params& params);
template <class Args>
requires(!std::is_same_v<Args, driver::Params>) Tensor
    scratch_for(const Site& site, const driver::Kernel& kernel, const Args& args) {
  return scratch_for(site, kernel, driver::Params(args));
}

}  // namespace ember::inline v0::ops
