// Blocks that other streams use (record_stream): when such a block is freed, an event is recorded
// on each of those streams, and the block is free when all of its events are reached.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/segment_source.h"

namespace ember::memory {

/// What is kept about one block. Made by its first recorded stream; belongs to the block until
/// park(), then to StreamUses, then to whoever is told that it is done.
struct StreamUse {
  void* owner = nullptr;                      ///< the block
  std::vector<driver::StreamHandle> streams;  ///< recorded, and no event stands for them yet
  int events = 0;                             ///< not reached yet

  void note(const driver::StreamHandle& stream);
};

/// Thread-safe. Driver calls are made without a lock that allocations or frees could wait for.
class StreamUses {
 public:
  explicit StreamUses(EventSource& source) noexcept : source_(source) {}
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  /// Whether nothing is parked: one load.
  bool empty() const noexcept { return parked_.load(std::memory_order_relaxed) == 0; }

  /// Records an event on each of the use's streams. Never fails: a stream on which that is not
  /// possible now is tried again by poll() and wait(), and the use stays parked until then.
  void park(StreamUse* use) noexcept;

  /// Looks which events are reached, the oldest of each stream first, and calls `done(uses)` with
  /// those that have none left. One thread at a time looks; a second one returns at once. Fails if
  /// a device reports a fault; the uses stay parked then.
  template <class Done>
  Status poll(Done&& done) {
    if (!turn_.try_lock()) return {};
    Status status = collect(/*wait=*/false);
    deliver(done);
    turn_.unlock();
    return status;
  }

  /// The same, but blocks until the events are reached.
  template <class Done>
  Status wait(Done&& done) {
    MutexLock lock(turn_);
    Status status = collect(/*wait=*/true);
    deliver(done);
    return status;
  }

  /// The device was reset: drops every use and event. No other call may be in progress.
  void forget() noexcept;

 private:
  struct Entry {
    driver::EventHandle event;
    StreamUse* use = nullptr;
  };
  struct Queue {
    driver::StreamHandle stream;
    std::deque<Entry> entries;  // oldest first
  };

  // `done` runs before the turn ends: who waits for the turn then finds the blocks in place.
  template <class Done>
  void deliver(Done& done) EMBER_REQUIRES(turn_) {
    if (done_.empty()) return;
    done(done_);
    done_.clear();
  }
  Status collect(bool wait) noexcept EMBER_REQUIRES(turn_);
  void retry_owed() noexcept EMBER_REQUIRES(turn_);
  Status take_event(int device, driver::EventHandle& event) noexcept;
  void publish(StreamUse* use) noexcept;
  void enqueue(const driver::StreamHandle& stream, const Entry& entry) EMBER_REQUIRES(state_);

  EventSource& source_;
  std::atomic<std::size_t> parked_{0};

  Mutex turn_;  // held by the one thread that polls or waits; before state_
  std::vector<StreamUse*> done_ EMBER_GUARDED_BY(turn_);

  Mutex state_;  // never held during a call of the source
  std::vector<Queue> queues_ EMBER_GUARDED_BY(state_);
  std::vector<StreamUse*> owed_ EMBER_GUARDED_BY(state_);  // some event could not be recorded
  std::vector<driver::EventHandle> events_ EMBER_GUARDED_BY(state_);  // for reuse
};

}  // namespace ember::memory
