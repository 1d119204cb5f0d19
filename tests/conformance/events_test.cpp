// Chapter 4 and properties E1 to E5.
#include <thread>

#include "ember/runtime/event.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using test::Gate;
using test::LogArgs;

TEST(Event, NewOneIsReached) {  // E1
  const Event event;
  EXPECT_TRUE(event.query());
  EXPECT_FALSE(event.is_created());
  EXPECT_EQ(event.native(), nullptr);
  EXPECT_FALSE(event.device().has_value());
  EXPECT_EQ(event.str(), "<torch.cuda.Event uninitialized>");
  event.synchronize();
  event.wait(Stream());
}

TEST(Event, IsReachedAfterSynchronize) {  // E1
  Event event;
  const Stream stream;
  Gate gate(stream);
  event.record(stream);
  EXPECT_TRUE(event.is_created());
  EXPECT_NE(event.native(), nullptr);
  EXPECT_EQ(event.device(), stream.device());
  EXPECT_FALSE(event.query());
  gate.open();
  synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_EQ(event.str().rfind("<torch.cuda.Event 0x", 0), 0u);
}

// Also where a seed decides, which does work only while the host waits or asks.
TEST(Event, ThatHasAHandleIsReachedByItsOwnProcess) {
  Event event(false, false, /*interprocess=*/true);
  const Stream stream;
  event.record(stream);
  (void)event.ipc_handle();
  event.synchronize();
  EXPECT_TRUE(event.query());
  event.record(stream);
  while (!event.query()) std::this_thread::yield();
  event.synchronize();
}

TEST(Event, SynchronizeWaitsForTheRecord) {
  test::Words<std::uint32_t> log(8);
  Event event(false, /*blocking=*/true);
  const Stream stream;
  launch(stream, test::busy_kernel, test::BusyArgs{log.get(), 1, 2000});
  event.record(stream);
  event.synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_EQ(log.read()[0], 1u);
}

TEST(Event, RecordOnceRecordsTheFirstTime) {  // E2
  Event event;
  const Stream idle;
  const Stream held;
  event.record_once(idle);
  idle.synchronize();
  Gate gate(held);
  event.record_once(held);
  EXPECT_TRUE(event.query()) << "the second record_once must not have recorded";
}

TEST(Event, SeveralStreamsBlockOnOne) {  // E2
  test::Words<std::uint32_t> log(16);
  const Stream source;
  Event event;
  Gate gate(source);
  launch(source, test::log_kernel, LogArgs{log.get(), 1});
  event.record(source);
  std::vector<Stream> waiting;
  for (int i = 0; i < 4; ++i) {
    event.wait(waiting.emplace_back());
    launch(waiting.back(), test::log_kernel, LogArgs{log.get(), 2});
    EXPECT_FALSE(waiting.back().query());
  }
  gate.open();
  const std::vector<std::uint32_t> entries = log.read();
  ASSERT_EQ(entries[0], 5u);
  EXPECT_EQ(entries[1], 1u) << "the source's work comes first";
}

TEST(Event, MoveTakesStateAndDevice) {  // E3
  const Stream stream;
  Event source;
  source.record(stream);
  void* native = source.native();
  Event target(true);
  target.record(stream);
  target = std::move(source);
  EXPECT_EQ(target.native(), native);
  EXPECT_EQ(target.device(), stream.device());
  EXPECT_FALSE(source.is_created());  // NOLINT: the moved-from state is documented as uncreated
  const Event third(std::move(target));
  EXPECT_EQ(third.native(), native);
  stream.synchronize();
  EXPECT_TRUE(third.query());
}

TEST(Event, OfAnotherDeviceIsWaitedForInOrder) {  // E4
  NEEDS_DEVICES(2);
  test::Pinned<std::uint32_t> handed(1);
  test::Words<std::uint32_t> first(1, 0);
  test::Words<std::uint32_t> second(1, 1);
  const Stream here(0);
  const Stream there(1);
  Event ready;
  {
    const Gate gate(here);
    launch(here, test::affine_kernel, test::AffineArgs{first.get(), 1, 1, 41});
    copy_async(handed.get(), first.get(), 4, here);
    ready.record(here);
    ready.wait(there);
    copy_async(second.get(), handed.get(), 4, there);
    launch(there, test::affine_kernel, test::AffineArgs{second.get(), 1, 1, 1});
    EXPECT_FALSE(there.query());
  }
  EXPECT_EQ(second.read()[0], 42u);
}

