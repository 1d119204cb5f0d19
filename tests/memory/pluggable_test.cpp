// Pools whose segments come from functions of the program's, and what becomes of those that do what
// they should not. The allocator of a whole process is in plugged_test.cpp.
#include "ember/memory/pluggable.h"

#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "ember/memory/out_of_memory_report.h"
#include "ember/memory/pools.h"
#include "ember/runtime/event.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// An allocator that can be told to do something else, and knows what it was asked.
struct Functions {
  struct Given {
    std::size_t bytes;
    int device;
    void* stream;
    friend bool operator==(const Given&, const Given&) = default;
  };
  void* allocate(std::size_t bytes, int device, void* stream) {
    ++calls;
    asked.push_back({bytes, device, stream});
    if (instead) return instead(bytes, device);
    void* const pointer = device_malloc(bytes, device);
    if (pointer != nullptr) given[pointer] = {bytes, device, stream};
    return pointer;
  }
  void free(void* pointer, std::size_t bytes, int device, void* stream) {
    if (free_throws) throw std::runtime_error("no ink");
    EXPECT_EQ(given.count(pointer), 1U) << pointer;
    EXPECT_EQ(given[pointer], (Given{bytes, device, stream}));
    given.erase(pointer);
    device_free(pointer);
  }
  PluggableAllocator allocator() {
    return {[this](std::size_t bytes, int device, void* stream) {
              return allocate(bytes, device, stream);
            },
            [this](void* pointer, std::size_t bytes, int device, void* stream) {
              free(pointer, bytes, device, stream);
            },
            "the test"};
  }

  int calls = 0;
  bool free_throws = false;
  std::function<void*(std::size_t bytes, int device)> instead;
  std::vector<Given> asked;
  std::map<void*, Given> given;
};

class Pluggable : public testing::Test {
 protected:
  Pluggable() { clean(); }
  ~Pluggable() override {
    pool_.reset();
    clean();
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_TRUE(functions_.given.empty());
  }
  static void clean() {
    synchronize(0);
    empty_cache();
  }
  DeviceBuffer in_pool(std::size_t bytes) {
    const MemPoolGuard guard(*pool_);
    return allocate(bytes, stream_);
  }
  /// The next call of alloc_fn does that, and nothing is lost by it.
  template <class Exception>
  void expect_error(std::function<void*(std::size_t bytes, int device)> instead,
                    const std::string& text) {
    const std::size_t reserved = memory_reserved(0);
    const auto given = functions_.given;
    functions_.instead = std::move(instead);
    EXPECT_ERROR((void)in_pool(30 * kMiB), Exception, text);
    functions_.instead = nullptr;
    EXPECT_EQ(memory_reserved(0), reserved);
    EXPECT_EQ(functions_.given, given);
    EXPECT_EQ(in_pool(30 * kMiB).size(), 30 * kMiB) << "the next allocation succeeds";
    empty_cache(*pool_);
  }

  Functions functions_;
  const Stream stream_{0};
  std::optional<MemPool> pool_{std::in_place, functions_.allocator()};
};

