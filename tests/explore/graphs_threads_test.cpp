// What is proved of programs that replay graphs, and of several threads of the host.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "ember/explore/explore.h"
#include "tests/explore/programs.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using cuda::StreamGuard;
using sim::Exploration;
using sim::Verdict;
using namespace test;  // NOLINT(google-build-using-namespace)

// ---- Graphs

/// 1 plus 5, times 7, by two branches of a graph that is replayed twice.
std::uint32_t two_branches(bool fixed) {
  const Stream main(0), side(0);
  const Word word(main);
  cuda::CUDAGraph step;
  {
    cuda::GraphCapture capture = cuda::graph(step, {}, main);
    set(main, word.at(), 1);
    side.wait_stream(main);
    add(main, word.at(), 5);
    if (fixed) side.wait_stream(main);
    multiply(side, word.at(), 7);
    main.wait_stream(side);
    capture.end();
  }
  const StreamGuard on(main);
  step.replay();
  step.replay();
  std::uint32_t value = 0;
  cuda::copy(&value, word.at(), sizeof value, main);
  return value;
}

TEST(ExploredGraphs, AreProvedBranchByBranch) {
  NEEDS_CACHING();
  const Exploration made = sim::explore([] { (void)two_branches(true); });
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
  EXPECT_EQ(made.tasks, 7U) << "three of each replay, and a copy";
}

