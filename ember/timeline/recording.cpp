#include "ember/timeline/recording.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ember/nvtx/tool.h"

namespace ember::inline v0::cuda::timeline {
namespace {

using Kind = Activity::Kind;
using State = driver::WorkTimes::State;

bool on_device(const Access& access) { return access.memory == Access::Memory::device; }

/// As profilers say it: which way, and what kind of memory is on the host's side.
const char* copy_name(const Activity& activity) {
  if (activity.accesses.size() != 2) return "copy";
  const Access& to = activity.accesses[0];
  const Access& from = activity.accesses[1];
  const auto pinned = [](const Access& each) { return each.memory == Access::Memory::pinned; };
  if (on_device(to) && on_device(from)) return "copy DtoD";
  if (on_device(to)) return pinned(from) ? "copy HtoD (pinned)" : "copy HtoD (pageable)";
  if (on_device(from)) return pinned(to) ? "copy DtoH (pinned)" : "copy DtoH (pageable)";
  return "copy HtoH";
}

std::string device_name(int device) { return "cuda:" + std::to_string(device); }

std::string message_of(const Activity& activity) {
  const char* text = activity.annotation != nullptr ? nvtx::text_of(*activity.annotation) : nullptr;
  return text != nullptr ? text : "";
}

/// The later of two entries of one track stands for both.
void merge(std::map<std::uint32_t, std::uint32_t>& into,
           const std::map<std::uint32_t, std::uint32_t>& from) {
  for (const auto& [track, entry] : from) {
    const auto [at, fresh] = into.emplace(track, entry);
    if (!fresh) at->second = std::max(at->second, entry);
  }
}

}  // namespace

void Recording::begin(std::int64_t now) {
  if (!begun_) origin_ = now;
  begun_ = true;
}

void Recording::end(std::int64_t now) {
  const auto cut = [&](const Open& open, SliceKind kind) {
    if (open.name != kNone) entries_[close(open, now, kind)].cut = true;
  };
  for (const auto& [thread, wait] : waits_) cut(wait.open, SliceKind::wait);
  for (const auto& [key, stack] : stacks_)
    for (const Open& open : stack) cut(open, SliceKind::range);
  for (const auto& [id, open] : ranges_) cut(open, SliceKind::range);
  waits_.clear();
  stacks_.clear();
  ranges_.clear();
  events_.clear();
  for (auto& [key, stream] : streams_) {
    stream.last = kNone;
    stream.waits.clear();
  }
}

// ---- Names and tracks

std::uint32_t Recording::intern(const std::string& text) {
  const auto [at, fresh] = name_numbers_.emplace(text, static_cast<std::uint32_t>(names_.size()));
  if (fresh) names_.push_back(text);
  return at->second;
}

std::uint32_t Recording::intern_lasting(const char* text) {
  const auto known = lasting_names_.find(text);
  if (known != lasting_names_.end()) return known->second;
  return lasting_names_[text] = intern(text);
}

std::uint32_t Recording::track(TrackName name) {
  tracks_.push_back(std::move(name));
  return static_cast<std::uint32_t>(tracks_.size() - 1);
}

std::uint32_t Recording::thread_track(std::uint32_t thread, const char* domain) {
  const std::string of = domain != nullptr ? domain : "";
  const auto [at, fresh] = thread_tracks_.try_emplace({thread, of}, 0);
  if (fresh)
    at->second =
        track({-1, thread, "thread " + std::to_string(thread) + (of.empty() ? "" : " (" + of + ")"),
               false});
  return at->second;
}

// Queues are used again when their streams have ended, and with them their tracks: a program that
// makes a stream for each step has as many tracks as it has streams at once.
Recording::StreamState& Recording::stream_of(const Activity& activity) {
  StreamState& state = streams_[{activity.device, activity.stream}];
  if (state.name.empty())
    state.name = activity.stream == nullptr ? "default stream"
                                            : "stream " + std::to_string(activity.stream_id);
  return state;
}

// ---- Slices

bool Recording::room() {
  if (entries_.size() + open_ < limit_) return true;
  ++over_;
  return false;
}

Recording::Open Recording::open(const Activity& activity, const std::string& name,
                                std::uint32_t on) {
  ++open_;
  return {activity.time, activity.order, intern(name), on};
}

std::uint32_t Recording::close(const Open& open, std::int64_t end, SliceKind kind) {
  --open_;
  return add({open.begin, end, {}, 0, open.order, open.name, open.track, kind});
}

std::uint32_t Recording::add(Entry entry) {
  entries_.push_back(std::move(entry));
  return static_cast<std::uint32_t>(entries_.size() - 1);
}

void Recording::add_arrows(const Sources& sources, std::uint32_t to) {
  for (const auto& [track, from] : sources) {
    if (arrows_.size() >= limit_) {
      ++over_;
      continue;
    }
    arrows_.emplace_back(from, to);
  }
}

void Recording::add_work(const Activity& activity, SliceKind kind, std::uint32_t name) {
  if (activity.times == nullptr) return;
  StreamState& stream = stream_of(activity);
  if (!room()) {
    stream.last = kNone;  // nothing that is kept stands for it
    stream.waits.clear();
    return;
  }
  if (stream.track == kNone)
    stream.track = track({activity.device, activity.stream_id, stream.name, false});
  stream.last = add({activity.time, 0, Ref<driver::WorkTimes>(activity.times), activity.bytes,
                     activity.order, name, stream.track, kind});
  add_arrows(stream.waits, stream.last);
  stream.waits.clear();
}

void Recording::add_waiting_copy(const Activity& activity) {
  if (!room()) return;
  Open begun = open(activity, std::string("wait for ") + copy_name(activity),
                    thread_track(activity.thread, nullptr));
  begun.begin = activity.began;
  const std::uint32_t to = close(begun, activity.time, SliceKind::wait);
  const StreamState& stream = stream_of(activity);
  if (stream.last != kNone) add_arrows({{stream.track, stream.last}}, to);
}

// ---- Order

void Recording::record_event(const Activity& activity) {
  const StreamState& stream = stream_of(activity);
  Sources& stands_for = events_[activity.event];
  stands_for = stream.waits;
  if (stream.last != kNone) stands_for[stream.track] = stream.last;
}

void Recording::wait_for_event(const Activity& activity) {
  const auto event = events_.find(activity.event);
  if (event == events_.end()) return;
  StreamState& stream = stream_of(activity);
  merge(stream.waits, event->second);
  if (stream.track != kNone) stream.waits.erase(stream.track);
}

void Recording::begin_wait(const Activity& activity) {
  // One that ended with an error was not told to be over.
  if (const auto failed = waits_.find(activity.thread); failed != waits_.end()) {
    --open_;
    waits_.erase(failed);
  }
  if (!room()) return;
  Sources sources;
  std::string name = "wait for ";
  if (activity.event != nullptr) {
    name += "an event of " + device_name(activity.device);
    const auto event = events_.find(activity.event);
    if (event != events_.end()) sources = event->second;
  } else {
    const StreamState& stream = stream_of(activity);
    name += stream.name + " of " + device_name(activity.device);
    sources = stream.waits;
    if (stream.last != kNone) sources[stream.track] = stream.last;
  }
  const Open begun = open(activity, name, thread_track(activity.thread, nullptr));
  waits_[activity.thread] = {begun, std::move(sources)};
}

void Recording::end_wait(const Activity& activity) {
  const auto at = waits_.find(activity.thread);
  if (at == waits_.end()) return;
  auto [begun, sources] = std::move(at->second);
  waits_.erase(at);
  // Only its end tells a wait for a device from one for its default stream.
  const bool whole = activity.kind == Kind::device_synchronized;
  if (whole) begun.name = intern("wait for " + device_name(activity.device));
  const std::uint32_t to = close(begun, activity.time, SliceKind::wait);
  if (!whole) add_arrows(sources, to);
}

// ---- Ranges

void Recording::observe_range(const Activity& activity) {
  const char* const domain = activity.domain != nullptr ? activity.domain : "";
  const StackKey key{activity.thread, domain};
  switch (activity.kind) {
    case Kind::marked:
      if (!room()) return;
      (void)close(open(activity, message_of(activity), thread_track(activity.thread, domain)),
                  activity.time, SliceKind::mark);
      return;
    case Kind::range_pushed:
      stacks_[key].push_back(
          room() ? open(activity, message_of(activity), thread_track(activity.thread, domain))
                 : Open());
      return;
    case Kind::range_popped: {
      const auto at = stacks_.find(key);
      if (at == stacks_.end()) return;  // pushed before the recording
      if (const Open& begun = at->second.back(); begun.name != kNone)
        (void)close(begun, activity.time, SliceKind::range);
      at->second.pop_back();
      if (at->second.empty()) stacks_.erase(at);
      return;
    }
    case Kind::range_started: {
      if (!room()) return;
      const auto [at, fresh] = range_tracks_.try_emplace(domain, 0);
      if (fresh)
        at->second = track(
            {-1, UINT32_MAX, "ranges" + (*domain == '\0' ? "" : " (" + key.second + ")"), true});
      ranges_[activity.range] = open(activity, message_of(activity), at->second);
      return;
    }
    default:
      if (const auto at = ranges_.find(activity.range); at != ranges_.end()) {
        (void)close(at->second, activity.time, SliceKind::range);
        ranges_.erase(at);
      }
      return;
  }
}

void Recording::observe(const Activity& activity) {
  switch (activity.kind) {
    case Kind::initialized:
      if (entries_.empty() && open_ == 0) origin_ = activity.time;
      return;
    case Kind::kernel_launched:
      add_work(activity, SliceKind::kernel, intern_lasting(activity.name));
      return;
    case Kind::copied:
      add_work(activity, SliceKind::copy, intern_lasting(copy_name(activity)));
      if (activity.began != 0) add_waiting_copy(activity);
      return;
    case Kind::filled: add_work(activity, SliceKind::fill, intern_lasting("fill")); return;
    case Kind::host_function_queued:
      add_work(activity, SliceKind::host_function, intern_lasting("host function"));
      return;
    case Kind::event_recorded: return record_event(activity);
    case Kind::event_waited: return wait_for_event(activity);
    case Kind::event_destroyed: events_.erase(activity.event); return;
    case Kind::wait_began: return begin_wait(activity);
    case Kind::device_synchronized:
    case Kind::stream_synchronized:
    case Kind::event_synchronized: return end_wait(activity);
    case Kind::marked:
    case Kind::range_pushed:
    case Kind::range_popped:
    case Kind::range_started:
    case Kind::range_ended: return observe_range(activity);
    default: return;
  }
}

// ---- The picture

Picture Recording::picture(std::int64_t now) const {
  Picture made;
  made.names = names_;
  made.counts.over = over_;

  // Where each track comes: the host's, then device by device, the default stream first.
  std::vector<std::uint32_t> order(tracks_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(tracks_[a].device, tracks_[a].order) <
           std::pair(tracks_[b].device, tracks_[b].order);
  });
  std::vector<std::uint32_t> place(tracks_.size());
  for (std::uint32_t at = 0; at < order.size(); ++at) {
    place[order[at]] = at;
    const TrackName& from = tracks_[order[at]];
    made.tracks.push_back({from.device, from.name, from.overlapping, {}});
  }

