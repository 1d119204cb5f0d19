// Resets beside everything else that a device's allocator does, from many threads. What must hold:
// no crash and no race, no block handed out twice within an epoch, counters that end at zero, and
// nothing left behind. EMBER_TEST_SECONDS=60 makes it run that long.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/runtime/observer.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

using memory::Block;

std::chrono::milliseconds duration() {
  const char* seconds = std::getenv("EMBER_TEST_SECONDS");
  return seconds != nullptr ? std::chrono::seconds(std::atoi(seconds))
                            : std::chrono::milliseconds(500);
}

template <class Allocator>
class Resets : public testing::Test {
 protected:
  static constexpr int kDevice = 0, kOther = 1;
  static constexpr unsigned kThreads = 8;

  /// What a buffer remembers, and the epoch in which it surely is; none if a reset came between.
  struct Held {
    memory::BlockUse use;
    std::uint32_t epoch;
  };
  static constexpr std::uint32_t kUnsure = ~std::uint32_t{0};

  void work(unsigned number) {
    std::mt19937_64 random(number);
    std::vector<Held> held;
    while (!stop_) {
      const auto dice = random() % 100;
      try {
        if (dice < 45) {
          allocate(std::size_t{512} << (random() % 14), random() % 2, held);
        } else if (dice < 85) {
          release(random(), held);
        } else if (dice < 92 && !held.empty()) {
          driver::StreamHandle stream = stream_handle(5 + random() % 2, kOther);
          stream.epoch = device_.device_epoch(kOther);
          (void)allocator_.record_stream(held[random() % held.size()].use.address, stream);
        } else if (dice < 96) {
          device_.complete(stream_handle(5 + random() % 2, kOther));
        } else if (dice == 96) {
          (void)allocator_.empty_cache();
        } else if (dice == 97) {
          (void)allocator_.counters();
          (void)allocator_.allocated();
        } else if (dice == 98 && !held.empty() && by_address_) {
          (void)allocator_.free(held.back().use.address);  // perhaps another's by now
        } else {
          int local = 0;
          EXPECT_FALSE(allocator_.free(&local));
        }
      } catch (const AcceleratorError& error) {
        EXPECT_EQ(error.error_code(), static_cast<int>(Code::context_is_destroyed)) << error.what();
        ++refused_;
      } catch (const OutOfMemoryError&) {
        while (held.size() > 8) release(random(), held);
      }
      ++operations_;
    }
    while (!held.empty()) release(random(), held);
  }

  void allocate(std::size_t bytes, std::uintptr_t stream, std::vector<Held>& held) {
    std::uint32_t epoch = device_.epoch();
    const memory::BlockUse use = allocator_.allocate(bytes, stream_handle(stream).native);
    if (by_address_ || device_.epoch() != epoch) {
      epoch = kUnsure;
    } else {
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(in_use_.emplace(epoch, use.address).second) << "handed out twice";
    }
    held.push_back({use, epoch});
  }

  void release(std::uint64_t random, std::vector<Held>& held) {
    if (held.empty()) return;
    std::swap(held[random % held.size()], held.back());
    const Held gone = held.back();
    held.pop_back();
    if (gone.epoch != kUnsure) {
      const std::lock_guard lock(mutex_);
      in_use_.erase({gone.epoch, gone.use.address});
    }
    (void)allocator_.free(gone.use.block, gone.use.address, gone.use.serial);
  }

  void run_beside_resets();

  FakeDevice device_{256 * kMiB, kDevice};
  Allocator allocator_{kDevice, device_};
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> operations_{0}, refused_{0};
  bool by_address_ =
      true;  // frees by address too, which may hit what another thread was given since
  std::mutex mutex_;
  std::set<std::pair<std::uint32_t, void*>> in_use_;  // what surely is of that epoch
};
using BackEnds = testing::Types<CachingAllocator, DirectAllocator, UsersAllocator>;
TYPED_TEST_SUITE(Resets, BackEnds);

