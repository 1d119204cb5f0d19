// Properties G1 to G5.
#include <array>

#include "ember/runtime/guard.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

TEST(DeviceGuard, SetsTheDevice) {  // G1
  NEEDS_DEVICES(2);
  {
    const DeviceGuard guard(1);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
    EXPECT_EQ(guard.current_device(), Device("cuda:1"));
  }
  EXPECT_EQ(current_device(), 0);
  {
    const DeviceGuard guard(Device("cuda:1"));
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(DeviceGuard, MinusOneChangesNothing) {  // G1
  const DeviceGuard guard(-1);
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(guard.current_device(), Device("cuda:0"));
}

TEST(DeviceGuard, OtherKindsThrow) {  // G1
  EXPECT_ERROR(DeviceGuard("cpu"), ValueError, "Expected a cuda device, but got: cpu");
  EXPECT_EQ(current_device(), 0);
}

TEST(DeviceGuard, ChangesKeepTheOriginal) {  // G2
  NEEDS_DEVICES(2);
  {
    DeviceGuard guard(0);
    guard.set_device("cuda:1");
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
    guard.set_device("cuda:1");
    EXPECT_EQ(current_device(), 1);
    guard.set_index(0);
    EXPECT_EQ(current_device(), 0);
    guard.reset_device(1);
    EXPECT_EQ(guard.current_device(), Device("cuda:1"));
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
    EXPECT_ERROR(guard.set_device(1000), AcceleratorError, "invalid device ordinal");
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(DeviceGuard, EnteringMakesTheDeviceReadyAndLeavingTouchesNothing) {
  NEEDS_DEVICES(2);
  const int last = device_count() - 1;
  {
    const DeviceGuard guard(last);
    EXPECT_TRUE(test::machine().device_active(last));
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(OptionalDeviceGuard, EmptyDoesNothing) {  // G3
  const OptionalDeviceGuard guard;
  EXPECT_FALSE(guard.original_device().has_value());
  EXPECT_FALSE(guard.current_device().has_value());
  EXPECT_EQ(current_device(), 0);
}

TEST(OptionalDeviceGuard, CanBeSetLater) {  // G3
  NEEDS_DEVICES(2);
  {
    OptionalDeviceGuard guard;
    guard.set_index(1);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
    EXPECT_EQ(guard.current_device(), Device("cuda:1"));
    guard.set_device("cuda:0");
    EXPECT_EQ(current_device(), 0);
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
    guard.set_index(1);
    guard.reset();
    EXPECT_EQ(current_device(), 0);
    EXPECT_FALSE(guard.current_device().has_value());
    guard.set_index(1);
  }
  EXPECT_EQ(current_device(), 0);
  const OptionalDeviceGuard none(std::nullopt);
  EXPECT_FALSE(none.original_device().has_value());
}

TEST(StreamGuard, ResetRestoresTheTouchedDeviceFirst) {  // G4
  NEEDS_DEVICES(3);
  const Stream start(0);
  const Stream on_one(1);
  const Stream on_two(2);
  const Stream was_one(1);
  set_stream(was_one);
  set_stream(start);
  {
    StreamGuard guard(on_one);
    EXPECT_EQ(current_stream(1), on_one);
    guard.reset_stream(on_two);
    EXPECT_EQ(current_stream(1), was_one) << "device 1 is restored before device 2 is touched";
    EXPECT_EQ(current_stream(2), on_two);
    EXPECT_EQ(current_device(), 2);
    EXPECT_EQ(guard.original_stream(), start);
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(0), start);
  EXPECT_EQ(current_stream(1), was_one);
  EXPECT_EQ(current_stream(2), default_stream(2));
  set_stream(default_stream(1));
  set_stream(default_stream(0));
}

TEST(StreamGuard, RestoresTheOriginalStreamToo) {  // S4
  NEEDS_DEVICES(2);
  const Stream before(0);
  const Stream inside(0);
  const Stream there(1);
  set_stream(before);
  {
    StreamGuard outer(there);
    {
      const StreamGuard inner(inside);
      EXPECT_EQ(outer.original_stream(), before);
    }
    set_stream(inside);
    EXPECT_EQ(outer.original_stream(), before);
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(0), before);
  EXPECT_EQ(current_stream(1), default_stream(1));
  set_stream(default_stream(0));
}

TEST(StreamGuard, ResetOnTheSameDevice) {  // G4
  const Stream first;
  const Stream second;
  {
    StreamGuard guard(first);
    guard.reset_stream(second);
    EXPECT_EQ(current_stream(), second);
    EXPECT_EQ(guard.original_stream(), default_stream());
    EXPECT_EQ(guard.current_stream(), second);
  }
  EXPECT_EQ(current_stream(), default_stream());
}

TEST(StreamGuard, RestoresAfterAnException) {
  const Stream stream;
  try {
    const StreamGuard guard(stream);
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(current_stream(), default_stream());
}

TEST(OptionalStreamGuard, MayBeEmpty) {
  const Stream stream;
  {
    OptionalStreamGuard guard;
    EXPECT_FALSE(guard.original_stream().has_value());
    guard.reset_stream(stream);
    EXPECT_EQ(current_stream(), stream);
    EXPECT_EQ(guard.original_stream(), default_stream());
    guard.reset();
    EXPECT_EQ(current_stream(), default_stream());
    guard.reset_stream(stream);
  }
  EXPECT_EQ(current_stream(), default_stream());
}

TEST(MultiStreamGuard, SetsEachDeviceWithoutChangingTheCurrentOne) {  // G5
  NEEDS_DEVICES(2);
  const std::array streams{Stream(0), Stream(1)};
  {
    const MultiStreamGuard guard(streams);
    EXPECT_EQ(current_device(), 0);
    EXPECT_EQ(current_stream(0), streams[0]);
    EXPECT_EQ(current_stream(1), streams[1]);
  }
  EXPECT_EQ(current_stream(0), default_stream(0));
  EXPECT_EQ(current_stream(1), default_stream(1));
}

TEST(MultiStreamGuard, EmptyListHasNoEffect) {  // G5
  const MultiStreamGuard guard({});
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(), default_stream());
}

TEST(MultiStreamGuard, TakesAListInPlace) {
  const Stream stream;
  const MultiStreamGuard guard{stream};
  EXPECT_EQ(current_stream(), stream);
}

TEST(MultiStreamGuard, TwoStreamsOfOneDevice) {
  const std::array streams{Stream(0), Stream(0)};
  {
    const MultiStreamGuard guard(streams);
    EXPECT_EQ(current_stream(0), streams[1]);
  }
  EXPECT_EQ(current_stream(0), default_stream(0));
}

}  // namespace
}  // namespace ember::cuda
