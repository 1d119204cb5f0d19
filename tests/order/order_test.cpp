// What a seed decides, in one process. The suite runs with EMBER_SIM_SCHEDULE=random:0.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "ember/memory/memory.h"
#include "ember/runtime/device.h"
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

// What becomes ready while the host waits may run before the host goes on, or not.
TEST(Seed, DecidesOnceAWaitIsOver) {
  const test::Words<std::uint32_t> value(1);
  const Stream first;
  const Stream second;
  Event done;
  // The log when the wait is over, and when all is done.
  const auto run = [&](const std::string& schedule) {
    sim::begin_run(schedule);
    cuda::launch(first, test::affine_kernel, test::AffineArgs{value.get(), 1, 1, 42});
    done.record(first);
    done.wait(second);
    cuda::launch(second, test::affine_kernel, test::AffineArgs{value.get(), 1, 10, 0});
    done.synchronize();
    const std::string log = sim::log();
    cuda::synchronize(0);
    return std::pair(log, sim::log());
  };
  const std::string file = testing::TempDir() + "ember_order_wait.log";
  for (const char* kind : {"random:", "pct:"}) {
    int ran = 0, stayed = 0;
    for (int seed = 0; seed < 100; ++seed) {
      const std::string text = kind + std::to_string(seed) + (kind[0] == 'p' ? ":3" : "");
      const auto [log, whole] = run(text);
      // The last line but one is the decision after the wait, if anything was ready then.
      const std::size_t at = log.rfind("\nwait 1 ");
      if (at == std::string::npos) continue;
      const std::string decided = log.substr(at, log.find('\n', at + 1) - at);
      if (decided.find(" s2.1 ") != std::string::npos) ++ran;
      if (decided.find(" host") != std::string::npos) ++stayed;
      sim::save_log(file);
      const std::string again = run("replay:" + file).second;
      EXPECT_EQ(again.substr(again.find("\nsubmit")), whole.substr(whole.find("\nsubmit")));
    }
    EXPECT_GE(ran, 5) << kind;
    EXPECT_GE(stayed, 5) << kind;
  }
  sim::begin_run("random:0");
  std::remove(file.c_str());
}

TEST(Swarm, ShowsAWaitThatIsMissing) {
  const test::Words<std::uint32_t> value(1);
  const Stream adds;
  const Stream multiplies;
  int wrong = 0;
  for (int seed = 0; seed < 100; ++seed) {
    sim::begin_run("swarm:" + std::to_string(seed));
    try {
      if (add_then_multiply(false, adds, multiplies, value) != kRight) ++wrong;
    } catch (const Error& error) {  // a fault was drawn
      EXPECT_NE(sim::replay_line().find("EMBER_SIM_FAULTS="), std::string::npos) << error.what();
    }
  }
  EXPECT_GE(wrong, 5);
  sim::begin_run("random:0");
  EXPECT_EQ(sim::replay_line().find("EMBER_SIM_FAULTS="), std::string::npos);
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

TEST(Query, ALoopThatAsksForTimeUntilItIsThereEnds) {
  for (const char* schedule : {"random:1", "random:2", "pct:1:3", "swarm:1", "model"}) {
    sim::begin_run(schedule);
    const Stream stream;
    Event begin(true);
    Event end(true);
    begin.record(stream);
    cuda::launch(stream, test::nop_kernel, test::NopArgs{});
    end.record(stream);
    int asked = 0;
    for (bool there = false; !there;) {
      ASSERT_LT(++asked, 1000) << schedule;
      try {
        EXPECT_GE(begin.elapsed_time(end), 0) << schedule;
        there = true;
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "Both events must be completed before calculating elapsed time.");
      }
    }
  }
  sim::begin_run("random:0");
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
    std::atomic<int> left = 100'000;  // as deep as that on the stack, it would end the process
    std::function<void()> again = [&] {
      if (--left > 0) cuda::host_function(again, stream);
    };
    cuda::host_function(again, stream);
    while (left > 0) stream.synchronize();
    EXPECT_EQ(left, 0);
  }
  sim::begin_run("random:0");
}

