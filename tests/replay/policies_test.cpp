// What allocators make of traces: expected values are worked out by hand from chapter 8 of the
// documents, or are those of the other allocator.
#include "ember/replay/policies.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/snapshot.h"
#include "ember/replay/trace.h"
#include "ember/runtime/event.h"
#include "ember/runtime/stream.h"
#include "lines.h"

namespace ember::replay {
namespace {

using Action = Entry::Action;

const memory::Settings kGrowing = [] {
  memory::Settings settings;
  settings.expandable_segments = true;
  return settings;
}();

/// PyTorch would do all that the trace says, and these are the peaks; ember, too.
void expect(const Lines& lines, Peaks peaks, std::size_t calls) {
  const Trace trace = lines.trace();
  const Outcome torch = replay_torch(trace), ember = replay_ember(trace);
  EXPECT_EQ(torch.differences, 0U) << torch.first_difference;
  EXPECT_EQ(torch.peaks.allocated, peaks.allocated);
  EXPECT_EQ(torch.peaks.reserved, peaks.reserved);
  EXPECT_EQ(torch.calls_first + torch.calls_after, calls);
  EXPECT_EQ(ember.peaks.allocated, peaks.allocated);
  EXPECT_EQ(ember.peaks.reserved, peaks.reserved);
  EXPECT_EQ(ember.calls_first + ember.calls_after, calls);
  EXPECT_EQ(recorded(trace).peaks.reserved, peaks.reserved);
}

TEST(Policies, SmallBlocksShareSegmentsOfTwoMiB) {
  Lines lines;
  lines.segment(0, 2 * kMiB).block(0, 1000).block(1024, 1).block(1536, kMiB);
  // What is left is 1 MiB - 1536 bytes: too little.
  lines.segment(4 * kMiB, 2 * kMiB).block(4 * kMiB, kMiB);
  expect(lines, {1024 + 512 + 2 * kMiB, 4 * kMiB}, 2);
}

TEST(Policies, LargerBlocksShareSegmentsOfTwentyMiB) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, kMiB + 1);
  lines.block(kMiB + 512, 9 * kMiB);
  // 10 MiB - 512 bytes are left, so 10 MiB are a segment of their own, and 11 one of 12, of which
  // 1 MiB is too little to be cut off: it counts as in use.
  lines.segment(32 * kMiB, 10 * kMiB).block(32 * kMiB, 10 * kMiB);
  lines.segment(64 * kMiB, 12 * kMiB).block(64 * kMiB, 11 * kMiB);
  // So does the rest of 10 MiB - 512.
  lines.block(10 * kMiB + 512, 9 * kMiB);
  expect(lines, {(kMiB + 512) + 9 * kMiB + 10 * kMiB + 12 * kMiB + (10 * kMiB - 512), 42 * kMiB},
         3);
}

TEST(Policies, TheSmallestThatFitsServesAndOfEqualOnesTheLowest) {
  Lines lines;
  lines.segment(0, 2 * kMiB);
  // 4096, gap of 2048, 512, gap of 1024, 512, gap of 1024, 512, and the rest.
  lines.block(0, 4096).block(4096, 2048).block(6144, 512).block(6656, 1024).block(7680, 512);
  lines.block(8192, 1024).block(9216, 512);
  lines.free(8192).free(4096).free(6656);
  lines.block(6656, 1024).block(8192, 600).block(4096, 700).block(5120, 1024);
  expect(lines, {4096 + 3 * 512 + 4 * 1024, 2 * kMiB}, 1);
}

TEST(Policies, FreeNeighboursBecomeOne) {
  Lines lines;
  lines.segment(0, 20 * kMiB);
  lines.block(0, 6 * kMiB).block(6 * kMiB, 6 * kMiB).block(12 * kMiB, 8 * kMiB);
  lines.free(0).free(12 * kMiB).free(6 * kMiB);
  lines.block(0, 20 * kMiB);
  expect(lines, {20 * kMiB, 20 * kMiB}, 1);
}

