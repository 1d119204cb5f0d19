// Memory in the order of streams, as cudaMallocAsync gives it: what was freed on a stream serves
// its later work at once, and other streams' once the work is done that had been enqueued before.
// Until it is trimmed it stays an allocation of the arena's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/sim/timeline.h"

namespace ember::inline v0::driver::sim {

/// What is free, of all devices. Thread-safe.
class OrderedMemory {
 public:
  struct Piece {
    int device = 0;
    std::uint32_t epoch = 0;
    std::size_t bytes = 0;
    void* pointer = nullptr;
    Point freed;  ///< on the stream that it was freed on
  };

  /// False if it is here already. One of an earlier epoch may come after begin_epoch(): it is never
  /// taken, and in nobody's way.
  bool put(const Piece& piece);
  /// Takes the first one of exactly these bytes that work may use which is enqueued on `stream`
  /// from now on, and says where it was freed. Null if there is none.
  void* take(int device, std::uint32_t epoch, std::size_t bytes, const Timeline& stream,
             Point* freed = nullptr);
  bool has(const void* pointer, std::uint32_t epoch) const;
  /// Takes what no work uses any longer.
  std::vector<Piece> take_unused(int device);
  /// Forgets what went with a reset of the device.
  void begin_epoch(int device, std::uint32_t epoch);

 private:
  template <class Choose>
  std::vector<Piece> take_chosen(int device, const Choose& choose) EMBER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::pair<int, std::size_t>, std::deque<Piece>> pieces_
      EMBER_GUARDED_BY(mutex_);  // by device and size, in the order in which they were freed
  std::map<const void*, std::uint32_t> pointers_ EMBER_GUARDED_BY(mutex_);  // their epochs
};

}  // namespace ember::inline v0::driver::sim