TEST(HostFunction, SaysWhichExceptionLeftItAndInWhichRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        sim::begin_run("random:5");
        const Stream stream;
        cuda::host_function([] { throw std::runtime_error("no such file"); }, stream);
        stream.synchronize();
      },
      "an exception left operation 'host function' on cuda:0; the run is "
      "EMBER_SIM_SCHEDULE=random:5(.|\n)*no such file");
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
  EXPECT_ERROR(sim::save_log("/no/such/folder/log"), FileError, "/no/such/folder/log");
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
  cuda::reset_device(1);
  sim::begin_run(3);
  const Stream again(1);
  cuda::launch(again, test::nop_kernel, test::NopArgs{});
  again.synchronize();
}

// What faults, what was dropped behind it, and what other devices waited for.
TEST(BeginRun, ForgetsAFault) {
  const test::Words<std::uint32_t> value(1);
  const test::Words<std::uint32_t> other(1, 1);
  const Stream stream;
  const Stream waits(1);
  sim::begin_run(1);
  Event dropped;
  cuda::launch(stream, test::affine_kernel, test::AffineArgs{value.get(), 1, 1, 5});
  cuda::launch(stream, test::bad_access_kernel, test::BadAccessArgs{nullptr});
  cuda::launch(stream, test::affine_kernel, test::AffineArgs{value.get(), 1, 1, 5});
  dropped.record(stream);
  dropped.wait(waits);
  EXPECT_THROW(stream.synchronize(), AcceleratorError);
  EXPECT_THROW(waits.synchronize(), AcceleratorError);
  sim::begin_run(2);
  EXPECT_EQ(value.read()[0], 0u) << "what was written before the fault is put back";
  cuda::launch(stream, test::affine_kernel, test::AffineArgs{value.get(), 1, 1, 7});
  dropped.wait(waits);  // of the last run: nothing to wait for
  cuda::launch(waits, test::affine_kernel, test::AffineArgs{other.get(), 1, 1, 9});
  EXPECT_EQ(value.read()[0], 7u);
  EXPECT_EQ(other.read()[0], 9u);
}

TEST(BeginRun, PutsMemoryBack) {
  constexpr std::size_t kCount = 300'000;  // many pieces
  const test::Words<std::uint32_t> filled(kCount);
  const test::Words<std::uint32_t> copied(kCount);
  const test::Words<std::uint32_t> computed(kCount, 1);
  const std::vector<std::uint32_t> source(kCount, 3);
  const Stream stream;
  const Stream peer(1);
  cuda::launch(peer, test::affine_kernel, test::AffineArgs{computed.get(), kCount, 0, 17});
  cuda::synchronize(1);
  sim::begin_run(1);
  for (std::uint64_t run = 2; run < 5; ++run) {
    cuda::fill_async(filled.get() + 1000, 0xff, 4000, stream);
    cuda::copy(copied.get(), source.data(), kCount * 4, stream);
    cuda::launch(peer, test::affine_kernel, test::AffineArgs{computed.get() + 7, kCount - 7, 2, 1});
    EXPECT_EQ(filled.read()[1000], 0xffffffff);
    EXPECT_EQ(copied.read(), source);
    EXPECT_EQ(computed.read()[7], 35u);
    sim::begin_run(run);
    EXPECT_EQ(filled.read(), std::vector<std::uint32_t>(kCount));
    EXPECT_EQ(copied.read(), std::vector<std::uint32_t>(kCount));
    EXPECT_EQ(computed.read(), std::vector<std::uint32_t>(kCount, 17));
  }
}

