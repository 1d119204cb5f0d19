// Pools that sleep, by the public functions: contents, addresses, what the device gets back, and
// what becomes of work that comes meanwhile.
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/graphs/graph.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "ember/memory/snapshot.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

class SleepingMemPools : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_CACHING();
    synchronize(0);
    empty_cache();
    before_ = memory_reserved(0);
    set_allocator_settings("expandable_segments:True");
    pool_.emplace();
  }
  void TearDown() override {
    if (!pool_) return;
    pool_.reset();
    record_memory_history({.enabled = std::nullopt});
    set_per_process_memory_fraction(1);
    set_allocator_settings("expandable_segments:False");
    synchronize(0);
    empty_cache();
    EXPECT_EQ(memory_reserved(0), before_);
  }
  DeviceBuffer allocate_in_pool(std::size_t bytes, const Stream& stream) const {
    const MemPoolGuard guard = use_mem_pool(*pool_);
    return allocate(bytes, stream);
  }
  DeviceBuffer allocate_in_pool(std::size_t bytes) const {
    return allocate_in_pool(bytes, stream_);
  }
  std::size_t reserved() const { return memory_reserved(0) - before_; }
  /// A word for each KiB.
  std::vector<std::uint32_t> sample(const void* from, std::size_t bytes) const {
    std::vector<std::uint32_t> all(bytes / 4), some;
    copy(all.data(), from, bytes, stream_);
    for (std::size_t i = 0; i < all.size(); i += 256) some.push_back(all[i]);
    return some;
  }
  static bool is_asleep(const MemorySnapshot& snapshot, const void* address) {
    for (const MemorySnapshot::Segment& segment : snapshot.segments)
      if (reinterpret_cast<std::uintptr_t>(address) - segment.address < segment.total_size)
        return segment.asleep;
    return false;
  }

  const Stream stream_{0};
  std::optional<MemPool> pool_;
  std::size_t before_ = 0;
};

TEST_F(SleepingMemPools, HaveTheSameContentsAtTheSameAddresses) {
  const DeviceBuffer a = allocate_in_pool(30 * kMiB);
  const DeviceBuffer b = allocate_in_pool(20 * kMiB);
  const DeviceBuffer small = allocate_in_pool(5000);
  const DeviceBuffer others = allocate(4 * kMiB, stream_);
  void* const addresses[] = {a.data(), b.data(), small.data()};
  for (std::size_t i = 0; i < 30; ++i)
    fill_async(a.as<std::byte>() + i * kMiB, static_cast<int>(i + 1), kMiB, stream_);
  fill_async(b.data(), 99, b.size(), stream_);
  fill_async(small.data(), 77, small.size(), stream_);
  fill_async(others.data(), 55, others.size(), stream_);
  const auto of_a = sample(a.data(), a.size());
  const std::size_t allocated = memory_allocated(0);
  const std::size_t free_before = mem_get_info(0).first;

  pool_->offload();
  EXPECT_TRUE(pool_->asleep());
  // CUDA maps the copy on the host for the device, which takes some of it, and others may use it.
  EXPECT_GE(mem_get_info(0).first, free_before + (is_simulated() ? 50 : 35) * kMiB);
  EXPECT_EQ(reserved(), 20 * kMiB) << "of the others";
  EXPECT_EQ(memory_allocated(0), allocated);
  EXPECT_GE(pinned_counters().active_bytes.current, std::int64_t{50 * kMiB});
  {
    const DeviceBuffer meanwhile = allocate(52 * kMiB, stream_);
    fill_async(meanwhile.data(), 1, meanwhile.size(), stream_);
  }
  pool_->restore();
  EXPECT_FALSE(pool_->asleep());
  EXPECT_LE(mem_get_info(0).first, free_before);
  EXPECT_EQ(addresses[0], a.data());
  EXPECT_EQ(addresses[1], b.data());
  EXPECT_EQ(addresses[2], small.data());
  EXPECT_EQ(sample(a.data(), a.size()), of_a);
  EXPECT_EQ(sample(b.data(), b.size()), std::vector<std::uint32_t>(20 * kKiB, 0x63636363));
  EXPECT_EQ(sample(small.data(), 5000), std::vector<std::uint32_t>(5, 0x4d4d4d4d));
  // And work as ever.
  launch(stream_, test::affine_kernel,
         test::AffineArgs{b.as<std::uint32_t>() + 5 * kMiB - 8, 8, 0, 6});
  EXPECT_EQ(sample(b.as<std::uint32_t>() + 5 * kMiB - 4, 16), std::vector<std::uint32_t>(1, 6));
}

