// Blocks that other streams use (record_stream): when such a block is freed, an event is recorded
// on each of those streams, and the block is free when all of its events are reached.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <set>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/events.h"

namespace ember::inline v0::memory {

/// What is kept about one block. Made by its first recorded stream; belongs to the block until
/// park(), then to StreamUses, then to the function that is told that it is done.
struct StreamUse {
  void* owner = nullptr;                      ///< the block
  std::vector<driver::StreamHandle> streams;  ///< recorded, and no event stands for them yet
  std::vector<driver::StreamHandle> lost;     ///< ... and never will: destroyed before the free
  int events = 0;                             ///< not reached yet

  void note(const driver::StreamHandle& stream);
  bool done() const noexcept { return events == 0 && streams.empty() && lost.empty(); }
};

/// Thread-safe. Driver calls are made without a lock that allocations or frees could wait for.
///
/// What the streams of a device in fault use stays parked until that is reset. Only failures of the
/// device that the memory belongs to are reported. A reset ends all work of its device: streams and
/// events from before answer that they are gone, which counts as done once the reset has stopped
/// the work that was in progress.
///
/// poll() waits for nothing. settle() and wait() wait for devices and for each other, so a thread
/// that work on a device waits for must not call them.
class StreamUses {
 public:
  static constexpr int kNoDevice = -1;

  /// `device`: whose memory it is about; kNoDevice for memory of the host. `events` must outlive
  /// it.
  StreamUses(EventPool& events, int device) noexcept
      : events_(events), source_(events.source()), device_(device) {}
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  /// Whether nothing is parked: one load.
  bool empty() const noexcept { return parked_.load(std::memory_order_relaxed) == 0; }

  /// Records an event on each of the use's streams. Never fails: a stream on which that is not
  /// possible now is tried again by poll() and wait(), and the use stays parked until then. A
  /// stream that no longer exists leaves its device to wait for, which settle() and wait() do.
  void park(StreamUse* use) noexcept;

  /// Adds the streams of what is parked and owned by one of `owners`. May have to wait for one who
  /// waits.
  void streams_of(const std::set<const void*>& owners, std::vector<driver::StreamHandle>& out);

  /// Looks which events are reached, the oldest of each stream first, and calls `done(uses)` with
  /// those that have none left. One thread at a time looks; a second one returns at once. Fails if
  /// the device reports a fault; the uses stay parked then.
  template <class Done>
  Status poll(Done&& done) {
    if (!turn_.try_lock()) return {};
    Status status = collect(Effort::look);
    deliver(done);
    turn_.unlock();
    return status;
  }

  /// poll(), but waits for the devices of streams that no longer exist.
  template <class Done>
  Status settle(Done&& done) {
    MutexLock lock(turn_);
    Status status = collect(Effort::settle);
    deliver(done);
    return status;
  }

  /// settle(), and blocks until the events are reached.
  template <class Done>
  Status wait(Done&& done) {
    MutexLock lock(turn_);
    Status status = collect(Effort::wait);
    deliver(done);
    return status;
  }

 private:
  struct Entry {
    driver::EventHandle event;
    StreamUse* use = nullptr;
  };
  struct Queue {
    driver::StreamHandle stream;
    std::deque<Entry> entries;  // oldest first
  };
  enum class Effort { look, settle, wait };

  // `done` runs before the turn ends: a thread that waits for the turn then finds the blocks in
  // place.
  template <class Done>
  void deliver(Done& done) EMBER_REQUIRES(turn_) {
    if (done_.empty()) return;
    done(done_);
    done_.clear();
  }
  bool is_gone(const driver::EventHandle& event, const Status& status,
               Effort effort) const noexcept;
  Status collect(Effort effort) noexcept EMBER_REQUIRES(turn_);
  void retry_owed() noexcept EMBER_REQUIRES(turn_);
  void drop_reset() noexcept EMBER_REQUIRES(turn_);
  void settle_lost(Status& failure) noexcept EMBER_REQUIRES(turn_);
  void finish(StreamUse* use) noexcept EMBER_REQUIRES(turn_);
  void note_failure(int device, const Status& status, Status& failure) const noexcept;
  void publish(StreamUse* use) noexcept;
  void enqueue(const driver::StreamHandle& stream, const Entry& entry) EMBER_REQUIRES(state_);

  EventPool& events_;
  EventSource& source_;
  const int device_;
  std::atomic<std::size_t> parked_{0};

  Mutex turn_;  // held by the one thread that polls or waits; before state_
  std::vector<StreamUse*> done_ EMBER_GUARDED_BY(turn_);

  Mutex state_;  // never held during a call of the source
  std::vector<Queue> queues_ EMBER_GUARDED_BY(state_);
  // A parked use is in at most one of these two; its events are in queues_ all the same.
  std::vector<StreamUse*> owed_ EMBER_GUARDED_BY(state_);  // some event could not be recorded
  std::vector<StreamUse*> lost_ EMBER_GUARDED_BY(state_);  // not owed, and some stream is lost
};

}  // namespace ember::inline v0::memory