TEST(BeginRun, LeavesWhatTheLastRunAllocatedAsItIs) {
  sim::begin_run(1);
  const Stream stream;
  cuda::DeviceBuffer made = cuda::allocate(4, stream);
  const auto read = [&] {
    std::uint32_t value = 0;
    cuda::copy(&value, made.data(), 4, stream);
    return value;
  };
  cuda::fill_async(made.data(), 1, 4, stream);
  sim::begin_run(2);
  EXPECT_EQ(read(), 0x01010101u);
  cuda::fill_async(made.data(), 2, 4, stream);
  EXPECT_EQ(read(), 0x02020202u);
  sim::begin_run(3);
  EXPECT_EQ(read(), 0x01010101u);
}

TEST(NewMemory, HoldsAPatternFromTheSeed) {
  const auto contents = [](std::uint64_t seed) {
    sim::begin_run(seed);
    const Stream stream;
    const cuda::DeviceBuffer memory = cuda::allocate(4096, stream);
    std::vector<std::uint32_t> words(1024);
    cuda::copy(words.data(), memory.data(), 4096, stream);
    return words;
  };
  const std::vector<std::uint32_t> seven = contents(7);
  EXPECT_NE(contents(8), seven);
  EXPECT_EQ(contents(7), seven);
  EXPECT_GT(std::set<std::uint32_t>(seven.begin(), seven.end()).size(), 1000u);
}

// By ids and handles, whatever earlier runs made, in which order, and on which device.
TEST(BeginRun, GivesStreamsAndEventsInTheOrderOfANewProcess) {
  struct Numbers {
    std::vector<std::int64_t> ids;
    std::vector<void*> natives;
    bool operator==(const Numbers&) const = default;
  };
  const auto made = [](std::uint64_t seed, const std::vector<int>& devices) {
    sim::begin_run(seed);
    Numbers numbers;
    std::vector<Stream> streams;
    std::vector<Event> events;
    for (const int device : devices) {
      const Stream& stream = streams.emplace_back(device, device == 0 ? 0 : -1);
      numbers.ids.push_back(stream.stream_id());
      numbers.natives.push_back(stream.native());
      events.emplace_back().record(stream);
      numbers.natives.push_back(events.back().native());
    }
    return numbers;
  };
  const Numbers two = made(1, {0, 1});
  const Numbers five = made(2, {1, 0, 0, 1, 0});
  EXPECT_EQ(made(3, {0, 1}), two);
  EXPECT_EQ(made(4, {1, 0, 0, 1, 0}), five);
}

TEST(BeginRun, LetsStreamsAndEventsThatAreHeldGoOn) {
  sim::begin_run(1);
  const Stream before;  // takes the first place
  const Stream held;
  Event event;
  event.record(held);
  const std::int64_t id = held.stream_id();
  sim::begin_run(2);
  EXPECT_EQ(held.stream_id(), id);
  std::set<std::int64_t> ids{id};
  std::vector<Stream> others(5, held);
  for (Stream& each : others) EXPECT_TRUE(ids.insert((each = Stream()).stream_id()).second);
  EXPECT_EQ(Stream::from_id(id, 0), held);
  event.synchronize();
  event.record(held);
  cuda::launch(held, test::nop_kernel, test::NopArgs{});
  held.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(BeginRun, FindsOutAboutPeersAgain) {
  const test::Words<std::uint32_t> far(1, 1);
  const Stream stream;
  for (std::uint64_t run = 1; run < 3; ++run) {
    sim::begin_run(run);
    cuda::launch(stream, test::affine_kernel, test::AffineArgs{far.get(), 1, 1, 1});
    EXPECT_THROW(stream.synchronize(), AcceleratorError) << "no access yet";
    sim::begin_run(run);
    EXPECT_TRUE(cuda::use_peer_access(0, 1));
    cuda::launch(stream, test::affine_kernel, test::AffineArgs{far.get(), 1, 1, 1});
    stream.synchronize();
    EXPECT_EQ(far.read()[0], 1u);
  }
  sim::begin_run("random:0");
}

}  // namespace
}  // namespace ember
