// ember.cuda.Timeline: the recorder of timelines.
#include "ember/timeline/timeline.h"

#include <string>
#include <utility>

#include "define.h"

namespace ember::python {

void bind_timeline(nb::module_& cuda) {
  using cuda::Timeline;

  nb::class_<cuda::TimelineSummary> summary(cuda, "TimelineSummary",
                                            "What is in a timeline, and what is not.");
  summary.def_ro("slices", &cuda::TimelineSummary::slices, "Work, waits, ranges and marks.");
  summary.def_ro("arrows", &cuda::TimelineSummary::arrows,
                 "From what was waited for to what waited.");
  summary.def_ro("over_limit", &cuda::TimelineSummary::over_limit,
                 "Slices and arrows that came after the limit was reached.");
  summary.def_ro("not_begun", &cuda::TimelineSummary::not_begun,
                 "Work that was enqueued and has not begun.");
  summary.def_ro("dropped", &cuda::TimelineSummary::dropped,
                 "Work that a fault or a reset dropped, or that was not timed.");
  summary.def_ro("by_events", &cuda::TimelineSummary::by_events,
                 "Why the times of a real device's work are those of two events around it, about a "
                 "microsecond too wide; empty if they are the work's own.");
  summary.def("__str__", &cuda::TimelineSummary::str);

  nb::class_<Timeline> timeline(
      cuda, "Timeline",
      "Records what devices and the host do, and when, from its construction until stop(), or the "
      "end of a with block, where it is written to `file`, if one is given, as the ending says: "
      ".json (trace events, for Perfetto) or .html (a page for any browser). It does not wait for "
      "devices: synchronize() before, for what is still running. At most `limit` slices and "
      "arrows are kept, and others counted.");
  timeline.def(
      "__init__",
      [](Timeline* self, const std::optional<FileName>& file, std::size_t limit) {
        cuda::TimelineOptions options{.file = file ? file->path : "", .limit = limit};
        unlocked([&] { new (self) Timeline(std::move(options)); });
      },
      nb::arg("file") = nb::none(), nb::arg("limit") = cuda::TimelineOptions().limit);
  timeline.def(
      "start", [](Timeline& self) { unlocked([&] { self.start(); }); },
      "Records again, into the same timeline, after stop().");
  timeline.def(
      "stop", [](Timeline& self) { unlocked([&] { self.stop(); }); }, "Records no more.");
  timeline.def(
      "finish", [](Timeline& self) { unlocked([&] { self.finish(); }); },
      "stop(), and writes it to the file that it was made with, if there is one.");
  timeline.def_prop_ro("recording", &Timeline::recording, "Whether it records.");
  timeline.def(
      "summary", [](const Timeline& self) { return unlocked([&] { return self.summary(); }); },
      "What there is so far.");
  const auto define_save = [&](const char* name, auto save, const char* doc) {
    timeline.def(
        name,
        [save](const Timeline& self, const FileName& file) {
          unlocked([&] { (self.*save)(file.path); });
        },
        nb::arg("file"), doc);
  };
  define_save("save", &Timeline::save,
              "Writes what there is so far, as its ending says: .json (trace events, for Perfetto) "
              "or .html.");
  define_save("save_json", &Timeline::save_json,
              "Writes what there is so far as trace events, whatever the ending.");
  define_save("save_html", &Timeline::save_html,
              "Writes what there is so far as a page, whatever the ending.");
  timeline.def(
      "__enter__", [](nb::object self) { return self; },
      nb::sig("def __enter__(self) -> Timeline"));
  define_exit(timeline, [](Timeline& self) { unlocked([&] { self.finish(); }); });
}

}  // namespace ember::python
