// Faults name what has failed: operation, stream, number and the call that enqueued it.
#include "ember/runtime/recent_launches.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ember/runtime/event.h"
#include "ember/runtime/simulation.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// What is kept of a stream.
std::vector<RecentLaunch> of(const Stream& stream) {
  std::vector<RecentLaunch> all = recent_launches(stream.device_index());
  std::erase_if(all, [&](const RecentLaunch& each) { return each.stream != stream.native(); });
  return all;
}

class Recording {
 public:
  explicit Recording(int count) { record_launches(count); }
  ~Recording() { record_launches(0); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

TEST(RecentLaunches, NothingIsKeptUnlessAsked) {
  const Stream stream;
  launch(stream, test::nop_kernel, test::NopArgs{});
  stream.synchronize();
  EXPECT_TRUE(of(stream).empty());
}

TEST(RecentLaunches, KeepsTheLastOfEachStream) {
  const Recording recording(3);
  test::Words<std::uint32_t> data(16);
  const Stream stream;
  const Stream other;
  launch(other, test::nop_kernel, test::NopArgs{});
  for (int i = 0; i < 5; ++i)
    launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
  fill_async(data.get(), 0, 64, stream);
  stream.synchronize();
  other.synchronize();
  const std::vector<RecentLaunch> kept = of(stream);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].name, "affine");
  EXPECT_EQ(kept[1].name, "affine");
  EXPECT_EQ(kept[2].name, "fill");
  EXPECT_EQ(kept[2].bytes, 64u);
  EXPECT_EQ(kept[1].number, kept[0].number + 1);
  EXPECT_EQ(kept[2].number, kept[1].number + 1);
  EXPECT_EQ(kept[0].device, 0);
  const std::vector<RecentLaunch> others = of(other);
  ASSERT_FALSE(others.empty());
  EXPECT_EQ(others.back().name, "nop");
}

TEST(RecentLaunches, SaysWhatIsFinished) {
  const Recording recording(64);
  const Stream stream;
  // On real devices it is known in steps of sixteen.
  for (int i = 0; i < 32; ++i) launch(stream, test::nop_kernel, test::NopArgs{});
  stream.synchronize();
  EXPECT_EQ(of(stream).front().state, LaunchState::finished);
  test::Gate gate(stream);
  launch(stream, test::nop_kernel, test::NopArgs{});
  EXPECT_EQ(of(stream).back().state, LaunchState::unfinished);
  gate.open();
  stream.synchronize();
}

TEST(RecentLaunches, CanKeepMoreOrFewerLater) {
  const Recording recording(8);
  const Stream stream;
  for (int i = 0; i < 6; ++i) launch(stream, test::nop_kernel, test::NopArgs{});
  const std::uint64_t last = of(stream).back().number;
  record_launches(2);
  launch(stream, test::nop_kernel, test::NopArgs{});
  ASSERT_EQ(of(stream).size(), 2u);
  EXPECT_EQ(of(stream)[0].number, last);
  record_launches(5);
  for (int i = 0; i < 9; ++i) launch(stream, test::nop_kernel, test::NopArgs{});
  ASSERT_EQ(of(stream).size(), 5u);
  EXPECT_EQ(of(stream).back().number, last + 10);
  stream.synchronize();
}

TEST(RecentLaunches, KnowsWhereEachWasEnqueued) {
  const Recording recording(4);
  const Stream stream;
  launch(stream, test::nop_kernel, test::NopArgs{});
  stream.synchronize();
  EXPECT_NE(of(stream).back().stack, 0u);
  EXPECT_FALSE(of(stream).back().where().empty());
}

TEST(RecentLaunches, BadCounts) {
  EXPECT_ERROR(record_launches(-1), ValueError, "count is -1, expected 0 to 65536");
  EXPECT_ERROR(record_launches(65537), ValueError, "count is 65537, expected 0 to 65536");
}

std::uint32_t* no_memory() {
  return reinterpret_cast<std::uint32_t*>(64);  // NOLINT
}