// As in torch: the pool caches what it was given, and its segments are the allocator's.
TEST_F(Pluggable, APoolsSegmentsComeFromItsAllocator) {
  ASSERT_TRUE(pool_->allocator().has_value());
  EXPECT_EQ(pool_->allocator()->alloc_fn_name(), "alloc_fn of the test");
  EXPECT_EQ(functions_.calls, 0) << "a pool alone needs no memory";
  DeviceBuffer first = in_pool(kMiB), second = in_pool(kMiB);
  ASSERT_EQ(functions_.asked.size(), 1U) << "they share a segment of 2 MiB";
  EXPECT_EQ(functions_.asked[0], (Functions::Given{2 * kMiB, 0, stream_.native()}));
  const DeviceBuffer third = in_pool(kMiB);
  EXPECT_EQ(functions_.calls, 2);
  const DeviceBuffer ordinary = allocate(kMiB, stream_);
  EXPECT_EQ(functions_.calls, 2);
  EXPECT_EQ(pool_->snapshot().size(), 2U);
  EXPECT_EQ(memory_allocated(0), 4 * kMiB);
  EXPECT_EQ(memory_reserved(0), 6 * kMiB);
  fill_async(first.data(), 7, kMiB, stream_);
  std::vector<unsigned char> host(kMiB);
  copy(host.data(), first.data(), kMiB, stream_);
  EXPECT_EQ(host, std::vector<unsigned char>(kMiB, 7));
  first.reset();
  second.reset();
  EXPECT_EQ(functions_.given.size(), 2U) << "cached";
  empty_cache(*pool_);
  EXPECT_EQ(functions_.given.size(), 1U);
  EXPECT_EQ(memory_reserved(0), 4 * kMiB);
}

TEST_F(Pluggable, SegmentsGoBackAfterTheirPool) {
  DeviceBuffer used = in_pool(30 * kMiB);
  (void)in_pool(40 * kMiB);
  EXPECT_EQ(functions_.given.size(), 2U);
  pool_.reset();
  EXPECT_EQ(functions_.given.size(), 1U) << "what is free goes with the pool";
  fill_async(used.data(), 7, used.size(), stream_);
  stream_.synchronize();
  used.reset();
  empty_cache();
  EXPECT_TRUE(functions_.given.empty());
}

TEST_F(Pluggable, WithoutTheCacheItIsNotAsked) {
  const CachingAllocatorDisabled disabled;
  (void)in_pool(kMiB);
  EXPECT_EQ(functions_.calls, 0) << "that names another pool";
}

TEST_F(Pluggable, OtherDevicesAreAskedAbout) {
  NEEDS_DEVICES(2);
  const Stream there(1);
  {
    const MemPoolGuard guard(*pool_, 1);
    const DeviceBuffer buffer = allocate(30 * kMiB, there);
    ASSERT_EQ(functions_.asked.size(), 1U);
    EXPECT_EQ(functions_.asked[0], (Functions::Given{30 * kMiB, 1, there.native()}));
  }
  empty_cache();
  EXPECT_TRUE(functions_.given.empty());
}

TEST_F(Pluggable, OtherStreamsUseIsOverBeforeItGoesBack) {
  const Stream other(0);
  DeviceBuffer buffer = in_pool(30 * kMiB);
  fill_async(buffer.data(), 7, buffer.size(), other);
  record_stream(buffer, other);
  Event done;
  done.record(other);
  buffer.reset();
  empty_cache(*pool_);
  EXPECT_TRUE(done.query());
  EXPECT_TRUE(functions_.given.empty());
}

TEST_F(Pluggable, LimitsHoldForItToo) {
  const std::size_t total = mem_get_info(0).second;
  set_per_process_memory_fraction(static_cast<double>(20 * kMiB) / static_cast<double>(total), 0);
  EXPECT_ERROR((void)in_pool(30 * kMiB), OutOfMemoryError, "The limit is too low");
  set_per_process_memory_fraction(1, 0);
  EXPECT_EQ(functions_.calls, 0);
}

TEST_F(Pluggable, APoolMayBeMovedAndCopiesOfAllocatorsAreTheSame) {
  const PluggableAllocator allocator = *pool_->allocator();
  MemPool moved = std::move(*pool_);
  EXPECT_EQ(moved.allocator(), allocator);
  pool_.emplace(allocator);
  (void)in_pool(kMiB);
  EXPECT_EQ(functions_.calls, 1);
  moved = std::move(*pool_);
  EXPECT_EQ(moved.allocator(), allocator);
  EXPECT_FALSE(MemPool().allocator().has_value());
}

// ---- Functions that do what they should not

