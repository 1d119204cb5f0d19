// The host beside work in flight: pinned memory, results that are read at once, host functions.
// What orders the host's access is that it is done in a host function of the stream's.
#include <algorithm>
#include <array>

#include "tests/races/races.h"

namespace ember::races {
namespace {

/// The host's own access: at once, or behind what the stream holds.
void read_on_host(double& mean, const void* data, const Stream& stream, bool in_order) {
  if (in_order) {
    host_function([&mean, data] { mean = mean_of(data); }, stream,
                  {reads(static_cast<const char*>(data), kBytes)});
    return;
  }
  host_reads(data, kBytes);
  mean = mean_of(data);
}
void write_on_host(void* data, std::uint32_t value, const Stream& stream, bool in_order) {
  auto* const numbers = static_cast<std::uint32_t*>(data);
  if (in_order) {
    host_function([=] { std::fill_n(numbers, kNumbers, value); }, stream,
                  {writes(numbers, kNumbers)});
    return;
  }
  host_writes(data, kBytes);
  std::fill_n(numbers, kNumbers, value);
}
/// Pinned memory that holds zeros.
PinnedBuffer zeroed_pinned() {
  PinnedBuffer host = allocate_pinned(kBytes);
  host_writes(host.data(), kBytes);
  std::fill_n(static_cast<std::uint32_t*>(host.data()), kNumbers, 0);
  return host;
}

double pinned_memory_overwritten_too_early(bool fixed) {
  const Stream copies;
  PinnedBuffer host = allocate_pinned(kBytes);
  DeviceBuffer device = allocate(kBytes, copies);
  const Seen seen(copies);
  write_on_host(host.data(), 1, copies, false);
  copy_async(device.data(), host.data(), kBytes, copies);
  write_on_host(host.data(), 2, copies, fixed);  // the next batch
  seen.note(copies, device.data());
  pinned_record_event(host, copies);
  return seen.on_host(copies);
}

double pinned_memory_read_too_early(bool fixed) {
  const Stream copies;
  PinnedBuffer host = zeroed_pinned();
  DeviceBuffer device = allocate(kBytes, copies);
  double mean = 0;
  produce(copies, device.data(), kBytes, 7);
  copy_async(host.data(), device.data(), kBytes, copies);
  read_on_host(mean, host.data(), copies, fixed);
  pinned_record_event(host, copies);
  copies.synchronize();
  return mean;
}

double non_blocking_copy_read_at_once(bool fixed) {
  const Tensor copied = zeros({64}).pin_memory();
  const Tensor x = ones({64}, "cuda");
  copied.copy_(x, /*non_blocking=*/true);
  const Event arrived = current_stream().record_event();
  if (fixed) arrived.synchronize();  // the one order that there is for the host itself
  return total(copied);
}

double copy_to_ordinary_memory_read_at_once(bool fixed) {
  const Stream copies;
  std::array<std::uint32_t, kNumbers> host{};
  DeviceBuffer device = allocate(kBytes, copies);
  double mean = 0;
  produce(copies, device.data(), kBytes, 7);
  copy_async(host.data(), device.data(), kBytes, copies);  // it may block, or not
  read_on_host(mean, host.data(), copies, fixed);
  copies.synchronize();
  return mean;
}

double pinned_memory_freed_under_a_copy(bool fixed) {
  const Stream copies;
  DeviceBuffer device = allocate(kBytes, copies);
  const Seen seen(copies);
  {
    PinnedBuffer host = allocate_pinned(kBytes);
    write_on_host(host.data(), 1, copies, false);
    copy_async(device.data(), host.data(), kBytes, copies);
    if (fixed) pinned_record_event(host, copies);
  }
  PinnedBuffer next = allocate_pinned(kBytes);  // may be the same
  write_on_host(next.data(), 2, copies, false);
  seen.note(copies, device.data());
  return seen.on_host(copies);
}

double host_function_beside_a_copy(bool fixed) {
  const Stream worker, copies;
  PinnedBuffer host = zeroed_pinned();
  DeviceBuffer device = allocate(kBytes, copies);
  const Seen seen(copies);
  write_on_host(host.data(), 7, worker, true);
  if (fixed) copies.wait_stream(worker);
  copy_async(device.data(), host.data(), kBytes, copies);
  seen.note(copies, device.data());
  pinned_record_event(host, worker);
  pinned_record_event(host, copies);
  return seen.on_host(copies);
}

constexpr Case kHostCases[] = {
    {"pinned memory overwritten too early", "https://github.com/pytorch/pytorch/issues/126946",
     kRace, 1, &pinned_memory_overwritten_too_early, 1},
    {"pinned memory read too early", "https://github.com/pytorch/pytorch/issues/137878", kRace, 1,
     &pinned_memory_read_too_early, 7},
    {"a non_blocking copy read at once", "https://github.com/pytorch/pytorch/issues/86264", kRace,
     1, &non_blocking_copy_read_at_once, 64},
    {"a copy to ordinary memory read at once", "https://github.com/clab/dynet/pull/332", kRace, 1,
     &copy_to_ordinary_memory_read_at_once, 7},
    {"pinned memory freed under a copy", "https://github.com/NVlabs/cuda-oxide/pull/42", kReuse, 1,
     &pinned_memory_freed_under_a_copy, 1},
    {"a host function beside a copy", "https://github.com/NVIDIA/cccl/issues/3814", kRace, 1,
     &host_function_beside_a_copy, 7},
};

}  // namespace

std::span<const Case> host_cases() { return kHostCases; }

}  // namespace ember::races
