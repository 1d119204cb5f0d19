#include "ember/driver/sim/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace ember::driver::sim {
namespace {

constexpr std::size_t kBytes = std::size_t{16} << 20;
constexpr std::uint32_t kEpoch = 0;

// What a context leaves for everybody else.
const std::size_t kUsable = kBytes - Arena::context_bytes(kBytes);

TEST(Arena, OwnersFollowFromAddresses) {
  Arena arena(3, kBytes);
  for (int device = 0; device < 3; ++device) {
    void* memory = nullptr;
    ASSERT_TRUE(arena.allocate(device, kEpoch, 1000, memory).ok());
    EXPECT_EQ(arena.owner(memory), device);
    EXPECT_TRUE(arena.contains(memory, 1000));
    EXPECT_FALSE(arena.contains(memory, 1001));
    PointerInfo info;
    EXPECT_TRUE(arena.find(static_cast<std::byte*>(memory) + 999, info));
    EXPECT_EQ(info.base, memory);
    EXPECT_EQ(info.bytes, 1000u);
    EXPECT_FALSE(arena.find(static_cast<std::byte*>(memory) + 1000, info));
  }
  int host = 0;
  EXPECT_EQ(arena.owner(&host), -1);
  EXPECT_EQ(arena.owner(nullptr), -1);
}

TEST(Arena, LimitsEachDevice) {
  Arena arena(2, kBytes);
  void* memory = nullptr;
  EXPECT_EQ(arena.allocate(0, kEpoch, kUsable + 1, memory).code(), Code::out_of_memory);
  ASSERT_TRUE(arena.allocate(0, kEpoch, kUsable, memory).ok());
  void* more = nullptr;
  const Status status = arena.allocate(0, kEpoch, 1, more);
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.detail().find("15.92 MiB of 15.92 MiB in use"), std::string::npos)
      << status.detail();
  ASSERT_TRUE(arena.allocate(1, kEpoch, kUsable, more).ok()) << "the other device has its own";
  ASSERT_TRUE(arena.free(0, kEpoch, memory).ok());
  ASSERT_TRUE(arena.allocate(0, kEpoch, kUsable, memory).ok());
}

TEST(Arena, RandomUseMatchesAModel) {
  Arena arena(1, kBytes);
  struct Piece {
    std::size_t bytes;
    unsigned char mark;
  };
  std::map<std::byte*, Piece> live;
  std::mt19937 random(12345);
  std::size_t used = 0;
  for (int step = 0; step < 30'000; ++step) {
    if (live.empty() || random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 2'000'000 : 20'000);
      void* memory = nullptr;
      if (const Status status = arena.allocate(0, kEpoch, bytes, memory); !status.ok()) {
        ASSERT_EQ(status.code(), Code::out_of_memory);
        continue;
      }
      auto* start = static_cast<std::byte*>(memory);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(start) % 512, 0u);
      const auto next = live.lower_bound(start);
      if (next != live.end()) {
        ASSERT_LE(start + bytes, next->first);
      }
      if (next != live.begin()) {
        ASSERT_GE(start, std::prev(next)->first + std::prev(next)->second.bytes);
      }
      const auto mark = static_cast<unsigned char>(random());
      auto* place = static_cast<unsigned char*>(arena.backing(start));
      place[0] = mark;
      place[bytes - 1] = mark;
      live.emplace(start, Piece{bytes, mark});
      used += (bytes + 511) / 512 * 512;
    } else {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      const auto* place = static_cast<unsigned char*>(arena.backing(victim->first));
      ASSERT_EQ(place[0], victim->second.mark);
      ASSERT_EQ(place[victim->second.bytes - 1], victim->second.mark);
      ASSERT_TRUE(arena.free(0, kEpoch, victim->first).ok());
      ASSERT_FALSE(arena.free(0, kEpoch, victim->first).ok());
      used -= (victim->second.bytes + 511) / 512 * 512;
      live.erase(victim);
    }
    ASSERT_EQ(arena.info(0).free, kUsable - used);
  }
  for (const auto& [start, piece] : live) ASSERT_TRUE(arena.free(0, kEpoch, start).ok());
  EXPECT_EQ(arena.info(0).free, kUsable);
  void* all = nullptr;
  EXPECT_TRUE(arena.allocate(0, kEpoch, kUsable, all).ok()) << "free ranges merge again";
}