TEST_F(Pluggable, NullIsOutOfMemory) {
  expect_error<OutOfMemoryError>([](std::size_t, int) { return nullptr; },
                                 "It was alloc_fn of the test that had no memory left");
  EXPECT_EQ(functions_.calls, 3) << "asked again after everything was given back, and in the end";
}

TEST_F(Pluggable, ACallbackMayHelp) {
  functions_.instead = [](std::size_t, int) { return nullptr; };
  const std::uint64_t number = add_out_of_memory_callback([&](const OutOfMemoryReport& report) {
    EXPECT_EQ(report.pool, pool_->id());
    functions_.instead = nullptr;
    return true;
  });
  EXPECT_EQ(in_pool(kMiB).size(), kMiB);
  EXPECT_TRUE(remove_out_of_memory_callback(number));
  empty_cache(*pool_);
}

TEST_F(Pluggable, WhatItThrowsIsSaid) {
  expect_error<OutOfMemoryError>([](std::size_t, int) -> void* { throw std::bad_alloc(); },
                                 "It was alloc_fn of the test that had no memory left");
  expect_error<OutOfMemoryError>(
      [](std::size_t, int) -> void* { throw OutOfMemoryError("none left"); },
      "It was alloc_fn of the test that had no memory left");
  expect_error<Error>([](std::size_t, int) -> void* { throw std::runtime_error("out of paper"); },
                      "alloc_fn of the test threw, when it was called for 31457280 bytes of "
                      "cuda:0: out of paper");
  expect_error<Error>([](std::size_t, int) -> void* { throw 3; },
                      "something that is no std::exception");
  expect_error<AcceleratorError>(
      [](std::size_t, int) -> void* { throw AcceleratorError(Status(Code::launch_failure, "x")); },
      "alloc_fn of the test threw");
}

TEST_F(Pluggable, MemoryThatCannotBeUsedGoesBack) {
  char local = 0;
  void* taken = nullptr;
  // As the functions would have it, so that free() finds what it gave.
  const auto give = [&](void* pointer, std::size_t bytes, int device) {
    functions_.given[pointer] = {bytes, device, stream_.native()};
    return pointer;
  };
  const auto not_free = [&](std::function<void*(std::size_t, int)> instead,
                            const std::string& text) {
    // Such addresses are none of device_malloc's, so that giving them back is an error, too.
    expect_error<Error>(
        [&, instead](std::size_t bytes, int device) {
          void* const pointer = instead(bytes, device);
          return give(pointer, bytes, device);
        },
        text);
  };
  not_free([&](std::size_t, int) { return &local; }, "that is no memory of a device; and free_fn");
  not_free(
      [&](std::size_t bytes, int device) {
        taken = device_malloc(2 * bytes, device);
        return static_cast<char*>(taken) + 256;
      },
      "expected a multiple of 512");
  device_free(taken);
  expect_error<Error>(
      [&](std::size_t bytes, int device) {
        return give(device_malloc(bytes / 2, device), bytes, device);
      },
      "there are fewer bytes from there to the end");
  if (device_count() < 2) return;
  expect_error<Error>(
      [&](std::size_t bytes, int) { return give(device_malloc(bytes, 1), bytes, 0); },
      "that is memory of cuda:1");
}

TEST_F(Pluggable, MemoryThatIsInUseIsLeftAlone) {
  DeviceBuffer used = in_pool(30 * kMiB);
  expect_error<Error>([&](std::size_t, int) { return used.data(); },
                      "is in use by another one, or cached");
  const DeviceBuffer ordinary = allocate(30 * kMiB, stream_);
  expect_error<Error>([&](std::size_t, int) { return ordinary.data(); },
                      "is in use by another one, or cached");
  EXPECT_EQ(functions_.given.count(used.data()), 1U);
}

TEST_F(Pluggable, TheAllocatorThatItServesIsNotAskedAgain) {
  expect_error<Error>(
      [&](std::size_t bytes, int) { return caching_allocator_alloc(bytes, 0, stream_); },
      "memory was asked for of the allocator that alloc_fn of the test serves, from within it");
}

