// The host beside work in flight: pinned memory, results that are read at once, host functions.
// What orders the host's access is that it is done in a host function of the stream's.
#include <array>

#include "tests/races/races.h"

namespace ember::races {
namespace {

/// The host's own access: at once, or behind what the stream holds.
void read_on_host(const void* data, const Stream& stream, bool in_order) {
  if (in_order)
    host_function([] {}, stream, {reads(static_cast<const char*>(data), kBytes)});
  else
    host_reads(data, kBytes);
}
void write_on_host(void* data, const Stream& stream, bool in_order) {
  if (in_order)
    host_function([] {}, stream, {writes(static_cast<char*>(data), kBytes)});
  else
    host_writes(data, kBytes);
}

void pinned_memory_overwritten_too_early(bool fixed) {
  const Stream copies;
  PinnedBuffer host = allocate_pinned(kBytes);
  DeviceBuffer device = allocate(kBytes, copies);
  write_on_host(host.data(), copies, false);
  copy_async(device.data(), host.data(), kBytes, copies);
  write_on_host(host.data(), copies, fixed);  // the next batch
  pinned_record_event(host, copies);
}

void pinned_memory_read_too_early(bool fixed) {
  const Stream copies;
  PinnedBuffer host = allocate_pinned(kBytes);
  DeviceBuffer device = allocate(kBytes, copies);
  produce(copies, device.data(), kBytes);
  copy_async(host.data(), device.data(), kBytes, copies);
  read_on_host(host.data(), copies, fixed);
  pinned_record_event(host, copies);
}

void non_blocking_copy_read_at_once(bool fixed) {
  const Tensor x = ones({64}, "cuda");
  const Tensor copied = x.to("cpu", /*non_blocking=*/true);
  const Event arrived = current_stream().record_event();
  if (fixed) arrived.synchronize();  // the one order that there is for the host itself
  (void)copied.sum();
}

void copy_to_ordinary_memory_read_at_once(bool fixed) {
  const Stream copies;
  std::array<char, kBytes> host{};
  DeviceBuffer device = allocate(kBytes, copies);
  produce(copies, device.data(), kBytes);
  copy_async(host.data(), device.data(), kBytes, copies);  // it may block, or not
  read_on_host(host.data(), copies, fixed);
}

void pinned_memory_freed_under_a_copy(bool fixed) {
  const Stream copies;
  DeviceBuffer device = allocate(kBytes, copies);
  {
    PinnedBuffer host = allocate_pinned(kBytes);
    copy_async(device.data(), host.data(), kBytes, copies);
    if (fixed) pinned_record_event(host, copies);
  }
  PinnedBuffer next = allocate_pinned(kBytes);  // may be the same
}

void host_function_beside_a_copy(bool fixed) {
  const Stream worker, copies;
  PinnedBuffer host = allocate_pinned(kBytes);
  DeviceBuffer device = allocate(kBytes, copies);
  host_function([] {}, worker, {writes(static_cast<char*>(host.data()), kBytes)});
  if (fixed) copies.wait_stream(worker);
  copy_async(device.data(), host.data(), kBytes, copies);
  pinned_record_event(host, worker);
  pinned_record_event(host, copies);
}

constexpr Case kHostCases[] = {
    {"pinned memory overwritten too early", "https://github.com/pytorch/pytorch/issues/126946",
     kRace, 1, &pinned_memory_overwritten_too_early},
    {"pinned memory read too early", "https://github.com/pytorch/pytorch/issues/137878", kRace, 1,
     &pinned_memory_read_too_early},
    {"a non_blocking copy read at once", "https://github.com/pytorch/pytorch/issues/86264", kRace,
     1, &non_blocking_copy_read_at_once},
    {"a copy to ordinary memory read at once", "https://github.com/clab/dynet/pull/332", kRace, 1,
     &copy_to_ordinary_memory_read_at_once},
    {"pinned memory freed under a copy", "https://github.com/NVlabs/cuda-oxide/pull/42", kReuse, 1,
     &pinned_memory_freed_under_a_copy},
    {"a host function beside a copy", "https://github.com/NVIDIA/cccl/issues/3814", kRace, 1,
     &host_function_beside_a_copy},
};

}  // namespace

std::span<const Case> host_cases() { return kHostCases; }

}  // namespace ember::races