TEST(Policies, StreamsAndPoolsShareNothing) {
  Lines lines;
  lines.segment(0, 2 * kMiB).block(0, 512).free(0);
  lines.segment(2 * kMiB, 2 * kMiB, 1).block(2 * kMiB, 512, 1);
  lines.segment(4 * kMiB, 2 * kMiB, 0, 1).block(4 * kMiB, 512, 0, 1);
  lines.block(0, 512);
  expect(lines, {3 * 512, 6 * kMiB}, 3);
  EXPECT_EQ(lines.trace().places(), 3U);
}

TEST(Policies, WhatOtherStreamsUseWaits) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 8 * kMiB).block(8 * kMiB, 4 * kMiB);
  lines.request(0).free(8 * kMiB);
  // 12 MiB from 8 on, and not 20 from 0.
  lines.segment(64 * kMiB, 14 * kMiB).block(64 * kMiB, 13 * kMiB);
  lines.complete(0);
  lines.block(0, 20 * kMiB);
  expect(lines, {34 * kMiB, 34 * kMiB}, 2);
}

TEST(Policies, EmptyCacheGivesWholeSegmentsBack) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 2 * kMiB).block(2 * kMiB, 2 * kMiB).free(0);
  lines.segment(32 * kMiB, 18 * kMiB).block(32 * kMiB, 18 * kMiB).free(32 * kMiB);
  lines.segment(64 * kMiB, 2 * kMiB).block(64 * kMiB, 512).free(64 * kMiB);
  lines.give_back(32 * kMiB).give_back(64 * kMiB);
  lines.segment(32 * kMiB, 20 * kMiB).block(32 * kMiB, 20 * kMiB);
  expect(lines, {22 * kMiB, 40 * kMiB}, 6);
}

TEST(Policies, CallsAreCountedBeforeAndAfterATenth) {
  Lines lines;
  lines.segment(0, 2 * kMiB).block(0, 512);
  for (int i = 0; i < 5; ++i) lines.free(0).block(0, 512);
  lines.segment(2 * kMiB, 2 * kMiB, 1).block(2 * kMiB, 512, 1);
  lines.segment(4 * kMiB, 2 * kMiB, 2).block(4 * kMiB, 512, 2);
  const Trace trace = lines.trace();
  ASSERT_EQ(trace.entries.size(), 21U);  // two of which are the first tenth
  for (const Outcome& outcome : {replay_torch(trace), replay_ember(trace), recorded(trace)}) {
    EXPECT_EQ(outcome.calls_first, 1U);
    EXPECT_EQ(outcome.calls_after, 2U);
  }
}

TEST(Policies, ATraceThatPyTorchWouldNotMakeIsToldApart) {
  const auto first = [](const Lines& lines) {
    const Outcome outcome = replay_torch(lines.trace());
    return std::to_string(outcome.differences) + " " + outcome.first_difference;
  };
  EXPECT_EQ(first(Lines().segment(0, 2 * kMiB).block(512, 512)),
            "1 entry 1: the block lies elsewhere");
  EXPECT_EQ(first(Lines().segment(0, 4 * kMiB).block(0, 512)),
            "2 entry 1: another segment is asked for than in the trace");
  Lines twice;
  twice.segment(0, 2 * kMiB).block(0, 512).segment(2 * kMiB, 2 * kMiB).block(512, 512);
  EXPECT_EQ(first(twice),
            "1 entry 3: a free block serves it, in the trace a segment was asked for");
  Lines none;
  none.segment(0, 20 * kMiB).block(0, 2 * kMiB).free(0).block(0, 512);
  EXPECT_EQ(first(none),
            "2 entry 4: a segment of 2097152 bytes is asked for, in the trace none was");
  Lines stays;
  stays.segment(0, 2 * kMiB).block(0, 512).free(0);
  stays.segment(2 * kMiB, 2 * kMiB, 1).block(2 * kMiB, 512, 1).free(2 * kMiB).give_back(0);
  EXPECT_EQ(first(stays), "1 entry 8: other segments go back");
}

