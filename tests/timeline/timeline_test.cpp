// cuda::Timeline: its files, its errors, and what it does where events say when work ran.
#include "ember/timeline/timeline.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "ember/driver/forwarding_driver.h"
#include "ember/driver/kernels.h"
#include "ember/nvtx/nvtx.h"
#include "ember/runtime/event.h"
#include "ember/runtime/work.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/installed.h"
#include "tests/timeline/recorded.h"

namespace ember::cuda {
namespace {

using test::Picture;
using test::Recorded;
using test::Track;
using test::track_with;

/// A file of this process's, which goes with the test. One of an earlier process of that number,
/// whose end came after its test's, goes before.
class File {
 public:
  explicit File(const std::string& ending)
      : path_(testing::TempDir() + "ember-timeline-" + std::to_string(getpid()) + ending) {
    (void)std::remove(path_.c_str());
  }
  ~File() { (void)std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool exists() const { return access(path_.c_str(), F_OK) == 0; }

 private:
  const std::string path_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Timeline, RecordsFromItsConstructionToStop) {
  const Stream stream(0);
  Timeline timeline;
  EXPECT_TRUE(timeline.recording());
  sleep_cycles(10, stream);
  stream.synchronize();
  timeline.stop();
  timeline.stop();
  EXPECT_FALSE(timeline.recording());
  EXPECT_EQ(timeline.summary().slices, 2U);
  sleep_cycles(10, stream);
  stream.synchronize();
  EXPECT_EQ(timeline.summary().slices, 2U);
  timeline.start();
  timeline.start();
  stream.synchronize();
  timeline.stop();
  EXPECT_EQ(timeline.summary().slices, 3U);
  EXPECT_EQ(timeline.summary().str(), "3 slices, 1 arrow");
}

TEST(Timeline, WritesWhatTheEndingSays) {
  const File json(".json");
  const File html(".html");
  Timeline timeline({.file = json.path()});
  sleep_cycles(10);
  synchronize();
  EXPECT_FALSE(json.exists());
  timeline.finish();
  EXPECT_EQ(json.text().find("{\"displayTimeUnit\":\"ns\""), 0U);
  EXPECT_TRUE(has(json.text(), "\"name\":\"sleep\""));
  timeline.save(html.path());
  EXPECT_EQ(html.text().find("<!DOCTYPE html>"), 0U);
  EXPECT_TRUE(has(html.text(), "[\"sleep\",0]"));
  EXPECT_FALSE(has(html.text(), "http://") || has(html.text(), "https://"));
  timeline.save_html(json.path());
  EXPECT_EQ(json.text().find("<!DOCTYPE html>"), 0U) << "written anew, whatever the ending";
}

TEST(Timeline, NamesCannotEndThePagesData) {
  const File html(".html");
  const Timeline timeline;
  const nvtx::Domain domain("</script><b>");
  domain.mark("</script>\"\\\n\x01<!--");
  timeline.save(html.path());
  EXPECT_TRUE(has(html.text(), "\\u003c/script>\\\"\\\\\\u000a\\u0001\\u003c!--"));
}

TEST(Timeline, BadArgumentsAreErrors) {
  EXPECT_ERROR(Timeline({.file = "run.txt"}), ValueError,
               "Timeline: file is 'run.txt', expected a file whose name ends in .json or .html");
  EXPECT_ERROR(Timeline({.limit = 0}), ValueError, "limit is 0");
  EXPECT_ERROR(Timeline({.limit = std::size_t{1} << 32}), ValueError, "limit is 4294967296");
  const Timeline timeline;
  EXPECT_ERROR(timeline.save("run"), ValueError, "file is 'run'");
  EXPECT_ERROR(timeline.save(""), ValueError, "file is ''");
  EXPECT_ERROR(timeline.save("/no/such/folder/run.json"), FileError,
               "'/no/such/folder/run.json' cannot be written: No such file or directory");
  EXPECT_ERROR(timeline.save_html("/"), FileError, "'/' cannot be written");
  EXPECT_ERROR(timeline.save_json("/dev/full"), FileError,
               "'/dev/full' cannot be written: No space");
  EXPECT_ERROR(enable_timeline({}), ValueError, "enable_timeline: file is ''");
}

TEST(Timeline, AForkedChildHasNoPartInIt) {
  IN_CHILD({
    unsetenv("CUDA_VISIBLE_DEVICES");
    simulate(1);
    const File json(".json");
    enable_timeline({.file = json.path()});
    sleep_cycles(10);
    synchronize();
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      nvtx::mark("in the child");
      EXPECT_ERROR(enabled_timeline()->save("child.json"), Error, "is a forked child");
      EXPECT_ERROR((void)enabled_timeline()->summary(), Error, "is a forked child");
      std::exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(json.exists()) << "the child wrote its parent's file";
    nvtx::mark("in the parent");
    enabled_timeline()->finish();
    EXPECT_TRUE(has(json.text(), "in the parent"));
    EXPECT_FALSE(has(json.text(), "in the child"));
  });
}

TEST(Timeline, IsWrittenWhenTheProcessEnds) {
  const File json("-at-exit.json");
  const File other("-at-exit-2.json");
  if (!test::in_child()) setenv("TIMELINE_TEST_FILE", json.path().c_str(), 1);
  IN_CHILD({
    setenv("EMBER_TIMELINE", std::getenv("TIMELINE_TEST_FILE"), 1);
    sleep_cycles(10);
    synchronize();
    EXPECT_NE(enabled_timeline(), nullptr);
    enable_timeline({.file = "/no/such/folder/other.json"});  // does nothing
  });
  if (test::in_child()) return;
  EXPECT_TRUE(has(json.text(), "\"name\":\"sleep\""));
  unsetenv("TIMELINE_TEST_FILE");
}

TEST(Timeline, TheEnvironmentsEndingIsCheckedAtTheFirstUse) {
  IN_CHILD({
    setenv("EMBER_TIMELINE", "run.png", 1);
    EXPECT_ERROR(init(), ValueError,
                 "EMBER_TIMELINE is 'run.png', expected a file whose name ends in .json or .html");
    EXPECT_ERROR(init(), ValueError, "EMBER_TIMELINE is 'run.png'");
    unsetenv("EMBER_TIMELINE");
    init();
  });
}

// ---- Where the driver does not note times itself, as on CUDA

class Untimed : public driver::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;

