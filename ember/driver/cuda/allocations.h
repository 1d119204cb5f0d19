// What this driver has allocated and registered: the one place that knows whether an address may be
// given back, so that CUDA is never asked about a foreign one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ember/base/mutex.h"

namespace ember::inline v0::driver::cuda {

class Allocations {
 public:
  /// `imported`: of another process's device, opened in `device`'s context. `chunk`: in a range.
  enum class Kind { device, pinned, registered, imported, chunk };
  static constexpr int kNoDevice = -1;

  struct Entry {
    Kind kind;
    int device;  ///< whose context it was made in
    std::size_t bytes;
  };
  struct Found {
    void* base;
    Entry entry;
  };

  void add(void* base, const Entry& entry) noexcept;
  /// Removes the allocation of this kind (and of this device, if one is given) that starts at
  /// `base`, so that of two threads that free the same address only one gets it. Nothing, and no
  /// change, if there is none.
  std::optional<Entry> take(const void* base, Kind kind, std::optional<int> device = {}) noexcept;
  /// The allocation that `pointer` lies in; of chunks all around it without a gap.
  std::optional<Found> find(const void* pointer) noexcept;
  /// The chunks of a device.
  std::vector<Found> chunks_of(int device) noexcept;
  /// Whether some bytes of that range of addresses are a chunk's.
  bool any_within(const void* start, std::size_t bytes) noexcept;
  /// Forgets what ended with the context of `device`. Pinned memory stays, as memory of no device.
  void drop(int device) noexcept;

 private:
  Mutex mutex_;
  std::map<std::uintptr_t, Entry> entries_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::driver::cuda
