// Pools that sleep, without a device: what goes, what comes back, what is refused, and every call
// failing in turn.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_REFUSED(call, part) \
  EXPECT_NE(error_of([&] { call; }).find(part), std::string::npos) << error_of([&] { call; })

class SleepingPools : public testing::Test {
 protected:
  SleepingPools() { allocator_.apply(growing_settings()); }
  std::byte* allocate(std::size_t bytes, std::uintptr_t stream = 0) {
    return allocate_in(pool_, bytes, stream);
  }
  std::byte* allocate_in(memory::Pool* pool, std::size_t bytes, std::uintptr_t stream = 0) {
    return static_cast<std::byte*>(
        allocator_.allocate(bytes, stream_handle(stream).native, pool).address);
  }
  void free(void* pointer) { ASSERT_TRUE(allocator_.free(pointer)); }
  void offload() { allocator_.offload(*pool_); }
  void restore() { allocator_.restore(*pool_); }
  bool asleep() { return allocator_.is_asleep(*pool_); }
  std::int64_t reserved() { return allocator_.reserved(); }
  static constexpr std::int64_t mib(std::int64_t count) { return count * std::int64_t{kMiB}; }
  /// Everything goes back.
  void expect_nothing_left() {
    allocator_.release_pool(pool_);
    EXPECT_TRUE(allocator_.empty_cache().ok());
    EXPECT_EQ(device_.chunks(), 0U);
    EXPECT_EQ(device_.ranges(), 0U);
    EXPECT_EQ(device_.host_held(), 0U);
    EXPECT_EQ(allocator_.counters().reserved_bytes.all.current, 0);
    EXPECT_EQ(allocator_.counters().segment.all.current, 0);
    EXPECT_EQ(allocator_.counters().active.all.current, 0);
  }

  FakeDevice device_{256 * kMiB};
  CachingAllocator allocator_{0, device_};
  memory::Pool* pool_ = allocator_.make_pool();
};

TEST_F(SleepingPools, GiveTheirPagesBackAndKeepTheirAddresses) {
  std::byte* const first = allocate(30 * kMiB);
  std::byte* const second = allocate(20 * kMiB);
  std::byte* const small = allocate(1000);
  const std::int64_t allocated = allocator_.allocated();
  offload();
  EXPECT_TRUE(asleep());
  EXPECT_EQ(device_.bytes_held(), 0U);
  EXPECT_EQ(device_.ranges(), 2U);
  EXPECT_EQ(device_.saved(), 50 * kMiB + 1024);
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(allocator_.allocated(), allocated) << "it is still handed out";
  EXPECT_EQ(allocator_.counters().segment.all.current, 0);
  restore();
  EXPECT_FALSE(asleep());
  EXPECT_EQ(reserved(), mib(52));
  EXPECT_EQ(allocator_.counters().segment.all.current, 2);
  EXPECT_EQ(device_.restored(), device_.saved());
  EXPECT_EQ(device_.host_held(), 0U);
  EXPECT_TRUE(device_.any_chunk_within(reinterpret_cast<std::uintptr_t>(first), 30 * kMiB));
  EXPECT_EQ(allocate(3 * kMiB), second + 20 * kMiB);
  free(second + 20 * kMiB);
  for (std::byte* block : {first, second, small}) free(block);
  expect_nothing_left();
}

TEST_F(SleepingPools, MoveOnlyWhatIsInUse) {
  std::byte* const a = allocate(20 * kMiB);
  std::byte* const b = allocate(20 * kMiB);
  free(a);
  std::byte* const part = allocate(11 * kMiB);  // of a's chunk
  ASSERT_EQ(part, a);
  free(allocate(40 * kMiB));  // a chunk at the end, free
  EXPECT_EQ(reserved(), mib(80));
  offload();
  EXPECT_EQ(device_.saved(), 31 * kMiB);
  EXPECT_EQ(device_.host_held(), 31 * kMiB);
  restore();
  EXPECT_EQ(reserved(), mib(40)) << "what was free went for good";
  free(b);
  free(part);
  expect_nothing_left();
}

