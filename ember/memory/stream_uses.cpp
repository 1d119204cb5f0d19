#include "ember/memory/stream_uses.h"

#include <algorithm>

namespace ember::memory {

void StreamUse::note(const driver::StreamHandle& stream) {
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

StreamUses::~StreamUses() {
  for (const driver::EventHandle& event : events_) (void)source_.event_destroy(event);
  for (Queue& queue : queues_)
    for (const Entry& entry : queue.entries) {
      (void)source_.event_destroy(entry.event);
      if (--entry.use->events == 0 && entry.use->streams.empty()) delete entry.use;
    }
  for (StreamUse* use : owed_) delete use;
}

Status StreamUses::take_event(int device, driver::EventHandle& event) noexcept {
  {
    MutexLock lock(state_);
    for (auto it = events_.rbegin(); it != events_.rend(); ++it) {
      if (it->device != device) continue;
      event = *it;
      *it = events_.back();
      events_.pop_back();
      return {};
    }
  }
  return source_.event_create(device, event);
}

void StreamUses::park(StreamUse* use) noexcept {
  parked_.fetch_add(1, std::memory_order_relaxed);
  publish(use);
}

void StreamUses::publish(StreamUse* use) noexcept {
  std::vector<std::pair<driver::StreamHandle, driver::EventHandle>> recorded;
  std::vector<driver::StreamHandle> failed;
  for (const driver::StreamHandle& stream : use->streams) {
    driver::EventHandle event;
    Status status = take_event(stream.device, event);
    if (status.ok() && !(status = source_.event_record(event, stream)).ok())
      (void)source_.event_destroy(event);
    if (status.ok())
      recorded.emplace_back(stream, event);
    else if (status.code() != Code::context_is_destroyed)  // nothing runs on a stream that is gone
      failed.push_back(stream);
  }
  use->streams = std::move(failed);

  // In one step: an event that is reached early must not make the use look finished. A use without
  // any event is finished, but it is for the next poll to say so.
  MutexLock lock(state_);
  use->events += static_cast<int>(recorded.size());
  const bool owed = !use->streams.empty() || use->events == 0;
  for (const auto& [stream, event] : recorded) enqueue(stream, {event, use});
  if (owed) owed_.push_back(use);
}

void StreamUses::enqueue(const driver::StreamHandle& stream, const Entry& entry) {
  for (Queue& queue : queues_)
    if (queue.stream == stream) return queue.entries.push_back(entry);
  queues_.push_back({stream, {entry}});
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
    if (!use->streams.empty() || use->events > 0) return false;
    done_.push_back(use);
    parked_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

Status StreamUses::collect(bool wait) noexcept {
  Status failure;
  retry_owed();
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
    const Status status =
        wait ? source_.event_synchronize(entry.event) : source_.event_query(entry.event);
    // A device that was reset has dropped its work, and its events with it.
    const bool gone = status.code() == Code::context_is_destroyed;
    if (!status.ok() && !gone) {
      if (status.code() != Code::not_ready && failure.ok()) failure = status;
      ++i;
      continue;
    }
    MutexLock lock(state_);
    queues_[i].entries.pop_front();  // still the front: only the holder of the turn removes
    if (!gone) events_.push_back(entry.event);
    if (--entry.use->events > 0 || !entry.use->streams.empty()) continue;
    done_.push_back(entry.use);
    parked_.fetch_sub(1, std::memory_order_relaxed);
  }
  return failure;
}

void StreamUses::forget() noexcept {
  MutexLock turn(turn_);
  MutexLock lock(state_);
  for (Queue& queue : queues_)
    for (const Entry& entry : queue.entries)
      if (--entry.use->events == 0 && entry.use->streams.empty()) delete entry.use;
  for (StreamUse* use : owed_) delete use;
  queues_.clear();
  owed_.clear();
  events_.clear();
  parked_.store(0, std::memory_order_relaxed);
}

}  // namespace ember::memory
