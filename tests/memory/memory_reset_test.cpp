// Resets of a device beside allocations, frees, recorded streams and emptied caches of eight
// threads, on whole devices. EMBER_TEST_SECONDS=60 makes it run that long.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

std::chrono::milliseconds duration() {
  const char* seconds = std::getenv("EMBER_TEST_SECONDS");
  return seconds != nullptr ? std::chrono::seconds(std::atoi(seconds))
                            : std::chrono::milliseconds(1000);
}

struct Counts {
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> done{0}, refused{0};
};

/// One thing that a program does with memory. The stream is made before the memory, so that work
/// that a reset overtakes is refused with its stream.
void step(std::mt19937_64& random, std::vector<DeviceBuffer>& kept) {
  const int devices = std::min(device_count(), 2);
  const Stream stream(static_cast<int>(random() % static_cast<unsigned>(devices)));
  DeviceBuffer buffer = allocate(std::size_t{512} << (random() % 12), stream);
  fill_async(buffer.data(), 1, buffer.size(), stream);
  const Stream other(static_cast<int>(random() % static_cast<unsigned>(devices)));
  record_stream(buffer, other);
  if (random() % 4 == 0) {
    PinnedBuffer pinned = allocate_pinned(buffer.size());
    copy_async(buffer.data(), pinned.data(), buffer.size(), stream);
    pinned_record_event(pinned, stream);
  }
  if (random() % 4 == 0) stream.synchronize();
  if (random() % 16 == 0) empty_cache();
  if (random() % 8 == 0) (void)memory_counters(0);
  if (random() % 8 == 0 && !kept.empty()) (void)kept.back().data();  // perhaps from before a reset
  if (random() % 2 == 0) kept.push_back(std::move(buffer));
  while (kept.size() > 16) {
    std::swap(kept[random() % kept.size()], kept.back());
    kept.pop_back();
  }
}

TEST(MemoryReset, BesideAllocationsOfEightThreads) {
  IN_CHILD({
    Counts counts;
    const auto work = [&counts](unsigned number) {
      std::mt19937_64 random(number);
      std::vector<DeviceBuffer> kept;
      while (!counts.stop) {
        try {
          step(random, kept);
        } catch (const AcceleratorError& error) {
          EXPECT_EQ(error.error_code(), static_cast<int>(Code::context_is_destroyed))
              << error.what();
          ++counts.refused;
        }
        ++counts.done;
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 8; ++i) threads.emplace_back(work, i);
    const auto end = std::chrono::steady_clock::now() + duration();
    for (int resets = 0; std::chrono::steady_clock::now() < end || resets < 10; ++resets) {
      const std::int64_t next = counts.done + 50;  // in between there is time for work
      while (counts.done < next) std::this_thread::yield();
      reset_device(0);
    }
    counts.stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(counts.refused, 0) << "the test proves too little";
    synchronize(0);
    empty_cache();
    pinned_empty_cache();
    for (int device = 0; device < std::min(device_count(), 2); ++device) {
      EXPECT_EQ(memory_allocated(device), 0U) << device;
      EXPECT_EQ(memory_reserved(device), 0U) << device;
      EXPECT_EQ(memory_counters(device).active.all.current, 0) << device;
    }
    EXPECT_EQ(pinned_counters().allocations.current, 0);
    const DeviceBuffer fresh = allocate(kMiB, default_stream(0));
    fill_async(fresh.data(), 1, kMiB, default_stream(0));
    synchronize(0);
  });
}

}  // namespace
}  // namespace ember::cuda
