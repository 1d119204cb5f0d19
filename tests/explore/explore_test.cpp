// What is proved of programs, and what running their orders shows.
#include "ember/explore/explore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/explore/programs.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using cuda::Event;
using sim::Exploration;
using sim::Verdict;
using namespace test;  // NOLINT(google-build-using-namespace)

// ---- Verdicts

TEST(Explore, ProvesFromOneRunWhatIsOrdered) {
  int runs = 0;
  const Exploration made = sim::explore([&] {
    ++runs;
    (void)add_and_multiply(true);
  });
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(made.runs, 1U);
  EXPECT_EQ(made.pairs, 0U);
  EXPECT_TRUE(made.clean());
  EXPECT_TRUE(made.complete);
}

TEST(Explore, ShowsTheShortestTwoSchedulesThatDiffer) {
  const Exploration made = sim::explore([] { (void)add_and_multiply(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_EQ(made.pairs, 1U);
  EXPECT_EQ(made.first, "steps:");
  // 42 without steps. Before the host goes on from some point, the product comes before the sum.
  EXPECT_NE(made.difference.find("2a 00 00 00 and 0c 00 00 00"), std::string::npos) << made.str();
  ASSERT_EQ(made.deciding.size(), 1U);
  EXPECT_NE(made.deciding[0].find("multiply"), std::string::npos) << made.deciding[0];
  EXPECT_NE(made.deciding[0].find("add"), std::string::npos) << made.deciding[0];
  EXPECT_NE(made.deciding[0].find("What would have ordered them: a wait of stream"),
            std::string::npos);
  EXPECT_EQ(made.races.size(), 1U);
}

/// What the program copies to the host under a schedule.
std::uint32_t value_under(const std::string& schedule, bool fixed) {
  sim::begin_run(schedule);
  return add_and_multiply(fixed);
}

TEST(Explore, WhatItShowsCanBeRunAgain) {
  const Exploration made = sim::explore([] { (void)add_and_multiply(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(value_under(made.first, false), 42U);
    EXPECT_EQ(value_under(made.second, false), 12U);
    EXPECT_EQ(value_under(made.second, true), 42U);  // steps that are not ready are passed over
  }
  sim::begin_run("random:0");
}

TEST(Explore, UnorderedPairsAreErrorsEvenIfAllOrdersAgree) {
  const Exploration made = sim::explore([] { writer_and_readers(3); });
  EXPECT_EQ(made.verdict, Verdict::same) << made.str();
  EXPECT_EQ(made.pairs, 3U);
  EXPECT_EQ(made.both, 3U);
  EXPECT_EQ(made.races.size(), 1U) << "the reads are at one place";
  EXPECT_FALSE(made.clean());
  EXPECT_TRUE(made.complete);
}

TEST(Explore, FindsAnUpdateThatIsLostWhereTwoOverlap) {
  EXPECT_EQ(sim::explore([] { (void)two_updates(true); }).verdict, Verdict::proved);
  const Exploration made = sim::explore([] { (void)two_updates(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_EQ(made.both, 1U) << "whole additions commute";
  EXPECT_NE(made.difference.find("03 00 00 00 and 02 00 00 00"), std::string::npos) << made.str();
  EXPECT_NE(made.second.find('+'), std::string::npos) << made.second;
  ASSERT_EQ(made.deciding.size(), 1U);
  for (int i = 0; i < 100; ++i) {
    sim::begin_run(made.second);
    EXPECT_EQ(two_updates(false), 2U);
    EXPECT_EQ(two_updates(true), 3U);
  }
  // A replay of its log is the same.
  sim::begin_run(made.second);
  (void)two_updates(false);
  const std::string file = testing::TempDir() + "/overlapping.log";
  sim::save_log(file);
  sim::begin_run("replay:" + file);
  EXPECT_EQ(two_updates(false), 2U);
  sim::begin_run("random:0");
}

TEST(Explore, LetsEitherOfTwoThatOverlapWriteLast) {
  // x = 1, and then x += 1 beside x = 5: 5 and 6 one after the other; 2 if the sum that read 1
  // writes last.
  const auto program = [](bool reader_first) {
    const Stream first(0), second(0);
    const Word word(first);
    set(first, word.at(), 1);
    second.wait_stream(first);
    if (reader_first)
      add(first, word.at(), 1);
    else
      set(first, word.at(), 5);
    if (reader_first)
      set(second, word.at(), 5);
    else
      add(second, word.at(), 1);
    first.wait_stream(second);
    std::uint32_t value = 0;
    cuda::copy(&value, word.at(), sizeof value, first);
    word.used_by(second);
    return value;
  };
  for (const bool reader_first : {false, true}) {
    std::set<std::uint32_t> seen;
    for (const char* steps : {"steps:", "steps:4:s1.1,4:s2.1", "steps:4:s1.1,4:s1.2+s2.1",
                              "steps:4:s1.1,4:s2.1+s1.2"}) {
      sim::begin_run(steps);
      seen.insert(program(reader_first));
    }
    EXPECT_EQ(seen, (std::set<std::uint32_t>{2, 5, 6}));
  }
  sim::begin_run("random:0");
}

TEST(Explore, CutsCopiesInTwo) {
  // The host sees the first half of a copy, or a kernel does.
  const auto program = [](bool on_host) {
    const Stream copies(0), side(0);
    PinnedBuffer host = cuda::allocate_pinned(8);
    std::memset(host.data(), 0, 8);
    cuda::host_writes(host.data(), 8);
    DeviceBuffer pair = cuda::allocate(8, copies), sum = cuda::allocate(4, side);
    cuda::fill_async(pair.data(), 1, 8, copies);
    side.wait_stream(copies);
    cuda::copy_async(host.data(), pair.data(), 8, copies);
    std::uint32_t seen[2] = {};
    if (on_host) {
      cuda::host_reads(host.data(), 8);
      std::memcpy(seen, host.data(), 8);
    } else {
      const auto* const from = host.as<std::uint32_t>();
      auto* const to = sum.as<std::uint32_t>();
      cuda::launch(side, "ratio", {cuda::reads(from, 2), cuda::writes(to, 1)},
                   [=](const HostLaunch& at) {
                     const std::uint32_t* const numbers = at.at(from, 2);
                     std::uint32_t* const result = at.at(to, 1);
                     if (numbers == nullptr || result == nullptr) return at.fault();
                     *result = numbers[0] == numbers[1] ? 0 : 1;
                     return Status();
                   });
      cuda::copy(seen, to, 4, side);
    }
    // Nothing but a half is worth a word.
    const std::uint32_t torn = on_host ? (seen[0] == seen[1] ? 0U : 1U) : seen[0];
    sim::result("torn", &torn, sizeof torn);
    cuda::pinned_record_event(host, copies);
    cuda::pinned_record_event(host, side);
  };
  for (const bool on_host : {true, false}) {
    const Exploration made = sim::explore([&] { program(on_host); });
    ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
    EXPECT_NE(made.difference.find("00 00 00 00 and 01 00 00 00"), std::string::npos) << made.str();
    EXPECT_NE(made.second.find("/2"), std::string::npos) << made.second;
  }
}

TEST(Explore, SteersTheHostAgainstWork) {
  // The copy may be over when the host reads, or not: nothing says.
  const auto program = [](bool fixed) {
    const Stream stream(0);
    const Word word(stream);
    PinnedBuffer host = cuda::allocate_pinned(4);
    std::memset(host.data(), 0, 4);
    cuda::host_writes(host.data(), 4);
    set(stream, word.at(), 7);
    cuda::copy_async(host.data(), word.at(), 4, stream);
    if (fixed) stream.synchronize();
    cuda::host_reads(host.data(), 4);
    sim::result("value", host.data(), 4);
    cuda::pinned_record_event(host, stream);
  };
  const Exploration fixed = sim::explore([&] { program(true); });
  EXPECT_EQ(fixed.verdict, Verdict::proved) << fixed.str();
  const Exploration made = sim::explore([&] { program(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_NE(made.difference.find("result 'value'"), std::string::npos) << made.difference;
  EXPECT_NE(made.difference.find("00 00 00 00 and 07 00 00 00"), std::string::npos)
      << made.difference;
}

// Whatever is done by then, the program has enqueued the same.
TEST(Explore, WaitsForWhatIsDoneByThenAreWaits) {
  const Exploration made = sim::explore([] {
    const Stream first(0), second(0);
    const Word word(first);
    PinnedBuffer host = cuda::allocate_pinned(4);
    set(first, word.at(), 7);
    cuda::copy_async(host.data(), word.at(), 4, first);
    const Event copied = first.record_event();
    cuda::host_reads(host.data(), 4);  // unordered, and of no consequence
    copied.wait(second);
    add(second, word.at(), 1);
    word.used_by(second);
    cuda::pinned_record_event(host, first);
  });
  EXPECT_EQ(made.verdict, Verdict::same) << made.str();
  EXPECT_EQ(made.pairs, 1U);
  EXPECT_EQ(made.classes, 2U);
  EXPECT_EQ(made.reasons.size(), 1U) << made.str();
}

/// What arrives on cuda:1 of a word of cuda:0 that is 1 before a stream sets it to 2.
std::uint32_t copied_to_peer(bool fixed) {
  const Stream sets(0), copies(0);
  const Word word(sets);
  DeviceBuffer there = cuda::allocate(4, Stream(1));
  set(sets, word.at(), 1);
  copies.wait_stream(sets);
  set(sets, word.at(), 2);
  if (fixed) copies.wait_stream(sets);
  cuda::copy_async(there.data(), word.at(), 4, copies);
  std::uint32_t value = 0;
  cuda::copy(&value, there.data(), 4, copies);
  word.used_by(copies);
  return value;
}

// The first use of a pair of devices is tried, which takes copies and waits of its own.
TEST(Explore, TryingPeerAccessIsNoPartOfTheProgram) {
  NEEDS_DEVICES(2);
  const Exploration fixed = sim::explore([] { (void)copied_to_peer(true); });
  EXPECT_EQ(fixed.verdict, Verdict::proved) << fixed.str();
  EXPECT_EQ(fixed.tasks, 4U);
  const Exploration made = sim::explore([] { (void)copied_to_peer(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_EQ(made.pairs, 1U);
  // Each run tries it, and whether one sees the missing wait is not up to that.
  int early = 0;
  for (int seed = 0; seed < 100; ++seed) {
    sim::begin_run("random:" + std::to_string(seed));
    if (copied_to_peer(false) == 1) ++early;
  }
  EXPECT_GE(early, 20);
  EXPECT_LE(early, 80);
}

// Between the end of a wait and what the host does next there is a place, too.
TEST(Explore, SteersWorkThatIsReadyOnlyOnceAWaitIsOver) {
  const Exploration made = sim::explore([] {
    const Stream first(0), second(0);
    const Word word(first);
    PinnedBuffer host = cuda::allocate_pinned(4);
    set(first, word.at(), 1);
    cuda::copy_async(host.data(), word.at(), 4, first);
    const Event copied = first.record_event();
    copied.wait(second);
    change(second, "add", word.at(), [](std::uint32_t& value) { value += 1; });
    cuda::copy_async(host.data(), word.at(), 4, second);  // overwrites what the host reads
    copied.synchronize();
    cuda::host_reads(host.data(), 4);
    sim::result("value", host.data(), 4);
    word.used_by(second);
    cuda::pinned_record_event(host, first);
    cuda::pinned_record_event(host, second);
  });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_NE(made.difference.find("01 00 00 00 and 02 00 00 00"), std::string::npos)
      << made.difference;
}

TEST(Explore, ComparesTensorsWhenAllIsDone) {
  const auto program = [](bool fixed) {
    const Stream side(0);
    Tensor x = ones({4}, "cuda");
    side.wait_stream(cuda::current_stream());
    x.mul_(3);
    if (fixed) side.wait_stream(cuda::current_stream());
    {
      const cuda::StreamGuard on(side);
      x.add_(1);
      x.record_stream(side);
    }
    cuda::current_stream().wait_stream(side);
    sim::result(x, "x");
  };
  const Exploration fixed = sim::explore([&] { program(true); });
  EXPECT_EQ(fixed.verdict, Verdict::proved) << fixed.str();
  const Exploration made = sim::explore([&] { program(false); });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_EQ(made.difference, "result 'x', element 0: tensor(4.) and tensor(6.)");
}

TEST(Explore, ExceptionsAreResults) {
  const Exploration made = sim::explore([] {
    const Stream stream(0);
    const Word word(stream);
    PinnedBuffer host = cuda::allocate_pinned(4);
    *host.as<int>() = 0;
    cuda::host_writes(host.data(), 4);
    set(stream, word.at(), 7);
    cuda::copy_async(host.data(), word.at(), 4, stream);
    cuda::pinned_record_event(host, stream);
    cuda::host_reads(host.data(), 4);
    if (*host.as<int>() == 7) throw std::runtime_error("seven");
  });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_NE(made.difference.find("'seven'"), std::string::npos) << made.difference;
}

TEST(Explore, FaultsAreResultsAndDoNotStay) {
  // The reader takes what it reads for a place, which the writer may not have written yet.
  const Exploration made = sim::explore([] {
    const Stream writer(0), reader(0);
    const Word place(writer);
    set(writer, place.at(), 1'000'000'000);
    reader.wait_stream(writer);
    set(writer, place.at(), 0);
    const std::uint32_t* const data = place.at();
    cuda::launch(reader, "follow", {cuda::reads(data, 1)}, [data](const HostLaunch& at) {
      const std::uint32_t* const word = at.at(data, 1);
      if (word == nullptr) return at.fault();
      return at.at(data + *word, 1) == nullptr ? at.fault() : Status();
    });
    place.used_by(reader);
  });
  ASSERT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_NE(made.difference.find("follow"), std::string::npos) << made.difference;
  cuda::synchronize(0);  // no fault is left
}

// ---- How many runs

TEST(Explore, RunsEachClassOnce) {
  for (int pairs = 1; pairs <= 6; ++pairs) {
    const Exploration made = sim::explore([&] { independent_pairs(pairs); });
    EXPECT_EQ(made.verdict, Verdict::same) << made.str();
    EXPECT_EQ(made.classes, std::size_t{1} << pairs);
    EXPECT_EQ(made.runs, made.classes + 1);  // one to see that the program repeats itself
  }
  for (int readers = 1; readers <= 12; ++readers) {
    const Exploration made = sim::explore([&] { writer_and_readers(readers); });
    EXPECT_EQ(made.verdict, Verdict::same) << made.str();
    EXPECT_EQ(made.classes, static_cast<std::size_t>(readers) + 1);
    EXPECT_EQ(made.runs, made.classes + 1);
  }
}

TEST(Explore, SaysWhatItLeavesOut) {
  int runs = 0;
  const Exploration made = sim::explore(
      [&] {
        ++runs;
        independent_pairs(6);
      },
      {.max_runs = 10});
  EXPECT_EQ(made.verdict, Verdict::not_proved) << made.str();
  EXPECT_FALSE(made.complete);
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(made.runs, 10U);
  EXPECT_EQ(made.both, 6U) << "each pair by itself comes first";
  EXPECT_TRUE(has_reason(made, "no run left")) << made.str();
  EXPECT_NE(made.str().find("6 of 6 unordered pairs seen in both orders"), std::string::npos);
}

TEST(Explore, IsBoundedWhereNothingIsOrdered) {
  constexpr int kEach = 60;  // 3,600 pairs
  const Exploration made = sim::explore(
      [] {
        const Stream a(0), b(0);
        const Word word(a);
        for (int i = 0; i < kEach; ++i)
          for (const Stream* stream : {&a, &b}) set(*stream, word.at(), 1);
        word.used_by(b);
      },
      {.max_runs = 20});
  EXPECT_EQ(made.verdict, Verdict::not_proved);
  EXPECT_EQ(made.pairs, 1000U);
  EXPECT_EQ(made.runs, 20U);
  EXPECT_TRUE(has_reason(made, "more unordered pairs than the first 1000")) << made.str();
  EXPECT_LE(made.races.size(), 4U) << "two places, each before the other";
}

// With copies of the program's own beside it, each of which is a result.
TEST(Explore, TryingPeerAccessGivesNoResults) {
  NEEDS_DEVICES(2);
  const Exploration made = sim::explore([] {
    const Stream here(0), first(0), second(0);
    const Word word(here);
    DeviceBuffer there = cuda::allocate(4, Stream(1));
    set(here, word.at(), 1);
    for (const Stream& stream : {first, second}) stream.wait_stream(here);
    for (const Stream& stream : {first, second}) {  // unordered, and the same
      set(stream, word.at(), 2);
      here.wait_stream(stream);
    }
    cuda::copy_async(there.data(), word.at(), 4, here);
    std::array<PinnedBuffer, 24> results;
    for (PinnedBuffer& result : results) {
      result = cuda::allocate_pinned(4);
      cuda::copy_async(result.data(), there.data(), 4, here);
      cuda::pinned_record_event(result, here);
    }
    here.synchronize();
    for (const PinnedBuffer& result : results) cuda::host_reads(result.data(), 4);
    word.used_by(first);
    word.used_by(second);
  });
  EXPECT_EQ(made.verdict, Verdict::same) << made.str();
}

// Who gets memory next is the same in every order where no use of it was told.
TEST(Explore, ProvesWhatIsFreedEarlyAndNotUsedBefore) {
  const Exploration made = sim::explore([] {
    const Stream owner(0), user(0);
    std::optional<Word> word(owner);
    set(owner, word->at(), 1);
    user.wait_stream(owner);
    add(user, word->at(), 1);
    word.reset();
    const Word next(owner);
    owner.wait_stream(user);
    set(owner, next.at(), 2);
  });
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
}

// Tensors give nobody a pointer untold.
TEST(Explore, ProvesPinnedTensorsThatTheHostDoesNotRead) {
  const Exploration made = sim::explore([] {
    const Tensor x = ones({64}, "cuda");
    const Tensor away = empty({64}, Options(float32, Device(Device::Type::cpu), true));
    away.copy_(x, true);
    const Tensor back = zeros({64}, "cuda");
    back.copy_(away, true);
    cuda::synchronize();
    sim::result(away, "away");
    sim::result(back, "back");
  });
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
}

// At the end nobody gets it any more.
TEST(Explore, ProvesWhatIsFreedLast) {
  const Exploration made = sim::explore([] {
    const Stream owner(0), user(0);
    const Word word(owner);
    set(owner, word.at(), 1);
    user.wait_stream(owner);
    add(user, word.at(), 1);
  });
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
}

// ---- Shrinking

TEST(ShrinkSchedule, LeavesOnlyWhatMatters) {
  // Of a thousand steps only that one product comes too early matters.
  constexpr int kRounds = 252;
  const auto fails = [&] { return many_tasks(kRounds) != 42; };
  // As late as can be, stream 2 before stream 1.
  sim::begin_run("steps:");
  EXPECT_FALSE(fails());
  const std::string steps = all_steps_of_many_tasks(kRounds);
  ASSERT_GE(std::count(steps.begin(), steps.end(), 's'), 1000);
  const auto begin = std::chrono::steady_clock::now();
  const std::string fewest = sim::shrink(steps, fails);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(took.count()));
  RecordProperty("shortest", fewest);
  sim::begin_run(fewest);
  EXPECT_TRUE(fails());
  // 1-minimal: without any one step it passes.
  std::vector<std::string> parts;
  for (std::size_t at = 6; at < fewest.size();) {
    const std::size_t end = std::min(fewest.find(',', at), fewest.size());
    parts.push_back(fewest.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_FALSE(parts.empty());
  EXPECT_LE(parts.size(), 2U) << fewest;
  for (std::size_t left_out = 0; left_out < std::min<std::size_t>(parts.size(), 20); ++left_out) {
    std::string text = "steps:";
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (i != left_out) text += (text.size() == 6 ? "" : ",") + parts[i];
    sim::begin_run(text);
    EXPECT_FALSE(fails()) << text;
  }
  sim::begin_run("random:0");
}

TEST(ShrinkSchedule, TakesWhatASeedShows) {
  int shown = 0;
  for (int seed = 0; seed < 40; ++seed)
    for (const char* kind : {"random:", "pct:"}) {
      const std::string schedule = kind + std::to_string(seed) + (kind[0] == 'p' ? ":1" : "");
      if (value_under(schedule, false) == 42) continue;
      ++shown;
      const auto fails = [] { return add_and_multiply(false) != 42; };
      const std::string fewest = sim::shrink(schedule, fails);
      EXPECT_NE(value_under(fewest, false), 42U) << fewest;
      // The other product first, and before that what makes it ready.
      EXPECT_LE(std::count(fewest.begin(), fewest.end(), ','), 1) << schedule << " " << fewest;
    }
  EXPECT_GE(shown, 10);
  sim::begin_run("random:0");
}

// ---- Bad input

TEST(ExploreErrors, NameWhatWasExpected) {
  EXPECT_ERROR(sim::explore({}), ValueError, "explore: got an empty program");
  EXPECT_ERROR(sim::explore([] {}, {.max_runs = 0}), ValueError, "max_runs is 0");
  EXPECT_ERROR(sim::explore([] {}, {.max_seconds = 0}), ValueError, "max_seconds is 0");
  EXPECT_ERROR(sim::explore([] {}, {.max_seconds = -1}), ValueError, "max_seconds is -1");
  EXPECT_ERROR(sim::shrink("threads", [] { return true; }), Error, "threads");
  EXPECT_ERROR(sim::shrink("steps:x", [] { return true; }), ValueError, "'x' is no step such as");
  EXPECT_ERROR(sim::shrink("random:1", {}), ValueError, "an empty function");
  EXPECT_ERROR(sim::shrink("steps:", [] { return false; }), ValueError, "does not fail");
  const Exploration nested = sim::explore([] { (void)sim::explore([] {}); });
  EXPECT_TRUE(has_reason(nested, "cannot explore itself")) << nested.str();
}

TEST(Explore, LeavesTheScheduleAsItWas) {
  sim::begin_run("pct:3:2");
  (void)sim::explore([] { (void)add_and_multiply(true); });
  EXPECT_NE(sim::log().find("schedule pct:3:2"), std::string::npos);
  sim::begin_run("random:0");
}

TEST(Explore, AnEmptyProgramIsProved) {
  const Exploration made = sim::explore([] {});
  EXPECT_EQ(made.verdict, Verdict::proved) << made.str();
  EXPECT_EQ(made.operations, 0U);
}

}  // namespace
}  // namespace ember