// ---- Expandable segments

TEST(Policies, ExpandableSegmentsGrowPageByPage) {
  // 15 MiB of large pages are one of 20, of which 5 are left: for 6 one more is mapped.
  Lines lines;
  lines.segment(0, 16 * kMiB).block(0, 15 * kMiB);
  lines.segment(32 * kMiB, 20 * kMiB).block(32 * kMiB, 6 * kMiB);
  Outcome outcome = replay_expandable(lines.trace());
  EXPECT_EQ(outcome.peaks, (Peaks{21 * kMiB, 40 * kMiB}));
  EXPECT_EQ(outcome.calls_first + outcome.calls_after, 2U);
  EXPECT_EQ(outcome.differences, 0U);
  // What was 20 MiB is free, too, and everything is one: 39 MiB need nothing more.
  lines.free(0).free(32 * kMiB).segment(64 * kMiB, 40 * kMiB).block(64 * kMiB, 39 * kMiB);
  outcome = replay_expandable(lines.trace());
  EXPECT_EQ(outcome.peaks, (Peaks{39 * kMiB, 40 * kMiB}));
  EXPECT_EQ(outcome.calls_first + outcome.calls_after, 2U);
}

TEST(Policies, ExpandableSegmentsCutEveryRemainder) {
  Lines lines;  // 11 MiB of 12 would count as 12 without
  lines.segment(0, 12 * kMiB).block(0, 11 * kMiB);
  lines.segment(16 * kMiB, 2 * kMiB).block(16 * kMiB, 512);
  EXPECT_EQ(replay_torch(lines.trace()).peaks, (Peaks{12 * kMiB + 512, 14 * kMiB}));
  EXPECT_EQ(replay_expandable(lines.trace()).peaks, (Peaks{11 * kMiB + 512, 22 * kMiB}));
}

TEST(Policies, ExpandableSegmentsGiveFreePagesBack) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 20 * kMiB);
  lines.segment(32 * kMiB, 40 * kMiB).block(32 * kMiB, 40 * kMiB);
  lines.segment(96 * kMiB, 20 * kMiB).block(96 * kMiB, 5 * kMiB);
  // Of pages 0 to 3 the two in the middle go back; the next 30 MiB map them again.
  lines.free(32 * kMiB).give_back(32 * kMiB);
  lines.segment(32 * kMiB, 30 * kMiB).block(32 * kMiB, 30 * kMiB);
  const Outcome outcome = replay_expandable(lines.trace());
  EXPECT_EQ(outcome.peaks, (Peaks{65 * kMiB, 80 * kMiB}));
  EXPECT_EQ(outcome.calls_first + outcome.calls_after, 5U);
}

TEST(Policies, SegmentsOfEmberGrowByWhatIsMissing) {
  // 15 MiB take 16, and 6 MiB what ordinary segments would: they begin where the 15 end.
  Lines lines;
  lines.segment(0, 16 * kMiB).block(0, 15 * kMiB);
  lines.segment(32 * kMiB, 20 * kMiB).block(32 * kMiB, 6 * kMiB);
  Outcome outcome = replay_ember(lines.trace(), kGrowing);
  EXPECT_EQ(outcome.peaks, (Peaks{21 * kMiB, 36 * kMiB}));
  EXPECT_EQ(outcome.calls_first + outcome.calls_after, 2U);
  // For 39 MiB 3 are missing; an eighth of what there is, is not more.
  lines.free(0).free(32 * kMiB).segment(64 * kMiB, 40 * kMiB).block(64 * kMiB, 39 * kMiB);
  outcome = replay_ember(lines.trace(), kGrowing);
  EXPECT_EQ(outcome.peaks, (Peaks{39 * kMiB, 40 * kMiB}));
  EXPECT_EQ(outcome.calls_first + outcome.calls_after, 3U);
}

