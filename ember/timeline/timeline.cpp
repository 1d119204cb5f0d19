#include "ember/timeline/timeline.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/timing.h"
#include "ember/timeline/recording.h"
#include "ember/timeline/write.h"

namespace ember::inline v0::cuda {

std::string TimelineSummary::str() const {
  std::string text = std::to_string(slices) + (slices == 1 ? " slice, " : " slices, ") +
                     std::to_string(arrows) + (arrows == 1 ? " arrow" : " arrows");
  const char* before = "; ";
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count == 0) return;
    text.append(before).append(std::to_string(count)).append(what);
    before = ", ";
  };
  add(over_limit, " beyond the limit");
  add(not_begun, " not begun");
  add(dropped, " dropped or not timed");
  if (!by_events.empty()) text.append("; times by events: ").append(by_events);
  return text;
}

class Timeline::Recorder final : public Observer {
 public:
  explicit Recorder(TimelineOptions options)
      : options_(checked(std::move(options))), recording_(options_.limit) {}
  ~Recorder() override { remove_observer(*this); }

  bool wants_times() const noexcept override { return true; }
  void notice(const Activity& activity) noexcept override {
    if (getpid() != process_) return;  // the lock may be that of a thread that did not come along
    const MutexLock lock(mutex_);
    recording_.observe(activity);
  }

  void start() {
    const MutexLock lock(switching_);
    if (on_) return;
    {
      const MutexLock within(mutex_);
      recording_.begin(detail::now());
    }
    add_observer(*this);
    on_ = true;
  }
  void stop() {
    const MutexLock lock(switching_);
    if (!std::exchange(on_, false)) return;
    remove_observer(*this);
    const MutexLock within(mutex_);
    recording_.end(detail::now());
  }
  bool on() const {
    const MutexLock lock(switching_);
    return on_;
  }
  timeline::Picture picture() const {
    std::string by_events = detail::collect_times();
    const MutexLock lock(mutex_);
    timeline::Picture made = recording_.picture(detail::now());
    made.by_events = std::move(by_events);
    return made;
  }
  /// Error in a forked child.
  void check_process() const {
    if (getpid() != process_)
      throw Error("Timeline: it belongs to process " + std::to_string(process_) +
                  ", of which this one is a forked child");
  }
  const TimelineOptions& options() const noexcept { return options_; }

 private:
  static TimelineOptions checked(TimelineOptions options) {
    if (!options.file.empty()) (void)timeline::format_of(options.file, "Timeline: file");
    if (options.limit == 0 || options.limit >= UINT32_MAX)
      throw ValueError("Timeline: limit is " + std::to_string(options.limit) +
                       ", expected a number of slices from 1 to 4294967294");
    return options;
  }

  const TimelineOptions options_;
  const pid_t process_ = getpid();
  mutable Mutex switching_;  // held while the list of observers changes
  bool on_ EMBER_GUARDED_BY(switching_) = false;
  mutable Mutex mutex_;
  timeline::Recording recording_ EMBER_GUARDED_BY(mutex_);
};

Timeline::Timeline(TimelineOptions options)
    : recorder_(std::make_unique<Recorder>(std::move(options))) {
  recorder_->start();
}
Timeline::~Timeline() = default;

void Timeline::start() {
  recorder_->check_process();
  recorder_->start();
}
void Timeline::stop() {
  recorder_->check_process();
  recorder_->stop();
}
bool Timeline::recording() const {
  recorder_->check_process();
  return recorder_->on();
}
void Timeline::finish() {
  stop();
  if (!recorder_->options().file.empty()) save(recorder_->options().file);
}

TimelineSummary Timeline::summary() const {
  recorder_->check_process();
  timeline::Picture picture = recorder_->picture();
  const timeline::Counts& counts = picture.counts;
  return {counts.slices,  counts.arrows,  counts.over,
          counts.waiting, counts.dropped, std::move(picture.by_events)};
}

void Timeline::save(const std::string& file) const {
  switch (timeline::format_of(file, "Timeline: file")) {
    case timeline::Format::json: return save_json(file);
    case timeline::Format::html: return save_html(file);
  }
}
void Timeline::save_json(const std::string& file) const {
  recorder_->check_process();
  timeline::write_json(recorder_->picture(), file);
}
void Timeline::save_html(const std::string& file) const {
  recorder_->check_process();
  timeline::write_html(recorder_->picture(), file);
}

// ---- For the whole process

namespace {

std::atomic<Timeline*> the_timeline{nullptr};
constinit Mutex enabling_timeline;
pid_t timeline_process = 0;

void write_at_exit() noexcept {
  if (getpid() != timeline_process) return;
  try {
    the_timeline.load()->finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ember: EMBER_TIMELINE: %s\n", error.what());
  }
}

}  // namespace

void detail::record_as_asked() {
  std::string file = env::get("EMBER_TIMELINE").value_or("");
  if (file.empty() || enabled_timeline() != nullptr) return;
  (void)timeline::format_of(file, "EMBER_TIMELINE");
  // The processes of a program have the same environment.
  if (const std::size_t at = file.find("%p"); at != std::string::npos)
    file.replace(at, 2, std::to_string(getpid()));
  enable_timeline({.file = file});
}

void enable_timeline(TimelineOptions options) {
  if (options.file.empty())
    throw ValueError(
        "enable_timeline: file is '', expected a file whose name ends in .json or "
        ".html");
  const MutexLock lock(enabling_timeline);
  if (the_timeline.load() != nullptr) return;
  // Never destroyed: threads may report until the process ends.
  the_timeline = new Timeline(std::move(options));
  timeline_process = getpid();
  // What is registered last is called first, and a driver's own end must come later.
  if (driver_if_made() != nullptr)
    (void)std::atexit(&write_at_exit);
  else
    on_initialized([] { (void)std::atexit(&write_at_exit); });
}

Timeline* enabled_timeline() noexcept { return the_timeline.load(); }

}  // namespace ember::inline v0::cuda