// What was enqueued before is done before the contents go.
TEST_F(SleepingMemPools, GoBehindTheWorkOfTheirStreams) {
  const Stream other(0), noted(0);
  const DeviceBuffer here = allocate_in_pool(20 * kMiB);
  const DeviceBuffer there = allocate_in_pool(20 * kMiB, other);
  for (int i = 1; i <= 40; ++i) {
    fill_async(here.data(), i, here.size(), stream_);
    fill_async(there.data(), i + 100, there.size() / 2, other);
    fill_async(there.as<std::byte>() + 10 * kMiB, i + 50, 10 * kMiB, noted);
  }
  record_stream(there, noted);
  pool_->offload();
  pool_->restore();
  EXPECT_EQ(sample(here.data(), here.size()), std::vector<std::uint32_t>(20 * kKiB, 0x28282828));
  EXPECT_EQ(sample(there.data(), 10 * kMiB), std::vector<std::uint32_t>(10 * kKiB, 0x8c8c8c8c));
  EXPECT_EQ(sample(there.as<std::byte>() + 10 * kMiB, 10 * kMiB),
            std::vector<std::uint32_t>(10 * kKiB, 0x5a5a5a5a));
}

TEST_F(SleepingMemPools, WaitForNobodyElse) {
  NEEDS_CONCURRENCY();
  if (!test::machine().simulated())
    GTEST_SKIP() << "a real device may wait for all its work when memory is asked of it";
  const DeviceBuffer here = allocate_in_pool(20 * kMiB);
  const Stream other(0);
  test::Gate gate(other);  // its work is not done before this ends
  pool_->offload();
  pool_->restore();
  EXPECT_FALSE(other.query());
  gate.open();
}

TEST_F(SleepingMemPools, ServeNothingButFrees) {
  DeviceBuffer buffer = allocate_in_pool(20 * kMiB);
  const DeviceBuffer kept = allocate_in_pool(20 * kMiB);
  fill_async(kept.data(), 8, kept.size(), stream_);
  pool_->offload();
  pool_->offload();
  EXPECT_ERROR((void)allocate_in_pool(1000), Error, "asleep");
  EXPECT_ERROR((void)allocate_in_pool(30 * kMiB), Error,
               "pool (0, " + std::to_string(pool_->id().second) + ") of device 0");
  const std::size_t allocated = memory_allocated(0);
  buffer.reset();
  EXPECT_EQ(memory_allocated(0), allocated - 20 * kMiB);
  empty_cache(*pool_);
  EXPECT_EQ(reserved(), 0U);
  pool_->restore();
  pool_->restore();
  EXPECT_EQ(reserved(), 20 * kMiB) << "what was freed is not brought back";
  EXPECT_EQ(sample(kept.data(), kept.size()), std::vector<std::uint32_t>(20 * kKiB, 0x08080808));
  buffer = allocate_in_pool(20 * kMiB);
}

TEST_F(SleepingMemPools, NeedTheSetting) {
  set_allocator_settings("expandable_segments:False");
  DeviceBuffer buffer = allocate_in_pool(20 * kMiB);
  EXPECT_ERROR(pool_->offload(), Error, "set expandable_segments:True");
  EXPECT_FALSE(pool_->asleep());
  buffer.reset();
  pool_->offload();
  pool_->restore();
  MemPool moved(std::move(*pool_));
  EXPECT_ERROR(pool_->offload(), ValueError, "MemPool.offload: expected a pool");
  EXPECT_ERROR(pool_->restore(), ValueError, "MemPool.restore: expected a pool");
  EXPECT_FALSE(pool_->asleep());
}

