#include "ember/memory/events.h"

namespace ember::inline v0::memory {

void EventPool::empty() noexcept {
  std::vector<driver::EventHandle> idle;
  {
    const MutexLock lock(mutex_);
    idle.swap(idle_);
  }
  for (const driver::EventHandle& event : idle) (void)source_.event_destroy(event);
}

bool EventPool::take(int device, driver::EventHandle& out) noexcept {
  MutexLock lock(mutex_);
  for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
    if (it->device != device) continue;
    out = *it;
    *it = idle_.back();
    idle_.pop_back();
    return true;
  }
  return false;
}

EventPool::Recorded EventPool::record(const driver::StreamHandle& stream,
                                      driver::EventHandle& out) noexcept {
  driver::EventHandle event;
  for (bool used = take(stream.device, event);; used = false) {
    if (!used && !source_.event_create(stream.device, event).ok()) return Recorded::not_now;
    const Status status = source_.event_record(event, stream);
    if (status.ok()) {
      out = event;
      return Recorded::yes;
    }
    const bool lost = status.code() == Code::context_is_destroyed ||  // by a reset
                      status.code() == Code::invalid_handle;
    // What is gone may be an event that was used before; with a new one it can only be the stream.
    if (used && lost) {
      (void)source_.event_destroy(event);
      continue;
    }
    give_back(event);
    return lost ? Recorded::lost : Recorded::not_now;
  }
}

void EventPool::give_back(const driver::EventHandle& event) {
  if (event.epoch != source_.device_epoch(event.device)) {
    (void)source_.event_destroy(event);
    return;
  }
  MutexLock lock(mutex_);
  idle_.push_back(event);
}

}  // namespace ember::inline v0::memory