template <class Allocator>
void Resets<Allocator>::run_beside_resets() {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { work(i); });
  const auto end = std::chrono::steady_clock::now() + duration();
  int resets = 0;
  std::mt19937 random(99);
  while (std::chrono::steady_clock::now() < end || resets < 20) {
    device_.reset(random() % 3 == 0 ? kOther : kDevice);
    ++resets;
    // Between resets there is time for work: some hundred operations.
    const std::int64_t next = operations_ + static_cast<std::int64_t>(random() % 400);
    while (operations_ < next) std::this_thread::yield();
  }
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  for (const int number : {5, 6}) device_.complete(stream_handle(number, 1));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  const cuda::MemoryCounters counters = allocator_.counters();
  for (const auto* group :
       {&counters.allocation, &counters.active, &counters.segment, &counters.inactive_split,
        &counters.allocated_bytes, &counters.active_bytes, &counters.reserved_bytes,
        &counters.inactive_split_bytes, &counters.requested_bytes}) {
    for (const auto* counter : {&group->all, &group->small_pool, &group->large_pool}) {
      EXPECT_EQ(counter->current, 0);
      EXPECT_EQ(counter->allocated, counter->freed);
      EXPECT_GE(counter->peak, 0);
    }
  }
  EXPECT_EQ(device_.segments(), 0U);
  EXPECT_TRUE(allocator_.snapshot().empty());
}

TYPED_TEST(Resets, BesideEverythingElse) { this->run_beside_resets(); }

TYPED_TEST(Resets, HandNothingOutTwice) {
  this->by_address_ = false;
  this->run_beside_resets();
}

/// Resets the device when it is told of an allocation, and has another thread allocate.
class ResetWhenTold final : public cuda::Observer {
 public:
  ResetWhenTold(FakeDevice& device, memory::DeviceAllocator& allocator)
      : device_(device), allocator_(allocator) {
    cuda::set_observer(this);
  }
  ~ResetWhenTold() override { cuda::set_observer(nullptr); }
  void notice(const cuda::Activity& activity) noexcept override {
    if (activity.kind != cuda::Activity::Kind::memory_allocated || other.block != nullptr) return;
    device_.reset(0);
    other = allocator_.allocate(kMiB, nullptr);
  }
  memory::BlockUse other;

 private:
  FakeDevice& device_;
  memory::DeviceAllocator& allocator_;
};

// The record describes another's memory before allocate() has returned; what is returned does not.
TEST(ResetDuringAllocation, EndsTheUseAndLeavesTheRecordToOthers) {
  FakeDevice device(64 * kMiB);
  CachingAllocator allocator(0, device);
  const ResetWhenTold observer(device, allocator);
  const memory::BlockUse mine = allocator.allocate(16 * kMiB, nullptr);  // one record
  ASSERT_EQ(mine.block, observer.other.block) << "or this shows nothing";
  EXPECT_NE(mine.serial, observer.other.serial);
  EXPECT_FALSE(allocator.free(mine.block, mine.address, mine.serial));
  EXPECT_EQ(allocator.allocated(), static_cast<std::int64_t>(kMiB)) << "the other's";
  EXPECT_TRUE(allocator.free(observer.other.block, observer.other.address, observer.other.serial));
}

// After a reset nothing of what was counted before is lost but what is current.
TEST(ResetCounters, SumsAndPeaksCarryOver) {
  FakeDevice device(64 * kMiB);
  CachingAllocator allocator(0, device);
  Block* block = allocator.allocate(3 * kMiB, nullptr).block;
  (void)allocator.allocate(1000, nullptr);
  EXPECT_TRUE(allocator.free(block->address()));
  const auto before = allocator.counters();
  device.reset(0);
  EXPECT_EQ(allocator.allocated(), 0);
  EXPECT_EQ(allocator.reserved(), 0);
  EXPECT_EQ(allocator.max_allocated(), before.allocated_bytes.all.peak);
  const auto after = allocator.counters();
  EXPECT_EQ(after.allocation.all.allocated, before.allocation.all.allocated);
  EXPECT_EQ(after.allocation.all.freed, before.allocation.all.allocated);
  EXPECT_EQ(after.segment.all.peak, before.segment.all.peak);
  EXPECT_EQ(after.num_device_alloc, before.num_device_alloc);
  EXPECT_EQ(after.reserved_bytes.all.current, 0);
  EXPECT_EQ(after.inactive_split.all.current, 0);
}

}  // namespace
}  // namespace ember::test
