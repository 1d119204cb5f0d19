// A recorder of timelines: what devices and the host did, and when, to be looked at in a browser.
// docs/timeline.md is the guide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

struct TimelineOptions {
  /// Where finish() writes it: as JSON or as a page, as the ending .json or .html says. Empty:
  /// nowhere.
  std::string file = {};
  /// How many slices are kept at most, and how many arrows. What comes after that is counted. A
  /// slice takes some 130 bytes.
  std::size_t limit = 1'000'000;
};

/// What is in a timeline, and what is not. Plain data.
struct TimelineSummary {
  std::uint64_t slices = 0;      ///< work, waits, ranges and marks
  std::uint64_t arrows = 0;      ///< from what was waited for to what waited
  std::uint64_t over_limit = 0;  ///< slices and arrows that came after the limit was reached
  std::uint64_t not_begun = 0;   ///< work that was enqueued and has not begun
  std::uint64_t dropped = 0;     ///< work that a fault or a reset dropped, or that was not timed
  /// Why the times of a real device's work are those of two events around it, about a microsecond
  /// too wide; empty if they are the work's own.
  std::string by_events = {};
  /// "120 slices, 8 arrows; 3 not begun", with what is not zero.
  EMBER_API std::string str() const;
};

/// Records from its construction until stop():
///
///     ember::cuda::Timeline timeline;
///     run();
///     ember::cuda::synchronize();
///     timeline.stop();
///     timeline.save_html("run.html");
///
/// A track for each stream and each thread of the host; kernels, copies, fills and host functions
/// with the time at which they ran, waits of the host, NVTX ranges and marks; arrows from the work
/// that an event stands for to the work that waited for it. Simulated devices note exactly when
/// work began and ended, on the clock of the run where a seed decides. On real devices CUPTI knows
/// it; where that is missing or another tool's, two timed events stand around each operation, and
/// the summary, the page and the JSON say why.
///
/// Several may record at once, and beside other observers. Members are thread-safe. In a forked
/// child nothing is recorded, and members are an Error.
class EMBER_API Timeline {
 public:
  /// ValueError if the file's name has another ending, or the limit is 0 or above 2^32 - 2. May
  /// wait for a thread that is telling an observer something.
  explicit Timeline(TimelineOptions options = {});
  /// Stops, and writes nothing. Work in flight goes on.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Records again, into the same timeline, after stop(); nothing while it records.
  void start();
  /// Records no more; nothing if it does not. Does not wait for devices: what they finish
  /// later is in what is saved later. May wait as the constructor does.
  void stop();
  bool recording() const;
  /// stop(), and writes the timeline to the file of the options, if there is one. Error if that
  /// fails.
  void finish();

  /// What there is so far.
  TimelineSummary summary() const;
  /// Writes what there is so far to a file, anew; what runs at the moment is marked as unfinished.
  /// As its ending says: .json or .html, ValueError for another one. FileError if it cannot be
  /// written.
  void save(const std::string& file) const;
  /// In the trace event format, for Perfetto and chrome://tracing, whatever the ending.
  void save_json(const std::string& file) const;
  /// As a page that any browser opens, without a network, whatever the ending.
  void save_html(const std::string& file) const;

 private:
  class Recorder;
  std::unique_ptr<Recorder> recorder_;
};

/// Records from now on, and writes the timeline to `options.file` when the process ends by itself
/// (exit(), or the end of main()), as EMBER_TIMELINE does from the first use of a device. Does
/// nothing if that is so already. ValueError as the constructor, and if there is no file.
EMBER_API void enable_timeline(TimelineOptions options);
/// The timeline of enable_timeline(); null before.
EMBER_API Timeline* enabled_timeline() noexcept;

}  // namespace ember::inline v0::cuda
