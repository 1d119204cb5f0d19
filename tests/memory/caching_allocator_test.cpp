// Single behaviours of the caching allocator that the model does not speak of: errors, texts,
// notifications, resets.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

using cuda::Activity;
using memory::Block;

class CachingAllocatorTest : public testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 100 * kMiB;
  Block* allocate(std::size_t bytes, std::uintptr_t stream = 0) {
    return allocator_.allocate(bytes, stream_handle(stream).native).block;
  }
  void expect_out_of_memory(std::size_t bytes, const std::string& text) {
    try {
      (void)allocate(bytes);
      ADD_FAILURE() << "expected OutOfMemoryError for " << bytes;
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
  static constexpr int kDevice = 3;
  FakeDevice device_{kCapacity, kDevice};
  CachingAllocator allocator_{kDevice, device_};
};

TEST_F(CachingAllocatorTest, ZeroBytesAreNothing) {
  EXPECT_EQ(allocate(0), nullptr);
  EXPECT_EQ(allocator_.counters(), cuda::MemoryCounters());
  EXPECT_EQ(device_.calls(), 0);
}

TEST_F(CachingAllocatorTest, AbsurdSizesAreRefusedBeforeAnyArithmetic) {
  const std::string text = "CUDA out of memory. Tried to allocate more than 1EB memory.";
  for (const std::size_t bytes : {std::size_t{1} << 60, ~std::size_t{0}, std::size_t{1} << 63})
    expect_out_of_memory(bytes, text);
  expect_out_of_memory(static_cast<std::size_t>(-512),
                       "or -512 if that was meant, a negative number");
  expect_out_of_memory((std::size_t{1} << 60) - 1, "CUDA out of memory. Tried to allocate ");
  EXPECT_NE(allocate(1), nullptr);
}

TEST_F(CachingAllocatorTest, RefusesPointersThatAreNotBlocksInUse) {
  Block* block = allocate(4 * kKiB);
  void* const pointer = block->address();
  const auto before = allocator_.counters();
  int local = 0;
  EXPECT_FALSE(allocator_.free(&local));
  EXPECT_FALSE(allocator_.free(nullptr));
  EXPECT_FALSE(allocator_.free(static_cast<char*>(pointer) + 512));  // the middle of the block
  EXPECT_FALSE(allocator_.free(static_cast<char*>(pointer) + 1));
  EXPECT_FALSE(allocator_.free(static_cast<char*>(pointer) + 4 * kKiB));  // a free block
  EXPECT_EQ(allocator_.counters(), before);
  EXPECT_TRUE(allocator_.free(pointer));
  EXPECT_FALSE(allocator_.free(pointer));
  EXPECT_FALSE(allocator_.free(block, pointer, block->serial));
}

TEST_F(CachingAllocatorTest, StreamsDoNotShareBlocks) {
  void* const first = allocate(kKiB, 1)->address();
  EXPECT_TRUE(allocator_.free(first));
  EXPECT_NE(allocate(kKiB, 2)->address(), first);
  EXPECT_EQ(allocate(kKiB, 1)->address(), first);
}

TEST_F(CachingAllocatorTest, RecordedStreamsDelayReuse) {
  void* const pointer = allocate(kKiB, 1)->address();
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(1)));  // its own: ignored
  EXPECT_TRUE(allocator_.record_stream(static_cast<char*>(pointer) + 1000, stream_handle(2)));
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(1, /*device=*/0)));
  EXPECT_TRUE(allocator_.free(pointer));
  EXPECT_EQ(allocator_.allocated(), 0);  // at once
  EXPECT_EQ(allocator_.counters().active_bytes.all.current, 1024);
  void* const second = allocate(kKiB, 1)->address();
  EXPECT_NE(second, pointer);
  device_.complete(stream_handle(2));
  device_.complete(stream_handle(1));  // "1" of device 0, while this allocator is of device 3
  EXPECT_EQ(allocate(kKiB, 1)->address(), pointer);
}

TEST_F(CachingAllocatorTest, RecordStreamIgnoresWhatIsNotInUseHere) {
  int local = 0;
  EXPECT_FALSE(allocator_.record_stream(&local, stream_handle(2)));
  void* const pointer = allocate(kKiB)->address();
  EXPECT_TRUE(allocator_.free(pointer));
  EXPECT_FALSE(allocator_.record_stream(pointer, stream_handle(2)));
  EXPECT_EQ(allocate(kKiB)->address(), pointer);
}

