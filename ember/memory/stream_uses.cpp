#include "ember/memory/stream_uses.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ember::memory {

void StreamUse::note(const driver::StreamHandle& stream) {
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

StreamUses::~StreamUses() {
  for (const driver::EventHandle& event : drop_all()) (void)source_.event_destroy(event);
}

bool StreamUses::take_spare(int device, driver::EventHandle& event) noexcept {
  MutexLock lock(state_);
  for (auto it = spares_.rbegin(); it != spares_.rend(); ++it) {
    if (it->device != device) continue;
    event = *it;
    *it = spares_.back();
    spares_.pop_back();
    return true;
  }
  return false;
}

StreamUses::Recorded StreamUses::record(const driver::StreamHandle& stream,
                                        driver::EventHandle& event) noexcept {
  for (bool spare = take_spare(stream.device, event);; spare = false) {
    if (!spare && !source_.event_create(stream.device, event).ok()) return Recorded::not_now;
    const Status status = source_.event_record(event, stream);
    if (status.ok()) return Recorded::yes;
    (void)source_.event_destroy(event);
    const bool idle = status.code() == Code::context_is_destroyed;
    const bool lost = status.code() == Code::invalid_handle;
    if (!idle && !lost) return Recorded::not_now;
    // A spare event may be what a reset has taken; with a new one it can only be the stream.
    if (!spare) return idle ? Recorded::idle : Recorded::lost;
  }
}

void StreamUses::park(StreamUse* use) noexcept {
  parked_.fetch_add(1, std::memory_order_relaxed);
  publish(use);
}

void StreamUses::publish(StreamUse* use) noexcept {
  std::vector<std::pair<driver::StreamHandle, driver::EventHandle>> recorded;
  std::vector<driver::StreamHandle> owed, lost;
  for (const driver::StreamHandle& stream : use->streams) {
    driver::EventHandle event;
    switch (record(stream, event)) {
      case Recorded::yes: recorded.emplace_back(stream, event); break;
      case Recorded::not_now: owed.push_back(stream); break;
      case Recorded::lost: lost.push_back(stream); break;
      case Recorded::idle: break;
    }
  }

  // In one step: an event that is reached early must not make the use look done. A use without any
  // event is done, but it is for the next poll to say so.
  MutexLock lock(state_);
  use->streams = std::move(owed);
  use->lost.insert(use->lost.end(), lost.begin(), lost.end());
  use->events += static_cast<int>(recorded.size());
  for (const auto& [stream, event] : recorded) enqueue(stream, {event, use});
  if (!use->streams.empty() || use->done())
    owed_.push_back(use);
  else if (!use->lost.empty())
    lost_.push_back(use);
}

void StreamUses::enqueue(const driver::StreamHandle& stream, const Entry& entry) {
  for (Queue& queue : queues_)
    if (queue.stream == stream) return queue.entries.push_back(entry);
  queues_.push_back({stream, {entry}});
}

void StreamUses::finish(StreamUse* use) noexcept {
  done_.push_back(use);
  parked_.fetch_sub(1, std::memory_order_relaxed);
}

void StreamUses::retry_owed() noexcept {
  std::vector<StreamUse*> owed;
  {
    MutexLock lock(state_);
    owed.swap(owed_);
  }
  for (StreamUse* use : owed) publish(use);
  MutexLock lock(state_);
  std::erase_if(owed_, [this](StreamUse* use) EMBER_REQUIRES(turn_) {
    if (!use->done()) return false;
    finish(use);
    return true;
  });
}

// No event can be recorded on a stream that no longer exists, so its work is done when all work of
// its device is. Each device is waited for once.
void StreamUses::settle_lost(Status& failure) noexcept {
  std::vector<StreamUse*> lost;
  {
    MutexLock lock(state_);
    lost.swap(lost_);
  }
  std::vector<std::pair<int, bool>> devices;  // and whether they are idle
  const auto idle = [&](const driver::StreamHandle& stream) {
    for (const auto& [device, answer] : devices)
      if (device == stream.device) return answer;
    const Status status = source_.device_synchronize(stream.device);
    note_failure(stream.device, status, failure);
    return devices.emplace_back(stream.device, status.ok()).second;
  };
  for (StreamUse* use : lost) std::erase_if(use->lost, idle);
  MutexLock lock(state_);
  for (StreamUse* use : lost) {
    if (use->done())
      finish(use);
    else if (!use->lost.empty())
      lost_.push_back(use);
  }
}

void StreamUses::note_failure(int device, const Status& status, Status& failure) const noexcept {
  if (device == device_ && failure.ok()) failure = status;
}

Status StreamUses::collect(Effort effort) noexcept {
  Status failure;
  retry_owed();
  if (effort != Effort::look) settle_lost(failure);
  for (std::size_t i = 0;;) {
    Entry entry;
    {
      MutexLock lock(state_);
      if (i >= queues_.size()) break;
      if (queues_[i].entries.empty()) {
        ++i;
        continue;
      }
      entry = queues_[i].entries.front();
    }
    const Status status = effort == Effort::wait ? source_.event_synchronize(entry.event)
                                                 : source_.event_query(entry.event);
    // A device that was reset has dropped its work, and its events with it.
    const bool gone = status.code() == Code::context_is_destroyed;
    if (!status.ok() && !gone) {
      if (status.code() != Code::not_ready) note_failure(entry.event.device, status, failure);
      ++i;
      continue;
    }
    MutexLock lock(state_);
    queues_[i].entries.pop_front();  // still the front: only the holder of the turn removes
    if (!gone) spares_.push_back(entry.event);
    --entry.use->events;
    if (entry.use->done()) finish(entry.use);
  }
  return failure;
}

// Handles of streams and events say themselves whether they are from before the reset. Only lost
// streams are not asked again by themselves.
void StreamUses::forget_device(int device) noexcept {
  std::vector<driver::EventHandle> stale;
  {
    MutexLock lock(state_);
    const auto first = std::partition(spares_.begin(), spares_.end(),
                                      [device](const auto& e) { return e.device != device; });
    stale.assign(first, spares_.end());
    spares_.erase(first, spares_.end());
    std::erase_if(lost_, [this, device](StreamUse* use) EMBER_REQUIRES(state_) {
      const auto there =
          std::stable_partition(use->lost.begin(), use->lost.end(),
                                [device](const auto& stream) { return stream.device != device; });
      if (there == use->lost.end()) return false;
      use->streams.assign(there, use->lost.end());
      use->lost.erase(there, use->lost.end());
      owed_.push_back(use);
      return true;
    });
  }
  for (const driver::EventHandle& event : stale) (void)source_.event_destroy(event);
}

void StreamUses::forget() noexcept {
  std::vector<driver::EventHandle> events;
  {
    MutexLock turn(turn_);
    MutexLock lock(state_);
    events = drop_all();
  }
  for (const driver::EventHandle& event : events) (void)source_.event_destroy(event);
}

// Deletes all uses; their events, and the spare ones, are left to the caller.
std::vector<driver::EventHandle> StreamUses::drop_all() {
  std::vector<driver::EventHandle> events = std::exchange(spares_, {});
  std::vector<StreamUse*> uses = std::exchange(owed_, {});
  uses.insert(uses.end(), lost_.begin(), lost_.end());
  for (const Queue& queue : queues_)
    for (const Entry& entry : queue.entries) {
      events.push_back(entry.event);
      uses.push_back(entry.use);
    }
  std::sort(uses.begin(), uses.end());
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  for (StreamUse* use : uses) delete use;
  queues_.clear();
  lost_.clear();
  parked_.store(0, std::memory_order_relaxed);
  return events;
}

}  // namespace ember::memory
