// Every bug is found in one run, whatever the timing, and its fixed twin is called clean.
#include "tests/races/races.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/devices.h"
#include "tests/support/kernels.h"

namespace ember::races {

namespace {

class Races : public testing::TestWithParam<Case> {
 protected:
  /// What the sanitizer has to say of one run. The devices are idle before and after it.
  static std::string run(bool fixed, SanitizerSummary& summary,
                         std::vector<sanitizer::Conflict>& conflicts) {
    Sanitizer sanitizer({.print = false});
    const double result = GetParam().run(fixed);
    if (fixed) {
      EXPECT_EQ(result, GetParam().result);
    }
    for (int device = 0; device < device_count(); ++device) synchronize(device);
    summary = sanitizer.summary();
    conflicts = sanitizer.conflicts();
    std::string text = summary.str() + "\n";
    for (const std::string& report : sanitizer.reports()) text += report;
    return text;
  }
};

TEST_P(Races, IsFoundAndItsFixedTwinIsClean) {
  NEEDS_DEVICES(GetParam().devices);
  NEEDS_CACHING();
  SanitizerSummary summary;
  std::vector<sanitizer::Conflict> conflicts;
  const std::string clean = run(true, summary, conflicts);
  EXPECT_TRUE(summary.clean()) << GetParam().report << "\n" << clean;
  const std::string text = run(false, summary, conflicts);
  ASSERT_FALSE(conflicts.empty()) << GetParam().report << "\n" << text;
  EXPECT_EQ(conflicts[0].kind, GetParam().kind) << text;
  EXPECT_NE(text.find("What would have ordered them: "), std::string::npos);
  EXPECT_EQ(summary.unchecked, 0U) << text;
}

INSTANTIATE_TEST_SUITE_P(Of, Races, testing::ValuesIn(all_cases()), test_name);

TEST(RaceSuite, IsLargeEnough) {
  const std::vector<Case> all = all_cases();
  EXPECT_GE(all.size(), 24U + 12U);
  for (const Case& one : all) EXPECT_EQ(std::string(one.report).find("https://"), 0U) << one.name;
}

// ---- What is not about single bugs

TEST(SanitizerApi, RaisesFromTheOperationThatRanIntoTheRace) {
  const Stream a, b;
  DeviceBuffer data = allocate(64, a);
  Sanitizer sanitizer({.raise = true, .print = false});
  produce(a, data.data(), 64);
  EXPECT_ERROR(consume(b, data.data(), 64), SanitizerError, "detected 1 errors");
  consume(a, data.data(), 64);  // the next one is good
  EXPECT_EQ(sanitizer.summary().races, 1U);
  record_stream(data.data(), b);
}

TEST(SanitizerApi, TheSameTwoPlacesAreOneRace) {
  const Stream a, b;
  DeviceBuffer data = allocate(64, a);
  Sanitizer sanitizer({.print = false});
  for (int i = 0; i < 10; ++i) {
    produce(a, data.data(), 64);
    consume(b, data.data(), 64);
  }
  // b's read runs into a's write, and from the second time on a's write into b's read.
  EXPECT_EQ(sanitizer.summary().races, 2U);
  record_stream(data.data(), b);
}

TEST(SanitizerApi, SuppressesByName) {
  const Stream a, b;
  DeviceBuffer data = allocate(64, a);
  Sanitizer sanitizer({.print = false, .suppressed = {"prod*"}});
  produce(a, data.data(), 64);
  consume(b, data.data(), 64);
  EXPECT_EQ(sanitizer.summary().races, 0U);
  EXPECT_EQ(sanitizer.summary().suppressed, 1U);
  record_stream(data.data(), b);
}

// Reads of what was never written.

#define NEEDS_SIMULATED() \
  if (!test::machine().simulated()) GTEST_SKIP() << "reported on simulated devices only"

TEST(NeverWritten, IsFoundByTheByte) {
  NEEDS_SIMULATED();
  Sanitizer sanitizer({.print = false});
  const Tensor x = empty({100}, "cuda");
  x.narrow(0, 0, 60).fill_(1);
  const Tensor written = x.narrow(0, 0, 60) + 1;
  EXPECT_TRUE(sanitizer.summary().clean()) << sanitizer.summary().str();
  const Tensor last = x.narrow(0, 59, 2) + 1;  // one of two
  ASSERT_EQ(sanitizer.summary().unwritten, 1U) << sanitizer.summary().str();
  const sanitizer::Conflict found = sanitizer.conflicts().at(0);
  EXPECT_EQ(found.kind, sanitizer::Conflict::Kind::never_written);
  EXPECT_EQ(found.missing, static_cast<const float*>(x.data_ptr()) + 60);
  EXPECT_EQ(found.missing_bytes, 4U);
  EXPECT_NE(found.now.operation.stack, 0U);
  EXPECT_NE(found.allocation_stack, 0U);
  EXPECT_FALSE(sanitizer.summary().clean());
}

TEST(NeverWritten, SeesTheGapsOfStrides) {
  NEEDS_SIMULATED();
  Sanitizer sanitizer({.print = false});
  const Tensor x = empty({16, 8}, "cuda");
  x.select(1, 3).fill_(1);
  x.select(1, 4).zero_();
  const Tensor both = x.narrow(1, 3, 2) + 1;
  const Tensor many = x.select(1, 3).unsqueeze(1).expand({16, 5}) * 2;
  const Tensor none = empty({0, 8}, "cuda") + 1;
  EXPECT_TRUE(sanitizer.summary().clean()) << sanitizer.summary().str();
  const Tensor beside = x.select(1, 5) + 1;
  EXPECT_EQ(sanitizer.summary().unwritten, 1U);
}

TEST(NeverWritten, OfAnInPlaceOperationAndMemoryThatCameBack) {
  NEEDS_SIMULATED();
  Sanitizer sanitizer({.print = false});
  { const Tensor full = ones({64}, "cuda"); }
  const Tensor again = empty({64}, "cuda");  // the same memory, where there is a cache
  again.add_(1);
  EXPECT_EQ(sanitizer.summary().unwritten, 1U);
}

TEST(NeverWritten, RaisesAndIsSuppressedLikeARace) {
  NEEDS_SIMULATED();
  {
    Sanitizer sanitizer({.raise = true, .print = false});
    const Tensor x = empty({64}, "cuda");
    EXPECT_ERROR(x + 1, SanitizerError, "detected 1 errors");
    const Tensor next = x + 1;  // said once
  }
  Sanitizer quiet({.print = false, .suppressed = {"add.*"}});
  const Tensor x = empty({64}, "cuda");
  const Tensor y = x + 1;
  EXPECT_EQ(quiet.summary().unwritten, 0U);
  EXPECT_EQ(quiet.summary().suppressed, 1U);
  Sanitizer off({.print = false, .unwritten = false});
  const Tensor z = empty({64}, "cuda") + 1;
  EXPECT_TRUE(off.summary().clean());
}

TEST(NeverWritten, AnUncheckedLaunchMayHaveWrittenIt) {
  NEEDS_SIMULATED();
  Sanitizer sanitizer({.print = false});
  const Tensor x = empty({64}, "cuda");
  launch(current_stream(), "unknown", [](const HostLaunch&) {});
  const Tensor y = x + 1;
  EXPECT_EQ(sanitizer.summary().unwritten, 0U);
}

TEST(SanitizerApi, NothingWithUncheckedLaunchesIsClean) {
  const Stream a;
  Sanitizer sanitizer({.print = false});
  cuda::launch(a, test::nop_kernel, driver::Params(test::NopArgs()));
  EXPECT_EQ(sanitizer.summary().unchecked, 1U);
  EXPECT_FALSE(sanitizer.summary().clean());
}

TEST(SanitizerApi, PinnedMemoryIsUnwatchedUntilSomebodySaysWhatTheHostDoes) {
  const Stream copies;
  const DeviceBuffer device = allocate(kBytes, copies);
  Sanitizer sanitizer({.print = false});
  PinnedBuffer unused = allocate_pinned(kBytes), first = allocate_pinned(kBytes),
               second = allocate_pinned(kBytes);
  EXPECT_EQ(sanitizer.summary().exposed, 0U);
  copy_async(device.data(), first.data(), kBytes, copies);
  copy_async(second.data(), device.data(), kBytes, copies);
  EXPECT_EQ(sanitizer.summary().exposed, 2U);
  EXPECT_FALSE(sanitizer.summary().clean());
  copies.synchronize();
  host_reads(second.data(), kBytes);
  EXPECT_EQ(sanitizer.summary().exposed, 1U);
  host_function([] {}, copies, {writes(first.as<char>(), kBytes)});
  EXPECT_TRUE(sanitizer.summary().clean()) << sanitizer.summary().str();
  copies.synchronize();
}

TEST(SanitizerApi, ReportsHaveTheStacksOfBothAndOfTheAllocation) {
  const Stream a, b;
  Sanitizer sanitizer({.print = false});
  DeviceBuffer data = allocate(64, a);
  produce(a, data.data(), 64);
  consume(b, data.data(), 64);
  ASSERT_EQ(sanitizer.conflicts().size(), 1U);
  const sanitizer::Conflict conflict = sanitizer.conflicts()[0];
  EXPECT_NE(conflict.now.operation.stack, 0U);
  EXPECT_NE(conflict.before.operation.stack, 0U);
  EXPECT_NE(conflict.now.operation.stack, conflict.before.operation.stack);
  EXPECT_NE(conflict.allocation_stack, 0U);
  EXPECT_EQ(conflict.allocation, data.data());
  record_stream(data.data(), b);
}

TEST(SanitizerApi, AFileThatCannotBeOpenedIsNamed) {
  EXPECT_ERROR(Sanitizer({.json_path = "/nowhere/races.json"}), ValueError,
               "json_path is '/nowhere/races.json'");
}

TEST(SanitizerApi, SeveralWatchAtOnce) {
  const Stream a, b;
  DeviceBuffer data = allocate(64, a);
  Sanitizer first({.print = false});
  {
    Sanitizer second({.print = false});
    produce(a, data.data(), 64);
    consume(b, data.data(), 64);
    EXPECT_EQ(second.summary().races, 1U);
  }
  EXPECT_EQ(first.summary().races, 1U);
  record_stream(data.data(), b);
}

}  // namespace
}  // namespace ember::races