TEST(Policies, SegmentsOfEmberGiveFreeChunksBack) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 20 * kMiB);
  lines.segment(32 * kMiB, 40 * kMiB).block(32 * kMiB, 40 * kMiB);
  lines.segment(96 * kMiB, 20 * kMiB).block(96 * kMiB, 5 * kMiB);
  lines.free(32 * kMiB).give_back(32 * kMiB);
  lines.segment(32 * kMiB, 30 * kMiB).block(32 * kMiB, 30 * kMiB);
  const Outcome outcome = replay_ember(lines.trace(), kGrowing);
  EXPECT_EQ(outcome.peaks, (Peaks{65 * kMiB, 80 * kMiB}));
  EXPECT_EQ(outcome.calls_first + outcome.calls_after, 5U);
}

TEST(Policies, TheVerdictIsOfTheBetterPeak) {
  Trace trace = Lines().segment(0, 2 * kMiB).block(0, 512).trace();
  Outcome torch, expandable, ember;
  torch.peaks.reserved = 100 * kMiB;
  expandable.peaks.reserved = 200 * kMiB;
  torch.calls_after = 5;
  ember.peaks.reserved = 102 * kMiB;
  ember.calls_after = 5;
  EXPECT_TRUE(judge(trace, torch, expandable, ember).reserved);
  EXPECT_TRUE(judge(trace, torch, expandable, ember).calls);
  trace.expandable = Peaks{0, 99 * kMiB};
  EXPECT_EQ(judge(trace, torch, expandable, ember).most_reserved, 101 * kMiB);
  EXPECT_FALSE(judge(trace, torch, expandable, ember).reserved);
  ember.calls_after = 6;
  EXPECT_FALSE(judge(trace, torch, expandable, ember).calls);
}

// ---- Traces of segments that grow

TEST(Policies, TracesOfGrowingSegmentsAreNotCompared) {
  Lines lines;
  lines.map(0, 20 * kMiB).block(0, 15 * kMiB).map(20 * kMiB, 20 * kMiB).block(15 * kMiB, 6 * kMiB);
  lines.free(0).free(15 * kMiB).unmap(0, 40 * kMiB);
  lines.map(2 * kMiB, 20 * kMiB).block(2 * kMiB, 5 * kMiB);
  const Trace trace = lines.trace();
  EXPECT_TRUE(trace.grows());
  EXPECT_EQ(recorded(trace).peaks, (Peaks{21 * kMiB, 40 * kMiB}));
  const Outcome torch = replay_torch(trace), grown = replay_expandable(trace);
  EXPECT_FALSE(torch.compared);
  EXPECT_EQ(torch.differences, 0U);
  // 16 MiB, of which 1 is too little to be cut off, and 20 for 6; both go back, and 20 come.
  EXPECT_EQ(torch.peaks, (Peaks{22 * kMiB, 36 * kMiB}));
  EXPECT_EQ(torch.calls_first + torch.calls_after, 5U);
  EXPECT_EQ(grown.peaks, (Peaks{21 * kMiB, 40 * kMiB}));
  EXPECT_EQ(grown.calls_first + grown.calls_after, 4U);
  EXPECT_EQ(replay_ember(trace).peaks, torch.peaks);
}

TEST(Policies, PrivatePoolsOfGrowingSegmentsGoBackWhereTheTraceNamesThem) {
  Lines lines;
  lines.map(0, 20 * kMiB, 0, 1).block(0, 15 * kMiB, 0, 1).free(0);
  lines.map(64 * kMiB, 20 * kMiB, 0, 2).block(64 * kMiB, 15 * kMiB, 0, 2).free(64 * kMiB);
  lines.unmap(0, 20 * kMiB);
  lines.map(96 * kMiB, 40 * kMiB).block(96 * kMiB, 30 * kMiB);
  for (const Outcome& outcome : {replay_torch(lines.trace()), replay_ember(lines.trace())})
    EXPECT_EQ(outcome.peaks.reserved, (16 + 30) * kMiB) << "16 of pool 1 went back, of pool 2 not";
}