  std::atomic<int> live{0};       // events
  std::atomic<bool> full{false};  // no more events can be made

 protected:
  Status before(driver::Call call) noexcept override {
    if (call == driver::Call::time_next || call == driver::Call::times_collect)
      return Status(Code::not_supported, "there is no clock");
    if (call == driver::Call::event_create && full) return Code::out_of_memory;
    return {};
  }
  Status after(driver::Call call, Status status) noexcept override {
    if (status.ok() && call == driver::Call::event_create) ++live;
    if (status.ok() && call == driver::Call::event_destroy) --live;
    return status;
  }
};

TEST(TimelineByEvents, EventsStandAroundTheWork) {
  IN_CHILD({
    Untimed& driver = test::installed<Untimed>();
    const Stream a(0);
    const Stream b(0);
    sleep_cycles(1, a);
    synchronize(0);
    const Recorded recorded(100'000);
    sleep_cycles(8'000'000, a);
    b.wait_stream(a);
    sleep_cycles(10, b);
    synchronize(0);
    Picture picture = recorded.picture();
    ASSERT_EQ(picture.counts.slices, 3U);
    EXPECT_EQ(picture.counts.dropped, 0U);
    EXPECT_EQ(test::arrows_of(picture), (std::vector<std::string>{"sleep -> sleep"}));
    const auto& from = picture.tracks[picture.arrows[0].from_track].slices[0];
    const auto& to = picture.tracks[picture.arrows[0].to_track].slices[0];
    EXPECT_GE(from.end - from.begin, 4'000'000);
    EXPECT_LE(from.end, to.begin + 1000);  // what is a float of milliseconds is rounded
    // Events are used again.
    for (int i = 0; i < 2000; ++i) {
      sleep_cycles(1, i % 2 == 0 ? a : b);
      if (i % 50 == 0) synchronize(0);
    }
    synchronize(0);
    picture = recorded.picture();
    EXPECT_EQ(picture.counts.dropped + picture.counts.waiting, 0U);
    EXPECT_EQ(picture.counts.slices, 3 + 2000 + 40 + 1U);
    EXPECT_LT(driver.live, 300);
  });
}

TEST(TimelineByEvents, IsSaidWithTheReason) {
  const File json(".json");
  if (!test::in_child()) setenv("TIMELINE_TEST_FILE", json.path().c_str(), 1);
  IN_CHILD({
    (void)test::installed<Untimed>();
    Timeline timeline;
    sleep_cycles(10);
    synchronize();
    EXPECT_EQ(timeline.summary().by_events, "there is no clock");
    EXPECT_EQ(timeline.summary().str(), "2 slices, 0 arrows; times by events: there is no clock");
    timeline.save_json(std::getenv("TIMELINE_TEST_FILE"));
  });
  if (test::in_child()) return;
  unsetenv("TIMELINE_TEST_FILE");
  EXPECT_TRUE(has(json.text(), "\"by_events\":\"there is no clock\""));
}

TEST(TimelineByEvents, WithoutEventsWorkIsNotTimed) {
  IN_CHILD({
    Untimed& driver = test::installed<Untimed>();
    const Stream stream(0);
    const Recorded recorded;
    driver.full = true;
    sleep_cycles(10, stream);
    stream.synchronize();
    EXPECT_EQ(recorded.picture().counts.dropped, 1U);
    driver.full = false;
    sleep_cycles(10, stream);
    stream.synchronize();
    EXPECT_EQ(recorded.picture().counts.dropped, 1U);
    EXPECT_EQ(track_with(recorded.picture(), 0, "sleep").slices.size(), 1U);
  });
}

TEST(TimelineByEvents, FaultsAndResetsDropWhatWasInFlight) {
  IN_CHILD({
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("EMBER_DEVICES", "sim:1", 1);  // a real device's fault ends it for the process
    (void)test::installed<Untimed>();
    const Stream stream(0);
    const Recorded recorded;
    sleep_cycles(10, stream);
    stream.synchronize();
    EXPECT_EQ(recorded.picture().counts.slices, 2U);
    launch(stream, "bad", {}, [](const HostLaunch&) { return Status(Code::illegal_address); });
    EXPECT_THROW(stream.synchronize(), AcceleratorError);
    EXPECT_THROW(sleep_cycles(10, stream), AcceleratorError);
    EXPECT_EQ(recorded.picture().counts.dropped, 1U);
    reset_device(0);
    const Stream fresh(0);
    sleep_cycles(10, fresh);
    fresh.synchronize();
    const Picture picture = recorded.picture();
    EXPECT_EQ(picture.counts.dropped, 1U);
    EXPECT_EQ(picture.counts.waiting, 0U);
    std::size_t sleeps = 0;
    for (const Track& track : picture.tracks) sleeps += track.device == 0 ? track.slices.size() : 0;
    EXPECT_EQ(sleeps, 2U);
  });
}

}  // namespace
}  // namespace ember::cuda