TEST_F(SleepingPools, TakeFreesAndDoNotBringThemBack) {
  std::byte* const a = allocate(20 * kMiB);
  std::byte* const b = allocate(20 * kMiB);
  std::byte* const c = allocate(20 * kMiB);
  offload();
  free(a);
  free(c);
  EXPECT_FALSE(allocator_.free(a)) << "twice";
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(allocator_.allocated(), mib(20));
  EXPECT_EQ(device_.host_held(), 60 * kMiB);
  ASSERT_TRUE(allocator_.empty_cache(pool_->id).ok());
  EXPECT_EQ(device_.host_held(), 20 * kMiB);
  restore();
  EXPECT_EQ(reserved(), mib(20));
  EXPECT_EQ(device_.restored(), 20 * kMiB);
  EXPECT_EQ(allocate(20 * kMiB), a) << "its addresses are there for the next one";
  free(a);
  offload();
  free(b);
  restore();
  EXPECT_EQ(reserved(), 0);
  EXPECT_FALSE(asleep());
  expect_nothing_left();
}

TEST_F(SleepingPools, AreDroppedAsleep) {
  std::byte* const a = allocate(20 * kMiB);
  offload();
  allocator_.release_pool(pool_);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.host_held(), 20 * kMiB) << "somebody has it";
  free(a);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.host_held(), 0U);
  EXPECT_EQ(device_.ranges(), 0U);
  pool_ = allocator_.make_pool();
  (void)allocate(20 * kMiB);
  offload();  // and the allocator goes with it
}

TEST_F(SleepingPools, ServeNothing) {
  const cuda::MemPoolId id = pool_->id;
  std::byte* const a = allocate(11 * kMiB);
  offload();
  const std::string name = "pool (" + std::to_string(id.first) + ", " + std::to_string(id.second) +
                           ") of device 0 is asleep";
  EXPECT_REFUSED((void)allocate(1000), name);
  EXPECT_REFUSED((void)allocate(1000), "restore()");
  EXPECT_REFUSED((void)allocate(30 * kMiB, 7), name);
  allocator_.apply(memory::default_settings());
  EXPECT_REFUSED((void)allocate(30 * kMiB, 8), name);
  allocator_.apply(growing_settings());
  free(allocate_in(nullptr, 30 * kMiB));  // others do
  EXPECT_EQ(allocator_.allocated(), mib(11));
  restore();
  free(allocate(1000));
  free(a);
  expect_nothing_left();
}

TEST_F(SleepingPools, AreNotBorrowedFrom) {
  memory::Pool* const lends = allocator_.make_pool({.use_on_oom = true});
  std::byte* const kept = allocate_in(lends, 15 * kMiB);
  free(allocate_in(lends, 4 * kMiB));
  ASSERT_EQ(reserved(), mib(16) + mib(20));
  allocator_.offload(*lends);
  std::byte* const all = allocate_in(nullptr, 256 * kMiB);
  EXPECT_THROW((void)allocate_in(nullptr, 2 * kMiB), OutOfMemoryError);
  free(all);
  allocator_.restore(*lends);
  free(kept);
  allocator_.release_pool(lends);
  expect_nothing_left();
}

// Who got the memory does not know where it comes from.
TEST_F(SleepingPools, ThatLentMemoryStayAwake) {
  memory::Pool* const lends = allocator_.make_pool({.use_on_oom = true});
  std::byte* const kept = allocate_in(lends, 15 * kMiB);
  free(allocate_in(lends, 100 * kMiB));
  std::byte* const most = allocate_in(nullptr, 130 * kMiB);
  std::byte* const lent = allocate_in(nullptr, 90 * kMiB);
  EXPECT_REFUSED(allocator_.offload(*lends), "memory of it was lent (use_on_oom) and is in use");
  free(lent);
  allocator_.offload(*lends);
  allocator_.restore(*lends);
  free(most);
  free(kept);
  allocator_.release_pool(lends);
  expect_nothing_left();
}