TEST_F(CachingAllocatorTest, OutOfMemorySaysWhatHeldIt) {
  Block* large = allocate(60 * kMiB);
  Block* small = allocate(kKiB);
  Block* waiting = allocate(kKiB);
  EXPECT_TRUE(allocator_.record_stream(waiting->address(), stream_handle(7)));
  Block* part = allocate(5 * kMiB);  // of a segment of 20 MiB
  const std::string line =
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 100.00 MiB "
      "of "
      "which 18.00 MiB is free. Of the allocated memory 65.00 MiB is allocated by ember, and "
      "17.00 "
      "MiB is reserved by ember but unallocated. If reserved but unallocated memory is large, it "
      "lies in segments beside memory in use, which keeps them from being given back to the "
      "device: free that, or allocate what is large, or lives long, first, or try setting "
      "EMBER_ALLOC_CONF=expandable_segments:True to avoid fragmentation. With "
      "PYTORCH_NO_CUDA_MEMORY_CACHING=1 nothing is reserved, and every allocation takes longer. "
      "The request was for ";
  expect_out_of_memory(19 * kMiB, line);
  expect_out_of_memory(19 * kMiB,
                       "Cached in partly used segments for work on the default stream: 17.00 MiB.");
  // Nothing that is reserved would be enough.
  for (const std::size_t bytes : {39 * kMiB, 101 * kMiB})
    expect_out_of_memory(bytes,
                         "17.00 MiB is reserved by ember but unallocated. The request was for ");
  const auto counters = allocator_.counters();
  EXPECT_EQ(counters.num_ooms, 4);
  EXPECT_EQ(counters.num_alloc_retries, 4);
  EXPECT_EQ(counters.num_sync_all_streams, 4);
  // It stays usable, and the same request succeeds once there is room.
  EXPECT_TRUE(allocator_.free(large->address()));
  EXPECT_NE(allocate(39 * kMiB), nullptr);
  EXPECT_TRUE(allocator_.free(small->address()));
  EXPECT_TRUE(allocator_.free(part->address()));
}

TEST_F(CachingAllocatorTest, OutOfMemorySaysWhoElseHoldsMemory) {
  device_.set_processes({{.pid = 1, .bytes = 3 * kMiB},
                         {.pid = 2},  // the driver does not tell
                         {.pid = static_cast<std::uint32_t>(getpid()), .bytes = 512}});
  expect_out_of_memory(
      200 * kMiB,
      " is free. Process 1 has 3.00 MiB memory in use. Including non-ember "
      "memory, this process has 512 bytes memory in use. Of the allocated memory ");
  allocator_.set_limit(30 * kMiB);
  expect_out_of_memory(200 * kMiB, "512 bytes memory in use. 30.00 MiB allowed; Of the ");
}

TEST_F(CachingAllocatorTest, BeyondTheLimitTheDeviceIsNotAsked) {
  allocator_.set_limit(30 * kMiB);
  Block* block = allocate(5 * kMiB);  // a segment of 20 MiB
  const int calls = device_.calls();
  expect_out_of_memory(16 * kMiB, " is free. 30.00 MiB allowed; Of the allocated memory 5.00 MiB");
  EXPECT_EQ(device_.calls(), calls);
  EXPECT_NE(allocate(10 * kMiB), nullptr);  // exactly at the limit
  EXPECT_TRUE(allocator_.free(block, block->address(), block->serial));
  allocator_.set_limit(CachingAllocator::kNoLimit);
  EXPECT_NE(allocate(16 * kMiB), nullptr);
}

TEST_F(CachingAllocatorTest, OtherErrorsOfTheDeviceAreThrownAtOnce) {
  device_.fail_call(1, Code::illegal_address);
  try {
    (void)allocate(kKiB);
    ADD_FAILURE();
  } catch (const AcceleratorError& error) {
    EXPECT_EQ(error.error_code(), 700);
  }
  EXPECT_EQ(allocator_.counters().num_alloc_retries, 0);
  EXPECT_NE(allocate(kKiB), nullptr);
}

