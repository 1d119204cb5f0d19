// Traces of allocations: what a program asked of a caching allocator, and what that asked of its
// device, in a text of its own. README.md describes the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ember::replay {

struct Entry {
  enum class Action : std::uint8_t {
    alloc,           ///< `a`: a block was handed out
    free_requested,  ///< `r`: its user freed it
    free_completed,  ///< `c`: ... and no stream uses it any longer
    segment_alloc,   ///< `+`: memory came from the device
    segment_free,    ///< `-`: ... and went back
  };
  Action action = Action::alloc;
  std::uint64_t address = 0;  ///< a multiple of 512
  std::uint64_t size = 0;     ///< bytes asked for; of alloc and segment_alloc only
  std::uint32_t stream = 0;   ///< numbered from 0 in the order in which they come; the same
  std::uint32_t pool = 0;     ///< 0: that of requests that name none; the same
};

constexpr std::uint64_t kEndOfAddresses = std::uint64_t{1} << 57;
constexpr std::uint64_t kEndOfSizes = std::uint64_t{1} << 48;
constexpr std::uint32_t kEndOfNumbers = std::uint32_t{1} << 16;  ///< streams, and pools

/// The most bytes at a time: of blocks in use, and asked of the device.
struct Peaks {
  std::uint64_t allocated = 0, reserved = 0;
  friend bool operator==(const Peaks&, const Peaks&) = default;
};

struct Trace {
  std::string program;  ///< one line; may be empty
  /// What PyTorch counted itself: in the run of this trace, and in one with expandable segments.
  std::optional<Peaks> native, expandable;
  std::vector<Entry> entries;
  std::size_t dropped = 0;  ///< entries of a snapshot about memory from before it; not in the text

  std::uint32_t streams() const;
  /// (stream, pool) of allocations: how many there are.
  std::size_t places() const;
};

/// Reads the text. ValueError that names the line for what is none, and for entries that
/// contradict each other: blocks that overlap or lie in no segment, frees of what is not in use,
/// segments that go back with blocks in use.
Trace read_trace(std::string_view text);
std::string write_trace(const Trace& trace);

/// Of the history in a snapshot, PyTorch's or ember's: that of one device. Entries about memory
/// that was there before the history are left out, and counted. ValueError for what is no snapshot
/// (and names what is wrong), for a device without entries, for one whose segments grow (expandable
/// segments), and for contradictions as above.
Trace trace_of_snapshot(std::string_view pickle, std::size_t device);

/// Follows the entries, and says what contradicts those before.
class Follower {
 public:
  Follower();
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  /// Empty if the entry may follow; else why not, and nothing has changed.
  std::string add(const Entry& entry);
  /// Whether the entry is about memory that is known.
  bool knows(const Entry& entry) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ember::replay