TEST(ExploredGraphs, DifferWhereABranchBeginsTooEarly) {
  NEEDS_CACHING();
  const Exploration made = sim::explore([] { (void)two_branches(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_EQ(made.pairs, 2U) << "one of each replay, which follow each other";
  EXPECT_NE(made.difference.find("2a 00 00 00 and 0c 00 00 00"), std::string::npos) << made.str();
  EXPECT_EQ(made.reasons.size(), 1U) << made.str();
  for (int i = 0; i < 100; ++i) {
    sim::begin_run(made.second);
    EXPECT_EQ(two_branches(false), 12U);
  }
  sim::begin_run("random:0");
}

// Events that a graph records are tasks, too, and order as others do.
TEST(ExploredGraphs, EventsOfTheProgramOrderWhatIsBehindThem) {
  NEEDS_CACHING();
  const auto program = [](bool fixed) {
    const Stream main(0), side(0);
    const Word word(main);
    cuda::Event set_by_replay(false, false, false, true);
    cuda::CUDAGraph step;
    {
      cuda::GraphCapture capture = cuda::graph(step, {}, main);
      set(main, word.at(), 1);
      set_by_replay.record(main);
      capture.end();
    }
    const StreamGuard on(main);
    step.replay();
    if (fixed) set_by_replay.wait(side);
    add(side, word.at(), 5);
    std::uint32_t value = 0;
    cuda::copy(&value, word.at(), sizeof value, side);
    word.used_by(side);
  };
  const Exploration fixed = sim::explore([&] { program(true); });
  EXPECT_EQ(fixed.verdict, Verdict::proved) << fixed.str();
  EXPECT_EQ(fixed.tasks, 4U) << "of which one records the event";
  const Exploration made = sim::explore([&] { program(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_EQ(made.reasons.size(), 1U) << made.str();
}

TEST(ExploredGraphs, AllOrdersOfReplaysAreRun) {
  NEEDS_CACHING();
  const Exploration made = sim::explore([] {
    const Stream main(0), side(0);
    const Word word(main);
    cuda::CUDAGraph step;
    {
      cuda::GraphCapture capture = cuda::graph(step, {}, main);
      side.wait_stream(main);
      set(main, word.at(), 1);
      set(side, word.at(), 1);  // the same, so that all are run
      main.wait_stream(side);
      capture.end();
    }
    const StreamGuard on(main);
    step.replay();
    step.replay();
    main.synchronize();
    step.replay();
  });
  EXPECT_EQ(made.verdict, Verdict::same) << made.str();
  EXPECT_EQ(made.pairs, 3U);
  EXPECT_EQ(made.classes, 8U);
  EXPECT_TRUE(made.complete);
}

TEST(ExploredGraphs, MemoryOfAPoolIsSharedByItsGraphs) {
  NEEDS_CACHING();
  for (const bool ordered : {true, false}) {
    const Exploration made = sim::explore([&] {
      const Stream one(0), other(0);
      const Tensor x = zeros({4}, "cuda"), y = zeros({4}, "cuda");
      const auto pool = cuda::graph_pool_handle();
      cuda::CUDAGraph left, right;
      for (const auto& [step, out] : {std::pair{&left, &x}, std::pair{&right, &y}}) {
        cuda::GraphCapture capture = cuda::graph(*step, pool, one);
        out->copy_(*out + 1);
        capture.end();
      }
      for (const Stream& each : {one, other}) each.wait_stream(cuda::current_stream());
      {
        const StreamGuard on(one);
        left.replay();
      }
      if (ordered) other.wait_stream(one);
      {
        const StreamGuard on(other);
        right.replay();
      }
      cuda::current_stream().wait_stream(one);
      cuda::current_stream().wait_stream(other);
      sim::result(x, "x");
      sim::result(y, "y");
    });
    EXPECT_EQ(made.verdict == Verdict::proved, ordered) << made.str();
    EXPECT_EQ(made.clean(), ordered) << made.str();
  }
}

// ---- Threads

Exploration explored(const std::function<void(const Stream& on, const Word& word)>& program) {
  return sim::explore([&] {
    const Stream stream(0);
    const Word word(stream);
    set(stream, word.at(), 1);
    program(stream, word);
    std::uint32_t value = 0;
    cuda::copy(&value, word.at(), sizeof value, stream);
    sim::result("word", &value, sizeof value);
  });
}

TEST(ExploredThreads, OneAfterTheOtherAreAsGoodAsOne) {
  const Exploration made = explored([](const Stream& on, const Word& word) {
    for (int i = 0; i < 2; ++i) {
      sim::thread other([&] { add(on, word.at(), 1); });
      other.join();
    }
    sim::thread outer([&] {
      sim::thread inner([&] { add(on, word.at(), 1); });
      inner.join();
      multiply(on, word.at(), 7);
    });
    outer.join();
  });
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
}

TEST(ExploredThreads, BesideEachOtherProveNothing) {
  const struct {
    const char* what;
    void (*program)(const Stream& on, const Word& word);
  } kPrograms[] = {
      {"the first one works on",
       [](const Stream& on, const Word& word) {
         sim::thread other([&] { add(on, word.at(), 1); });
         multiply(on, word.at(), 7);
         other.join();
       }},
      {"the first one uses memory of its own",
       [](const Stream& on, const Word& word) {
         sim::thread other([&] { add(on, word.at(), 1); });
         const DeviceBuffer own = cuda::allocate(64, on);
         other.join();
       }},
      {"two at once",
       [](const Stream& on, const Word& word) {
         sim::thread one([&] { add(on, word.at(), 1); });
         sim::thread other([&] { multiply(on, word.at(), 7); });
         one.join();
         other.join();
       }},
      {"who has the lock first decides",
       [](const Stream& on, const Word& word) {
         sim::mutex mutex;
         bool first = false;
         sim::thread other([&] {
           const std::lock_guard lock(mutex);
           if (first) add(on, word.at(), 1);
         });
         {
           const std::lock_guard lock(mutex);
           first = true;
         }
         other.join();
       }},
  };
  for (const auto& row : kPrograms) {
    const Exploration made = explored(row.program);
    EXPECT_EQ(made.verdict, Verdict::not_proved) << row.what << "\n" << made.str();
    ASSERT_EQ(made.reasons.size(), 1U) << row.what << "\n" << made.str();
    EXPECT_EQ(made.reasons[0].find("(a) several threads"), 0U) << row.what << "\n" << made.str();
  }
}

}  // namespace
}  // namespace ember