// As on hardware, whose pages may lie anywhere.
TEST(Arena, ServesOneAllocationWithMemoryThatLiesApart) {
  Arena arena(1, kBytes);
  std::vector<void*> pieces(16);
  const std::size_t piece = kUsable / 16 / 512 * 512;
  for (void*& each : pieces) ASSERT_TRUE(arena.allocate(0, kEpoch, piece, each).ok());
  for (std::size_t i = 0; i < pieces.size(); i += 2)
    ASSERT_TRUE(arena.free(0, kEpoch, pieces[i]).ok());
  const std::size_t free = arena.info(0).free;
  EXPECT_GE(free, 8 * piece);
  void* more = nullptr;
  EXPECT_EQ(arena.allocate(0, kEpoch, free + 1, more).code(), Code::out_of_memory);
  ASSERT_TRUE(arena.allocate(0, kEpoch, free, more).ok());
  EXPECT_EQ(arena.info(0).free, 0U);
  auto* const place = static_cast<unsigned char*>(arena.backing(more));
  place[0] = place[free - 1] = 1;
  EXPECT_TRUE(arena.free(0, kEpoch, more).ok());
  for (std::size_t i = 1; i < pieces.size(); i += 2)
    EXPECT_TRUE(arena.free(0, kEpoch, pieces[i]).ok());
  EXPECT_EQ(arena.info(0).free, kUsable);
}

TEST(Arena, ANewEpochRefusesTheOldOneAndKeepsWhatIsItsOwn) {
  Arena arena(1, kBytes);
  void* old = nullptr;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(arena.allocate(0, 0, 5000, old).ok());
  arena.begin_epoch(0, 1);
  void* refused = nullptr;
  EXPECT_EQ(arena.allocate(0, 0, 5000, refused).code(), Code::context_is_destroyed);
  EXPECT_EQ(arena.free(0, 0, old).code(), Code::context_is_destroyed);
  EXPECT_EQ(arena.free(0, 1, old).code(), Code::invalid_value) << "not allocated in this epoch";
  void* kept = nullptr;
  ASSERT_TRUE(arena.allocate(0, 1, 5000, kept).ok()) << "also before the old memory is gone";
  EXPECT_NE(kept, old);
  arena.clear_earlier_epochs(0);
  EXPECT_EQ(arena.info(0).free, kUsable - 5120);
  EXPECT_FALSE(arena.contains(old, 1));
  EXPECT_TRUE(arena.contains(kept, 5000));
  ASSERT_TRUE(arena.free(0, 1, kept).ok());
  EXPECT_TRUE(arena.allocate(0, 1, kUsable, kept).ok()) << "nothing was lost";
}

TEST(Arena, AResetEndsRangesAndTheirChunks) {
  Arena arena(1, kBytes);
  EXPECT_GE(arena.reach(), 4U);
  void* range = nullptr;
  ASSERT_TRUE(arena.reserve(0, kEpoch, 8 * Arena::kUnit, range).ok());
  auto* const second = static_cast<std::byte*>(range) + Arena::kUnit;
  ASSERT_TRUE(arena.map(0, kEpoch, range, Arena::kUnit).ok());
  ASSERT_TRUE(arena.map(0, kEpoch, second, 2 * Arena::kUnit).ok());
  EXPECT_TRUE(arena.contains(second - 1, 2 * Arena::kUnit + 1));
  EXPECT_FALSE(arena.contains(second - 1, 2 * Arena::kUnit + 2));
  EXPECT_EQ(arena.info(0).free, kUsable - 3 * Arena::kUnit);
  arena.begin_epoch(0, kEpoch + 1);
  EXPECT_FALSE(arena.contains(second, 1));
  arena.clear_earlier_epochs(0);
  EXPECT_EQ(arena.info(0).free, kUsable);
  EXPECT_EQ(arena.map(0, kEpoch + 1, range, Arena::kUnit).code(), Code::invalid_value)
      << "the range is gone, too";
  void* again = nullptr;
  ASSERT_TRUE(arena.reserve(0, kEpoch + 1, 8 * Arena::kUnit, again).ok());
  EXPECT_EQ(again, range);
}

}  // namespace
}  // namespace ember::driver::sim
