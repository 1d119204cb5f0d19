// Device memory through the public functions: properties A1 to A4, chapters 8 and 9.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/memory.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/observer.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// Leaves every test with an empty cache, and finds the device as the first one did.
class DeviceMemory : public testing::Test {
 protected:
  DeviceMemory() {
    synchronize(0);
    empty_cache();
    reset_peak_memory_stats(0);
  }
  ~DeviceMemory() override {
    synchronize(0);
    empty_cache();
    EXPECT_EQ(memory_allocated(0), 0U);
    EXPECT_EQ(memory_reserved(0), 0U);
  }
};

std::vector<std::uint8_t> read(const DeviceBuffer& buffer, const Stream& stream) {
  std::vector<std::uint8_t> bytes(buffer.size());
  copy(bytes.data(), buffer.data(), bytes.size(), stream);
  return bytes;
}

TEST_F(DeviceMemory, A1CloneCopiesTheBytes) {
  const Stream stream(0);
  std::vector<std::uint8_t> bytes(100'000);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{3});
  const DeviceBuffer source = allocate(bytes.size(), stream);
  copy(source.data(), bytes.data(), bytes.size(), stream);
  const DeviceBuffer copied = clone(source, stream);
  EXPECT_NE(copied.data(), source.data());
  EXPECT_EQ(copied.size(), source.size());
  EXPECT_EQ(copied.stream(), stream);
  EXPECT_EQ(read(copied, stream), bytes);
  EXPECT_EQ(clone(allocate(0, stream), stream).data(), nullptr);
}

TEST_F(DeviceMemory, A1CloneOnAnotherStreamKeepsTheSourceUntilItIsRead) {
  const Stream stream(0), other(0);
  DeviceBuffer source = allocate(kMiB, stream);
  fill_async(source.data(), 0x5a, kMiB, stream);
  stream.synchronize();
  test::Gate gate(other);
  const DeviceBuffer copied = clone(source, other);
  source.reset();  // the copy has not happened yet
  const DeviceBuffer next = allocate(kMiB, stream);
  fill_async(next.data(), 0x11, kMiB, stream);
  stream.synchronize();
  gate.open();
  const std::vector<std::uint8_t> bytes = read(copied, other);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0x5a), static_cast<std::ptrdiff_t>(kMiB));
}

TEST_F(DeviceMemory, A2TheDeviceOfAPointerIsKnown) {
  const DeviceBuffer buffer = allocate(kKiB, default_stream(0));
  EXPECT_EQ(device_of_pointer(buffer.data()), 0);
  EXPECT_EQ(device_of_pointer(buffer.as<char>() + 1023), 0);
  int local = 0;
  EXPECT_THROW((void)device_of_pointer(&local), Error);
}

class Notes : public Observer {
 public:
  Notes() { set_observer(this); }
  ~Notes() override { set_observer(nullptr); }
  void notice(const Activity& activity) noexcept override { activities.push_back(activity); }
  std::vector<Activity> of(Activity::Kind kind) const {
    std::vector<Activity> found;
    for (const Activity& activity : activities)
      if (activity.kind == kind) found.push_back(activity);
    return found;
  }
  std::vector<Activity> activities;
};

TEST_F(DeviceMemory, A3UsageIsReported) {
  const Stream stream(0);
  Notes notes;
  DeviceBuffer small = allocate(200 * 1000, stream);
  DeviceBuffer large = allocate(500 * 1000 * 1000, stream);
  const auto allocated = notes.of(Activity::Kind::memory_allocated);
  ASSERT_EQ(allocated.size(), 2U);
  EXPECT_EQ(allocated[0].address, small.data());
  EXPECT_GE(allocated[0].bytes, 200U * 1000);
  EXPECT_GE(allocated[0].total_allocated, 200U * 1000);
  EXPECT_LT(allocated[0].total_allocated, 400U * 1000);
  EXPECT_LT(allocated[0].total_reserved, 500U * 1000 * 1000);
  EXPECT_EQ(allocated[1].address, large.data());
  EXPECT_GE(allocated[1].total_allocated, 500U * 1000 * 1000 + 200 * 1000);
  const std::uint64_t reserved = allocated[1].total_reserved;
  EXPECT_GE(reserved, allocated[1].total_allocated);
  small.reset();
  large.reset();
  const auto freed = notes.of(Activity::Kind::memory_free_requested);
  ASSERT_EQ(freed.size(), 2U);
  EXPECT_EQ(freed[0].bytes, allocated[0].bytes);
  EXPECT_EQ(freed[0].total_allocated, allocated[1].bytes);
  EXPECT_EQ(freed[1].total_allocated, 0U);
  for (const Activity& activity : freed) EXPECT_EQ(activity.total_reserved, reserved);
}

