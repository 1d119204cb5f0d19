#include "ember/driver/sim/run_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace ember::driver::sim {
namespace {

constexpr std::size_t kGranule = RunMemory::kGranule;
constexpr std::size_t kGranules = 64;

/// Memory of a device, with what lies in it.
struct Device {
  struct Allocation {
    std::size_t granules = 0;
    RunMemory::Birth birth;
  };

  explicit Device(std::uint64_t seed, int number = 0) : run(kGranules * kGranule, number, seed) {}
  void allocate(std::size_t at, std::size_t granules) {
    allocations[at] = {granules, run.give_birth()};
  }
  /// The bytes of an allocation from `first` on, as a task finds them.
  std::byte* touch(std::size_t at, std::size_t first, std::size_t bytes, bool writes) {
    run.touch(memory.data(), {at * kGranule + first, bytes}, at * kGranule,
              allocations.at(at).birth, writes);
    return memory.data() + at * kGranule + first;
  }
  std::vector<std::byte> read(std::size_t at) {
    const std::size_t bytes = allocations.at(at).granules * kGranule;
    const std::byte* first = touch(at, 0, bytes, false);
    return {first, first + bytes};
  }
  void begin_run(std::uint64_t seed) {
    run.begin_run(memory.data(), seed, [&](std::size_t offset, std::uint64_t serial) {
      auto found = allocations.upper_bound(offset / kGranule);
      return found != allocations.begin() && (--found)->second.birth.serial == serial;
    });
  }

  std::vector<std::byte> memory = std::vector<std::byte>(kGranules * kGranule);
  RunMemory run;
  std::map<std::size_t, Allocation> allocations;  // by granule
};

TEST(RunMemory, PutsBackWhatWasThereBeforeTheRun) {
  Device device(1);
  ASSERT_TRUE(device.run.made());
  device.allocate(2, 3);
  std::memset(device.touch(2, 0, 3 * kGranule, true), 7, 3 * kGranule);
  device.begin_run(2);
  std::memset(device.touch(2, kGranule + 5, 10, true), 8, 10);
  std::memset(device.touch(2, kGranule + 5, 10, true), 9, 10);
  EXPECT_EQ(device.read(2)[kGranule + 5], std::byte{9});
  device.begin_run(3);
  EXPECT_EQ(device.read(2), std::vector<std::byte>(3 * kGranule, std::byte{7}));
}

TEST(RunMemory, LeavesWhatTheRunItselfAllocated) {
  Device device(1);
  device.begin_run(2);
  device.allocate(0, 1);
  std::memset(device.touch(0, 0, kGranule, true), 5, kGranule);
  device.begin_run(3);
  EXPECT_EQ(device.read(0)[0], std::byte{5});
  std::memset(device.touch(0, 0, kGranule, true), 6, kGranule);
  device.begin_run(4);
  EXPECT_EQ(device.read(0)[0], std::byte{5}) << "it is older than that run";
}

TEST(RunMemory, LeavesWhatTookThePlaceOfAnother) {
  Device device(1);
  device.allocate(0, 1);
  device.begin_run(2);
  std::memset(device.touch(0, 0, kGranule, true), 5, kGranule);
  device.allocations.erase(0);
  device.allocate(0, 1);
  std::memset(device.touch(0, 0, kGranule, true), 6, kGranule);
  device.begin_run(3);
  EXPECT_EQ(device.read(0)[0], std::byte{6});
}

TEST(RunMemory, GivesNewMemoryThePatternOfSeedAndPlaceInTheRun) {
  Device device(1);
  const auto first_of_run = [&](std::uint64_t seed, std::size_t at) {
    device.begin_run(seed);
    device.allocate(at, 2);
    return device.read(at);
  };
  const std::vector<std::byte> pattern = first_of_run(7, 0);
  EXPECT_EQ(first_of_run(7, 10), pattern) << "wherever it lies";
  EXPECT_NE(first_of_run(8, 0), pattern);
  device.begin_run(7);
  device.allocate(0, 2);
  device.allocate(4, 2);
  EXPECT_NE(device.read(4), pattern) << "the second allocation of a run";
  EXPECT_EQ(device.read(0), pattern);
  Device other(7, 1);
  other.allocate(0, 2);
  EXPECT_NE(other.read(0), pattern) << "another device";
  Device same(7);
  same.allocate(0, 2);
  EXPECT_EQ(same.read(0), pattern) << "the first run of a process";
  // Neither constant nor repeated: all words differ.
  std::vector<std::uint64_t> words(2 * kGranule / 8);
  std::memcpy(words.data(), pattern.data(), pattern.size());
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(RunMemory, GivesThePatternAgainToTheNextAllocation) {
  Device device(3);
  device.allocate(0, 1);
  std::memset(device.touch(0, 0, kGranule, true), 5, kGranule);
  device.allocations.erase(0);
  device.allocate(0, 1);
  EXPECT_NE(device.read(0), std::vector<std::byte>(kGranule, std::byte{5}));
}

TEST(RunMemory, OfMemoryThatWasNeverTouchedThePatternIsWhatItHeld) {
  Device device(3);
  device.allocate(0, 1);
  device.begin_run(4);
  std::memset(device.touch(0, 8, 8, true), 5, 8);
  device.begin_run(5);
  Device fresh(3);
  fresh.allocate(0, 1);
  EXPECT_EQ(device.read(0), fresh.read(0)) << "of the seed with which it was allocated";
}

// Against a model that copies everything at the beginning of each run.
TEST(RunMemory, AgreesWithCopiesOfEverything) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return random() % n; };
    Device device(seed);
    std::map<std::size_t, std::vector<std::byte>> now, before;  // by allocation
    for (int step = 0; step < 300; ++step) {
      const std::size_t at = below(8) * 8;
      const auto found = device.allocations.find(at);
      if (below(20) == 0) {
        device.begin_run(step);
        for (auto& [each, contents] : now)
          if (const auto old = before.find(each); old != before.end()) contents = old->second;
        before = now;
      } else if (found == device.allocations.end()) {
        device.allocate(at, 1 + below(8));
        now[at] = device.read(at);
      } else if (below(6) == 0) {
        device.allocations.erase(found);
        now.erase(at);
        before.erase(at);
      } else {
        const std::size_t size = found->second.granules * kGranule;
        const std::size_t first = below(size);
        const std::size_t bytes = 1 + below(size - first);
        const auto value = static_cast<int>(below(256));
        std::memset(device.touch(at, first, bytes, true), value, bytes);
        std::memset(now[at].data() + first, value, bytes);
      }
      for (const auto& [each, contents] : now)
        ASSERT_EQ(device.read(each), contents) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace ember::driver::sim
