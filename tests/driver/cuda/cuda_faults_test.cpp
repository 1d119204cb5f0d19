// The host code of the CUDA driver: faults of asynchronous work, and resets.
#include <thread>
#include <vector>

#include "fake_machine.h"

namespace ember::driver {
namespace {

constexpr int kIllegalAddress = static_cast<int>(Code::illegal_address);
const std::string kFault = "fault of asynchronous work on cuda:0";
const std::string kQueued = kFault + "; queued since the last synchronization, newest first: ";

Status succeed(const Params&, const CudaLaunch&) { return {}; }
const Kernel kOld{"old", nullptr, &succeed};
const Kernel kFirst{"first", nullptr, &succeed};
const Kernel kSecond{"second", nullptr, &succeed};

std::string name(const StreamHandle& stream) {
  char text[32];
  std::snprintf(text, sizeof(text), "stream 0x%zx", reinterpret_cast<std::size_t>(stream.native));
  return text;
}

TEST_F(OnFakeCuda, FaultNamesTheWorkThatMayHaveCausedIt) {
  const StreamHandle stream = stream_on(0);
  char* memory = static_cast<char*>(memory_on(0, 64));
  EXPECT_TRUE(cuda().launch(stream, kOld, Params()).ok());
  EXPECT_TRUE(cuda().device_synchronize(0).ok());
  EXPECT_TRUE(cuda().launch(kDefault, kFirst, Params()).ok());
  EXPECT_TRUE(cuda().launch(stream, kOld, Params()).ok());
  EXPECT_TRUE(cuda().stream_synchronize(stream).ok());
  EXPECT_TRUE(cuda().launch(stream, kSecond, Params()).ok());
  EXPECT_TRUE(cuda().copy(kDefault, memory, memory + 32, 16).ok());
  EXPECT_FALSE(cuda().copy(kDefault, nullptr, memory, 16).ok());  // never enqueued
  fake().fault[0] = kIllegalAddress;
  const std::string expected = kQueued + "copy of 16 bytes on the default stream, 'second' on " +
                               name(stream) + ", 'first' on the default stream";
  expect(cuda().device_synchronize(0), Code::illegal_address, expected);
  // It stays, and is the same for every call of that device.
  expect(cuda().launch(stream, kOld, Params()), Code::illegal_address, expected);
  expect(cuda().malloc(0, 16, *std::make_unique<void*>()), Code::illegal_address, expected);
  EXPECT_EQ(cuda().peer_enable(1, 0).code(), Code::illegal_address);
  EXPECT_TRUE(cuda().device_activate(1).ok());
  // What gives something back still does.
  EXPECT_TRUE(cuda().free(0, memory).ok());
  EXPECT_EQ(cuda().free(0, memory).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().stream_destroy(stream).ok());
}

TEST_F(OnFakeCuda, FaultFoundWhileReleasingIsKeptForTheNextCall) {
  void* memory = memory_on(0, 64);
  fake().fault[0] = kIllegalAddress;
  EXPECT_TRUE(cuda().free(0, memory).ok());
  expect(cuda().device_activate(0), Code::illegal_address,
         kFault + "; nothing that was queued here is unfinished");
}

TEST_F(OnFakeCuda, FaultThatACudaImplementationReportsIsTheDevices) {
  const Kernel kernel{"asserts", nullptr,
                      [](const Params&, const CudaLaunch&) { return Status(Code::device_assert); }};
  EXPECT_TRUE(cuda().launch(kDefault, kFirst, Params()).ok());
  const std::string expected = kQueued + "'first' on the default stream";
  expect(cuda().launch(kDefault, kernel, Params()), Code::device_assert, expected);
  expect(cuda().device_synchronize(0), Code::device_assert, expected);
}

TEST_F(OnFakeCuda, PinnedMemoryAvoidsADeviceInAFault) {
  EXPECT_TRUE(cuda().device_activate(1).ok());
  EXPECT_TRUE(cuda().device_activate(0).ok());
  fake().fault[0] = kIllegalAddress;
  EXPECT_FALSE(cuda().device_synchronize(0).ok());
  void* pinned = nullptr;
  EXPECT_TRUE(cuda().pinned_malloc(64, pinned).ok());
  EXPECT_TRUE(cuda().pinned_free(pinned).ok());
}

TEST_F(OnFakeCuda, ResetCannotClearAFault) {
  const StreamHandle stream = stream_on(0);
  fake().fault[0] = kIllegalAddress;
  EXPECT_FALSE(cuda().stream_synchronize(stream).ok());
  const Status status = cuda().device_reset(0);
  EXPECT_EQ(status.code(), Code::illegal_address);
  EXPECT_NE(status.detail().find("restart it"), std::string::npos) << status.detail();
  EXPECT_EQ(cuda().stream_query(stream).code(), Code::illegal_address) << "nothing has changed";
  EXPECT_TRUE(cuda().stream_destroy(stream).ok());
}

TEST_F(OnFakeCuda, ResetRefusesOldHandles) {
  const StreamHandle stream = stream_on(0);
  const EventHandle event = event_on(0);
  const StreamHandle untouched = stream_on(1);
  void* memory = memory_on(0, 64);
  EXPECT_TRUE(cuda().device_reset(0).ok());
  EXPECT_FALSE(cuda().device_active(0));
  EXPECT_EQ(fake().retained[0], 0);
  const std::string detail = " of cuda:0 was made before the device was reset";
  expect(cuda().stream_query(stream), Code::context_is_destroyed, "stream" + detail);
  expect(cuda().stream_destroy(stream), Code::context_is_destroyed, "stream" + detail);
  expect(cuda().event_record(event, kDefault), Code::context_is_destroyed, "event" + detail);
  EXPECT_EQ(cuda().free(0, memory).code(), Code::invalid_value);
  EXPECT_FALSE(cuda().device_active(0));  // refusing an old handle wakes nothing
  EXPECT_TRUE(cuda().launch(kDefault, kFirst, Params()).ok());
  EXPECT_TRUE(cuda().stream_synchronize(stream_on(0)).ok());
  EXPECT_TRUE(cuda().stream_synchronize(untouched).ok());
  EXPECT_EQ(fake().contexts_made[0], 2);
}

TEST_F(OnFakeCuda, ThreadsMakeOneContextAndNoteTheirWork) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int n = 0; n < 1000; ++n) {
        EXPECT_TRUE(cuda().launch(kDefault, kFirst, Params()).ok());
        if (n % 100 == 0) {
          EXPECT_TRUE(cuda().stream_synchronize(kDefault).ok());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake().contexts_made[0], 1);
  EXPECT_EQ(fake().retained[0], 1);
  fake().fault[0] = kIllegalAddress;
  const std::string detail = cuda().device_synchronize(0).detail();
  EXPECT_EQ(detail.rfind(kQueued + "'first' on the default stream, 'first'", 0), 0u) << detail;
}

}  // namespace
}  // namespace ember::driver
