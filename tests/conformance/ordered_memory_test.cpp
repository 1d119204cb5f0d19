// Memory in the order of streams (cudaMallocAsync), of every driver.
#include <vector>

#include "tests/support/devices.h"

namespace ember::driver {
namespace {

using test::machine;

class OrderedMemory : public testing::Test {
 protected:
  void SetUp() override {
    void* pointer = nullptr;
    const Status status = machine().malloc_async(stream_.handle(), 512, pointer);
    if (status.code() == Code::not_supported) GTEST_SKIP() << status.text();
    check(status);
    check(machine().free_async(stream_.handle(), pointer));
  }
  ~OrderedMemory() override {
    cuda::synchronize(0);
    (void)machine().memory_trim(0, machine().device_epoch(0));
  }
  static void* make(const cuda::Stream& stream, std::size_t bytes = kBytes) {
    void* pointer = nullptr;
    check(machine().malloc_async(stream.handle(), bytes, pointer));
    return pointer;
  }
  static void give_back(const cuda::Stream& stream, void* pointer) {
    check(machine().free_async(stream.handle(), pointer));
  }
  static std::vector<unsigned char> read(const cuda::Stream& stream, const void* pointer) {
    std::vector<unsigned char> values(kBytes);
    cuda::copy(values.data(), pointer, kBytes, stream);
    return values;
  }
  static constexpr std::size_t kBytes = std::size_t{3} << 20;
  const cuda::Stream stream_{0}, other_{0};
};

TEST_F(OrderedMemory, ServesWorkOfItsStream) {
  void* const pointer = make(stream_);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 512, 0U);
  PointerInfo info;
  check(machine().pointer_info(pointer, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.base, pointer);
  EXPECT_EQ(info.bytes, kBytes);
  cuda::fill_async(pointer, 7, kBytes, stream_);
  EXPECT_EQ(read(stream_, pointer), std::vector<unsigned char>(kBytes, 7));
  give_back(stream_, pointer);
}

// Nobody waits: not the free, and not the allocation behind it, whose work comes after all the
// same.
TEST_F(OrderedMemory, IsFreedInTheOrderOfItsStream) {
  void* const first = make(stream_);
  test::Gate gate(stream_);
  cuda::fill_async(first, 7, kBytes, stream_);
  give_back(stream_, first);
  void* const second = make(stream_);
  if (machine().simulated()) {
    EXPECT_EQ(second, first) << "the stream's own later work may have it at once";
  }
  cuda::fill_async(second, 8, kBytes, stream_);
  gate.open();
  EXPECT_EQ(read(stream_, second), std::vector<unsigned char>(kBytes, 8));
  give_back(stream_, second);
}

TEST_F(OrderedMemory, ServesOtherStreamsOnceTheWorkIsDone) {
  void* const first = make(stream_);
  test::Gate gate(stream_);
  cuda::fill_async(first, 7, kBytes, stream_);
  give_back(stream_, first);
  void* const second = make(other_);
  if (machine().simulated()) {
    EXPECT_NE(second, first) << "its work is in progress";
    cuda::fill_async(second, 8, kBytes, other_);
    EXPECT_EQ(read(other_, second), std::vector<unsigned char>(kBytes, 8));
  }
  gate.open();
  stream_.synchronize();
  if (machine().simulated()) {
    void* const third = make(other_);
    EXPECT_EQ(third, first);
    give_back(other_, third);
  }
  give_back(other_, second);
}

TEST_F(OrderedMemory, MayBeFreedOnAnotherStreamOrAsOtherMemoryIs) {
  void* const first = make(stream_);
  void* const second = make(stream_);
  stream_.synchronize();
  give_back(other_, first);
  check(machine().free(0, second));
  EXPECT_EQ(machine().free(0, second).code(), Code::invalid_value);
}

TEST_F(OrderedMemory, RefusesWhatItDidNotGive) {
  void* const pointer = make(stream_);
  give_back(stream_, pointer);
  Driver& driver = machine();
  int local = 0;
  EXPECT_EQ(driver.free_async(stream_.handle(), pointer).code(), Code::invalid_value);
  EXPECT_EQ(driver.free_async(stream_.handle(), &local).code(), Code::invalid_value);
  EXPECT_EQ(driver.free_async(stream_.handle(), nullptr).code(), Code::invalid_value);
  EXPECT_EQ(driver.free(0, pointer).code(), Code::invalid_value);
  void* untouched = nullptr;
  EXPECT_EQ(driver.malloc_async(stream_.handle(), 0, untouched).code(), Code::invalid_value);
  EXPECT_EQ(driver.malloc_async({nullptr, 1000, 0}, 512, untouched).code(), Code::invalid_device);
  EXPECT_EQ(driver.memory_trim(1000, 0).code(), Code::invalid_device);
  EXPECT_EQ(driver.malloc_async(stream_.handle(), std::size_t{1} << 50, untouched).code(),
            Code::out_of_memory);
  EXPECT_EQ(untouched, nullptr);
}

TEST_F(OrderedMemory, IsKeptUntilItIsTrimmed) {
  Driver& driver = machine();
  const std::uint32_t epoch = driver.device_epoch(0);
  cuda::synchronize(0);
  check(driver.memory_trim(0, epoch));
  MemoryInfo before, kept, after;
  check(driver.memory_info(0, before));
  constexpr std::size_t kLarge = std::size_t{256} << 20;
  void* const pointer = make(stream_, kLarge);
  give_back(stream_, pointer);
  stream_.synchronize();
  check(driver.memory_info(0, kept));
  EXPECT_LE(kept.free + kLarge, before.free);
  check(driver.memory_trim(0, epoch));
  check(driver.memory_info(0, after));
  EXPECT_GE(after.free, kept.free + kLarge);
}

TEST_F(OrderedMemory, WhatWorkUsesIsNotTrimmed) {
  if (!machine().simulated()) GTEST_SKIP() << "CUDA says so of its own pool";
  Driver& driver = machine();
  void* const pointer = make(stream_);
  test::Gate gate(stream_);
  cuda::fill_async(pointer, 7, kBytes, stream_);
  give_back(stream_, pointer);
  check(driver.memory_trim(0, driver.device_epoch(0)));
  PointerInfo info;
  check(driver.pointer_info(pointer, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  gate.open();
  stream_.synchronize();
  check(driver.memory_trim(0, driver.device_epoch(0)));
  check(driver.pointer_info(pointer, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::unregistered);
}

// What was freed on a stream does not stand in the way of other memory, or no longer once it is
// trimmed.
TEST_F(OrderedMemory, MakesRoomForItself) {
  MemoryInfo info;
  check(machine().memory_info(0, info));
  const std::size_t most = info.free / 3 * 2 / 512 * 512;
  give_back(stream_, make(stream_, most));
  stream_.synchronize();
  if (!machine().simulated()) check(machine().memory_trim(0, machine().device_epoch(0)));
  give_back(stream_, make(stream_, most + 512));
}

TEST_F(OrderedMemory, GoesWithAReset) {
  if (!machine().simulated()) GTEST_SKIP() << "a real device is reset in processes of its own";
  Driver& driver = machine();
  const StreamHandle handle = stream_.handle();
  const std::uint32_t epoch = driver.device_epoch(0);
  void* const kept = make(stream_);
  give_back(stream_, make(stream_));
  check(driver.device_reset(0));
  EXPECT_EQ(driver.free_async(handle, kept).code(), Code::context_is_destroyed);
  void* untouched = nullptr;
  EXPECT_EQ(driver.malloc_async(handle, 512, untouched).code(), Code::context_is_destroyed);
  EXPECT_EQ(driver.memory_trim(0, epoch).code(), Code::context_is_destroyed);
  const StreamHandle now{nullptr, 0, driver.device_epoch(0)};
  void* pointer = nullptr;
  check(driver.malloc_async(now, kBytes, pointer));
  check(driver.free_async(now, pointer));
}

}  // namespace
}  // namespace ember::driver