TEST_F(Pluggable, WhatIsNotTakenBackStays) {
  (void)in_pool(30 * kMiB);
  functions_.free_throws = true;
  EXPECT_ERROR(
      empty_cache(*pool_), AcceleratorError,
      "free_fn of the test threw, when it was called for 31457280 bytes of cuda:0: no ink");
  EXPECT_EQ(memory_reserved(0), 30 * kMiB);
  EXPECT_EQ(in_pool(30 * kMiB).size(), 30 * kMiB) << "and serves";
  functions_.free_throws = false;
  empty_cache(*pool_);
  EXPECT_EQ(memory_reserved(0), 0U);
}

// Each call of alloc_fn fails in turn, each in one of these ways.
TEST_F(Pluggable, EveryCallMayFail) {
  const std::function<void*(std::size_t, int)> ways[] = {
      [](std::size_t, int) { return nullptr; },
      [](std::size_t, int) -> void* { throw std::bad_alloc(); },
      [](std::size_t, int) -> void* { throw std::runtime_error("out of paper"); }};
  for (const auto& way : ways)
    for (int k = 1;; ++k) {
      ASSERT_LT(k, 100);
      SCOPED_TRACE(k);
      int left = k;
      functions_.instead = [&](std::size_t bytes, int device) -> void* {
        if (--left == 0) return way(bytes, device);
        void* const pointer = device_malloc(bytes, device);
        functions_.given[pointer] = {bytes, device, stream_.native()};
        return pointer;
      };
      std::vector<DeviceBuffer> buffers;
      for (const std::size_t bytes : {kKiB, kMiB, 3 * kMiB, 15 * kMiB, 30 * kMiB, 2 * kMiB}) {
        try {
          buffers.push_back(in_pool(bytes));
        } catch (const Error&) {
        }
      }
      std::size_t held = 0;
      for (const auto& [pointer, given] : functions_.given) held += given.bytes;
      EXPECT_EQ(memory_reserved(0), held);
      buffers.clear();
      EXPECT_EQ(memory_allocated(0), 0U);
      empty_cache(*pool_);
      EXPECT_EQ(memory_reserved(0), 0U);
      EXPECT_TRUE(functions_.given.empty());
      functions_.instead = nullptr;
      if (left > 0) break;
    }
}

TEST_F(Pluggable, FaultsOfTheDeviceLoseNothing) {
  if (!is_simulated()) GTEST_SKIP() << "faults are injected on simulated devices";
  for (int k = 1; k <= 4; ++k) {
    sim::faults("alloc:" + std::to_string(k));
    int failed = 0;
    std::vector<DeviceBuffer> buffers;
    for (int i = 0; i < 4; ++i) {
      try {
        buffers.push_back(in_pool(30 * kMiB));
      } catch (const OutOfMemoryError&) {
        ++failed;
      }
    }
    sim::faults("");
    EXPECT_EQ(failed, 0) << "null once: everything was given back, and it was called again";
    EXPECT_EQ(functions_.given.size(), 4U);
    buffers.clear();
    empty_cache(*pool_);
    EXPECT_TRUE(functions_.given.empty());
  }
}

TEST_F(Pluggable, AResetTakesItsMemory) {
  if (!is_simulated()) GTEST_SKIP() << "a real device is reset in processes of their own";
  DeviceBuffer buffer = in_pool(30 * kMiB);
  reset_device(0);
  buffer.reset();
  EXPECT_EQ(memory_reserved(0), 0U);
  EXPECT_EQ(functions_.given.size(), 1U) << "free_fn is not called for it";
  functions_.given.clear();
  const MemPoolGuard guard(*pool_);
  const DeviceBuffer next = allocate(30 * kMiB, default_stream(0));
  EXPECT_EQ(functions_.given.size(), 1U);
}