TEST_F(CachingAllocatorTest, AFaultFoundWhilePollingIsThrownAndNothingIsLost) {
  void* const pointer = allocate(kKiB)->address();
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(2, kDevice)));
  EXPECT_TRUE(allocator_.free(pointer));
  device_.fail_call(1, Code::launch_failure);
  EXPECT_THROW((void)allocate(kKiB), AcceleratorError);
  device_.complete(stream_handle(2));
  EXPECT_EQ(allocate(kKiB)->address(), pointer);
}

TEST_F(CachingAllocatorTest, AFaultOfAnotherDeviceIsItsOwnAffair) {
  constexpr int kOther = 1;
  Block* parked = allocate(kKiB);
  void* const pointer = parked->address();
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(2, kOther)));
  EXPECT_TRUE(allocator_.free(pointer));
  device_.fault(kOther, Code::illegal_address);
  Block* unrecorded = allocate(kKiB);  // polls
  EXPECT_NE(unrecorded->address(), pointer);
  EXPECT_TRUE(allocator_.record_stream(unrecorded->address(), stream_handle(3, kOther)));
  EXPECT_TRUE(allocator_.free(unrecorded->address()));  // no event can be made
  EXPECT_TRUE(allocator_.empty_cache().ok());
  expect_out_of_memory(kCapacity, "CUDA out of memory. ");  // what is parked stays ...
  EXPECT_EQ(allocator_.counters().active.all.current, 2);
  device_.reset(kOther);
  EXPECT_EQ(allocate(kKiB)->address(), pointer);  // ... until the reset
  EXPECT_EQ(allocator_.counters().active.all.current, 1);
}

TEST_F(CachingAllocatorTest, AnEventFromBeforeAResetStandsForNothing) {
  constexpr int kOther = 1;
  void* const pointer = allocate(kKiB)->address();
  driver::StreamHandle stream = stream_handle(2, kOther);
  const auto record_and_free = [&] {
    EXPECT_TRUE(allocator_.record_stream(pointer, stream));
    EXPECT_TRUE(allocator_.free(pointer));
  };
  record_and_free();
  device_.complete(stream);
  EXPECT_EQ(allocate(kKiB)->address(), pointer);  // the event is kept for later
  device_.reset(kOther);
  stream.epoch = 1;  // a stream made after the reset
  record_and_free();
  Block* next = allocate(kKiB);
  EXPECT_NE(next->address(), pointer);
  EXPECT_TRUE(allocator_.free(next->address()));
  device_.complete(stream);
  EXPECT_EQ(allocate(kKiB)->address(), pointer);
  EXPECT_EQ(device_.events_alive(), 1U);  // the stale one has been destroyed

  stream.epoch = 0;  // and a stream that went with the reset has nothing to do
  record_and_free();
  EXPECT_EQ(allocate(kKiB)->address(), pointer);
}

// What a reset drops is over at once; a task that is running goes on for a while.
TEST_F(CachingAllocatorTest, MemoryWaitsForWhatAResetHasNotStoppedYet) {
  constexpr int kOther = 1;
  void* const pointer = allocate(kKiB)->address();
  const driver::StreamHandle stream = stream_handle(2, kOther);
  // Freed before the reset, with an event, or while it is in progress, when none can be recorded.
  for (const bool freed_before : {true, false}) {
    driver::StreamHandle used = stream;
    used.epoch = device_.device_epoch(kOther);
    EXPECT_TRUE(allocator_.record_stream(pointer, used));
    if (!freed_before) device_.begin_reset(kOther);
    EXPECT_TRUE(allocator_.free(pointer));
    if (freed_before) device_.begin_reset(kOther);
    Block* next = allocate(kKiB);
    EXPECT_NE(next->address(), pointer);
    EXPECT_TRUE(allocator_.free(next->address()));
    device_.end_reset(kOther);
    EXPECT_EQ(allocate(kKiB)->address(), pointer);
  }
  EXPECT_EQ(device_.devices_synchronized(), 0);
}

// Whoever must have the memory waits for the device.
TEST_F(CachingAllocatorTest, AResetInProgressIsWaitedForWhenMemoryRunsOut) {
  constexpr int kOther = 1;
  void* const pointer = allocate(kCapacity)->address();
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(2, kOther)));
  EXPECT_TRUE(allocator_.free(pointer));
  device_.begin_reset(kOther);
  EXPECT_NE(allocate(kCapacity), nullptr);
  EXPECT_EQ(device_.devices_synchronized(), 1);
}

