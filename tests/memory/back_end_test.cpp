// What all back ends share, the one that keeps nothing, pools, and threads that must not wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/pools.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

using memory::Block;

/// While it lives, the calling thread is one that work on a device waits for.
class OnWorker {
 public:
  OnWorker() { FakeDevice::on_worker() = true; }
  ~OnWorker() { FakeDevice::on_worker() = false; }
  OnWorker(const OnWorker&) = delete;
  OnWorker& operator=(const OnWorker&) = delete;
};

template <class Allocator>
class AnyBackEnd : public testing::Test {
 protected:
  static constexpr int kDevice = 3;
  FakeDevice device_{100 * kMiB, kDevice};
  Allocator allocator_{kDevice, device_};

  Block* allocate(std::size_t bytes, std::uintptr_t stream = 0) {
    return allocator_.allocate(bytes, stream_handle(stream).native).block;
  }
};
using BackEnds = testing::Types<CachingAllocator, DirectAllocator, UsersAllocator>;
TYPED_TEST_SUITE(AnyBackEnd, BackEnds);

TYPED_TEST(AnyBackEnd, RefusesWhatIsNotInUse) {
  Block* block = this->allocate(4 * kKiB);
  void* const address = block->address();
  const std::uint64_t serial = block->serial;
  int local = 0;
  EXPECT_FALSE(this->allocator_.free(&local));
  EXPECT_FALSE(this->allocator_.free(static_cast<char*>(address) + 512));
  EXPECT_TRUE(this->allocator_.free(block, address, serial));
  EXPECT_FALSE(this->allocator_.free(block, address, serial));
  EXPECT_FALSE(this->allocator_.free(address));
  Block* next = this->allocate(4 * kKiB);
  EXPECT_FALSE(this->allocator_.free(block, address, serial)) << "a stale use of the record";
  EXPECT_TRUE(this->allocator_.free(next->address()));
}

TYPED_TEST(AnyBackEnd, OtherStreamsKeepMemoryFromItsNextUse) {
  Block* block = this->allocate(kMiB);
  void* const address = block->address();
  const driver::StreamHandle other = stream_handle(7, 1);
  EXPECT_TRUE(this->allocator_.record_stream(static_cast<char*>(address) + 1000, other));
  EXPECT_TRUE(this->allocator_.free(address));
  EXPECT_EQ(this->device_.segments(), 1U) << "given back under work that uses it";
  EXPECT_NE(this->allocate(kMiB)->address(), address);
  this->device_.complete(other);
  EXPECT_EQ(this->allocate(kMiB)->address(), address);
}

TYPED_TEST(AnyBackEnd, AResetTakesEverything) {
  Block* kept = this->allocate(kKiB);
  void* const address = kept->address();
  const std::uint64_t serial = kept->serial;
  Block* parked = this->allocate(kKiB);
  Block* recorded = this->allocate(kKiB);
  for (Block* block : {parked, recorded})
    EXPECT_TRUE(this->allocator_.record_stream(block->address(), stream_handle(7, 1)));
  EXPECT_TRUE(this->allocator_.free(parked->address()));
  this->device_.reset(TestFixture::kDevice);
  EXPECT_FALSE(this->allocator_.free(address));
  EXPECT_EQ(this->allocator_.counters().active.all.current, 0);
  Block* next = this->allocate(kKiB);
  EXPECT_FALSE(this->allocator_.free(kept, address, serial));
  EXPECT_EQ(this->allocator_.snapshot().size(), 1U);
  this->device_.complete(stream_handle(7, 1));
  EXPECT_TRUE(this->allocator_.free(next->address()));
  EXPECT_TRUE(this->allocator_.empty_cache().ok());
  EXPECT_EQ(this->device_.segments(), 0U);
  EXPECT_TRUE(this->allocator_.snapshot().empty());
}

TYPED_TEST(AnyBackEnd, MemoryThatAResetOvertookIsNotHandedOut) {
  class Overtaken : public FakeDevice {
   public:
    using FakeDevice::FakeDevice;
    Status allocate(std::uint32_t epoch, std::size_t bytes, void*& out) noexcept override {
      const Status status = FakeDevice::allocate(epoch, bytes, out);
      if (resets > 0 && resets-- > 0) {
        reset(0);
        (void)allocator->counters();  // somebody notices
      }
      return status;
    }
    int resets = 1;
    memory::DeviceAllocator* allocator = nullptr;
  } device(100 * kMiB);
  TypeParam allocator(0, device);
  device.allocator = &allocator;
  try {
    (void)allocator.allocate(kKiB, nullptr);
    ADD_FAILURE() << "memory from before the reset";
  } catch (const AcceleratorError& error) {
    EXPECT_EQ(error.error_code(), static_cast<int>(Code::context_is_destroyed)) << error.what();
  }
  EXPECT_TRUE(allocator.snapshot().empty());
  EXPECT_TRUE(allocator.free(allocator.allocate(kKiB, nullptr).address));
}

