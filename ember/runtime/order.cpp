#include "ember/runtime/order.h"

#include <atomic>
#include <deque>

#include "ember/runtime/runtime.h"

namespace ember::cuda {
namespace {

/// Counts resets, so that threads know that their events are gone.
constinit std::atomic<std::uint64_t> resets{0};

void device_was_reset(int) { resets.fetch_add(1, std::memory_order_relaxed); }

struct Events {
  Events() {
    static const bool hooked = (on_device_reset(&device_was_reset), true);
    static_cast<void>(hooked);
  }
  std::uint64_t resets = 0;
  std::deque<Event> of_device;  // growing must not move those that are in use
};

}  // namespace

const Event& mark(const Stream& stream) {
  thread_local Events events;
  const std::uint64_t now = resets.load(std::memory_order_relaxed);
  if (events.resets != now) [[unlikely]] {
    events.of_device.clear();
    events.resets = now;
  }
  const auto index = static_cast<std::size_t>(stream.device_index());
  while (events.of_device.size() <= index) events.of_device.emplace_back();
  events.of_device[index].record(stream);
  return events.of_device[index];
}

}  // namespace ember::cuda