TEST_F(SleepingMemPools, WakeOnceThereIsMemory) {
  const DeviceBuffer buffer = allocate_in_pool(40 * kMiB);
  fill_async(buffer.data(), 3, buffer.size(), stream_);
  pool_->offload();
  const auto total = static_cast<double>(mem_get_info(0).second);
  set_per_process_memory_fraction(static_cast<double>(before_ + 30 * kMiB) / total);
  EXPECT_ERROR(pool_->restore(), OutOfMemoryError, "stays asleep, and nothing is lost");
  EXPECT_TRUE(pool_->asleep());
  EXPECT_EQ(reserved(), 0U);
  set_per_process_memory_fraction(1);
  pool_->restore();
  EXPECT_EQ(sample(buffer.data(), buffer.size()),
            std::vector<std::uint32_t>(40 * kKiB, 0x03030303));
}

// The device itself has none: what others hold, of which some goes.
TEST_F(SleepingMemPools, WakeOnceTheDeviceHasMemory) {
  if (!test::machine().simulated()) GTEST_SKIP() << "others may use the memory of a real device";
  const DeviceBuffer buffer = allocate_in_pool(60 * kMiB);
  fill_async(buffer.data(), 4, buffer.size(), stream_);
  pool_->offload();
  std::vector<DeviceBuffer> others;
  try {
    for (;;) others.push_back(allocate(50 * kMiB, stream_));
  } catch (const OutOfMemoryError&) {
  }
  const std::size_t held = reserved();
  EXPECT_ERROR(pool_->restore(), OutOfMemoryError, "60.00 MiB");
  EXPECT_ERROR(pool_->restore(), OutOfMemoryError, "stays asleep");
  EXPECT_EQ(reserved(), held);
  others.pop_back();
  others.pop_back();
  pool_->restore();
  EXPECT_EQ(sample(buffer.data(), buffer.size()),
            std::vector<std::uint32_t>(60 * kKiB, 0x04040404));
}

TEST_F(SleepingMemPools, ShowInSnapshotsAndHistory) {
  const MemoryCounters before = memory_counters(0);
  record_memory_history();
  const DeviceBuffer buffer = allocate_in_pool(20 * kMiB);
  pool_->offload();
  const MemorySnapshot snapshot = memory_snapshot();
  EXPECT_TRUE(is_asleep(snapshot, buffer.data()));
  EXPECT_NE(snapshot_as_json(snapshot).find("\"asleep\""), std::string::npos);
  ASSERT_EQ(pool_->snapshot().size(), 1U);
  EXPECT_EQ(pool_->snapshot().at(0).allocated_size, 20 * kMiB);
  pool_->restore();
  EXPECT_FALSE(is_asleep(memory_snapshot(), buffer.data()));
  EXPECT_EQ(snapshot_as_json(memory_snapshot()).find("\"asleep\""), std::string::npos);
  std::vector<std::string> actions;
  const MemorySnapshot last = memory_snapshot();
  for (const MemoryEvent& event : last.device_traces.at(0))
    if (event.action() != MemoryEvent::Action::snapshot)
      actions.emplace_back(action_name(event.action()));
  EXPECT_EQ(actions,
            (std::vector<std::string>{"segment_map", "alloc", "segment_unmap", "segment_map"}));
  const MemoryCounters after = memory_counters(0);
  EXPECT_EQ(after.num_device_alloc - before.num_device_alloc, 2);
  EXPECT_EQ(after.num_device_free - before.num_device_free, 1);
  EXPECT_EQ(after.segment.all.current - before.segment.all.current, 1);
}

TEST_F(SleepingMemPools, AreReachedByPeersAfterwards) {
  NEEDS_PEERS();
  enable_peer_access(1, 0);
  const DeviceBuffer buffer = allocate_in_pool(20 * kMiB);
  fill_async(buffer.data(), 0, buffer.size(), stream_);
  pool_->offload();
  pool_->restore();
  const Stream other(1);
  launch(other, test::affine_kernel, test::AffineArgs{buffer.as<std::uint32_t>(), 1024, 1, 9});
  other.synchronize();
  EXPECT_EQ(sample(buffer.data(), 4096), std::vector<std::uint32_t>(4, 9));
}