TEST(Policies, PrivatePoolsGiveBackPagesWhereTheTraceNamesThem) {
  Lines lines;
  for (std::uint64_t pool = 1; pool <= 10; ++pool) {
    const std::uint64_t at = pool * 64 * kMiB;
    lines.segment(at, 16 * kMiB, 0, static_cast<int>(pool));
    lines.block(at, 15 * kMiB, 0, static_cast<int>(pool)).free(at).give_back(at);
  }
  const Trace trace = lines.trace();
  EXPECT_EQ(replay_expandable(trace).peaks.reserved, 20 * kMiB);
  EXPECT_EQ(replay_torch(trace).peaks.reserved, 16 * kMiB);
  EXPECT_EQ(replay_ember(trace, kGrowing).peaks.reserved, 16 * kMiB);
}

TEST(Policies, AddressesDoNotEnd) {
  // As large as blocks of a trace can be.
  std::string text = "ember-trace 1\n";
  const std::uint64_t bytes = kEndOfSizes - 512;
  for (std::uint64_t i = 0; i < 100; ++i) {
    char address[24];
    std::snprintf(address, sizeof address, "%llx",
                  static_cast<unsigned long long>((i << 48) / 512));
    text += std::string("+ ") + address + " " + std::to_string(bytes) + " 0 0\na " + address + " " +
            std::to_string(bytes) + " 0 0\n";
  }
  const Trace trace = read_trace(text + "end 200\n");
  EXPECT_EQ(replay_expandable(trace).peaks.allocated, 100 * bytes);
  EXPECT_EQ(replay_torch(trace).peaks.allocated, 100 * kEndOfSizes);  // 512 are no remainder
}

TEST(Policies, WhatDiffersFromTheTraceLiesElsewhere) {
  // PyTorch would have kept the first segment, whose addresses the trace has a second time.
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 2 * kMiB).block(2 * kMiB, 2 * kMiB).free(0).free(2 * kMiB);
  lines.segment(32 * kMiB, 2 * kMiB).block(32 * kMiB, 512).free(32 * kMiB).give_back(0);
  lines.segment(0, 2 * kMiB, 1).block(0, 512, 1).free(0).give_back(0).give_back(32 * kMiB);
  const Outcome outcome = replay_torch(lines.trace());
  EXPECT_NE(outcome.differences, 0U);
  EXPECT_EQ(outcome.peaks.reserved, 22 * kMiB);
}

// ---- Devices that have too little

/// Of an entry and in words; empty without.
std::string failure(const Outcome& outcome) {
  return outcome.failed_at ? std::to_string(*outcome.failed_at) + " " + outcome.failure : "";
}

TEST(Policies, WhatDoesNotFitEndsTheReplay) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 8 * kMiB).block(8 * kMiB, 8 * kMiB);
  lines.segment(32 * kMiB, 30 * kMiB).block(32 * kMiB, 30 * kMiB).free(0);
  const std::uint64_t enough = 50 * kMiB, less = enough - 1;
  for (const auto& policy : {replay_torch, replay_expandable}) {
    EXPECT_EQ(failure(policy(lines.trace(), {60 * kMiB, 4})), "");
    const Outcome outcome = policy(lines.trace(), {less, 4});
    EXPECT_EQ(failure(outcome),
              "4 30.00 MiB are asked for; 20.00 MiB are reserved, of which 16.00 MiB are in use; "
              "the device has 50.00 MiB");
    EXPECT_EQ(outcome.peaks, (Peaks{16 * kMiB, 20 * kMiB}));
  }
  EXPECT_EQ(failure(replay_torch(lines.trace(), {enough, 4})), "");
  EXPECT_EQ(failure(replay_ember(lines.trace(), {}, {enough, 4})), "");
  const Outcome ember = replay_ember(lines.trace(), {}, {less, 4});
  ASSERT_EQ(ember.failed_at, 4U);
  EXPECT_NE(ember.failure.find("Tried to allocate 30.00 MiB"), std::string::npos) << ember.failure;
}