TEST_F(CachingAllocatorTest, AResetLeavesNoEventsBehind) {
  constexpr int kOther = 1, kThird = 2;
  void* const pointer = allocate(kKiB)->address();
  for (const int device : {kOther, kThird})
    EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(10 + device, device)));
  EXPECT_TRUE(allocator_.free(pointer));
  for (const int device : {kOther, kThird}) device_.complete(stream_handle(10 + device, device));
  EXPECT_EQ(allocate(kKiB)->address(), pointer);
  EXPECT_EQ(device_.events_alive(), 2U);  // kept for later
  device_.reset(kOther);
  EXPECT_EQ(device_.events_alive(), 1U);
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(12, kThird)));
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(13, kThird)));
  EXPECT_TRUE(allocator_.free(pointer));
  EXPECT_EQ(device_.events_alive(), 2U);  // pending
  device_.reset(kDevice);
  EXPECT_EQ(allocator_.counters().active.all.current, 0);
  for (const int number : {12, 13}) device_.complete(stream_handle(number, kThird));
  Block* next = allocate(kKiB);  // what was parked is found to be gone
  EXPECT_EQ(allocator_.counters().active.all.current, 1);
  EXPECT_TRUE(allocator_.record_stream(next->address(), stream_handle(12, kThird)));
  EXPECT_TRUE(allocator_.free(next->address()));
  EXPECT_EQ(device_.events_alive(), 2U);  // used again
}

TEST_F(CachingAllocatorTest, AnotherDeviceMayBeResetAtAnyTime) {
  constexpr int kOther = 1;
  std::atomic<bool> done{false};
  std::thread user([&] {
    driver::StreamHandle gone = stream_handle(4, kOther);
    device_.destroy(gone);
    for (std::uint32_t i = 0; i < 5'000; ++i) {
      driver::StreamHandle stream = stream_handle(2, kOther);
      stream.epoch = gone.epoch = i % 1000;
      Block* block = allocate(kKiB);
      EXPECT_TRUE(allocator_.record_stream(block->address(), stream));
      EXPECT_TRUE(allocator_.record_stream(block->address(), i % 3 == 0 ? gone : stream));
      EXPECT_TRUE(allocator_.free(block->address()));
      if (i % 8 == 0) device_.complete(stream);
      EXPECT_TRUE(i % 100 != 0 || allocator_.empty_cache().ok());
    }
    done = true;
  });
  while (!done) {
    device_.reset(kOther);
  }
  user.join();
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(allocator_.counters().active.all.current, 0);
  EXPECT_EQ(device_.segments(), 0U);
}

TEST_F(CachingAllocatorTest, AStreamThatIsGoneIsSettledWithItsDevice) {
  constexpr int kOther = 1;
  void* pointers[3];
  for (void*& pointer : pointers) {
    pointer = allocate(kKiB)->address();
    EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(2, kDevice)));
    EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(3, kDevice)));
  }
  EXPECT_TRUE(allocator_.record_stream(pointers[2], stream_handle(4, kOther)));
  device_.destroy(stream_handle(2, kDevice));
  device_.destroy(stream_handle(4, kOther));
  for (void* pointer : pointers) EXPECT_TRUE(allocator_.free(pointer));
  device_.complete(stream_handle(3, kDevice));
  Block* other = allocate(kKiB);  // its work may be in progress: not reused, and nobody waits
  EXPECT_EQ(allocator_.counters().active.all.current, 4);
  EXPECT_EQ(device_.devices_synchronized(), 0);
  EXPECT_TRUE(allocator_.free(other->address()));
  device_.fault(kOther, Code::illegal_address);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.devices_synchronized(), 1);  // once for all of them
  EXPECT_EQ(allocator_.counters().active.all.current, 1);
  device_.reset(kOther);
  EXPECT_EQ(allocate(kKiB)->address(), pointers[0]);
  EXPECT_EQ(allocator_.counters().active.all.current, 1);
  EXPECT_EQ(device_.devices_synchronized(), 1);
}