TEST(PluggableAllocators, BadArguments) {
  const auto allocate = [](std::size_t, int, void*) -> void* { return nullptr; };
  const auto free = [](void*, std::size_t, int, void*) {};
  EXPECT_ERROR(PluggableAllocator({}, free), ValueError, "alloc_fn: expected a function, got none");
  EXPECT_ERROR(PluggableAllocator(allocate, {}), ValueError,
               "free_fn: expected a function, got none");
  EXPECT_ERROR(PluggableAllocator("/nowhere/plugin.so", "a", "b"), Error, "/nowhere/plugin.so");
}

TEST(PluggableAllocators, TheAllocatorOfTheProcessIsChangedBeforeItIsUsed) {
  (void)allocate(kKiB, default_stream(0));
  Functions functions;
  EXPECT_ERROR(change_current_allocator(functions.allocator()), Error,
               "Can't swap an already initialized allocator");
  EXPECT_STREQ(get_allocator_backend(), "native");
}

// Observers tell memory that comes back at once from memory that is somebody's twice by the order
// of what they are told.
TEST_F(Pluggable, MemoryIsToldToBeGoneBeforeAnotherThreadGetsIt) {
  class Segments final : public Observer {
   public:
    Segments() { set_observer(this); }
    ~Segments() override { set_observer(nullptr); }
    void notice(const Activity& activity) noexcept override {
      if (activity.kind == Activity::Kind::segment_allocated ||
          activity.kind == Activity::Kind::segment_freed)
        told.push_back({activity.kind, activity.address});
    }
    std::vector<std::pair<Activity::Kind, const void*>> told;
  };
  // The only memory that this allocator has, and which it gives to whoever asks first.
  void* const memory = device_malloc(30 * kMiB, 0);
  std::optional<MemPool> pool;
  DeviceBuffer second;
  bool first_free = true;
  pool.emplace(PluggableAllocator([memory](std::size_t, int, void*) { return memory; },
                                  [&](void*, std::size_t, int, void*) {
                                    if (!std::exchange(first_free, false)) return;
                                    std::thread([&] {
                                      const MemPoolGuard guard(*pool);
                                      second = allocate(30 * kMiB, stream_);
                                    }).join();
                                  },
                                  "one piece"));
  {
    Segments segments;
    {
      const MemPoolGuard guard(*pool);
      (void)allocate(30 * kMiB, stream_);
    }
    empty_cache(*pool);
    EXPECT_EQ(second.data(), memory);
    using Kind = Activity::Kind;
    const std::vector<std::pair<Kind, const void*>> expected = {{Kind::segment_allocated, memory},
                                                                {Kind::segment_freed, memory},
                                                                {Kind::segment_allocated, memory}};
    EXPECT_EQ(segments.told, expected);
  }
  second.reset();
  pool.reset();
  empty_cache();
  device_free(memory);
}

// ---- Memory of the device itself

TEST(MemoryOfTheDeviceItself, IsNoAllocators) {
  const std::size_t reserved = memory_reserved(0);
  void* const pointer = device_malloc(1000, 0);
  ASSERT_NE(pointer, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 512, 0U);
  EXPECT_EQ(memory_reserved(0), reserved);
  fill_async(pointer, 7, 1000, default_stream(0));
  device_free(pointer);
  EXPECT_ERROR(device_free(pointer), Error, "device_free: 0x");
  EXPECT_EQ(device_malloc(0, 0), nullptr);
  device_free(nullptr);
  EXPECT_EQ(device_malloc(std::size_t{1} << 50, 0), nullptr);
  int local = 0;
  EXPECT_ERROR(device_free(&local), Error, "no start of a device's memory");
  const DeviceBuffer buffer = allocate(30 * kMiB, default_stream(0));
  EXPECT_ERROR(device_free(buffer.data()), Error, "memory that an allocator has");
  EXPECT_ERROR(device_malloc(100, device_count()), AcceleratorError, "invalid device ordinal");
}

}  // namespace
}  // namespace ember::cuda
