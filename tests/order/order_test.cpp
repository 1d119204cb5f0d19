// What a seed decides, in one process. The suite runs with EMBER_SIM_SCHEDULE=random:0.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "ember/memory/memory.h"
#include "tests/order/program.h"

namespace ember {
namespace {

using cuda::Event;
using cuda::Stream;
using test::add_then_multiply;

constexpr std::uint32_t kRight = 420;

std::vector<Stream> some_streams(int count) {
  std::vector<Stream> made;
  for (int i = 0; i < count; ++i) made.emplace_back(0);
  return made;
}

TEST(Seed, ShowsAWaitThatIsMissing) {
  const test::Words<std::uint32_t> value(1);
  const Stream adds;
  const Stream multiplies;
  for (const char* kind : {"random:", "pct:"}) {
    int wrong = 0;
    for (int seed = 0; seed < 100; ++seed) {
      const std::string text = kind + std::to_string(seed) + (kind[0] == 'p' ? ":2" : "");
      sim::begin_run(text);
      if (add_then_multiply(false, adds, multiplies, value) != kRight) ++wrong;
      sim::begin_run(text);
      EXPECT_EQ(add_then_multiply(true, adds, multiplies, value), kRight) << text;
    }
    EXPECT_GE(wrong, 10) << kind;
    EXPECT_LE(wrong, 90) << kind;
  }
  sim::begin_run("random:0");
}

TEST(Replay, RepeatsAWrongResultAHundredTimes) {
  const test::Words<std::uint32_t> value(1);
  const Stream adds;
  const Stream multiplies;
  std::uint64_t seed = 0;
  do {
    sim::begin_run(++seed);
    ASSERT_LT(seed, 100u);
  } while (add_then_multiply(false, adds, multiplies, value) == kRight);
  const std::string log = sim::log();
  const std::string file = testing::TempDir() + "ember_order_wrong.log";
  sim::save_log(file);
  for (int i = 0; i < 100; ++i) {
    sim::begin_run("replay:" + file);
    EXPECT_NE(add_then_multiply(false, adds, multiplies, value), kRight);
    EXPECT_EQ(sim::log(), log);
  }
  sim::begin_run("random:0");
  std::remove(file.c_str());
}

TEST(Seed, OfAThousandNineHundredOrdersDiffer) {
  const test::Words<std::uint32_t> log(64);
  const std::vector<Stream> streams = some_streams(3);  // 5 tasks each: 756,756 orders
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    sim::begin_run(seed);
    orders.insert(test::order_of(streams, 5, log));
  }
  RecordProperty("orders", static_cast<int>(orders.size()));
  EXPECT_GE(orders.size(), 900u);
}

TEST(Seed, TakesOneOrderHoweverOftenItRuns) {
  const test::Words<std::uint32_t> log(64);
  const std::vector<Stream> streams = some_streams(3);
  for (const std::string text : {"random:5", "pct:5:3"}) {
    sim::begin_run(text);
    const std::vector<std::uint32_t> order = test::order_of(streams, 5, log);
    const std::string decisions = sim::log();
    for (int i = 0; i < 20; ++i) {
      sim::begin_run(text);
      EXPECT_EQ(test::order_of(streams, 5, log), order) << text;
      // The second run of pct knows how many steps there are, and says so.
      if (text[0] == 'r') {
        EXPECT_EQ(sim::log(), decisions);
      }
    }
  }
  sim::begin_run("random:0");
}

// A depth of 1 has no change of priorities: each stream is worked off before a less urgent one,
// unless that was there alone.
TEST(Pct, MeetsABugOfDepthTwoAsOftenAsItPromises) {
  const test::Words<std::uint32_t> value(1);
  const Stream adds;
  const Stream multiplies;
  constexpr int kRuns = 1000;
  int wrong = 0;
  for (int seed = 0; seed < kRuns; ++seed) {
    sim::begin_run("pct:" + std::to_string(seed) + ":1");
    if (add_then_multiply(false, adds, multiplies, value) != kRight) ++wrong;
  }
  // One ordering among three chains: 1/3, less what chance does to 1,000 runs.
  EXPECT_GE(wrong, kRuns / 3 - 60);
  const std::string log = sim::log();
  EXPECT_NE(log.find("n = "), std::string::npos) << log;
  EXPECT_NE(log.find("d = 1"), std::string::npos) << log;
  sim::begin_run("random:0");
}

TEST(Query, SaysNotDoneOnceWhereTheHostCannotKnow) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    sim::begin_run(seed);
    const Stream stream;
    Event event;
    cuda::launch(stream, test::nop_kernel, test::NopArgs{});
    event.record(stream);
    EXPECT_FALSE(event.query());
    int more = 0;
    while (!event.query()) ASSERT_LT(++more, 100);
    EXPECT_TRUE(stream.query()) << "the event has told";
  }
}