TEST_F(CachingAllocatorTest, AStreamThatIsGoneIsSettledWhenMemoryRunsOut) {
  void* const pointer = allocate(kCapacity)->address();
  EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(2, kDevice)));
  device_.destroy(stream_handle(2, kDevice));
  EXPECT_TRUE(allocator_.free(pointer));
  EXPECT_NE(allocate(kCapacity), nullptr);
}

TEST_F(CachingAllocatorTest, ABlockIsFreedForOneUseOnly) {
  Block* block = allocate(kKiB);
  void* const address = block->address();
  const std::uint64_t first = block->serial;
  EXPECT_TRUE(allocator_.free(address));
  for (int i = 0; i < 200; ++i) {  // more often than there are serials in the tag
    ASSERT_EQ(allocate(kKiB), block);
    EXPECT_FALSE(allocator_.free(block, address, first));
    EXPECT_EQ(allocator_.allocated(), static_cast<std::int64_t>(kKiB));
    EXPECT_TRUE(allocator_.free(block, address, block->serial));
  }
}

TEST_F(CachingAllocatorTest, ABlockStaysParkedUntilItsEventCanBeRecorded) {
  for (const int failing : {1, 2}) {  // creating the event, recording it
    CachingAllocator allocator(0, device_);
    void* const pointer = allocator.allocate(kKiB, nullptr).address;
    EXPECT_TRUE(allocator.record_stream(pointer, stream_handle(2)));
    device_.fail_call(failing, Code::launch_failure);
    EXPECT_TRUE(allocator.free(pointer));
    device_.fail_call(0, Code::ok);
    EXPECT_EQ(allocator.allocated(), 0);
    EXPECT_EQ(allocator.counters().active.all.current, 1);
    EXPECT_NE(allocator.allocate(kKiB, nullptr).address, pointer);  // recorded only now
    device_.complete(stream_handle(2));
    EXPECT_EQ(allocator.allocate(kKiB, nullptr).address, pointer);
  }
  EXPECT_EQ(device_.events_alive(), 0U);
}

TEST_F(CachingAllocatorTest, ASegmentThatCannotBeGivenBackStays) {
  Block* first = allocate(kKiB, 1);
  Block* second = allocate(kKiB, 2);
  void* const address = first->address();
  EXPECT_TRUE(allocator_.free(first->address()));
  EXPECT_TRUE(allocator_.free(second->address()));
  device_.fail_call(1, Code::launch_failure);
  EXPECT_EQ(allocator_.empty_cache().code(), Code::launch_failure);
  EXPECT_EQ(allocator_.counters().segment.all.current, 1);  // the other one went
  EXPECT_EQ(device_.segments(), 1U);
  EXPECT_EQ(allocate(kKiB, 1)->address(), address);
}

TEST_F(CachingAllocatorTest, AResetOfTheDeviceForgetsEverything) {
  Block* kept = allocate(kKiB);
  void* const pointer = kept->address();
  Block* recorded = allocate(kKiB);
  EXPECT_TRUE(allocator_.record_stream(recorded->address(), stream_handle(2)));
  Block* parked = allocate(kKiB);
  EXPECT_TRUE(allocator_.record_stream(parked->address(), stream_handle(2)));
  EXPECT_TRUE(allocator_.free(parked->address()));
  const std::uint64_t serial = kept->serial;
  device_.reset(kDevice);
  EXPECT_FALSE(allocator_.free(pointer));
  EXPECT_FALSE(allocator_.free(kept, pointer, serial));
  const auto counters = allocator_.counters();
  EXPECT_EQ(counters.allocation.all.current, 0);
  EXPECT_EQ(counters.reserved_bytes.all.current, 0);
  EXPECT_EQ(counters.reserved_bytes.all.peak, 2 << 20);
  EXPECT_TRUE(allocator_.snapshot().empty());
  EXPECT_NE(allocate(kKiB), nullptr);
  EXPECT_TRUE(allocator_.empty_cache().ok());
}

// ---- What an observer sees

/// Notes everything, and checks that no memory is handed out before it was free again.
class Notes : public cuda::Observer {
 public:
  Notes() { cuda::set_observer(this); }
  ~Notes() override { cuda::set_observer(nullptr); }