// Of the thread that frees, and of one that gives a segment back while the device is reset.
TYPED_TEST(AnyBackEnd, ASegmentThatAResetOvertookOnItsWayBackIsGone) {
  class Overtaken : public FakeDevice {
   public:
    using FakeDevice::FakeDevice;
    Status free(std::uint32_t epoch, void* pointer) noexcept override {
      reset(0);
      if (allocator != nullptr) (void)allocator->counters();
      return FakeDevice::free(epoch, pointer);
    }
    memory::DeviceAllocator* allocator = nullptr;
  } device(100 * kMiB);
  {
    TypeParam allocator(0, device);
    for (const bool noticed : {false, true}) {
      device.allocator = noticed ? &allocator : nullptr;
      EXPECT_TRUE(allocator.free(allocator.allocate(kKiB, nullptr).address));
      EXPECT_TRUE(allocator.empty_cache().ok());
      EXPECT_TRUE(allocator.snapshot().empty());
      EXPECT_EQ(allocator.counters().reserved_bytes.all.current, 0);
    }
    device.allocator = nullptr;
  }
}

TYPED_TEST(AnyBackEnd, AWorkerFreesWithoutAWaitAndLosesNothing) {
  Block* first = this->allocate(kMiB);
  Block* second = this->allocate(kMiB);
  EXPECT_TRUE(this->allocator_.record_stream(second->address(), stream_handle(7, 1)));
  {
    const OnWorker here;
    EXPECT_TRUE(this->allocator_.free(first->address()));
    EXPECT_TRUE(this->allocator_.free(second->address()));
  }
  this->device_.complete(stream_handle(7, 1));
  Block* third = this->allocate(kMiB);  // polls, and gives back what was left
  EXPECT_TRUE(this->allocator_.free(third->address()));
  EXPECT_TRUE(this->allocator_.empty_cache().ok());
  EXPECT_EQ(this->device_.segments(), 0U);
}

TYPED_TEST(AnyBackEnd, AWorkerIsToldThatItMustNotWait) {
  Block* all = this->allocate(90 * kMiB);
  {
    const OnWorker here;
    EXPECT_EQ(this->allocator_.empty_cache().code(), Code::not_permitted);
    EXPECT_TRUE(this->allocator_.free(all->address()));
    // Free, but only a wait would tell the device so.
    try {
      (void)this->allocate(95 * kMiB);
      ADD_FAILURE() << "expected OutOfMemoryError";
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("which waits for the host function that allocates"),
                std::string::npos)
          << error.what();
    }
    EXPECT_NE(this->allocate(5 * kMiB), nullptr) << "this needs no wait";
  }
  EXPECT_NE(this->allocate(75 * kMiB), nullptr);
}

// One thread waits for work in empty_cache(), and the work needs memory itself: a worker must not
// stand in line behind the one that waits for it.
TYPED_TEST(AnyBackEnd, AWorkerNeverWaitsForAThreadThatWaitsForIt) {
  class Waiting : public FakeDevice {
   public:
    using FakeDevice::FakeDevice;
    std::function<void()> work;

   private:
    void wait_for(void* stream, std::uint64_t number) noexcept override {
      std::thread([this] {
        const OnWorker here;
        work();
      }).join();
      FakeDevice::wait_for(stream, number);
    }
  } device(100 * kMiB);
  TypeParam allocator(0, device);
  Block* block = allocator.allocate(kMiB, nullptr).block;
  Block* owned = allocator.allocate(kMiB, nullptr).block;
  EXPECT_TRUE(allocator.record_stream(block->address(), stream_handle(7)));
  EXPECT_TRUE(allocator.free(block->address()));
  int done = 0;
  device.work = [&] {
    EXPECT_TRUE(allocator.free(owned->address()));
    EXPECT_THROW((void)allocator.allocate(200 * kMiB, nullptr), OutOfMemoryError);
    EXPECT_FALSE(allocator.empty_cache().ok());
    ++done;
  };
  EXPECT_TRUE(allocator.empty_cache().ok());
  EXPECT_EQ(done, 1);
  EXPECT_EQ(device.segments(), 0U);
}

