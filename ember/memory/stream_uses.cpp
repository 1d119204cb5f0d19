#include "ember/memory/stream_uses.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ember/runtime/capture.h"

namespace ember::inline v0::memory {

void StreamUse::note(const driver::StreamHandle& stream) {
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

StreamUses::~StreamUses() {
  std::vector<StreamUse*> uses = std::exchange(owed_, {});
  uses.insert(uses.end(), lost_.begin(), lost_.end());
  for (const Queue& queue : queues_)
    for (const Entry& entry : queue.entries) {
      events_.give_back(entry.event);
      uses.push_back(entry.use);
    }
  std::sort(uses.begin(), uses.end());
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  for (StreamUse* use : uses) delete use;
}

void StreamUses::park(StreamUse* use) noexcept {
  parked_.fetch_add(1, std::memory_order_relaxed);
  publish(use);
}

void StreamUses::publish(StreamUse* use) noexcept {
  if (cuda::any_capture()) [[unlikely]] {
    // An event might be recorded in a capture, and never be reached.
    const MutexLock lock(state_);
    owed_.push_back(use);
    return;
  }
  std::vector<std::pair<driver::StreamHandle, driver::EventHandle>> recorded;
  std::vector<driver::StreamHandle> owed, lost;
  for (const driver::StreamHandle& stream : use->streams) {
    driver::EventHandle event;
    switch (events_.record(stream, event)) {
      case EventPool::Recorded::yes: recorded.emplace_back(stream, event); break;
      case EventPool::Recorded::not_now: owed.push_back(stream); break;
      case EventPool::Recorded::lost: lost.push_back(stream); break;
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

void StreamUses::streams_of(const std::set<const void*>& owners,
                            std::vector<driver::StreamHandle>& out) {
  const auto is_meant = [&](const StreamUse* use) { return owners.contains(use->owner); };
  const MutexLock turn(turn_);  // else some may be between two lists
  const MutexLock lock(state_);
  for (const Queue& queue : queues_)
    if (std::any_of(queue.entries.begin(), queue.entries.end(),
                    [&](const Entry& entry) { return is_meant(entry.use); }))
      out.push_back(queue.stream);
  for (const auto* uses : {&owed_, &lost_})
    for (const StreamUse* use : *uses)
      if (is_meant(use)) {
        out.insert(out.end(), use->streams.begin(), use->streams.end());
        out.insert(out.end(), use->lost.begin(), use->lost.end());
      }
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

// Streams that are lost and whose device was reset since have nothing to do any more, once the
// reset has stopped what they were doing.
void StreamUses::drop_reset() noexcept {
  MutexLock lock(state_);
  std::erase_if(lost_, [this](StreamUse* use) EMBER_REQUIRES(turn_) {
    std::erase_if(use->lost, [this](const driver::StreamHandle& stream) {
      return source_.epoch_ended(stream.device, stream.epoch);
    });
    if (!use->lost.empty()) return false;
    if (use->done()) finish(use);
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

// A device that was reset has dropped its work, and its events with it. While the reset is in
// progress, so may be the task that used the memory.
bool StreamUses::is_gone(const driver::EventHandle& event, const Status& status,
                         Effort effort) const noexcept {
  if (status.code() != Code::context_is_destroyed) return false;
  if (source_.epoch_ended(event.device, event.epoch)) return true;
  return effort != Effort::look && source_.device_synchronize(event.device).ok();
}

Status StreamUses::collect(Effort effort) noexcept {
  Status failure;
  if (cuda::any_capture()) return failure;  // events are looked at when it is over
  retry_owed();
  drop_reset();
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
    if (!status.ok() && !is_gone(entry.event, status, effort)) {
      // not_permitted: not from this thread. A reset that is in progress is no failure either.
      if (status.code() != Code::not_ready && status.code() != Code::not_permitted &&
          status.code() != Code::context_is_destroyed)
        note_failure(entry.event.device, status, failure);
      ++i;
      continue;
    }
    events_.give_back(entry.event);
    MutexLock lock(state_);
    queues_[i].entries.pop_front();  // still the front: only the holder of the turn removes
    --entry.use->events;
    if (entry.use->done()) finish(entry.use);
  }
  return failure;
}

}  // namespace ember::inline v0::memory
