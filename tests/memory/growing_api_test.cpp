// Segments that grow, by the public functions: on real devices their memory is what the device
// maps.
#include <string>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/snapshot.h"
#include "ember/runtime/event.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

class GrowingMemory : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_CACHING();
    (void)allocate(1, stream_);
    empty_cache();
    before_ = memory_reserved(0);
    set_allocator_settings("expandable_segments:True");
  }
  void TearDown() override {
    record_memory_history({.enabled = std::nullopt});
    set_allocator_settings("expandable_segments:False");
    empty_cache();
  }
  std::size_t reserved() const { return memory_reserved(0) - before_; }
  /// So many words, from a byte on.
  std::vector<std::uint32_t> read(const DeviceBuffer& buffer, std::size_t offset,
                                  std::size_t count) const {
    std::vector<std::uint32_t> values(count);
    copy(values.data(), static_cast<const std::byte*>(buffer.data()) + offset, 4 * count, stream_);
    return values;
  }

  const Stream stream_{0};
  std::size_t before_ = 0;
};

TEST_F(GrowingMemory, HasTheCountsOfChapter8) {
  const DeviceBuffer tiny = allocate(1, stream_);
  EXPECT_EQ(reserved(), 2 * kMiB);
  const DeviceBuffer medium = allocate(2 * kMiB, stream_);
  EXPECT_EQ(reserved(), 22 * kMiB);
  const MemoryCounters counters = memory_counters(0);
  EXPECT_EQ(counters.inactive_split.all.current, 0) << "the documents leave them out";
  EXPECT_EQ(counters.segment.all.current, 2);
}

TEST_F(GrowingMemory, KeepsAddressesAndContents) {
  DeviceBuffer large = allocate(30 * kMiB, stream_);
  void* const address = large.data();
  large.reset();
  large = allocate(50 * kMiB, stream_);
  EXPECT_EQ(large.data(), address);
  EXPECT_EQ(reserved(), 50 * kMiB);
  fill_async(address, 7, 29 * kMiB, stream_);
  fill_async(static_cast<std::byte*>(address) + 29 * kMiB, 5, 21 * kMiB, stream_);
  EXPECT_EQ(read(large, 29 * kMiB - 4, 2), (std::vector<std::uint32_t>{0x07070707, 0x05050505}));
  EXPECT_EQ(read(large, 30 * kMiB - 4, 2), (std::vector<std::uint32_t>{0x05050505, 0x05050505}));
  // What is in use keeps its chunks, and what lies beside it goes.
  const DeviceBuffer other = allocate(40 * kMiB, stream_);
  fill_async(other.data(), 3, 40 * kMiB, stream_);
  large.reset();
  empty_cache();
  EXPECT_EQ(reserved(), 40 * kMiB);
  EXPECT_EQ(read(other, 40 * kMiB - 4, 1), std::vector<std::uint32_t>{0x03030303});
}

TEST_F(GrowingMemory, IsInTheHistoryAndInSnapshots) {
  record_memory_history();
  const DeviceBuffer first = allocate(20 * kMiB, stream_);
  DeviceBuffer second = allocate(20 * kMiB, stream_);
  second.reset();
  empty_cache();
  const MemorySnapshot snapshot = memory_snapshot();
  std::vector<std::string> actions;
  for (const MemoryEvent& event : snapshot.device_traces.at(0)) {
    actions.emplace_back(action_name(event.action()));
    if (event.action() == MemoryEvent::Action::segment_map) {
      EXPECT_EQ(event.size, 20 * kMiB);
    }
  }
  EXPECT_EQ(actions,
            (std::vector<std::string>{"segment_map", "alloc", "segment_map", "alloc",
                                      "free_requested", "free_completed", "segment_unmap"}));
  for (const MemorySnapshot::Segment& segment : snapshot.segments)
    if (segment.address == reinterpret_cast<std::uintptr_t>(first.data())) {
      EXPECT_TRUE(segment.is_expandable);
      EXPECT_EQ(segment.total_size, 20 * kMiB);
      EXPECT_EQ(segment.allocated_size, 20 * kMiB);
    }
}

// Two segments each, of small and of large blocks.
TEST_F(GrowingMemory, GrowsOnManyStreams) {
  std::vector<Stream> streams;
  std::vector<DeviceBuffer> buffers;
  for (int i = 0; i < 20; ++i) {
    streams.emplace_back(0);
    buffers.push_back(allocate(1, streams.back()));
    buffers.push_back(allocate(2 * kMiB, streams.back()));
  }
  const MemorySnapshot snapshot = memory_snapshot();
  std::size_t growing = 0;
  for (const MemorySnapshot::Segment& segment : snapshot.segments)
    if (segment.is_expandable) ++growing;
  EXPECT_EQ(growing, buffers.size());
  EXPECT_EQ(reserved(), 20 * 22 * kMiB);
}

TEST_F(GrowingMemory, IsReachedByPeers) {
  NEEDS_PEERS();
  enable_peer_access(1, 0);
  const DeviceBuffer there = allocate(20 * kMiB, stream_);
  const DeviceBuffer more = allocate(20 * kMiB, stream_);
  auto* const words = static_cast<std::uint32_t*>(more.data());
  fill_async(words, 0, 4096, stream_);
  stream_.synchronize();
  const Stream other(1);
  launch(other, test::affine_kernel, test::AffineArgs{words, 1024, 1, 9});
  other.synchronize();
  EXPECT_EQ(read(more, 4092, 1), std::vector<std::uint32_t>{9});
}

// The chunk of a stream goes back once its work is done, and whoever empties the cache waits for
// it.
TEST_F(GrowingMemory, IsGivenBackBehindItsWork) {
  NEEDS_CONCURRENCY();
  DeviceBuffer large = allocate(20 * kMiB, stream_);
  Event done;
  {
    test::Gate gate(stream_);
    fill_async(large.data(), 1, 20 * kMiB, stream_);
    done.record(stream_);
    large.reset();
    gate.open();
    empty_cache();
  }
  EXPECT_TRUE(done.query());
  EXPECT_EQ(reserved(), 0U);
}

}  // namespace
}  // namespace ember::cuda