/// Blocks in its first notice until it is let go.
class SlowObserver : public cuda::Observer {
 public:
  SlowObserver() { cuda::set_observer(this); }
  ~SlowObserver() override { cuda::set_observer(nullptr); }
  void notice(const cuda::Activity& activity) noexcept override {
    if (!inside.exchange(true))
      while (!go) std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    activities.push_back(activity);
  }
  std::atomic<bool> inside{false}, go{false};
  std::vector<cuda::Activity> activities;

 private:
  std::mutex mutex_;
};

TYPED_TEST(AnyBackEnd, AFreeDoesNotWaitForAnObserver) {
  Block* block = this->allocate(kMiB);
  Block* other = this->allocate(kMiB);
  const std::vector<void*> addresses = {other->address(), block->address()};
  SlowObserver observer;
  std::thread busy([&] { EXPECT_TRUE(this->allocator_.free(addresses[0])); });
  while (!observer.inside) std::this_thread::yield();
  EXPECT_TRUE(this->allocator_.free(addresses[1]));  // while the observer is busy elsewhere
  observer.go = true;
  busy.join();
  using Kind = cuda::Activity::Kind;
  std::vector<void*> requested;
  for (const auto& activity : observer.activities)
    if (activity.kind == Kind::memory_free_requested)
      requested.push_back(const_cast<void*>(activity.address));
  EXPECT_EQ(requested, addresses);
}

// ---- The back end that keeps nothing

class Direct : public AnyBackEnd<DirectAllocator> {};

TEST_F(Direct, EveryAllocationIsTheDevicesOwn) {
  std::vector<void*> live;
  for (const std::size_t bytes : {1U, 511U, 513U, 3U << 20}) {
    const std::size_t before = device_.bytes_held();
    live.push_back(allocate(bytes)->address());
    EXPECT_EQ(device_.bytes_held(), before + bytes);
  }
  EXPECT_EQ(device_.segments(), live.size());
  for (void* address : live) EXPECT_TRUE(allocator_.free(address));
  EXPECT_EQ(device_.segments(), 0U);
  EXPECT_EQ(allocator_.counters(), cuda::MemoryCounters());
  EXPECT_THROW((void)allocate(200 * kMiB), OutOfMemoryError);
  EXPECT_EQ(allocator_.counters(), cuda::MemoryCounters());
}

TEST_F(Direct, MemoryThatTheDeviceDoesNotTakeBackIsOfferedAgain) {
  void* const address = allocate(kMiB)->address();
  device_.fail_call(1, Code::launch_failure);
  EXPECT_TRUE(allocator_.free(address));
  EXPECT_FALSE(allocator_.free(address));
  EXPECT_EQ(device_.segments(), 1U);
  device_.fail_call(0, Code::ok);
  Block* next = allocate(kKiB);
  EXPECT_EQ(device_.segments(), 1U);
  EXPECT_TRUE(allocator_.free(next->address()));
}

// ---- Pools

class Pools : public AnyBackEnd<CachingAllocator> {};

TEST_F(Pools, DoNotShareMemory) {
  memory::Pool* pool = allocator_.make_pool();
  void* const ours = allocator_.allocate(kKiB, nullptr, pool).address;
  void* const everybodys = allocate(kKiB)->address();
  EXPECT_EQ(device_.segments(), 2U);
  EXPECT_TRUE(allocator_.free(ours));
  EXPECT_NE(allocate(kKiB)->address(), ours);
  EXPECT_EQ(allocator_.allocate(kKiB, nullptr, pool).address, ours);
  EXPECT_TRUE(allocator_.free(ours));
  EXPECT_TRUE(allocator_.free(everybodys));
  EXPECT_EQ(allocator_.allocate(kKiB, nullptr, pool).address, ours);
  const auto segments = allocator_.snapshot();
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_NE(segments[0].pool, segments[1].pool);
  EXPECT_EQ(allocator_.counters().segment.all.current, 2);
  allocator_.release_pool(pool);
}