TEST_F(SleepingPools, NeedSegmentsThatGrow) {
  allocator_.apply(memory::default_settings());
  std::byte* const ordinary = allocate(3 * kMiB);
  allocator_.apply(growing_settings());
  EXPECT_REFUSED(offload(), "expandable_segments:True");
  EXPECT_REFUSED(offload(), "3.00 MiB of it are in use");
  EXPECT_FALSE(asleep());
  free(allocate(1000));
  free(ordinary);
  offload();
  EXPECT_EQ(device_.segments(), 0U) << "free ones go";
  restore();
  memory::Pool* const whole = allocator_.make_pool({.no_split = true});
  std::byte* const block = allocate_in(whole, 3 * kMiB);
  EXPECT_REFUSED(allocator_.offload(*whole), "no_split");
  free(block);
  allocator_.release_pool(whole);
  expect_nothing_left();
  DirectAllocator direct(0, device_);
  direct.apply(growing_settings());
  memory::Pool* const uncached = direct.make_pool();
  void* const memory = direct.allocate(1000, nullptr, uncached).address;
  EXPECT_REFUSED(direct.offload(*uncached), "caching enabled");
  EXPECT_TRUE(direct.free(memory));
}

TEST_F(SleepingPools, OfGraphsStayAwake) {
  const cuda::MemPoolId id{0, 7777};
  memory::Pool* const pool = allocator_.retain_for_graph(id);
  std::byte* const block = allocate_in(pool, 20 * kMiB);
  EXPECT_REFUSED(allocator_.offload(*pool), "pool (0, 7777) of device 0 cannot sleep: a graph");
  memory::Pool* const kept = allocator_.retain_pool(id, {});
  ASSERT_TRUE(allocator_.release_pool(id));
  const int waits = device_.devices_synchronized();
  allocator_.offload(*kept);
  EXPECT_EQ(device_.devices_synchronized(), waits + 1) << "its last replays may be on any stream";
  allocator_.restore(*kept);
  free(block);
  allocator_.release_pool(kept);
  expect_nothing_left();
}

std::uintptr_t leased_address;

TEST_F(SleepingPools, ThatAreLeasedStayAwake) {
  std::byte* const block = allocate(20 * kMiB);
  leased_address = reinterpret_cast<std::uintptr_t>(block);
  memory::set_leases(
      [](int) {
        return std::vector<memory::LeasedBlock>{{leased_address, 4321}};
      },
      nullptr);
  EXPECT_REFUSED(offload(), "process 4321 has memory of it");
  memory::set_leases(nullptr, nullptr);
  offload();
  restore();
  free(block);
  expect_nothing_left();
}

TEST_F(SleepingPools, WaitForTheirStreamsOnly) {
  std::byte* const a = allocate(20 * kMiB, 1);
  std::byte* const noted = allocate(20 * kMiB, 2);
  std::byte* const parked = allocate(20 * kMiB, 2);
  std::byte* const others = allocate_in(nullptr, 20 * kMiB, 3);
  ASSERT_TRUE(allocator_.record_stream(noted, stream_handle(4)));
  ASSERT_TRUE(allocator_.record_stream(parked, stream_handle(5)));
  ASSERT_TRUE(allocator_.record_stream(others, stream_handle(6)));
  free(parked);
  free(others);
  offload();
  for (const std::uintptr_t stream : {1, 2, 4, 5})
    EXPECT_EQ(device_.synchronized(stream_handle(stream)), 1) << stream;
  for (const std::uintptr_t stream : {0, 3, 6})
    EXPECT_EQ(device_.synchronized(stream_handle(stream)), 0) << stream;
  EXPECT_EQ(device_.devices_synchronized(), 0);
  for (const std::uintptr_t stream : {4, 5, 6}) device_.complete(stream_handle(stream));
  restore();
  free(a);
  ASSERT_TRUE(allocator_.empty_cache(pool_->id).ok());
  device_.destroy(stream_handle(2));
  offload();
  EXPECT_EQ(device_.devices_synchronized(), 1) << "of a stream that is no more";
  restore();
  free(noted);
  for (const std::uintptr_t stream : {4, 5, 6}) device_.complete(stream_handle(stream));
  expect_nothing_left();
}

