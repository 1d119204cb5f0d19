// From what observers are told to a picture of it. Knows no devices, so it can be fed by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/base/ref.h"
#include "ember/driver/work_times.h"
#include "ember/runtime/observer.h"
#include "ember/timeline/picture.h"

namespace ember::inline v0::cuda::timeline {

/// Not thread-safe.
class Recording {
 public:
  /// Slices beyond `limit` are counted and not kept; so are arrows.
  explicit Recording(std::size_t limit) : limit_(limit) {}

  /// Recording begins, for the first time or again: the first time is 0 of the picture.
  void begin(std::int64_t now);
  /// It ends, and may begin again: what happens in between is not known.
  void end(std::int64_t now);
  void observe(const Activity& activity);
  /// What is there now. Work that is running goes on until `now`.
  Picture picture(std::int64_t now) const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// A slice: of the host with its times, of a device with where they will stand.
  struct Entry {
    std::int64_t begin = 0;  // of a device's: when it was enqueued
    std::int64_t end = 0;
    Ref<driver::WorkTimes> times;
    std::uint64_t bytes = 0;
    std::uint64_t order = 0;  // in which they began
    std::uint32_t name = 0;
    std::uint32_t track = 0;
    SliceKind kind = SliceKind::kernel;
    bool cut = false;  // the recording ended before it
  };
  struct TrackName {
    int device;
    std::int64_t order;  // within a device, or the host
    std::string name;
    bool overlapping;
  };
  /// What work on a stream has to wait for, by the track on which that is: an entry for each.
  using Sources = std::map<std::uint32_t, std::uint32_t>;
  struct StreamState {
    std::uint32_t track = kNone;
    std::uint32_t last = kNone;  // the newest entry
    Sources waits;               // of work that comes next
    std::string name;
  };
  struct Open {
    std::int64_t begin = 0;
    std::uint64_t order = 0;
    std::uint32_t name = kNone;  // none: begun beyond the limit
    std::uint32_t track = 0;
  };
  struct OpenWait {
    Open open;
    Sources sources;
  };
  using StreamKey = std::pair<int, const void*>;
  using StackKey = std::pair<std::uint32_t, std::string>;  // a thread's ranges of a domain

  StreamState& stream_of(const Activity& activity);
  std::uint32_t intern(const std::string& text);
  std::uint32_t intern_lasting(const char* text);
  std::uint32_t thread_track(std::uint32_t thread, const char* domain);
  std::uint32_t track(TrackName name);
  /// Whether there is room for one more, counting those that are open; counts it otherwise.
  bool room();
  /// Something of the host's begins; it has to be closed.
  Open open(const Activity& activity, const std::string& name, std::uint32_t on);
  std::uint32_t close(const Open& open, std::int64_t end, SliceKind kind);
  std::uint32_t add(Entry entry);
  void add_arrows(const Sources& sources, std::uint32_t to);
  void add_work(const Activity& activity, SliceKind kind, std::uint32_t name);
  /// A copy within which the host waited.
  void add_waiting_copy(const Activity& activity);
  void record_event(const Activity& activity);
  void wait_for_event(const Activity& activity);
  void begin_wait(const Activity& activity);
  void end_wait(const Activity& activity);
  void observe_range(const Activity& activity);

  const std::size_t limit_;
  bool begun_ = false;
  std::int64_t origin_ = 0;
  std::size_t open_ = 0;
  std::uint64_t over_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> arrows_;  // of entries
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> name_numbers_;
  std::unordered_map<const char*, std::uint32_t> lasting_names_;
  std::vector<TrackName> tracks_;
  std::map<StackKey, std::uint32_t> thread_tracks_;
  std::map<std::string, std::uint32_t> range_tracks_;  // by domain
  std::map<StreamKey, StreamState> streams_;
  // What events stand for. Their handles are addresses: no two devices have the same.
  std::unordered_map<const void*, Sources> events_;
  std::map<std::uint32_t, OpenWait> waits_;
  std::map<StackKey, std::vector<Open>> stacks_;
  std::map<std::uint64_t, Open> ranges_;
};

}  // namespace ember::inline v0::cuda::timeline
