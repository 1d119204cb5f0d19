// A recorded timeline as it is drawn: tracks of slices, and arrows between slices. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ember::inline v0::cuda::timeline {

/// What was left out, and why.
struct Counts {
  std::uint64_t slices = 0;   ///< that are in it
  std::uint64_t arrows = 0;   ///< that are in it
  std::uint64_t over = 0;     ///< not recorded, because the limit was reached
  std::uint64_t waiting = 0;  ///< work that had not begun yet
  std::uint64_t dropped = 0;  ///< work that a fault or a reset dropped, or whose time is not known
};

enum class SliceKind : std::uint8_t { kernel, copy, fill, host_function, wait, range, mark };
inline constexpr const char* kSliceKinds[] = {"kernel", "copy",  "fill", "host function",
                                              "wait",   "range", "mark"};

/// Times are nanoseconds since the recording began.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t queued = 0;  ///< of a device's work: when the call that enqueued it was made
  std::uint64_t bytes = 0;  ///< of copies and fills
  std::uint32_t name = 0;   ///< in Picture::names
  SliceKind kind = SliceKind::kernel;
  bool unfinished = false;  ///< was going on: `end` is when the picture was made
  bool faulted = false;     ///< its device is in a fault since
};

struct Track {
  int device = -1;  ///< -1: the host
  std::string name;
  /// They may overlap (ranges that any thread may end). Slices of other tracks are nested.
  bool overlapping = false;
  std::vector<Slice> slices;  ///< by their begin; of those that begin together the longest first
};

/// A slice waited for another one. To a wait of the host it points at its end, to others at their
/// begin.
struct Arrow {
  std::uint32_t from_track = 0, from = 0;
  std::uint32_t to_track = 0, to = 0;
};

struct Picture {
  std::vector<std::string> names;
  std::vector<Track> tracks;  ///< the host's first, then device by device
  std::vector<Arrow> arrows;
  Counts counts;
  /// Why times are those of events around the work, a little wider; empty if they are its own.
  std::string by_events;
};

}  // namespace ember::inline v0::cuda::timeline