TEST_F(SleepingPools, MayBeToldTwice) {
  std::byte* const block = allocate(20 * kMiB);
  restore();
  EXPECT_EQ(device_.restored(), 0U);
  offload();
  offload();
  EXPECT_EQ(device_.saved(), 20 * kMiB);
  restore();
  restore();
  EXPECT_EQ(device_.restored(), 20 * kMiB);
  free(block);
  offload();  // nothing in it
  EXPECT_TRUE(asleep());
  restore();
  expect_nothing_left();
}

TEST_F(SleepingPools, SleepOnWithoutMemoryToWakeIn) {
  std::byte* const a = allocate(100 * kMiB);
  std::byte* const b = allocate(100 * kMiB);
  offload();
  std::byte* const others = allocate_in(nullptr, 100 * kMiB);
  std::string text;
  try {
    restore();
  } catch (const OutOfMemoryError& error) {
    text = error.what();
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report()->segment, 200 * kMiB);
    EXPECT_EQ(error.report()->pool, pool_->id);
    EXPECT_EQ(error.report()->verdict, cuda::OutOfMemoryVerdict::in_use);
  }
  EXPECT_NE(text.find("stays asleep, and nothing is lost"), std::string::npos) << text;
  EXPECT_NE(text.find("Tried to allocate 200.00 MiB"), std::string::npos) << text;
  EXPECT_TRUE(asleep());
  EXPECT_EQ(device_.host_held(), 200 * kMiB);
  EXPECT_EQ(device_.bytes_held(), 100 * kMiB) << "what came was given back";
  EXPECT_EQ(reserved(), mib(100));
  EXPECT_EQ(allocator_.counters().num_ooms, 1);
  free(others);  // stays cached: waking takes it back
  restore();
  EXPECT_EQ(reserved(), mib(200));
  EXPECT_EQ(device_.host_held(), 0U);
  allocator_.set_limit(150 * kMiB);
  offload();
  EXPECT_THROW(restore(), OutOfMemoryError);
  allocator_.set_limit(memory::DeviceAllocator::kNoLimit);
  restore();
  free(a);
  free(b);
  expect_nothing_left();
}

TEST_F(SleepingPools, WakeWhereACallbackHelps) {
  std::byte* const a = allocate(200 * kMiB);
  offload();
  std::byte* const others = allocate_in(nullptr, 100 * kMiB);
  const auto number = cuda::add_out_of_memory_callback([&](const cuda::OutOfMemoryReport& report) {
    EXPECT_EQ(report.requested, 200 * kMiB);
    return allocator_.free(others);
  });
  restore();
  EXPECT_TRUE(cuda::remove_out_of_memory_callback(number));
  EXPECT_FALSE(asleep());
  free(a);
  expect_nothing_left();
}

TEST_F(SleepingPools, StayAwakeWithoutMemoryOfTheHost) {
  std::byte* const a = allocate(30 * kMiB);
  std::byte* const b = allocate(30 * kMiB);
  free(allocate(40 * kMiB));
  device_.limit_host(40 * kMiB);
  EXPECT_REFUSED(offload(), "stays awake, and nothing has changed");
  EXPECT_FALSE(asleep());
  EXPECT_EQ(reserved(), mib(100));
  EXPECT_EQ(device_.host_held(), 0U);
  EXPECT_EQ(device_.saved(), 0U);
  device_.limit_host(60 * kMiB);
  offload();
  restore();
  free(a);
  free(b);
  expect_nothing_left();
}

TEST_F(SleepingPools, AResetEndsTheSleep) {
  std::byte* const a = allocate(30 * kMiB);
  offload();
  device_.reset(0);
  EXPECT_FALSE(asleep());
  restore();
  EXPECT_FALSE(allocator_.free(a)) << "it is gone, as all memory is";
  std::byte* const b = allocate(20 * kMiB);
  EXPECT_EQ(device_.host_held(), 0U) << "the next call frees it";
  EXPECT_EQ(reserved(), mib(20));
  free(b);
  expect_nothing_left();
}