TEST(GenericEvent, BehavesAsTheCudaOne) {  // E5
  GenericEvent event(Device::Type::cuda);
  EXPECT_EQ(event.device_type(), Device::Type::cuda);
  EXPECT_TRUE(event.query());
  EXPECT_FALSE(event.device().has_value());
  const Stream stream;
  const Stream other;
  Gate gate(stream);
  event.record(stream);
  EXPECT_FALSE(event.query());
  event.block(other);
  EXPECT_FALSE(other.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_EQ(event.device(), stream.device());
  EXPECT_ERROR(GenericEvent{Device::Type::cpu}, Error, "expected cuda");
}

TEST(Event, RecordingAgainDoesNotDisturbEarlierWaits) {
  const Stream source;
  const Stream early;
  const Stream late;
  Event event;
  Gate first(source);
  event.record(source);
  event.wait(early);
  Gate second(source);
  event.record(source);
  event.wait(late);
  first.open();
  early.synchronize();  // would hang if it waited for the second record
  EXPECT_FALSE(late.query());
  EXPECT_FALSE(event.query());
  second.open();
  late.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(Event, DestroyedOneIsStillWaitedFor) {
  test::Words<std::uint32_t> log(8);
  const Stream source;
  const Stream waiting;
  Gate gate(source);
  {
    Event event;
    event.record(source);
    event.wait(waiting);
  }
  launch(source, test::log_kernel, LogArgs{log.get(), 1});
  launch(waiting, test::log_kernel, LogArgs{log.get(), 2});
  EXPECT_FALSE(waiting.query());
  gate.open();
  EXPECT_EQ(log.read()[0], 2u);
}

TEST(Event, WaitOnItsOwnStreamIsHarmless) {
  const Stream stream;
  Event event;
  Gate gate(stream);
  event.record(stream);
  event.wait(stream);
  gate.open();
  stream.synchronize();
}

TEST(Event, RecordOnAnotherDeviceIsRefused) {
  NEEDS_DEVICES(2);
  Event event;
  event.record(Stream(0));
  EXPECT_ERROR(event.record(Stream(1)), Error,
               "Event device 0 does not match recording stream's device 1.");
  event.record(Stream(0));
}

TEST(EventTiming, MeasuresWorkBetweenRecords) {
  NEEDS_CONCURRENCY();
  test::Words<std::uint32_t> log(8);
  const Stream stream;
  Event start(true);
  Event end(true);
  start.record(stream);
  launch(stream, test::busy_kernel, test::BusyArgs{log.get(), 1, 3000});
  end.record(stream);
  end.synchronize();
  const double elapsed = start.elapsed_time(end);
  EXPECT_GE(elapsed, 2.9);
  EXPECT_LT(elapsed, 5000.0);
  EXPECT_NEAR(end.elapsed_time(start), -elapsed, 0.01);
  EXPECT_EQ(start.elapsed_time(start), 0.0);
}

TEST(EventTiming, HasItsErrors) {
  const Stream stream;
  Event plain;
  Event timed(true);
  Event unrecorded(true);
  plain.record(stream);
  timed.record(stream);
  stream.synchronize();
  EXPECT_ERROR((void)plain.elapsed_time(timed), ValueError,
               "Both events must be created with argument 'enable_timing=True'.");
  EXPECT_ERROR((void)timed.elapsed_time(plain), ValueError,
               "Both events must be created with argument 'enable_timing=True'.");
  EXPECT_ERROR((void)timed.elapsed_time(unrecorded), ValueError,
               "Both events must be recorded before calculating elapsed time.");
  Event pending(true);
  Gate gate(stream);
  pending.record(stream);
  EXPECT_ERROR((void)timed.elapsed_time(pending), Error,
               "Both events must be completed before calculating elapsed time.");
}

TEST(EventTiming, AcrossDevicesIsRefused) {
  NEEDS_DEVICES(2);
  Event here(true);
  Event there(true);
  here.record(Stream(0));
  there.record(Stream(1));
  synchronize(0);
  synchronize(1);
  EXPECT_ERROR((void)here.elapsed_time(there), AcceleratorError,
               "CUDA error: invalid resource handle");
}

TEST(EventOptions, InterprocessExcludesTiming) {
  EXPECT_ERROR(Event(true, false, true), ValueError, "interprocess");
}

TEST(StreamWait, EventFormsAgree) {
  const Stream first;
  const Stream second;
  Gate gate(first);
  const Event fresh = first.record_event();
  Event mine;
  first.record_event(mine);
  second.wait_event(fresh);
  second.wait_event(mine);
  EXPECT_FALSE(second.query());
  EXPECT_FALSE(fresh.query());
  gate.open();
  second.synchronize();
  EXPECT_TRUE(mine.query());
}

TEST(StreamWait, OrdersAfterAllWorkOfTheOther) {
  test::Words<std::uint32_t> log(8);
  const Stream first;
  const Stream second;
  {
    const Gate gate(first);
    launch(first, test::log_kernel, LogArgs{log.get(), 1});
    second.wait_stream(first);
    launch(second, test::log_kernel, LogArgs{log.get(), 2});
    EXPECT_FALSE(second.query());
  }
  const std::vector<std::uint32_t> entries = log.read();
  EXPECT_EQ(entries[1], 1u);
  EXPECT_EQ(entries[2], 2u);
}

}  // namespace
}  // namespace ember::cuda
