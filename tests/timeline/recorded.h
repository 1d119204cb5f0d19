// A timeline as data: what tests look at, where users look at a page.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/timing.h"
#include "ember/timeline/recording.h"

namespace ember::test {

using cuda::timeline::Arrow;
using cuda::timeline::Picture;
using cuda::timeline::Slice;
using cuda::timeline::SliceKind;
using cuda::timeline::Track;

/// Records while it lives, as cuda::Timeline does.
class Recorded final : public cuda::Observer {
 public:
  explicit Recorded(std::size_t limit = 1000) : recording_(limit) {
    recording_.begin(cuda::detail::now());
    cuda::add_observer(*this);
  }
  ~Recorded() override { cuda::remove_observer(*this); }
  bool wants_times() const noexcept override { return true; }
  void notice(const cuda::Activity& activity) noexcept override {
    const MutexLock lock(mutex_);
    recording_.observe(activity);
  }
  Picture picture() const {
    cuda::collect_times();
    const MutexLock lock(mutex_);
    return recording_.picture(cuda::detail::now());
  }

 private:
  mutable Mutex mutex_;
  cuda::timeline::Recording recording_ EMBER_GUARDED_BY(mutex_);
};

/// "copy DtoH (pinned)" of each slice, in order.
inline std::vector<std::string> names_of(const Picture& picture, const Track& track) {
  std::vector<std::string> names;
  names.reserve(track.slices.size());
  for (const Slice& slice : track.slices) names.push_back(picture.names[slice.name]);
  return names;
}

/// The only track of a device that has a slice of that name; of the host: -1. An empty one if there
/// is none.
inline Track track_with(const Picture& picture, int device, const std::string& name) {
  for (const Track& track : picture.tracks) {
    const std::vector<std::string> names = names_of(picture, track);
    if (track.device == device && std::find(names.begin(), names.end(), name) != names.end())
      return track;
  }
  return {};
}

/// "from -> to" of each arrow, by name, sorted.
inline std::vector<std::string> arrows_of(const Picture& picture) {
  std::vector<std::string> found;
  found.reserve(picture.arrows.size());
  for (const Arrow& arrow : picture.arrows) {
    const Slice& from = picture.tracks[arrow.from_track].slices[arrow.from];
    const Slice& to = picture.tracks[arrow.to_track].slices[arrow.to];
    found.push_back(picture.names[from.name] + " -> " + picture.names[to.name]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace ember::test