TEST_F(DeviceMemory, A4OneLargeAllocationIsOneSegment) {
  const Stream stream(0);
  Notes notes;
  allocate(500 * kMiB, stream).reset();
  empty_cache();
  const auto segments = notes.of(Activity::Kind::segment_allocated);
  const auto freed = notes.of(Activity::Kind::segment_freed);
  ASSERT_EQ(segments.size(), 1U);
  ASSERT_EQ(freed.size(), 1U);
  EXPECT_EQ(segments[0].device, 0);
  EXPECT_EQ(freed[0].device, 0);
  EXPECT_EQ(freed[0].address, segments[0].address);
}

TEST_F(DeviceMemory, SizesAndCountersOfChapter8) {
  const Stream stream(0);
  DeviceBuffer tiny = allocate(1, stream);
  EXPECT_EQ(tiny.size(), 1U);
  EXPECT_EQ(memory_allocated(0), 512U);
  EXPECT_EQ(memory_reserved(0), 2 * kMiB);
  DeviceBuffer medium = allocate(2 * kMiB, stream);
  EXPECT_EQ(memory_allocated(0), 512 + 2 * kMiB);
  EXPECT_EQ(memory_reserved(0), 22 * kMiB);
  DeviceBuffer large = allocate(19 * kMiB, stream);
  EXPECT_EQ(memory_reserved(0), 22 * kMiB + 20 * kMiB);  // a multiple of 2 MiB
  const MemoryCounters counters = memory_counters(0);
  EXPECT_EQ(counters.allocation.all.current, 3);
  EXPECT_EQ(counters.allocation.small_pool.current, 1);
  EXPECT_EQ(counters.segment.all.current, 3);
  EXPECT_EQ(counters.requested_bytes.all.current, static_cast<std::int64_t>(1 + 21 * kMiB));
  EXPECT_EQ(counters.inactive_split_bytes.small_pool.current,
            static_cast<std::int64_t>(2 * kMiB - 512));
  large.reset();
  EXPECT_EQ(memory_allocated(0), 512 + 2 * kMiB);
  EXPECT_EQ(max_memory_allocated(0), 512 + 22 * kMiB);  // a rest of 1 MiB is not split off
  reset_peak_memory_stats(0);
  EXPECT_EQ(max_memory_allocated(0), 512 + 2 * kMiB);
  EXPECT_EQ(max_memory_reserved(0), memory_reserved(0));
  const std::size_t free = mem_get_info(0).first;
  empty_cache();
  EXPECT_EQ(memory_reserved(0), 22 * kMiB);
  EXPECT_GE(mem_get_info(0).first, free);
  EXPECT_GE(mem_get_info(0).second, mem_get_info(0).first);
}

TEST_F(DeviceMemory, FreedMemoryIsReusedOnItsStreamAtOnce) {
  const Stream stream(0), other(0);
  test::Gate gate(stream);
  DeviceBuffer buffer = allocate(kMiB, stream);
  void* const pointer = buffer.data();
  fill_async(pointer, 1, kMiB, stream);  // cannot run before the gate opens
  buffer.reset();
  EXPECT_NE(allocate(kMiB, other).data(), pointer);
  EXPECT_EQ(allocate(kMiB, stream).data(), pointer);
}

TEST_F(DeviceMemory, RecordedStreamsDelayReuse) {
  const Stream stream(0), other(0);
  for (const std::size_t offset : {std::size_t{0}, kMiB - 1}) {  // a view, too
    DeviceBuffer buffer = allocate(kMiB, stream);
    void* const pointer = buffer.data();
    test::Gate gate(other);
    fill_async(pointer, 1, kMiB, other);
    record_stream(buffer.as<char>() + offset, other);
    buffer.reset();
    EXPECT_EQ(memory_allocated(0), 0U);  // at once
    EXPECT_EQ(memory_counters(0).active.all.current, 1);
    EXPECT_NE(allocate(kMiB, stream).data(), pointer);
    gate.open();
    other.synchronize();
    EXPECT_EQ(allocate(kMiB, stream).data(), pointer);
  }
}

TEST_F(DeviceMemory, RecordStreamIgnoresWhatItShould) {
  const Stream stream(0), other(0);
  DeviceBuffer buffer = allocate(kMiB, stream);
  void* const pointer = buffer.data();
  int local = 0;
  record_stream(nullptr, other);
  record_stream(&local, other);
  record_stream(DeviceBuffer(), other);
  test::Gate gate(stream);
  record_stream(buffer, stream);  // its own
  buffer.reset();
  EXPECT_EQ(allocate(kMiB, stream).data(), pointer);
}

TEST_F(DeviceMemory, AStreamOfAnotherDeviceCanBeRecorded) {
  NEEDS_DEVICES(2);
  const Stream stream(0), other(1);
  DeviceBuffer buffer = allocate(kMiB, stream);
  void* const pointer = buffer.data();
  test::Gate gate(other);
  record_stream(buffer, other);
  buffer.reset();
  EXPECT_NE(allocate(kMiB, stream).data(), pointer);
  gate.open();
  other.synchronize();
  EXPECT_EQ(allocate(kMiB, stream).data(), pointer);
}