TEST(RecentLaunches, AFaultNamesOperationStreamAndCall) {
  IN_CHILD({
    record_launches(8);
    const Stream stream;
    launch(stream, test::nop_kernel, test::NopArgs{});
    const std::uint64_t before = of(stream).back().number;
    launch(stream, test::bad_access_kernel, test::BadAccessArgs{no_memory()});
    std::string text;
    try {
      stream.synchronize();
    } catch (const AcceleratorError& error) {
      text = error.what();
    }
    const std::vector<RecentLaunch> kept = of(stream);  // also now
    ASSERT_GE(kept.size(), 2u);
    EXPECT_EQ(kept.back().name, "bad_access");
    EXPECT_NE(kept.back().state, LaunchState::finished);
    EXPECT_EQ(kept.back().number, before + 1);
    EXPECT_NE(text.find("bad_access"), std::string::npos) << text;
    char place[80];
    std::snprintf(place, sizeof place, "of stream %p, enqueued at:\n", stream.native());
    EXPECT_NE(text.find(place), std::string::npos) << text;
    const std::string stack = is_simulated() ? kept.back().where() : kept.front().where();
    ASSERT_FALSE(stack.empty());
    EXPECT_NE(text.find(stack.substr(0, stack.find('\n'))), std::string::npos) << text << stack;
    EXPECT_EQ(text.find("{stack"), std::string::npos) << text;
  });
}

TEST(RecentLaunchesSimulated, WhatAFaultDroppedIsTold) {
  if (!is_simulated()) GTEST_SKIP() << "real devices do not say what they dropped";
  IN_CHILD({
    record_launches(8);
    const Stream stream;
    {
      const test::Gate gate(stream);  // the fault comes once all is enqueued
      launch(stream, test::bad_access_kernel, test::BadAccessArgs{no_memory()});
      launch(stream, test::nop_kernel, test::NopArgs{});
    }
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, "'bad_access'");
    const std::vector<RecentLaunch> kept = of(stream);
    const std::size_t count = kept.size();
    ASSERT_GE(count, 3u);
    EXPECT_EQ(kept[count - 3].state, LaunchState::finished);  // the gate
    EXPECT_EQ(kept[count - 2].state, LaunchState::dropped);
    EXPECT_EQ(kept[count - 1].state, LaunchState::dropped);
    EXPECT_NE(kept[count - 1].str().find("'nop' number "), std::string::npos);
    EXPECT_NE(kept[count - 1].str().find(" of cuda:0, dropped"), std::string::npos);
  });
}

TEST(FaultCarriedSimulated, OverTwoDevicesItNamesTheFirst) {
  if (!is_simulated()) GTEST_SKIP() << "on CUDA a fault ends all devices of the process";
  NEEDS_DEVICES(3);
  IN_CHILD({
    const Stream first(0);
    const Stream second(1);
    const Stream third(2);
    {
      const test::Gate gate(first);
      launch(first, test::bad_access_kernel, test::BadAccessArgs{no_memory()});
      second.wait_stream(first);
      third.wait_stream(second);
    }
    EXPECT_ERROR(third.synchronize(), AcceleratorError, "operation 'bad_access' on cuda:0 faulted");
    EXPECT_ERROR(third.synchronize(), AcceleratorError, "it waits for work that cuda:1 dropped");
    EXPECT_ERROR(second.synchronize(), AcceleratorError, "it waits for work that cuda:0 dropped");
  });
}

TEST(FaultCarriedSimulated, ACopyFromMemoryOfADeviceInAFaultNamesIt) {
  if (!is_simulated()) GTEST_SKIP() << "on CUDA a fault ends all devices of the process";
  NEEDS_DEVICES(2);
  IN_CHILD({
    test::Words<std::uint32_t> there(4, 0);
    test::Words<std::uint32_t> here(4, 1);
    const Stream stream(1);
    {
      const test::Gate gate(stream);
      copy_async(here.get(), there.get(), 16, stream);
      const Stream failing(0);
      launch(failing, test::bad_access_kernel, test::BadAccessArgs{no_memory()});
      EXPECT_ERROR(failing.synchronize(), AcceleratorError, "'bad_access'");
    }
    EXPECT_ERROR(stream.synchronize(), AcceleratorError,
                 "that is memory of cuda:0, which is in a fault; there operation 'bad_access'");
  });
}

}  // namespace
}  // namespace ember::cuda