TEST_F(Pools, OnlyOrdinaryMemoryMayWaitInAShard) {
  memory::Pool* pool = allocator_.make_pool();
  const Block* const ours = allocator_.allocate(kKiB, nullptr, pool).block;
  const Block* const everybodys = allocate(kKiB);
  EXPECT_FALSE(ours->segment->sharable);
  EXPECT_TRUE(everybodys->segment->sharable);
  const cuda::CachingAllocatorDisabled disabled;
  const Block* const uncached = allocate(kKiB);
  EXPECT_FALSE(uncached->segment->sharable);
  for (const Block* block : {ours, everybodys, uncached})
    EXPECT_TRUE(allocator_.free(block->address()));
  allocator_.release_pool(pool);
}

TEST_F(Pools, KeepTheirMemoryUntilTheyAreReleased) {
  memory::Pool* pool = allocator_.make_pool();
  Block* block = allocator_.allocate(kKiB, nullptr, pool).block;
  void* const kept = block->address();
  EXPECT_TRUE(allocator_.free(kept));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.segments(), 1U);
  block = allocator_.allocate(kKiB, nullptr, pool).block;
  EXPECT_EQ(block->address(), kept);
  allocator_.release_pool(pool);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.segments(), 1U) << "still in use";
  EXPECT_TRUE(allocator_.free(kept));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.segments(), 0U);
}

TEST_F(Pools, OutliveAReset) {
  memory::Pool* pool = allocator_.make_pool();
  memory::Pool* released = allocator_.make_pool();
  (void)allocator_.allocate(kKiB, nullptr, pool);
  (void)allocator_.allocate(kKiB, nullptr, released);
  allocator_.release_pool(released);
  device_.reset(kDevice);
  Block* block = allocator_.allocate(kKiB, nullptr, pool).block;
  EXPECT_EQ(allocator_.snapshot().size(), 1U);
  EXPECT_TRUE(allocator_.free(block->address()));
  allocator_.release_pool(pool);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.segments(), 0U);
}

constexpr int kDevice = 3;

/// Does something else while it is asked to take memory back.
class BusyDevice : public FakeDevice {
 public:
  using FakeDevice::FakeDevice;
  Status free(std::uint32_t epoch, void* pointer) noexcept override {
    if (const auto what = std::exchange(meanwhile, nullptr)) what();
    return FakeDevice::free(epoch, pointer);
  }
  std::function<void()> meanwhile;
};

TEST(PoolOfItsOwn, StaysWhileItsSegmentIsGivenBack) {
  BusyDevice device(64 * kMiB, kDevice);
  CachingAllocator allocator(kDevice, device);
  memory::Pool* const pool = allocator.make_pool();
  const cuda::MemPoolId id = pool->id;
  void* const address = allocator.allocate(kKiB, nullptr, pool).address;
  EXPECT_TRUE(allocator.free(address));
  allocator.release_pool(pool);
  std::vector<memory::Pool*> others;
  device.meanwhile = [&] {
    allocator.release_pool(allocator.make_pool());  // drops all pools that have no use
    for (int i = 0; i < 4; ++i) others.push_back(allocator.make_pool());  // in the place of one
    device.fail_call(1, Code::launch_failure);
  };
  EXPECT_EQ(allocator.empty_cache().code(), Code::launch_failure);
  EXPECT_EQ(std::count(others.begin(), others.end(), pool), 0);
  const auto segments = allocator.snapshot();
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].pool, id);
  EXPECT_TRUE(allocator.empty_cache().ok());
  EXPECT_EQ(device.segments(), 0U);
  for (memory::Pool* other : others) allocator.release_pool(other);
}

TEST(PoolOfItsOwn, GoesWithAResetWhileItsSegmentIsGivenBack) {
  BusyDevice device(64 * kMiB, kDevice);
  CachingAllocator allocator(kDevice, device);
  memory::Pool* const pool = allocator.make_pool();
  EXPECT_TRUE(allocator.free(allocator.allocate(kKiB, nullptr, pool).address));
  allocator.release_pool(pool);
  device.meanwhile = [&] {
    device.reset(kDevice);
    EXPECT_TRUE(allocator.snapshot().empty());  // notices it
  };
  EXPECT_TRUE(allocator.empty_cache().ok());
  EXPECT_TRUE(allocator.free(allocator.allocate(kKiB, nullptr).address));
  EXPECT_TRUE(allocator.empty_cache().ok());
  EXPECT_EQ(device.segments(), 0U);
}

}  // namespace
}  // namespace ember::test