  struct Placed {
    Slice slice;
    std::uint32_t entry;
    std::uint64_t order;
  };
  std::vector<std::vector<Placed>> placed(tracks_.size());
  const auto put = [&](std::uint32_t track, const Slice& slice, std::uint32_t entry,
                       std::uint64_t began) {
    placed[place[track]].push_back({slice, entry, began});
  };
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    Slice slice{entry.begin, entry.end, 0, entry.bytes, entry.name, entry.kind};
    slice.unfinished = entry.cut;
    if (entry.times) {
      const auto [state, begin, end] = entry.times->read();
      made.counts.waiting += state == State::waiting ? 1 : 0;
      made.counts.dropped += state == State::dropped ? 1 : 0;
      if (state == State::waiting || state == State::dropped) continue;
      slice.unfinished = state == State::running;
      slice.faulted = state == State::faulted;
      slice.queued = entry.begin - origin_;
      slice.begin = begin;
      slice.end = slice.unfinished ? std::max(now, begin) : end;
    }
    put(entry.track, slice, i, entry.order);
  }
  const auto put_open = [&](const Open& open, SliceKind kind) {
    if (open.name == kNone) return;
    Slice slice{open.begin, std::max(now, open.begin), 0, 0, open.name, kind};
    slice.unfinished = true;
    put(open.track, slice, kNone, open.order);
  };
  for (const auto& [key, stack] : stacks_)
    for (const Open& open : stack) put_open(open, SliceKind::range);
  for (const auto& [id, open] : ranges_) put_open(open, SliceKind::range);
  for (const auto& [thread, wait] : waits_) put_open(wait.open, SliceKind::wait);

  std::vector<std::pair<std::uint32_t, std::uint32_t>> where(entries_.size(), {kNone, 0});
  for (std::uint32_t t = 0; t < placed.size(); ++t) {
    std::sort(placed[t].begin(), placed[t].end(), [](const Placed& a, const Placed& b) {
      return std::tuple(a.slice.begin, -a.slice.end, a.order) <
             std::tuple(b.slice.begin, -b.slice.end, b.order);
    });
    Track& track = made.tracks[t];
    track.slices.reserve(placed[t].size());
    std::int64_t before = INT64_MIN;
    for (auto& [slice, entry, began] : placed[t]) {
      // A stream does one thing at a time; where events say when, that is rounded.
      if (track.device >= 0) {
        slice.begin = std::max(slice.begin, before);
        slice.end = before = std::max(slice.end, slice.begin);
      }
      slice.begin -= origin_;
      slice.end -= origin_;
      if (entry != kNone) where[entry] = {t, static_cast<std::uint32_t>(track.slices.size())};
      track.slices.push_back(slice);
    }
    made.counts.slices += track.slices.size();
  }
  for (const auto& [from, to] : arrows_) {
    if (where[from].first == kNone || where[to].first == kNone) continue;
    made.arrows.push_back(
        {where[from].first, where[from].second, where[to].first, where[to].second});
  }
  made.counts.arrows = made.arrows.size();
  return made;
}

}  // namespace ember::inline v0::cuda::timeline