TEST_F(DeviceMemory, BuffersMove) {
  const Stream stream(0);
  DeviceBuffer first = allocate(kKiB, stream);
  void* const pointer = first.data();
  EXPECT_EQ(first.device(), Device("cuda:0"));
  DeviceBuffer second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: moved-from buffers are empty
  EXPECT_FALSE(first.stream());
  EXPECT_EQ(first.device(), Device("cuda"));
  EXPECT_EQ(second.data(), pointer);
  EXPECT_EQ(second.stream(), stream);
  second = allocate(kKiB, stream);
  EXPECT_NE(second.data(), pointer);  // allocated before the old one was freed
  EXPECT_EQ(memory_allocated(0), kKiB);
  first = std::move(second);
  EXPECT_EQ(memory_allocated(0), kKiB);
}

TEST_F(DeviceMemory, ZeroBytes) {
  const DeviceBuffer buffer = allocate(0, default_stream(0));
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(buffer.device(), Device("cuda:0"));
  EXPECT_EQ(caching_allocator_alloc(0, 0), nullptr);
  caching_allocator_delete(nullptr);
  EXPECT_EQ(memory_counters(0).allocation.all.current, 0);
}

TEST_F(DeviceMemory, AllocationsByAddress) {
  const DeviceGuard guard(0);
  const Stream stream(0);
  void* const pointer = caching_allocator_alloc(1000, 0, stream);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 512, 0U);
  EXPECT_EQ(memory_allocated(), 1024U);
  caching_allocator_delete(pointer);
  EXPECT_EQ(allocate(1000, stream).data(), pointer);
  const StreamGuard current(stream);
  void* const on_current = caching_allocator_alloc(1000);
  EXPECT_EQ(on_current, pointer);
  caching_allocator_delete(on_current);
}

TEST_F(DeviceMemory, BadPointersAreRefusedByName) {
  const Stream stream(0);
  void* const pointer = caching_allocator_alloc(4 * kKiB, 0, stream);
  int local = 0;
  EXPECT_ERROR(caching_allocator_delete(&local), Error, "invalid device pointer: 0x");
  EXPECT_ERROR(caching_allocator_delete(static_cast<char*>(pointer) + 512), Error,
               "invalid device pointer: 0x");
  EXPECT_ERROR(caching_allocator_delete(reinterpret_cast<void*>(0xabc)), Error,
               "invalid device pointer: 0xabc. Expected the start of device memory");
  EXPECT_EQ(memory_allocated(0), 4 * kKiB);
  caching_allocator_delete(pointer);
  EXPECT_ERROR(caching_allocator_delete(pointer), Error, "invalid device pointer: 0x");
  EXPECT_EQ(allocate(4 * kKiB, stream).data(), pointer);
}

TEST_F(DeviceMemory, BadArgumentsAreRefusedByName) {
  const int none = device_count();
  const std::string expected = "invalid device ordinal";
  EXPECT_ERROR((void)caching_allocator_alloc(512, none), AcceleratorError, expected);
  EXPECT_ERROR((void)memory_allocated(none), AcceleratorError, expected);
  EXPECT_ERROR((void)memory_counters(none), AcceleratorError, expected);
  EXPECT_ERROR(reset_peak_memory_stats(none), AcceleratorError, expected);
  EXPECT_ERROR((void)mem_get_info(none), AcceleratorError, expected);
  EXPECT_ERROR(set_per_process_memory_fraction(0.5, none), AcceleratorError, expected);
  EXPECT_ERROR((void)memory_allocated("cpu"), ValueError, "Expected a cuda device, but got: cpu");
  EXPECT_ERROR(set_per_process_memory_fraction(1.5), ValueError,
               "Invalid fraction value: 1.5. Allowed range: 0~1");
  EXPECT_ERROR(set_per_process_memory_fraction(-0.1), ValueError,
               "Invalid fraction value: -0.1. Allowed range: 0~1");
  EXPECT_ERROR(set_per_process_memory_fraction(std::numeric_limits<double>::quiet_NaN()),
               ValueError, "Invalid fraction value: nan. Allowed range: 0~1");
  if (none > 1)
    EXPECT_ERROR((void)caching_allocator_alloc(512, 0, Stream(1)), ValueError,
                 "Expected a stream of device 0, but got: <torch.cuda.Stream device=cuda:1");
  EXPECT_NE(allocate(512, default_stream(0)).data(), nullptr);
}

TEST_F(DeviceMemory, DevicesAreCountedApart) {
  NEEDS_DEVICES(2);
  const std::size_t before = memory_allocated(1);
  const DeviceBuffer buffer = allocate(kKiB, default_stream(1));
  EXPECT_EQ(buffer.device(), Device("cuda:1"));
  EXPECT_EQ(memory_allocated(1), before + kKiB);
  EXPECT_EQ(memory_allocated(0), 0U);
  void* const pointer = caching_allocator_alloc(kKiB, 1);
  caching_allocator_delete(pointer);  // whatever device is current
  EXPECT_EQ(memory_allocated(1), before + kKiB);
}

TEST_F(DeviceMemory, TheBackendIsNative) { EXPECT_STREQ(get_allocator_backend(), "native"); }

}  // namespace
}  // namespace ember::cuda
