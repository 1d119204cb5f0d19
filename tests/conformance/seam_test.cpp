// The contract of driver.h itself: what every driver answers to odd and wrong requests.
#include <cstring>

#include "tests/support/devices.h"

namespace ember::driver {
namespace {

using test::machine;

constexpr int kNowhere = 1000;

TEST(Seam, NamesADeviceThatDoesNotExist) {
  Driver& driver = machine();
  void* memory = nullptr;
  DeviceProperties properties;
  MemoryInfo info;
  PriorityRange range;
  StreamHandle stream;
  EventHandle event;
  bool possible = false;
  for (const int device : {-1, driver.device_count(), kNowhere}) {
    const auto refused = [device](const Status& status) {
      EXPECT_EQ(status.code(), Code::invalid_device) << status.text();
      EXPECT_NE(status.detail().find(std::to_string(device)), std::string::npos) << status.text();
    };
    refused(driver.device_properties(device, properties));
    refused(driver.device_activate(device));
    refused(driver.device_synchronize(device));
    refused(driver.device_profile(device, true));
    refused(driver.device_reset(device));
    refused(driver.malloc(device, 512, memory));
    refused(driver.free(device, nullptr));
    refused(driver.memory_info(device, info));
    refused(driver.stream_priorities(device, range));
    refused(driver.stream_create(device, 0, stream));
    refused(driver.event_create(device, {}, event));
    refused(driver.peer_possible(device, 0, possible));
    refused(driver.peer_possible(0, device, possible));
    refused(driver.peer_enable(device, 0));
    refused(driver.peer_enable(0, device));
    refused(driver.stream_query({nullptr, device, 0}));
    EXPECT_FALSE(driver.device_active(device));
  }
  EXPECT_EQ(memory, nullptr) << "a failed call leaves its results untouched";
}

TEST(Seam, MemoryIsAlignedAndAccountedFor) {
  Driver& driver = machine();
  check(driver.device_activate(0));
  MemoryInfo before;
  check(driver.memory_info(0, before));
  void* memory = nullptr;
  check(driver.malloc(0, std::size_t{64} << 20, memory));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 512, 0u);
  MemoryInfo during;
  check(driver.memory_info(0, during));
  EXPECT_EQ(during.total, before.total);
  EXPECT_GE(before.free - during.free, std::size_t{64} << 20);
  check(driver.free(0, memory));
  MemoryInfo after;
  check(driver.memory_info(0, after));
  EXPECT_GE(after.free, during.free + (std::size_t{64} << 20));
}

TEST(Seam, MemoryOfImpossibleSizes) {
  Driver& driver = machine();
  void* memory = nullptr;
  EXPECT_EQ(driver.malloc(0, 0, memory).code(), Code::invalid_value);
  for (const std::size_t bytes :
       {std::size_t{1} << 46, std::size_t{1} << 60, ~std::size_t{0}, ~std::size_t{511}})
    EXPECT_EQ(driver.malloc(0, bytes, memory).code(), Code::out_of_memory) << bytes;
  EXPECT_EQ(driver.pinned_malloc(0, memory).code(), Code::invalid_value);
  EXPECT_EQ(driver.pinned_malloc(std::size_t{1} << 61, memory).code(), Code::out_of_memory);
  EXPECT_EQ(memory, nullptr);
  check(driver.malloc(0, 1, memory));
  check(driver.free(0, memory));
}

TEST(Seam, OutOfMemoryIsAnOrdinaryAnswer) {
  Driver& driver = machine();
  MemoryInfo info;
  check(driver.memory_info(0, info));
  void* memory = nullptr;
  EXPECT_EQ(driver.malloc(0, info.free + (std::size_t{1} << 30), memory).code(),
            Code::out_of_memory);
  check(driver.malloc(0, 1 << 20, memory));
  check(driver.free(0, memory));
}

TEST(Seam, ForeignAndDoubleFreesAreRefused) {
  Driver& driver = machine();
  void* memory = nullptr;
  check(driver.malloc(0, 4096, memory));
  int host = 0;
  EXPECT_EQ(driver.free(0, &host).code(), Code::invalid_value);
  EXPECT_EQ(driver.free(0, nullptr).code(), Code::invalid_value);
  EXPECT_EQ(driver.free(0, static_cast<std::byte*>(memory) + 512).code(), Code::invalid_value);
  if (driver.device_count() > 1) {
    EXPECT_EQ(driver.free(1, memory).code(), Code::invalid_value);
  }
  check(driver.free(0, memory));
  EXPECT_EQ(driver.free(0, memory).code(), Code::invalid_value);
  EXPECT_EQ(driver.pinned_free(&host).code(), Code::invalid_value);
  EXPECT_EQ(driver.pinned_free(nullptr).code(), Code::invalid_value);
}

TEST(Seam, PointersAreToldApart) {
  Driver& driver = machine();
  const int last = driver.device_count() - 1;
  void* memory = nullptr;
  check(driver.malloc(last, 4096, memory));
  PointerInfo info;
  check(driver.pointer_info(static_cast<std::byte*>(memory) + 4095, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  EXPECT_EQ(info.device, last);
  EXPECT_EQ(info.base, memory);
  EXPECT_GE(info.bytes, 4096u);
  check(driver.free(last, memory));
  check(driver.pointer_info(memory, info));
  EXPECT_NE(info.kind, PointerInfo::Kind::pinned);

  void* pinned = nullptr;
  check(driver.pinned_malloc(4096, pinned));
  check(driver.pointer_info(static_cast<std::byte*>(pinned) + 100, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::pinned);
  std::memset(pinned, 1, 4096);
  check(driver.pinned_free(pinned));

  int host = 0;
  check(driver.pointer_info(&host, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::unregistered);
  check(driver.pointer_info(nullptr, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::unregistered);
}

TEST(Seam, RegisteringTwiceIsRefused) {
  Driver& driver = machine();
  check(driver.device_activate(0));
  std::vector<std::byte> mine(1 << 16);
  EXPECT_EQ(driver.host_unregister(mine.data()).code(), Code::host_memory_not_registered);
  check(driver.host_register(mine.data(), mine.size()));
  EXPECT_EQ(driver.host_register(mine.data(), mine.size()).code(),
            Code::host_memory_already_registered);
  check(driver.host_unregister(mine.data()));
  EXPECT_EQ(driver.host_register(nullptr, 16).code(), Code::invalid_value);
}

TEST(Seam, TheDefaultStreamCannotBeDestroyed) {
  EXPECT_EQ(machine().stream_destroy({nullptr, 0, 0}).code(), Code::invalid_handle);
}

TEST(Seam, EventsAndStreamsOfDifferentDevicesDoNotMix) {
  NEEDS_DEVICES(2);
  Driver& driver = machine();
  EventHandle event;
  check(driver.event_create(0, {}, event));
  StreamHandle stream;
  check(driver.stream_create(1, 0, stream));
  EXPECT_EQ(driver.event_record(event, stream).code(), Code::invalid_handle);
  check(driver.event_wait(stream, event));
  check(driver.stream_destroy(stream));
  check(driver.event_destroy(event));
}

TEST(Seam, EventsAnswerBeforeTheirFirstRecord) {
  Driver& driver = machine();
  EventHandle event;
  check(driver.event_create(0, {.timing = true}, event));
  EXPECT_TRUE(driver.event_query(event).ok());
  EXPECT_TRUE(driver.event_synchronize(event).ok());
  float elapsed = 0;
  EXPECT_EQ(driver.event_elapsed(event, event, elapsed).code(), Code::invalid_handle);
  check(driver.event_destroy(event));
  EXPECT_EQ(driver.event_create(0, {.timing = true, .interprocess = true}, event).code(),
            Code::invalid_value);
}

TEST(Seam, OptionalPartsSayWhatIsMissing) {
  Driver& driver = machine();
  EventHandle event;
  IpcHandle handle;
  check(driver.event_create(0, {}, event));
  if (const Status status = driver.ipc_export_event(event, handle);
      status.code() == Code::not_supported) {
    EXPECT_NE(status.detail().find("does not offer handles of events for other processes"),
              std::string::npos);
  }
  check(driver.event_destroy(event));
}

TEST(Seam, WorkNotesWhenItRanWhereThatIsOffered) {
  Driver& driver = machine();
  const cuda::Stream stream(0);
  const test::Words<std::uint32_t> memory(64);
  const auto fill = [&] { check(driver.fill(stream.handle(), memory.get(), 1, 4, 64)); };
  const Ref<WorkTimes> times = make_ref<WorkTimes>();
  const std::int64_t before = driver.now();
  const Status offered = driver.time_next(stream.handle(), times.get());
  if (offered.code() == Code::not_supported) GTEST_SKIP() << offered.text();
  check(offered);
  fill();
  check(driver.stream_synchronize(stream.handle()));
  check(driver.times_collect());
  const auto [state, begin, end] = times->read();
  EXPECT_EQ(state, WorkTimes::State::done);
  EXPECT_LE(before, begin);
  EXPECT_LE(begin, end);
  EXPECT_LE(end, driver.now());
  // It is for one piece of work, and may be taken back.
  const Ref<WorkTimes> unused = make_ref<WorkTimes>();
  check(driver.time_next(stream.handle(), unused.get()));
  check(driver.time_next(stream.handle(), nullptr));
  fill();
  check(driver.stream_synchronize(stream.handle()));
  check(driver.times_collect());
  EXPECT_EQ(unused->read().state, WorkTimes::State::waiting);
  EXPECT_EQ(times->read().begin, begin);
  // It may pause, and go on.
  check(driver.times_pause());
  const Ref<WorkTimes> later = make_ref<WorkTimes>();
  check(driver.time_next(stream.handle(), later.get()));
  fill();
  check(driver.time_next(stream.handle(), nullptr));
  check(driver.times_pause());
  check(driver.stream_synchronize(stream.handle()));
  check(driver.times_collect());
  EXPECT_EQ(later->read().state, WorkTimes::State::done);
  EXPECT_GE(later->read().begin, end);
}

TEST(Seam, StreamsComeAndGo) {
  Driver& driver = machine();
  for (int i = 0; i < 300; ++i) {
    StreamHandle stream;
    check(driver.stream_create(0, -1, stream));
    EXPECT_NE(stream.native, nullptr);
    check(driver.fill(stream, test::Words<int>(4).get(), 1, 4, 4));
    check(driver.stream_synchronize(stream));
    check(driver.stream_destroy(stream));
  }
}

// A divergence, on purpose: the simulated driver recognises every dead or foreign handle; CUDA does
// not promise to.
TEST(SeamSimulated, RecognisesForeignHandles) {
  Driver& driver = machine();
  if (!driver.simulated()) GTEST_SKIP() << "CUDA does not promise to recognise foreign handles";
  const std::uint32_t epoch = driver.device_epoch(0);  // other tests may have reset the device
  StreamHandle stream;
  check(driver.stream_create(0, 0, stream));
  check(driver.stream_destroy(stream));
  EXPECT_EQ(driver.stream_query(stream).code(), Code::invalid_handle);
  EXPECT_EQ(driver.stream_destroy(stream).code(), Code::invalid_handle);
  int garbage = 0;
  EXPECT_EQ(driver.stream_query({&garbage, 0, epoch}).code(), Code::invalid_handle);
  EXPECT_EQ(driver.event_query({&garbage, 0, epoch}).code(), Code::invalid_handle);
  EXPECT_EQ(driver.event_query({nullptr, 0, epoch}).code(), Code::invalid_handle);
}

}  // namespace
}  // namespace ember::driver
