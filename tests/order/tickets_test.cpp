// What observers learn of enqueued work: its number in its queue, and the task that the log names.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ember/driver/simulation.h"
#include "ember/graphs/graph.h"
#include "ember/memory/memory.h"
#include "ember/runtime/event.h"
#include "tests/order/program.h"

namespace ember {
namespace {

using cuda::Activity;
using cuda::Event;
using cuda::Stream;

struct Told {
  Activity::Kind kind;
  const void* stream;
  std::uint64_t ticket, task, point;
  std::uint32_t number;
  std::string name;
};

class Keep final : public cuda::Observer {
 public:
  Keep() { cuda::add_observer(*this); }
  Keep(const Keep&) = delete;
  Keep& operator=(const Keep&) = delete;
  ~Keep() override { cuda::remove_observer(*this); }
  void notice(const Activity& activity) noexcept override {
    if (activity.kind == Activity::Kind::kernel_launched ||
        activity.kind == Activity::Kind::copied || activity.kind == Activity::Kind::filled ||
        activity.kind == Activity::Kind::host_function_queued ||
        activity.kind == Activity::Kind::event_recorded ||
        activity.kind == Activity::Kind::event_waited)
      told.push_back({activity.kind, activity.stream, activity.ticket, activity.run_task,
                      activity.run_point, activity.run_stream,
                      activity.name != nullptr ? activity.name : ""});
  }
  std::vector<Told> told;
};

/// Work of every kind on two streams.
void work(std::uint32_t* data) {
  const Stream a(0), b(0);
  Event timed(true), plain;
  std::uint32_t value = 0;
  for (int i = 0; i < 3; ++i) {
    cuda::fill_async(data, 0, 4, a);
    timed.record(a);
    plain.record(a);
    plain.wait(b);
    cuda::launch(b, test::nop_kernel, test::NopArgs{});
    cuda::host_function([] {}, b);
    cuda::copy_async(&value, data, 4, a);  // waits, and other tasks run meanwhile
    cuda::copy_async(&value, data, 0, a);  // nothing
    cuda::launch(a, test::nop_kernel, test::NopArgs{});
  }
  cuda::synchronize(0);
}

TEST(Tickets, NameTheTasksOfTheLog) {
  const test::Words<std::uint32_t> word(1);
  for (const char* schedule : {"random:1", "random:2", "pct:3:2", "steps:"}) {
    sim::begin_run(schedule);
    Keep keep;
    work(word.get());
    const std::string log = sim::log();
    std::map<const void*, std::uint64_t> last, last_task;
    std::size_t tasks = 0;
    for (const Told& one : keep.told) {
      if (one.ticket == 0) {  // nothing was enqueued
        EXPECT_EQ(one.number, 0u);
        EXPECT_EQ(one.task, 0u);
        continue;
      }
      EXPECT_GT(one.ticket, last[one.stream]);
      last[one.stream] = one.ticket;
      EXPECT_GE(one.point, 1u);
      if (one.kind == Activity::Kind::event_waited) {
        EXPECT_EQ(one.task, 0u);
        continue;
      }
      EXPECT_EQ(one.task, ++last_task[one.stream]);
      ++tasks;
      const std::string name =
          " s" + std::to_string(one.number) + "." + std::to_string(one.task) + " ";
      const std::size_t at = log.find(name);
      ASSERT_NE(at, std::string::npos) << name << "\n" << log;
      const std::string shown = log.substr(at + name.size(), log.find('\n', at) - at - name.size());
      switch (one.kind) {
        case Activity::Kind::filled: EXPECT_EQ(shown, "fill"); break;
        case Activity::Kind::copied: EXPECT_EQ(shown, "copy"); break;
        case Activity::Kind::event_recorded: EXPECT_EQ(shown, "event record"); break;
        case Activity::Kind::host_function_queued: EXPECT_EQ(shown, "host function"); break;
        default: EXPECT_EQ(shown, one.name); break;
      }
    }
    EXPECT_EQ(tasks, 18u);
    EXPECT_EQ(last_task.size(), 2u);
  }
  sim::begin_run("random:0");
}

TEST(Tickets, NameTheTasksOfReplays) {
  NEEDS_CACHING();
  const test::Words<std::uint32_t> word(1);
  const char* const kNames[] = {"fill", "nop", "host function", "nop"};
  for (const char* schedule : {"random:1", "random:2", "steps:"}) {
    sim::begin_run(schedule);
    const Stream a(0), b(0);
    cuda::CUDAGraph step;
    {
      cuda::GraphCapture capture = cuda::graph(step, {}, a);
      cuda::fill_async(word.get(), 0, 4, a);
      b.wait_stream(a);
      cuda::launch(b, test::nop_kernel, test::NopArgs{});
      cuda::host_function([] {}, a);
      a.wait_stream(b);
      cuda::launch(a, test::nop_kernel, test::NopArgs{});
      capture.end();
    }
    Keep keep;
    const cuda::StreamGuard on(a);
    for (int i = 0; i < 2; ++i) {
      cuda::launch(a, test::nop_kernel, test::NopArgs{});
      step.replay();
    }
    cuda::synchronize(0);
    const std::string log = sim::log();
    std::map<const void*, std::uint64_t> last, last_task;
    std::size_t named = 0, ends = 0;
    for (const Told& one : keep.told) {
      if (one.kind == Activity::Kind::event_waited) continue;
      if (one.kind == Activity::Kind::event_recorded) {
        if (one.ticket == 0) continue;  // in the capture
        ++ends;
        EXPECT_EQ(one.stream, a.native());
        EXPECT_GE(one.ticket, last[one.stream]) << "behind a wait for the other branch";
        continue;
      }
      EXPECT_GT(one.ticket, last[one.stream]);
      last[one.stream] = one.ticket;
      EXPECT_GE(one.point, 1u);
      EXPECT_EQ(one.task, ++last_task[one.stream]);
      const char* const expected = named % 5 == 0 ? "nop" : kNames[named % 5 - 1];
      ++named;
      const std::string line = " s" + std::to_string(one.number) + "." + std::to_string(one.task) +
                               " " + expected + "\n";
      EXPECT_NE(log.find(line), std::string::npos) << line << log;
    }
    EXPECT_EQ(named, 10u);
    EXPECT_EQ(ends, 2u);
    EXPECT_EQ(last_task.size(), 2u);
  }
  sim::begin_run("random:0");
}

TEST(Steps, MakeARunOfASeedAgain) {
  const test::Words<std::uint32_t> word(1);
  for (int seed = 0; seed < 50; ++seed) {
    sim::begin_run("random:" + std::to_string(seed));
    work(word.get());
    const driver::Progress recorded = driver::simulated_progress();
    ASSERT_EQ(recorded.ran.size(), 18u);
    sim::begin_run("steps:" + driver::steps_text(recorded.ran));
    work(word.get());
    const driver::Progress again = driver::simulated_progress();
    EXPECT_EQ(again.ran, recorded.ran) << seed;
    EXPECT_EQ(again.unfollowed, 0u);
    EXPECT_EQ(again.points, recorded.points);
  }
  sim::begin_run("random:0");
}

TEST(Steps, ComeFromAFile) {
  const std::string file = testing::TempDir() + "ember_steps.txt";
  std::FILE* const out = std::fopen(file.c_str(), "wbe");
  ASSERT_NE(out, nullptr);
  std::fputs("# two tasks\n3:s2.1 nop\n3:s1.1\n", out);
  ASSERT_EQ(std::fclose(out), 0);
  sim::begin_run("steps:@" + file);
  const Stream a(0), b(0);
  for (const Stream* stream : {&a, &b, &a})
    cuda::launch(*stream, test::nop_kernel, test::NopArgs{});
  const driver::Progress progress = driver::simulated_progress();
  EXPECT_EQ(progress.ran, (std::vector<driver::Step>{{3, 2, 1}, {3, 1, 1}}));
  EXPECT_EQ(sim::replay_line().find("EMBER_SIM_SCHEDULE=steps:@" + file), 0u);
  std::remove(file.c_str());
  EXPECT_ERROR(sim::begin_run("steps:@" + file), ValueError, file);
  sim::begin_run("random:0");
}

}  // namespace
}  // namespace ember
