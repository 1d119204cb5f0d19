#include "ember/runtime/order.h"

#include <cstdint>
#include <deque>

#include "ember/base/thread_exit.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace {

/// One event for each thread and device, recorded again and again: waits take the point that it
/// stands for when they are enqueued, so nothing has to be pooled, as memory/ pools the events that
/// it looks at later.
struct OfDevice {
  std::uint32_t epoch = 0;
  Event event;
};
using Events = std::deque<OfDevice>;  // growing must not move those that are in use

}  // namespace

const Event& mark(const Stream& stream) {
  Events& events = PerThread<Events>::get();
  const auto index = static_cast<std::size_t>(stream.device_index());
  while (events.size() <= index) events.emplace_back();
  OfDevice& made = events[index];
  // An event from before a reset is gone.
  if (const std::uint32_t epoch = device_epoch(stream.device_index()); made.epoch != epoch) {
    made.event = Event();
    made.epoch = epoch;
  }
  made.event.record(stream);
  return made.event;
}

}  // namespace ember::inline v0::cuda
