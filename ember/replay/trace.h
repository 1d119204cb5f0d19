// Traces of allocations: what a program asked of a caching allocator, and what that asked of its
// device, in a text of its own. docs/traces.md describes the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ember/replay/replay.h"

namespace ember::inline v0::replay {

struct Entry {
  enum class Action : std::uint8_t {
    alloc,           ///< `a`: a block was handed out
    free_requested,  ///< `r`: its user freed it
    free_completed,  ///< `c`: ... and no stream uses it any longer
    segment_alloc,   ///< `+`: memory came from the device
    segment_free,    ///< `-`: ... and went back
    segment_map,     ///< `m`: a segment grew by memory from the device
    segment_unmap,   ///< `u`: ... and some of it went back
  };
  Action action = Action::alloc;
  std::uint64_t address = 0;  ///< a multiple of 512
  std::uint64_t size = 0;     ///< bytes; of alloc as asked for; not of frees, and segment_free
  std::uint32_t stream = 0;   ///< numbered from 0 in the order in which they come; of what comes
  std::uint32_t pool = 0;     ///< 0: that of requests that name none; of frees always

  /// Whether the size stands in the text.
  bool sized() const noexcept {
    return action == Action::alloc || action == Action::segment_alloc ||
           action == Action::segment_map || action == Action::segment_unmap;
  }
  /// Whether the stream and the pool do.
  bool comes() const noexcept { return sized() && action != Action::segment_unmap; }
  bool gives_back() const noexcept {
    return action == Action::segment_free || action == Action::segment_unmap;
  }
};

constexpr std::uint64_t kEndOfAddresses = std::uint64_t{1} << 57;
constexpr std::uint64_t kEndOfSizes = std::uint64_t{1} << 48;
constexpr std::uint32_t kEndOfNumbers = std::uint32_t{1} << 16;  ///< streams, and pools

using Peaks = cuda::ReplayPeaks;

struct Trace {
  std::string program;  ///< one line; may be empty
  /// What PyTorch counted itself: in the run of this trace, and in one with expandable segments.
  std::optional<Peaks> native, expandable;
  std::vector<Entry> entries;
  std::size_t dropped = 0;  ///< entries of a snapshot about memory from before it; not in the text

  std::uint32_t streams() const;
  /// (stream, pool) of allocations: how many there are.
  std::size_t places() const;
  /// Whether some segments grow.
  bool grows() const;
  /// Whether memory goes back at that entry, and not at the one before: the cache was emptied.
  bool empties(std::size_t entry) const {
    return entries[entry].gives_back() && (entry == 0 || !entries[entry - 1].gives_back());
  }
  /// From there on: of which pools memory goes back in a row.
  std::set<std::uint32_t> pools_emptied(std::size_t entry) const;
};

/// Reads the text. ValueError that names the line for what is none, and for entries that
/// contradict each other: blocks that overlap or lie in no segment, frees of what is not in use,
/// segments that go back with blocks in use.
Trace read_trace(std::string_view text);
std::string write_trace(const Trace& trace);

/// Of the history in a snapshot, PyTorch's or ember's: that of one device. Entries about memory
/// that was there before the history are left out, and counted. ValueError for what is no snapshot
/// (and names what is wrong), for a device without entries, and for contradictions as above.
Trace trace_of_snapshot(std::string_view pickle, std::size_t device);

/// Either of the two: by how it begins. A text has one device, number 0.
Trace trace_of(std::string_view bytes, std::size_t device);

/// Follows the entries, and says what contradicts those before.
class Follower {
 public:
  Follower();
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  /// Empty if the entry may follow; else why not, and nothing has changed. Of memory that goes
  /// back, fills in the pool.
  std::string add(Entry& entry);
  /// Whether the entry is about memory that is known.
  bool knows(const Entry& entry) const;
  /// What of so many bytes from an address on belongs to segments that grow: addresses and sizes.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> mapped(std::uint64_t address,
                                                              std::uint64_t size) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ember::inline v0::replay
