// ember.cuda.Timeline: the recorder of timelines.
#include "ember/timeline/timeline.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>

#include <filesystem>
#include <optional>

#include "define.h"

namespace ember::python {

void bind_timeline(nb::module_& cuda) {
  using cuda::Timeline;
  using Path = std::filesystem::path;
  constexpr auto kKinds = "as its ending says: .json (trace events, for Perfetto) or .html";

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
      [](Timeline* self, const std::optional<Path>& file, std::size_t limit) {
        unlocked(
            [&] { new (self) Timeline({.file = file ? file->string() : "", .limit = limit}); });
      },
      nb::arg("file") = nb::none(), nb::arg("limit") = cuda::TimelineOptions().limit,
      nb::sig(
          "def __init__(self, file: str | os.PathLike[str] | None = None, limit: int = 1000000) "
          "-> None"));
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
  timeline.def(
      "save",
      [](const Timeline& self, const Path& file) { unlocked([&] { self.save(file.string()); }); },
      nb::arg("file"), (std::string("Writes what there is so far, ") + kKinds + ".").c_str());
  timeline.def(
      "save_json",
      [](const Timeline& self, const Path& file) {
        unlocked([&] { self.save_json(file.string()); });
      },
      nb::arg("file"), "Writes what there is so far as trace events, whatever the ending.");
  timeline.def(
      "save_html",
      [](const Timeline& self, const Path& file) {
        unlocked([&] { self.save_html(file.string()); });
      },
      nb::arg("file"), "Writes what there is so far as a page, whatever the ending.");
  timeline.def(
      "__enter__", [](nb::object self) { return self; },
      nb::sig("def __enter__(self) -> Timeline"));
  define_exit(timeline, [](Timeline& self) { unlocked([&] { self.finish(); }); });
}

}  // namespace ember::python