TEST_F(SleepingPools, AreNotMovedByAHostFunction) {
  std::byte* const a = allocate(30 * kMiB);
  FakeDevice::on_worker() = true;
  EXPECT_REFUSED(offload(), "operation not permitted");
  FakeDevice::on_worker() = false;
  offload();
  FakeDevice::on_worker() = true;
  EXPECT_REFUSED(restore(), "operation not permitted");
  EXPECT_TRUE(allocator_.free(a)) << "freeing works";
  FakeDevice::on_worker() = false;
  restore();
  expect_nothing_left();
}

TEST_F(SleepingPools, AreInSnapshots) {
  std::byte* const a = allocate(30 * kMiB);
  std::byte* const b = allocate(20 * kMiB);
  offload();
  const auto pieces = allocator_.snapshot(pool_->id);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_TRUE(pieces[0].asleep);
  EXPECT_TRUE(pieces[0].grows);
  EXPECT_EQ(pieces[0].address, reinterpret_cast<std::uintptr_t>(a));
  EXPECT_EQ(pieces[0].size, 50 * kMiB);
  ASSERT_EQ(pieces[0].blocks.size(), 2U);
  EXPECT_EQ(pieces[0].blocks[1].state, memory::Block::allocated);
  restore();
  ASSERT_EQ(allocator_.snapshot(pool_->id).size(), 1U);
  EXPECT_FALSE(allocator_.snapshot(pool_->id)[0].asleep);
  free(a);
  free(b);
  expect_nothing_left();
}

/// Returns how many calls threw.
int sleep_and_wake(CachingAllocator& allocator, FakeDevice& device, memory::Pool& pool,
                   std::vector<void*>& live) {
  int errors = 0;
  const auto attempt = [&](const auto& call) {
    try {
      call();
    } catch (const Error&) {
      ++errors;
    }
  };
  for (const std::size_t bytes : {std::size_t{1000}, 20 * kMiB, 30 * kMiB, 12 * kMiB})
    attempt([&] { live.push_back(allocator.allocate(bytes, nullptr, &pool).address); });
  const auto free_last = [&] {
    if (live.empty()) return;
    EXPECT_TRUE(allocator.free(live.back()));
    live.pop_back();
  };
  if (!live.empty()) allocator.record_stream(live.back(), stream_handle(5));
  free_last();
  attempt([&] { allocator.offload(pool); });
  device.complete(stream_handle(5));
  free_last();
  void* others = nullptr;
  attempt([&] { others = allocator.allocate(240 * kMiB, nullptr).address; });
  attempt([&] { allocator.restore(pool); });  // fails in any case, if the others have it
  if (others != nullptr) {
    EXPECT_TRUE(allocator.free(others));
  }
  attempt([&] { allocator.restore(pool); });
  return errors;
}

/// From some call on all fail, or that one only.
class SleepingPoolsFailing : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Calls, SleepingPoolsFailing, testing::Bool(),
                         [](const auto& each) { return each.param ? "FromOneOn" : "One"; });

