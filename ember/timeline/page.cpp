// One page with its data in it. What it looks like is in page.html and page.js, which the build
// makes texts of.
#include <cstdint>
#include <string_view>
#include <vector>

#include "ember/timeline/text_file.h"
#include "ember/timeline/write.h"

namespace ember::inline v0::cuda::timeline {
namespace {

constexpr std::string_view kPage =
#include "ember/timeline/page_text.inc"
    ;
constexpr std::string_view kScript =
#include "ember/timeline/script_text.inc"
    ;

/// A column of numbers; `number(slice, before)` for each slice and the one before it.
template <class Number>
void put_column(TextFile& to, const char* name, const Track& track, const Number& number) {
  static constexpr Slice kZero;
  to << ",\"" << name << "\":[";
  const Slice* before = &kZero;
  for (const Slice& slice : track.slices) {
    if (before != &kZero) to << ",";
    to << number(slice, *before);
    before = &slice;
  }
  to << "]";
}

template <class Test>
void put_flagged(TextFile& to, const char* name, const Track& track, const Test& test) {
  to << ",\"" << name << "\":[";
  const char* comma = "";
  for (std::size_t i = 0; i < track.slices.size(); ++i) {
    if (!test(track.slices[i])) continue;
    to << comma << i;
    comma = ",";
  }
  to << "]";
}

/// Columns, since most of them are small numbers: times as the distance from the begin before,
/// names and kinds as one number in a table of labels.
void put_data(TextFile& to, const Picture& picture) {
  constexpr std::size_t kKinds = std::size(kSliceKinds);
  std::vector<std::int64_t> labels(picture.names.size() * kKinds, -1);
  const auto key = [](const Slice& slice) {
    return slice.name * kKinds + static_cast<std::size_t>(slice.kind);
  };
  to << "{\"kinds\":[";
  for (std::size_t i = 0; i < kKinds; ++i) (to << (i == 0 ? "" : ",")).quoted(kSliceKinds[i]);
  to << "],\"labels\":[";
  std::int64_t known = 0;
  for (const Track& track : picture.tracks)
    for (const Slice& slice : track.slices) {
      if (labels[key(slice)] >= 0) continue;
      to << (known == 0 ? "[" : ",[");
      to.quoted(picture.names[slice.name]) << "," << static_cast<int>(slice.kind) << "]";
      labels[key(slice)] = known++;
    }
  to << "],\"tracks\":[";
  const char* comma = "";
  for (const Track& track : picture.tracks) {
    to << comma << "\n{\"device\":" << track.device << ",\"name\":";
    to.quoted(track.name);
    put_column(to, "begin", track,
               [](const Slice& slice, const Slice& before) { return slice.begin - before.begin; });
    put_column(to, "length", track,
               [](const Slice& slice, const Slice&) { return slice.end - slice.begin; });
    put_column(to, "label", track,
               [&](const Slice& slice, const Slice&) { return labels[key(slice)]; });
    if (track.device >= 0) {
      put_column(to, "bytes", track, [](const Slice& slice, const Slice&) { return slice.bytes; });
      put_column(to, "delay", track,
                 [](const Slice& slice, const Slice&) { return slice.begin - slice.queued; });
    }
    put_flagged(to, "unfinished", track, [](const Slice& slice) { return slice.unfinished; });
    put_flagged(to, "faulted", track, [](const Slice& slice) { return slice.faulted; });
    to << "}";
    comma = ",";
  }
  to << "],\n\"arrows\":[";
  comma = "";
  for (const Arrow& arrow : picture.arrows) {
    to << comma << arrow.from_track << "," << arrow.from << "," << arrow.to_track << ","
       << arrow.to;
    comma = ",";
  }
  to << "],\n\"counts\":{\"slices\":" << picture.counts.slices
     << ",\"arrows\":" << picture.counts.arrows << ",\"over\":" << picture.counts.over
     << ",\"waiting\":" << picture.counts.waiting << ",\"dropped\":" << picture.counts.dropped
     << "},\n\"by_events\":";
  to.quoted(picture.by_events) << "}\n";
}

}  // namespace

void write_html(const Picture& picture, const std::string& file) {
  constexpr std::string_view kData = "<!-- data -->";
  constexpr std::string_view kCode = "<!-- script -->";
  constexpr std::size_t data = kPage.find(kData);
  constexpr std::size_t code = kPage.find(kCode);
  static_assert(data != std::string_view::npos && code != std::string_view::npos && data < code);
  TextFile to(file);
  to << kPage.substr(0, data);
  put_data(to, picture);
  to << kPage.substr(data + kData.size(), code - data - kData.size()) << kScript
     << kPage.substr(code + kCode.size());
  to.close();
}

}  // namespace ember::inline v0::cuda::timeline
