// replay_memory: policies by their names, moments over time, the table.
#include "ember/replay/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/snapshot.h"
#include "lines.h"

namespace ember {
namespace {

using cuda::ReplayPeaks;
using cuda::ReplayPoint;
using replay::Lines;

/// Two large blocks, of which the first goes: 10 entries.
std::string example() {
  Lines lines;
  lines.segment(0, 20 * kMiB).block(0, 8 * kMiB).segment(32 * kMiB, 16 * kMiB);
  lines.block(32 * kMiB, 15 * kMiB).free(0).block(0, 2 * kMiB).free(32 * kMiB);
  lines.give_back(32 * kMiB);
  return lines.text();
}

TEST(Replay, WithoutPoliciesThereAreFour) {
  const cuda::Replayed replayed = cuda::replay_memory(example());
  std::vector<std::string> names;
  for (const auto& outcome : replayed.outcomes) names.push_back(outcome.policy);
  EXPECT_EQ(names, (std::vector<std::string>{"torch", "torch-expandable", "ember",
                                             "expandable_segments:True"}));
  EXPECT_EQ(replayed.entries, 10U);
  EXPECT_EQ(replayed.streams, 1U);
  EXPECT_EQ(replayed.recorded, (ReplayPeaks{23 * kMiB, 36 * kMiB}));
  for (const int ordinary : {0, 2})
    EXPECT_EQ(replayed.outcomes[static_cast<std::size_t>(ordinary)].peaks,
              (ReplayPeaks{24 * kMiB, 36 * kMiB}));
  EXPECT_TRUE(replayed.outcomes[0].compared);
  EXPECT_EQ(replayed.outcomes[0].differences, 0U) << replayed.outcomes[0].first_difference;
  EXPECT_FALSE(replayed.outcomes[1].compared);
}

TEST(Replay, OfEachPartTheMomentAtWhichMostWasInUse) {
  const cuda::Replayed replayed =
      cuda::replay_memory(example(), {.policies = {"torch"}, .points = 5});
  const std::vector<ReplayPoint> expected = {{1, {8 * kMiB, 20 * kMiB}},
                                             {3, {24 * kMiB, 36 * kMiB}},
                                             {4, {16 * kMiB, 36 * kMiB}},
                                             {6, {18 * kMiB, 36 * kMiB}},
                                             {8, {2 * kMiB, 36 * kMiB}}};
  EXPECT_EQ(replayed.outcomes.at(0).course, expected);
  // No more of them than there are entries, and none if nobody wants any.
  EXPECT_EQ(cuda::replay_memory(example(), {.policies = {"ember"}, .points = 100})
                .outcomes.at(0)
                .course.size(),
            10U);
  EXPECT_TRUE(cuda::replay_memory(example(), {.points = 0}).outcomes.at(2).course.empty());
  EXPECT_TRUE(cuda::replay_memory("ember-trace 1\nend 0\n").outcomes.at(2).course.empty());
}

TEST(Replay, SettingsDoWhatTheySay) {
  // 600 and 700 MiB: rounded to quarters of a power of two these are 640 and 768.
  Lines lines;
  lines.segment(0, 600 * kMiB).block(0, 600 * kMiB).segment(1024 * kMiB, 700 * kMiB);
  lines.block(1024 * kMiB, 700 * kMiB);
  const auto peaks = [&](const char* settings) {
    return cuda::replay_memory(lines.text(), {.policies = {settings}}).outcomes.at(0).peaks;
  };
  EXPECT_EQ(peaks("ember").allocated, 1300 * kMiB);
  EXPECT_EQ(peaks("roundup_power2_divisions:4").allocated, (640 + 768) * kMiB);

  // A segment of 100 MiB is free. It serves 60 more, unless blocks of 64 and more are not split.
  Lines split;
  split.segment(0, 100 * kMiB).block(0, 100 * kMiB).free(0).block(0, 60 * kMiB);
  const auto reserved = [&](const char* settings) {
    return cuda::replay_memory(split.text(), {.policies = {settings}})
        .outcomes.at(0)
        .peaks.reserved;
  };
  EXPECT_EQ(reserved("ember"), 100 * kMiB);
  EXPECT_EQ(reserved("max_split_size_mb:64"), 160 * kMiB);
}

TEST(Replay, PartsOfTheDevicesMemory) {
  // Half of 40 MiB is enough for 18, and not for 18 more.
  Lines lines;
  lines.segment(0, 18 * kMiB).block(0, 18 * kMiB);
  lines.segment(32 * kMiB, 18 * kMiB).block(32 * kMiB, 18 * kMiB);
  const auto outcome = [&](const char* settings) {
    return cuda::replay_memory(lines.text(), {.policies = {settings}, .memory = 40 * kMiB})
        .outcomes.at(0);
  };
  EXPECT_FALSE(outcome("ember").failed_at);
  const cuda::ReplayOutcome half = outcome("per_process_memory_fraction:0.5");
  ASSERT_EQ(half.failed_at, 3U);
  EXPECT_NE(half.failure.find("Tried to allocate 18.00 MiB"), std::string::npos) << half.failure;

  // What has not been used for long goes back before the limit is reached: more calls, less held.
  Lines steps;
  for (std::uint64_t i = 0; i < 30; ++i)
    steps.segment(i * 128 * kMiB, (20 + 2 * i) * kMiB)
        .block(i * 128 * kMiB, (20 + 2 * i) * kMiB)
        .free(i * 128 * kMiB);
  const auto stepped = [&](const char* settings) {
    return cuda::replay_memory(steps.text(), {.policies = {settings}, .memory = 400 * kMiB})
        .outcomes.at(0);
  };
  const cuda::ReplayOutcome all = stepped("ember");
  const cuda::ReplayOutcome collected = stepped("garbage_collection_threshold:0.5");
  EXPECT_FALSE(all.failed_at || collected.failed_at);
  EXPECT_LT(collected.peaks.reserved, 300 * kMiB);
  EXPECT_GT(all.peaks.reserved, 300 * kMiB);
}

TEST(Replay, BadPoliciesAreRefused) {
  const auto refusal = [](cuda::ReplayOptions options, const std::string& trace = example()) {
    try {
      (void)cuda::replay_memory(trace, options);
    } catch (const ValueError& error) {
      return std::string(error.what());
    }
    return std::string("nothing is wrong");
  };
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"pytorch",
       "policies: 'pytorch': expected 'torch', 'torch-expandable', 'ember', or settings"},
      {"", "policies: '': expected 'torch'"},
      {"max_split_size:5", "policies: 'max_split_size:5': Unrecognized"},
      {"max_split_size_mb:5", "too small, must be >= 20, but got 5"},
      {"backend:cudaMallocAsync", "expected settings of backend:native"},
      {"per_process_memory_fraction:0.5", "expected how much that is"},
      {"garbage_collection_threshold:0.5", "expected how much that is"}};
  for (const auto& [policy, why] : rows)
    EXPECT_NE(refusal({.policies = {policy}}).find(why), std::string::npos)
        << refusal({.policies = {policy}});
  EXPECT_NE(refusal({.device = 1}).find("device 1 is asked for, and a text has device 0"),
            std::string::npos);
  EXPECT_NE(refusal({.points = 10001}).find("points: got 10001, expected 0 to 10000"),
            std::string::npos);
  EXPECT_NE(refusal({}, "nothing").find("trace: line 1"), std::string::npos);
  EXPECT_NE(refusal({}, "").find("trace: it ends after line 0"), std::string::npos);
}