TEST(Policies, BeforeItFailsStreamsAreWaitedForAndTheCacheIsEmptied) {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 15 * kMiB).request(0);  // and never complete, until:
  lines.segment(32 * kMiB, 30 * kMiB).block(32 * kMiB, 30 * kMiB);
  lines.complete(0);
  // In 32 MiB one goes back before the other comes: 20 or 16 of the first, and 30.
  for (const Outcome& outcome : {replay_torch(lines.trace(), {32 * kMiB, 0}),
                                 replay_ember(lines.trace(), {}, {32 * kMiB, 0}),
                                 replay_ember(lines.trace(), kGrowing, {32 * kMiB, 0})}) {
    EXPECT_EQ(failure(outcome), "");
    EXPECT_EQ(outcome.peaks.reserved, 30 * kMiB);
    EXPECT_EQ(outcome.calls_first + outcome.calls_after, 3U);
  }
  const Outcome grown = replay_expandable(lines.trace(), {40 * kMiB, 0});
  EXPECT_EQ(failure(grown), "");  // two pages of 20, the first of which is used again
  EXPECT_EQ(grown.peaks.reserved, 40 * kMiB);
}

// ---- Random traces

/// Blocks lie one after the other in a segment that neither allocator would ask for.
Trace random_trace(unsigned seed, int steps) {
  std::mt19937 random(seed);
  Trace trace;
  trace.entries.push_back({Action::segment_alloc, std::uint64_t{1} << 40, std::uint64_t{1} << 47});
  std::uint64_t next = std::uint64_t{1} << 40;
  std::vector<std::uint64_t> live, pending;
  const auto take = [&random](std::vector<std::uint64_t>& from) {
    std::swap(from[random() % from.size()], from.back());
    const std::uint64_t address = from.back();
    from.pop_back();
    return address;
  };
  for (int i = 0; i < steps; ++i) {
    const unsigned dice = random() % 100;
    if (dice < 48 || live.empty()) {
      const std::uint64_t unit = random() % 3 == 0 ? kMiB : random() % 2 == 0 ? 37 * kKiB : 300;
      const std::uint64_t size = 1 + random() % (16 * unit);
      trace.entries.push_back({Action::alloc, next, size, static_cast<std::uint32_t>(random() % 3),
                               random() % 8 == 0 ? 1U : 0U});
      live.push_back(next);
      next += (size + 511) / 512 * 512;
    } else if (dice < 90) {
      const std::uint64_t address = take(live);
      trace.entries.push_back({Action::free_requested, address});
      if (random() % 10 == 0)
        pending.push_back(address);
      else
        trace.entries.push_back({Action::free_completed, address});
    } else if (dice < 99) {
      if (!pending.empty()) trace.entries.push_back({Action::free_completed, take(pending)});
    } else if (random() % 4 == 0) {
      // The cache is emptied, for which PyTorch waits for all streams.
      while (!pending.empty()) trace.entries.push_back({Action::free_completed, take(pending)});
      const std::uint64_t address = (std::uint64_t{1} << 52) + next;
      trace.entries.push_back({Action::segment_alloc, address, kMiB});
      trace.entries.push_back({Action::segment_free, address});
    }
  }
  return trace;
}

