// Pinned memory through the public functions: properties H1 to H5.
#include <cstring>

#include "ember/memory/memory.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

TEST(PinnedMemory, H1AKnownBufferItsStartAndItsViewsCanBeRecorded) {
  const Stream stream(0);
  const PinnedBuffer buffer = allocate_pinned(1000);
  EXPECT_TRUE(pinned_record_event(buffer, stream));
  EXPECT_TRUE(pinned_record_event(buffer.data(), nullptr, stream));  // a foreign view of it all
  EXPECT_TRUE(pinned_record_event(buffer.as<char>() + 10, buffer.context(), stream));  // a slice
}

TEST(PinnedMemory, H2OtherMemoryAndShiftedForeignViewsCannot) {
  const Stream stream(0);
  const PinnedBuffer buffer = allocate_pinned(1000);
  int local = 0;
  EXPECT_FALSE(pinned_record_event(&local, nullptr, stream));
  EXPECT_FALSE(pinned_record_event(buffer.as<char>() + 10, nullptr, stream));
  EXPECT_FALSE(pinned_record_event(PinnedBuffer(), stream));
}

TEST(PinnedMemory, H3RawAllocationsCanBeRecorded) {
  const Stream stream(0);
  void* const pointer = pinned_alloc(1000);
  EXPECT_TRUE(pinned_record_event(pointer, nullptr, stream));
  pinned_delete(pointer);
}

TEST(PinnedMemory, H4MemoryThatIsGoneCannot) {
  const Stream stream(0);
  pinned_empty_cache();
  const void* pointer = nullptr;
  const void* context = nullptr;
  {
    const PinnedBuffer buffer = allocate_pinned(3000);
    pointer = buffer.data();
    context = buffer.context();
  }
  pinned_empty_cache();
  EXPECT_FALSE(pinned_record_event(pointer, context, stream));
}

TEST(PinnedMemory, H5AFreedBlockIsHandedOutAgain) {
  const void* pointer = nullptr;
  const void* context = nullptr;
  {
    const PinnedBuffer buffer = allocate_pinned(70'000);
    pointer = buffer.data();
    context = buffer.context();
  }
  const PinnedBuffer again = allocate_pinned(71'000);  // the same size
  EXPECT_EQ(again.data(), pointer);
  EXPECT_EQ(again.context(), context);
}

TEST(PinnedMemory, ABlockWaitsForTheCopiesThatUseIt) {
  const Stream stream(0);
  const DeviceBuffer device = allocate(1 << 20, stream);
  PinnedBuffer source = allocate_pinned(1 << 20);
  std::memset(source.data(), 0x42, source.size());
  void* const pointer = source.data();
  test::Gate gate(stream);
  copy_async(device.data(), source.data(), source.size(), stream);
  EXPECT_TRUE(pinned_record_event(source, stream));
  source.reset();
  PinnedBuffer other = allocate_pinned(1 << 20);
  EXPECT_NE(other.data(), pointer);
  std::memset(other.data(), 0, other.size());
  gate.open();
  stream.synchronize();
  EXPECT_EQ(allocate_pinned(1 << 20).data(), pointer);
  unsigned char last = 0;
  copy(&last, device.as<char>() + (1 << 20) - 1, 1, stream);
  EXPECT_EQ(last, 0x42);
}

TEST(PinnedMemory, BadInput) {
  EXPECT_EQ(allocate_pinned(0).data(), nullptr);
  EXPECT_EQ(pinned_alloc(0), nullptr);
  pinned_delete(nullptr);
  EXPECT_ERROR((void)allocate_pinned(std::size_t{1} << 60), ValueError,
               "Invalid size for pinned memory: 1152921504606846976");
  void* const pointer = pinned_alloc(100);
  EXPECT_ERROR(pinned_delete(static_cast<char*>(pointer) + 1), Error, "invalid pinned pointer: 0x");
  pinned_delete(pointer);
  EXPECT_ERROR(pinned_delete(pointer), Error, "invalid pinned pointer: 0x");
}

TEST(PinnedMemory, Counters) {
  synchronize(0);        // what other tests recorded is done,
  pinned_empty_cache();  // and what they freed is no longer active
  const PinnedCounters before = pinned_counters();
  {
    const PinnedBuffer buffer = allocate_pinned(3 << 20);
    const PinnedCounters during = pinned_counters();
    EXPECT_EQ(during.active_requests.current, before.active_requests.current + 1);
    EXPECT_EQ(during.active_bytes.current, before.active_bytes.current + (3 << 20));
  }
  pinned_empty_cache();
  EXPECT_EQ(pinned_counters().active_bytes.current, before.active_bytes.current);
}

}  // namespace
}  // namespace ember::cuda