// Weights in a pool that sleeps, and a graph that reads them: its replays find them again.
TEST_F(SleepingMemPools, ServeGraphsAgain) {
  const DeviceBuffer weights = allocate_in_pool(20 * kMiB);
  fill_async(weights.data(), 0, weights.size(), stream_);
  stream_.synchronize();
  CUDAGraph graph;
  {
    const StreamGuard on(stream_);
    graph.capture_begin();
    launch(stream_, test::affine_kernel, test::AffineArgs{weights.as<std::uint32_t>(), 1024, 1, 2});
    EXPECT_ERROR(pool_->offload(), Error, "work is being captured");
    graph.capture_end();
  }
  graph.replay();
  pool_->offload();
  pool_->restore();
  graph.replay();
  synchronize(0);
  EXPECT_EQ(sample(weights.data(), 4096), std::vector<std::uint32_t>(4, 4));
}

TEST_F(SleepingMemPools, OfGraphsStayAwake) {
  const DeviceBuffer memory = allocate(4096, stream_);
  fill_async(memory.data(), 0, 4096, stream_);
  stream_.synchronize();
  CUDAGraph graph;
  {
    const StreamGuard on(stream_);
    graph.capture_begin(pool_->id());
    const DeviceBuffer inside = allocate(20 * kMiB, stream_);
    launch(stream_, test::affine_kernel, test::AffineArgs{inside.as<std::uint32_t>(), 1024, 1, 2});
    graph.capture_end();
  }
  EXPECT_ERROR(pool_->offload(), Error, "a graph was captured with it");
  graph.replay();
  synchronize(0);
  graph.reset();
  pool_->offload();
  pool_->restore();
}

// Memory outlives its pool, also one that sleeps.
TEST_F(SleepingMemPools, WakeWhenTheyGo) {
  const DeviceBuffer buffer = allocate_in_pool(20 * kMiB);
  fill_async(buffer.data(), 5, buffer.size(), stream_);
  pool_->offload();
  pool_.emplace();
  EXPECT_EQ(sample(buffer.data(), buffer.size()),
            std::vector<std::uint32_t>(20 * kKiB, 0x05050505));
}

TEST_F(SleepingMemPools, AreNotMovedByHostFunctions) {
  const DeviceBuffer buffer = allocate_in_pool(20 * kMiB);
  std::string said;
  host_function(
      [&] {
        try {
          pool_->offload();
        } catch (const AcceleratorError& error) {
          said = error.what();
        }
      },
      stream_, no_accesses());
  stream_.synchronize();
  EXPECT_NE(said.find("operation not permitted"), std::string::npos) << said;
  EXPECT_FALSE(pool_->asleep());
}

// On real devices both are an illegal address, after which the process is at its end.
void use_asleep() {
  set_allocator_settings("expandable_segments:True");
  const Stream stream(0);
  MemPool pool;
  DeviceBuffer buffer;
  {
    const MemPoolGuard guard = use_mem_pool(pool);
    buffer = allocate(20 * kMiB, stream);
  }
  pool.offload();
  std::uint32_t word = 0;
  EXPECT_ERROR(copy(&word, buffer.data(), 4, stream), AcceleratorError, "within one allocation");
  launch(stream, test::affine_kernel, test::AffineArgs{buffer.as<std::uint32_t>(), 8, 1, 2});
  EXPECT_ERROR(stream.synchronize(), AcceleratorError, "affine");
  check(test::machine().device_reset(0));
  EXPECT_FALSE(pool.asleep()) << "a reset ends the sleep";
  EXPECT_ERROR((void)buffer.data(), AcceleratorError, "context is destroyed");
  pool.restore();
  {
    const MemPoolGuard guard = use_mem_pool(pool);
    buffer = allocate(1000, Stream(0));
  }
  fill_async(buffer.data(), 1, 1000, *buffer.stream());
  buffer.stream()->synchronize();
  pool.offload();
  pool.restore();
}

TEST(SleepingMemPoolsFault, OnUse) {
  NEEDS_CACHING();
  if (!test::machine().simulated()) GTEST_SKIP() << "a real device has no reset that helps";
  IN_CHILD(use_asleep());
}

}  // namespace
}  // namespace ember::cuda