// Two allocators that were made from the same documents, and have nothing in common.
TEST(Policies, TheModelAndEmberAgreeOnRandomTraces) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Trace trace = random_trace(seed, 4000);
    ASSERT_EQ(write_trace(read_trace(write_trace(trace))), write_trace(trace));
    const Outcome torch = replay_torch(trace), ember = replay_ember(trace);
    ASSERT_EQ(ember.peaks.allocated, torch.peaks.allocated) << seed;
    ASSERT_EQ(ember.peaks.reserved, torch.peaks.reserved) << seed;
    ASSERT_EQ(ember.calls_first, torch.calls_first) << seed;
    ASSERT_EQ(ember.calls_after, torch.calls_after) << seed;
    ASSERT_LE(recorded(trace).peaks.allocated, torch.peaks.allocated) << seed;
    ASSERT_LE(torch.peaks.allocated, torch.peaks.reserved) << seed;
    ASSERT_TRUE(judge(trace, torch, torch, ember).reserved) << seed;
    ASSERT_TRUE(judge(trace, torch, torch, ember).calls) << seed;
    const Outcome expandable = replay_expandable(trace);
    ASSERT_LE(expandable.peaks.allocated, torch.peaks.allocated) << seed;
    ASSERT_GE(expandable.peaks.allocated, recorded(trace).peaks.allocated) << seed;
    ASSERT_GE(expandable.peaks.reserved, expandable.peaks.allocated) << seed;
    // With as much memory as they came to, all do the same; with half of that each fails, or holds
    // no more.
    const auto with = [&trace](const auto& policy, std::uint64_t memory) {
      return policy(trace, Limits{memory, 8});
    };
    const auto ember_on = [](const Trace& on, const Limits& limits) {
      return replay_ember(on, {}, limits);
    };
    ASSERT_EQ(with(replay_torch, torch.peaks.reserved).peaks, torch.peaks);
    ASSERT_EQ(with(replay_expandable, expandable.peaks.reserved).peaks, expandable.peaks);
    ASSERT_EQ(with(ember_on, ember.peaks.reserved).peaks, ember.peaks);
    const std::uint64_t half = torch.peaks.reserved / 2;
    for (const Outcome& outcome :
         {with(replay_torch, half), with(replay_expandable, half), with(ember_on, half)}) {
      ASSERT_LE(outcome.peaks.reserved, half);
      ASSERT_LE(outcome.peaks.allocated, outcome.peaks.reserved);
    }
  }
}

// From a program on a device, over a snapshot and its text, to the model, which finds every block
// where it was.
TEST(Policies, TheModelFollowsARecordedProgram) {
  cuda::synchronize(0);
  cuda::empty_cache();
  cuda::record_memory_history({.context = {}});
  cuda::reset_peak_memory_stats(0);
  {
    const std::array<cuda::Stream, 2> streams = {cuda::default_stream(0), cuda::Stream(0)};
    std::mt19937 random(11);
    std::vector<cuda::DeviceBuffer> live(60);
    for (int i = 0; i < 3000; ++i) {
      cuda::DeviceBuffer& place = live[random() % live.size()];
      if (i % 1000 == 999) {
        cuda::synchronize(0);
        cuda::empty_cache();
      }
      const std::size_t unit = random() % 8 == 0 ? 600 * kKiB : random() % 2 == 0 ? 9 * kKiB : 300;
      place = cuda::allocate(1 + random() % (16 * unit), streams[random() % 8 == 0 ? 1 : 0]);
    }
  }
  const std::string pickle = cuda::snapshot_as_pickle(cuda::memory_snapshot());
  const auto peak_allocated = static_cast<std::uint64_t>(cuda::max_memory_allocated(0));
  const auto peak_reserved = static_cast<std::uint64_t>(cuda::max_memory_reserved(0));
  cuda::record_memory_history({.enabled = {}});
  cuda::empty_cache();
  const Trace trace = read_trace(write_trace(trace_of_snapshot(pickle, 0)));
  ASSERT_GT(trace.entries.size(), 8000U);
  EXPECT_EQ(trace.streams(), 2U);
  const Outcome torch = replay_torch(trace), ember = replay_ember(trace);
  EXPECT_EQ(torch.differences, 0U) << torch.first_difference;
  EXPECT_EQ(torch.peaks, (Peaks{peak_allocated, peak_reserved}));
  EXPECT_EQ(ember.peaks, (Peaks{peak_allocated, peak_reserved}));
}

}  // namespace
}  // namespace ember::replay
