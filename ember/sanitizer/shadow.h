// Who accessed memory last: for each allocation the accesses that a later one could conflict with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "ember/sanitizer/conflict.h"
#include "ember/sanitizer/overlap.h"
#include "ember/sanitizer/written.h"

namespace ember::inline v0::cuda::sanitizer {

/// An access that later ones may conflict with.
struct Entry {
  Bytes bytes;
  bool writes = false;
  bool stale = false;  ///< of the memory's earlier life
  Arguments arguments;
  Operation operation;
};

/// The accesses of one allocation. Those of all of it lie apart, since most are, and the next write
/// of all replaces them without a search.
class Accesses {
 public:
  /// Calls `visit(entry)` for each that may touch `bytes`.
  template <class Visit>
  void each_near(const Bytes& bytes, const Visit& visit) const;
  /// Adds one, and forgets those that it stands for from now on: whatever conflicts with them
  /// conflicts with it, or comes after both.
  void add(const Entry& entry, bool whole);
  /// Forgets those for which `over(entry)`; returns how many are left.
  template <class Over>
  std::size_t forget(const Over& over);
  /// Moves all to `out`.
  void take(std::vector<Entry>& out);
  std::size_t count() const noexcept { return whole_.size() + parts_.size(); }

 private:
  std::vector<Entry> whole_;
  std::vector<Entry> parts_;  // by their first byte
  std::uintptr_t longest_ = 0;
};

struct Allocation {
  std::uintptr_t first = 0;
  std::size_t bytes = 0;  ///< that the user asked for
  std::size_t span = 0;   ///< that it takes
  int device = -1;        ///< -1: pinned memory of the host
  std::uint64_t stack = 0, free_stack = 0;
  bool freed = false;
  bool of_graph = false;  ///< made in a capture: its graph's replays use it when it is freed, too
  Operation free;
  Accesses accesses;
  std::vector<Actor> recorded;    ///< streams that record_stream() named
  Clock done;                     ///< what these held when it was freed
  bool ordered = false;           ///< comes and goes in its stream's order: nobody waits for it
  Clock given;                    ///< of that: what its stream held when it was freed
  std::uint64_t born = 0;         ///< operations that came before it
  Written written;                ///< by what the engine saw; all, where it cannot know
  std::optional<Written> surely;  ///< of that, what is certain; nothing where nobody asks
  // Of pinned memory, in this life: work of devices used it; the host's use of it was told.
  bool used = false, told = false;
  // The program got a pointer to it; it said what it does there (host_reads, host_writes).
  bool exposed = false, said = false;
};

/// All allocations, and the rest of the memory, whose allocation nobody saw.
class Shadow {
 public:
  /// The allocation in which an address lies, or null.
  Allocation* find(std::uintptr_t address);
  /// Calls `visit(allocation)` for each of which some byte is in the range.
  template <class Visit>
  void each_in(std::uintptr_t address, std::size_t span, const Visit& visit) {
    for (auto at = first_in(address); at != allocations_.end() && at->first < address + span; ++at)
      visit(at->second);
  }
  Accesses& rest() noexcept { return rest_; }
  /// Memory begins a new life; accesses of earlier ones that may still go on become stale.
  Allocation& begin(std::uintptr_t address, std::size_t span);
  /// Memory went back to the device or the system, which waits for what uses it.
  void end(std::uintptr_t address, std::size_t span);
  /// All memory of a device went.
  void end_device(int device);
  /// Forgets accesses for which `over(entry)`; returns how many are left.
  template <class Over>
  std::size_t forget(const Over& over);
  std::size_t allocations() const noexcept { return allocations_.size(); }

 private:
  /// The first that ends behind the address.
  std::map<std::uintptr_t, Allocation>::iterator first_in(std::uintptr_t address);

  std::map<std::uintptr_t, Allocation> allocations_;
  Allocation* last_ = nullptr;
  Accesses rest_;
};

template <class Visit>
void Accesses::each_near(const Bytes& bytes, const Visit& visit) const {
  for (const Entry& entry : whole_) visit(entry);
  if (parts_.empty()) return;
  const std::uintptr_t least = bytes.first > longest_ ? bytes.first - longest_ : 0;
  auto at = std::lower_bound(
      parts_.begin(), parts_.end(), least,
      [](const Entry& entry, std::uintptr_t value) { return entry.bytes.first < value; });
  for (; at != parts_.end() && at->bytes.first < bytes.last; ++at)
    if (at->bytes.last > bytes.first) visit(*at);
}

template <class Over>
std::size_t Accesses::forget(const Over& over) {
  std::erase_if(whole_, over);
  std::erase_if(parts_, over);
  if (parts_.empty()) longest_ = 0;
  return count();
}

template <class Over>
std::size_t Shadow::forget(const Over& over) {
  std::size_t left = rest_.forget(over);
  for (auto& [address, allocation] : allocations_) left += allocation.accesses.forget(over);
  return left;
}

}  // namespace ember::inline v0::cuda::sanitizer