TEST_P(SleepingPoolsFailing, EveryCallOfTheDeviceMayFail) {
  for (const Code code : {Code::out_of_memory, Code::launch_failure, Code::invalid_handle}) {
    bool failed = true;
    int k = 1;
    for (; failed; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", " + code_text(code));
      ASSERT_LT(k, 1000);
      FakeDevice device(256 * kMiB);
      {
        CachingAllocator allocator(0, device);
        allocator.apply(growing_settings());
        memory::Pool* const pool = allocator.make_pool();
        std::vector<void*> live;
        device.fail_call(k, code, GetParam());
        (void)sleep_and_wake(allocator, device, *pool, live);
        failed = device.has_failed();
        device.fail_call(0, Code::ok);

        // What could be neither used nor given back is not counted.
        EXPECT_LE(allocator.reserved(), static_cast<std::int64_t>(device.bytes_held()));
        if (!GetParam()) {
          EXPECT_EQ(allocator.reserved(), static_cast<std::int64_t>(device.bytes_held()));
        }
        allocator.restore(*pool);
        EXPECT_FALSE(allocator.is_asleep(*pool));
        EXPECT_EQ(device.host_held(), 0U);
        EXPECT_EQ(allocator.reserved(), static_cast<std::int64_t>(device.bytes_held()));
        for (void* pointer : live) {  // all of it has its memory
          EXPECT_TRUE(allocator.holds(pointer));
          EXPECT_FALSE(allocator.is_asleep(pointer));
          EXPECT_TRUE(allocator.free(pointer));
        }
        live.clear();
        EXPECT_EQ(allocator.allocated(), 0);
        (void)allocator.empty_cache();
        (void)allocator.empty_cache(pool->id);
        EXPECT_EQ(sleep_and_wake(allocator, device, *pool, live), 1);
        for (void* pointer : live) EXPECT_TRUE(allocator.free(pointer));
        device.complete(stream_handle(5));
        allocator.release_pool(pool);
        EXPECT_TRUE(allocator.empty_cache().ok());
        const auto counters = allocator.counters();
        EXPECT_EQ(counters.active.all.current, 0);
        EXPECT_EQ(counters.reserved_bytes.all.current, 0);
        EXPECT_EQ(counters.segment.all.current, 0);
        EXPECT_EQ(counters.num_device_alloc, counters.num_device_free);
        EXPECT_EQ(device.chunks(), 0U);
        EXPECT_EQ(device.ranges(), 0U);
        EXPECT_EQ(device.host_held(), 0U);
      }
      EXPECT_EQ(device.events_alive(), 0U);
    }
    EXPECT_GT(k, 25);
  }
}

// Beside threads that allocate from the pool, free, and empty the cache.
TEST(SleepingPoolsThreads, LoseNothing) {
  FakeDevice device(1024 * kMiB);
  CachingAllocator allocator(0, device);
  allocator.apply(growing_settings());
  memory::Pool* const pool = allocator.make_pool();
  std::atomic<bool> over{false};
  const auto use = [&](std::uintptr_t stream) {
    std::vector<void*> live;
    for (int i = 0; !over; ++i) {
      if (live.size() < 6) {
        try {
          live.push_back(allocator
                             .allocate((1 + static_cast<std::size_t>(i) % 7) * 3 * kMiB,
                                       stream_handle(stream).native, pool)
                             .address);
        } catch (const Error&) {  // it sleeps
        }
      }
      if (!live.empty() && i % 2 == 1) {
        if (i % 5 == 0) allocator.record_stream(live.front(), stream_handle(9));
        EXPECT_TRUE(allocator.free(live.front()));
        device.complete(stream_handle(9));
        live.erase(live.begin());
      }
    }
    for (void* pointer : live) EXPECT_TRUE(allocator.free(pointer));
  };
  std::vector<std::thread> threads;
  threads.emplace_back(use, 1);
  threads.emplace_back(use, 2);
  threads.emplace_back([&] {
    while (!over) (void)allocator.empty_cache(pool->id);
  });
  threads.emplace_back([&] {  // two of these at once
    while (!over) allocator.restore(*pool);
  });
  for (int moved = 0; moved < 200;) {
    const std::size_t before = device.saved();
    allocator.offload(*pool);
    moved += static_cast<int>(device.saved() > before);
    allocator.restore(*pool);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(allocator.is_asleep(*pool));
  device.complete(stream_handle(9));
  allocator.release_pool(pool);
  EXPECT_TRUE(allocator.empty_cache().ok());
  EXPECT_EQ(allocator.counters().reserved_bytes.all.current, 0);
  EXPECT_EQ(allocator.counters().segment.all.current, 0);
  EXPECT_EQ(device.chunks(), 0U);
  EXPECT_EQ(device.ranges(), 0U);
  EXPECT_EQ(device.host_held(), 0U);
}

}  // namespace
}  // namespace ember::test
