// Events that tell when work that uses freed memory is done: recorded, asked, used again.
#pragma once

#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/segment_source.h"

namespace ember::inline v0::memory {

/// Thread-safe. No lock is held during a call of the source. One for all allocators of a process.
class EventPool {
 public:
  /// `source` must outlive the pool.
  explicit EventPool(EventSource& source) noexcept : source_(source) {}
  ~EventPool() { empty(); }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Destroys the events that are not recorded.
  void empty() noexcept;
  EventSource& source() const noexcept { return source_; }

  enum class Recorded {
    yes,
    not_now,  // worth another try
    lost,     // the stream is gone, but its work may be in progress
  };
  /// Takes an event that stands for what the stream holds now.
  Recorded record(const driver::StreamHandle& stream, driver::EventHandle& out) noexcept;
  /// Takes back an event whose record nobody asks about any more.
  void give_back(const driver::EventHandle& event);

 private:
  bool take(int device, driver::EventHandle& out) noexcept;

  EventSource& source_;
  Mutex mutex_;
  std::vector<driver::EventHandle> idle_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::memory