TEST(Replay, TheTable) {
  const std::string text = "ember-trace 1\nprogram a\x1b[31m step\npeak native 8388608 20971520\n" +
                           example().substr(std::string("ember-trace 1\n").size());
  const std::string table =
      cuda::replay_memory(text, {.policies = {"torch", "ember"}, .memory = 30 * kMiB, .points = 2})
          .str();
  EXPECT_EQ(
      table.substr(0, table.find("  ember: out of memory")),
      "a?[31m step: 10 entries, 1 stream\n"
      "MiB                    most in use  most reserved   unused    calls  later\n"
      "  counted by PyTorch          8.00          20.00    60.0%\n"
      "  as asked for               23.00          36.00    36.1%\n"
      "1 torch                       8.00          20.00    60.0%        1      1  out of memory\n"
      "2 ember                       8.00          20.00    60.0%        1      1  out of memory\n"
      "  torch: out of memory at entry 3: 15.00 MiB are asked for; 20.00 MiB are reserved, of "
      "which 8.00 MiB are in use; the device has 30.00 MiB\n");
  const std::string course = table.substr(table.find("over time"));
  EXPECT_EQ(course,
            "over time, when most was in use: MiB reserved, and the part that was not in use\n"
            "  of the trace                  1                 2\n"
            "  to  50.0 %         20.00  60.0%      20.00  60.0%\n"
            "  to 100.0 %                    -                 -\n");
}

// A program with segments that grow: its history says what those of ember would do, which was done.
TEST(Replay, FollowsARecordedProgramWithGrowingSegments) {
  cuda::synchronize(0);
  cuda::empty_cache();
  cuda::set_allocator_settings("expandable_segments:True");
  cuda::record_memory_history({.context = {}});
  cuda::reset_peak_memory_stats(0);
  {
    std::vector<cuda::DeviceBuffer> live;
    for (std::size_t step = 0; step < 40; ++step) {
      live.push_back(cuda::allocate((step % 7 + 1) * 700 * kKiB, cuda::default_stream(0)));
      if (step % 3 == 2) live.erase(live.begin() + static_cast<std::ptrdiff_t>(step % live.size()));
      if (step == 20) cuda::empty_cache();
    }
  }
  cuda::empty_cache();
  const std::string pickle = cuda::snapshot_as_pickle(cuda::memory_snapshot());
  const ReplayPeaks peaks = {static_cast<std::uint64_t>(cuda::max_memory_allocated(0)),
                             static_cast<std::uint64_t>(cuda::max_memory_reserved(0))};
  cuda::record_memory_history({.enabled = {}});
  cuda::set_allocator_settings("expandable_segments:False");
  const cuda::Replayed replayed = cuda::replay_memory(pickle);
  EXPECT_EQ(replayed.dropped, 0U);
  EXPECT_EQ(replayed.recorded.reserved, peaks.reserved);
  EXPECT_EQ(replayed.outcomes.at(3).peaks, peaks);
  EXPECT_FALSE(replayed.outcomes.at(0).compared);
}

}  // namespace
}  // namespace ember
