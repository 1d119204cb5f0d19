// The trace event format:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ember/base/error.h"
#include "ember/timeline/text_file.h"
#include "ember/timeline/write.h"

namespace ember::inline v0::cuda::timeline {
namespace {

/// The host is process 0, cuda:0 is 1.
int process_of(const Track& track) { return track.device + 1; }

/// Nanoseconds in the format's microseconds, without rounding.
void put_time(TextFile& to, std::int64_t nanoseconds) {
  if (nanoseconds < 0) to << "-";
  const auto all = static_cast<std::uint64_t>(std::abs(nanoseconds));
  const std::uint64_t rest = all % 1000;
  to << all / 1000 << (rest < 10 ? ".00" : rest < 100 ? ".0" : ".") << rest;
}

class Events {
 public:
  Events(const Picture& picture, TextFile& to) : picture_(picture), to_(to) {}

  void metadata() {
    int named = -1;
    for (std::uint32_t t = 0; t < picture_.tracks.size(); ++t) {
      const Track& track = picture_.tracks[t];
      const int process = process_of(track);
      if (process != named) {
        named = process;
        const std::string name = process == 0 ? "host" : "cuda:" + std::to_string(track.device);
        name_of("process_name", process, 0, name);
        sort_index("process_sort_index", process, 0, process);
      }
      name_of("thread_name", process, t, track.name);
      sort_index("thread_sort_index", process, t, static_cast<int>(t));
    }
  }
  void slices() {
    for (std::uint32_t t = 0; t < picture_.tracks.size(); ++t)
      for (const Slice& slice : picture_.tracks[t].slices)
        picture_.tracks[t].overlapping ? overlapping(slice, t) : complete(slice, t);
  }
  void arrows() {
    std::uint64_t id = 0;
    for (const Arrow& arrow : picture_.arrows) {
      const Slice& from = picture_.tracks[arrow.from_track].slices[arrow.from];
      const Slice& to = picture_.tracks[arrow.to_track].slices[arrow.to];
      flow("s", ++id, arrow.from_track, from.end);
      flow("f", id, arrow.to_track, to.kind == SliceKind::wait ? to.end : to.begin);
    }
  }

 private:
  TextFile& begin(const char* phase) {
    to_ << (first_ ? "\n" : ",\n") << "{\"ph\":\"" << phase << "\"";
    first_ = false;
    return to_;
  }
  void place(std::uint32_t track) {
    to_ << ",\"pid\":" << process_of(picture_.tracks[track]) << ",\"tid\":" << track;
  }
  void name_of(const char* what, int process, std::uint32_t track, const std::string& name) {
    begin("M") << ",\"pid\":" << process << ",\"tid\":" << track << ",\"name\":\"" << what
               << "\",\"args\":{\"name\":";
    to_.quoted(name) << "}}";
  }
  void sort_index(const char* what, int process, std::uint32_t track, int index) {
    begin("M") << ",\"pid\":" << process << ",\"tid\":" << track << ",\"name\":\"" << what
               << "\",\"args\":{\"sort_index\":" << index << "}}";
  }
  void head(const char* phase, const Slice& slice, std::uint32_t track, std::int64_t time) {
    begin(phase);
    place(track);
    to_ << ",\"ts\":";
    put_time(to_, time);
    to_ << ",\"cat\":\"" << kSliceKinds[static_cast<int>(slice.kind)] << "\",\"name\":";
    to_.quoted(picture_.names[slice.name]);
  }
  void complete(const Slice& slice, std::uint32_t track) {
    if (slice.kind == SliceKind::mark) {
      head("i", slice, track, slice.begin);
      to_ << ",\"s\":\"t\"}";
      return;
    }
    head("X", slice, track, slice.begin);
    to_ << ",\"dur\":";
    put_time(to_, slice.end - slice.begin);
    if (slice.kind == SliceKind::wait) to_ << ",\"cname\":\"terrible\"";
    const char* comma = "";
    to_ << ",\"args\":{";
    const bool sized = slice.kind == SliceKind::copy || slice.kind == SliceKind::fill;
    if (sized) to_ << "\"bytes\":" << slice.bytes, comma = ",";
    if (picture_.tracks[track].device >= 0) {
      to_ << comma << "\"enqueued_us\":", comma = ",";
      put_time(to_, slice.queued);
    }
    if (slice.unfinished) to_ << comma << "\"unfinished\":true", comma = ",";
    if (slice.faulted) to_ << comma << "\"faulted\":true";
    to_ << "}}";
  }
  void overlapping(const Slice& slice, std::uint32_t track) {
    const std::uint64_t id = ++overlapping_;
    head("b", slice, track, slice.begin);
    to_ << ",\"id\":" << id << "}";
    head("e", slice, track, slice.end);
    to_ << ",\"id\":" << id << "}";
  }
  void flow(const char* phase, std::uint64_t id, std::uint32_t track, std::int64_t time) {
    begin(phase);
    place(track);
    to_ << ",\"ts\":";
    put_time(to_, time);
    to_ << ",\"id\":" << id << ",\"cat\":\"order\",\"name\":\"wait\",\"bp\":\"e\"}";
  }

  const Picture& picture_;
  TextFile& to_;
  bool first_ = true;
  std::uint64_t overlapping_ = 0;
};

}  // namespace

Format format_of(const std::string& file, const char* argument) {
  if (file.ends_with(".json")) return Format::json;
  if (file.ends_with(".html")) return Format::html;
  throw ValueError(std::string(argument) + " is '" + file +
                   "', expected a file whose name ends in .json or .html");
}

void write_json(const Picture& picture, const std::string& file) {
  TextFile to(file);
  to << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"slices\":" << picture.counts.slices
     << ",\"arrows\":" << picture.counts.arrows << ",\"over_limit\":" << picture.counts.over
     << ",\"not_begun\":" << picture.counts.waiting << ",\"dropped\":" << picture.counts.dropped
     << ",\"by_events\":";
  to.quoted(picture.by_events) << "},\"traceEvents\":[";
  Events events(picture, to);
  events.metadata();
  events.slices();
  events.arrows();
  to << "\n]}\n";
  to.close();
}

}  // namespace ember::inline v0::cuda::timeline