TEST(Query, SaysDoneWhereTheHostHasWaited) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    sim::begin_run(seed);
    const Stream first;
    const Stream second;
    Event event;
    cuda::launch(first, test::nop_kernel, test::NopArgs{});
    event.record(first);
    event.wait(second);
    cuda::launch(second, test::nop_kernel, test::NopArgs{});
    second.synchronize();
    EXPECT_TRUE(event.query()) << "the second stream has waited for it";
    EXPECT_TRUE(first.query());
  }
}

TEST(Clock, IsTheRunsOwn) {
  std::set<float> times;
  for (int i = 0; i < 5; ++i) {
    sim::begin_run(7);
    const Stream stream;
    Event begin(true);
    Event end(true);
    begin.record(stream);
    for (int k = 0; k < 10; ++k) cuda::launch(stream, test::nop_kernel, test::NopArgs{});
    end.record(stream);
    end.synchronize();
    times.insert(begin.elapsed_time(end));
  }
  EXPECT_EQ(times.size(), 1u);
  EXPECT_GT(*times.begin(), 0.01F);
}

TEST(HostFunction, MaySubmitWorkWithoutEnd) {
  for (const std::string text : {"random:3", "pct:3:2"}) {
    sim::begin_run(text);
    const Stream stream;
    int left = 100'000;  // as deep as that on the stack, it would end the process
    std::function<void()> again = [&] {
      if (--left > 0) cuda::host_function(again, stream);
    };
    cuda::host_function(again, stream);
    while (left > 0) stream.synchronize();
    EXPECT_EQ(left, 0);
  }
  sim::begin_run("random:0");
}

TEST(Pct, LetsTheHostGoOnBesideWorkWithoutEnd) {
  for (int seed = 0; seed < 6; ++seed) {
    sim::begin_run("pct:" + std::to_string(seed) + ":1");
    const Stream endless;
    const Stream other;
    std::atomic<bool> stop{false};
    std::function<void()> again = [&] {
      if (!stop) cuda::host_function(again, endless);
    };
    cuda::host_function(again, endless);
    cuda::launch(other, test::nop_kernel, test::NopArgs{});
    other.synchronize();
    stop = true;
    endless.synchronize();
  }
  sim::begin_run("random:0");
}

TEST(Threads, AreSafeAndNoted) {
  sim::begin_run(1);
  const test::Words<std::uint32_t> counts(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Stream stream;
      for (int i = 0; i < 200; ++i) {
        cuda::launch(stream, test::affine_kernel, test::AffineArgs{counts.get() + t, 1, 1, 1});
        if (i % 16 == 0) stream.synchronize();
        if (i % 16 == 8) (void)stream.query();
      }
      stream.synchronize();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts.read(), std::vector<std::uint32_t>(4, 200));
  EXPECT_NE(sim::log().find("note"), std::string::npos);
  sim::begin_run("random:0");
}

TEST(BeginRun, RefusesWhatItCannotDo) {
  EXPECT_ERROR(sim::begin_run("random:x"), ValueError, "'x' is not a seed");
  EXPECT_ERROR(sim::begin_run("threads"), Error, "threads and seeds cannot follow each other");
  EXPECT_ERROR(sim::begin_run("replay:/no/such/file"), ValueError, "'replay:/no/such/file'");
  EXPECT_ERROR(sim::schedule("random:1"), Error, "before their first use");
  EXPECT_ERROR(sim::save_log("/no/such/folder/log"), Error, "/no/such/folder/log");
  const Stream stream;
  std::string said;
  cuda::host_function(
      [&] {
        try {
          sim::begin_run(1);
        } catch (const Error& error) {
          said = error.what();
        }
      },
      stream);
  stream.synchronize();
  EXPECT_NE(said.find("would wait for itself"), std::string::npos) << said;
}

TEST(BeginRun, GoesOnAfterAFaultWasReset) {
  sim::begin_run(1);
  const Stream stream(1);
  cuda::launch(stream, test::bad_access_kernel, test::BadAccessArgs{nullptr});
  EXPECT_THROW(stream.synchronize(), AcceleratorError);
  sim::begin_run(2);
  EXPECT_THROW(cuda::synchronize(1), AcceleratorError) << "a run does not heal a device";
  EXPECT_THROW(stream.synchronize(), AcceleratorError);
  cuda::reset_device(1);
  sim::begin_run(3);
  const Stream again(1);
  cuda::launch(again, test::nop_kernel, test::NopArgs{});
  again.synchronize();
}

}  // namespace
}  // namespace ember