  void notice(const Activity& activity) noexcept override {
    activities.push_back(activity);  // the allocator's operations take turns
    const auto address = reinterpret_cast<std::uintptr_t>(activity.address);
    if (activity.kind == Activity::Kind::memory_allocated) {
      const auto next = used.lower_bound(address);
      EXPECT_TRUE(next == used.end() || next->first >= address + activity.bytes);
      EXPECT_TRUE(next == used.begin() || std::prev(next)->second <= address);
      used[address] = address + activity.bytes;
      in_use += activity.bytes;
    } else if (activity.kind == Activity::Kind::memory_free_requested) {
      in_use -= activity.bytes;
    } else if (activity.kind == Activity::Kind::memory_free_completed) {
      EXPECT_EQ(used.erase(address), 1U);
    }
    EXPECT_EQ(activity.total_allocated, in_use);
    EXPECT_GE(activity.total_reserved, activity.total_allocated);
  }
  std::size_t count(Activity::Kind kind) const {
    std::size_t count = 0;
    for (const Activity& activity : activities) count += activity.kind == kind;
    return count;
  }

  std::vector<Activity> activities;
  std::map<std::uintptr_t, std::uintptr_t> used;
  std::uint64_t in_use = 0;
};

TEST_F(CachingAllocatorTest, TellsTheObserverEachChangeOnce) {
  Notes notes;
  Block* block = allocate(50 * kMiB - 5, 2);
  void* const address = block->address();
  EXPECT_TRUE(allocator_.free(block, address, block->serial));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  expect_out_of_memory(500 * kMiB, "");
  ASSERT_EQ(notes.activities.size(), 6U);
  using Kind = Activity::Kind;
  const std::vector<Kind> kinds = {Kind::segment_allocated,     Kind::memory_allocated,
                                   Kind::memory_free_requested, Kind::memory_free_completed,
                                   Kind::segment_freed,         Kind::out_of_memory};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Activity& activity = notes.activities[i];
    EXPECT_EQ(activity.kind, kinds[i]);
    EXPECT_EQ(activity.device, 3);
    if (kinds[i] == Kind::out_of_memory) {
      EXPECT_EQ(activity.bytes, 500 * kMiB);
      continue;
    }
    EXPECT_EQ(activity.address, address);
    EXPECT_EQ(activity.stream, stream_handle(2).native);
    EXPECT_EQ(activity.bytes, 50 * kMiB);
    EXPECT_EQ(activity.total_reserved, i < 4 ? 50 * kMiB : 0);
  }
  EXPECT_EQ(notes.activities[1].requested, 50 * kMiB - 5);
}

TEST_F(CachingAllocatorTest, AnObserverMayAllocate) {
  class Allocating : public cuda::Observer {
   public:
    explicit Allocating(CachingAllocator& allocator) : allocator_(allocator) {}
    void notice(const Activity&) noexcept override {
      ++notices;
      Block* block = allocator_.allocate(100, nullptr).block;
      EXPECT_TRUE(allocator_.free(block, block->address(), block->serial));
    }
    int notices = 0;

   private:
    CachingAllocator& allocator_;
  } observer(allocator_);
  cuda::set_observer(&observer);
  Block* block = allocate(kMiB);
  EXPECT_TRUE(allocator_.free(block, block->address(), block->serial));
  cuda::set_observer(nullptr);
  EXPECT_EQ(observer.notices, 4);  // segment, allocated, free requested, free completed
}

TEST_F(CachingAllocatorTest, ThreadsAreObservedInAConsistentOrder) {
  Notes notes;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([this] {
      for (int k = 0; k < 3000; ++k) {
        Block* block = allocate(512 << (k % 5));
        if (k % 16 == 0) {
          EXPECT_TRUE(allocator_.record_stream(block->address(), stream_handle(5)));
        }
        EXPECT_TRUE(allocator_.free(block, block->address(), block->serial));
        if (k % 64 == 0) device_.complete(stream_handle(5));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(notes.count(Activity::Kind::memory_allocated), 12'000U);
  EXPECT_EQ(notes.count(Activity::Kind::memory_free_requested), 12'000U);
  EXPECT_EQ(notes.count(Activity::Kind::memory_stream_recorded), 4U * 188);
}

}  // namespace
}  // namespace ember::test
