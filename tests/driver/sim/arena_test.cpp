#include "ember/driver/sim/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace ember::driver::sim {
namespace {

constexpr std::size_t kBytes = std::size_t{16} << 20;

TEST(Arena, OwnersFollowFromAddresses) {
  Arena arena(3, kBytes);
  for (int device = 0; device < 3; ++device) {
    void* memory = nullptr;
    ASSERT_TRUE(arena.allocate(device, 1000, memory).ok());
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
  EXPECT_EQ(arena.allocate(0, kBytes + 1, memory).code(), Code::out_of_memory);
  ASSERT_TRUE(arena.allocate(0, kBytes, memory).ok());
  void* more = nullptr;
  const Status status = arena.allocate(0, 1, more);
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.detail().find("16.00 MiB of 16.00 MiB in use"), std::string::npos)
      << status.detail();
  ASSERT_TRUE(arena.allocate(1, kBytes, more).ok()) << "the other device has its own";
  ASSERT_TRUE(arena.free(0, memory).ok());
  ASSERT_TRUE(arena.allocate(0, kBytes, memory).ok());
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
      if (const Status status = arena.allocate(0, bytes, memory); !status.ok()) {
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
      ASSERT_TRUE(arena.free(0, victim->first).ok());
      ASSERT_FALSE(arena.free(0, victim->first).ok());
      used -= (victim->second.bytes + 511) / 512 * 512;
      live.erase(victim);
    }
    ASSERT_EQ(arena.info(0).free, kBytes - used);
  }
  for (const auto& [start, piece] : live) ASSERT_TRUE(arena.free(0, start).ok());
  EXPECT_EQ(arena.info(0).free, kBytes);
  void* all = nullptr;
  EXPECT_TRUE(arena.allocate(0, kBytes, all).ok()) << "free ranges merge again";
}

TEST(Arena, ClearFreesEverything) {
  Arena arena(1, kBytes);
  void* memory = nullptr;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(arena.allocate(0, 5000, memory).ok());
  arena.clear(0);
  EXPECT_EQ(arena.info(0).free, kBytes);
  EXPECT_FALSE(arena.free(0, memory).ok());
  EXPECT_TRUE(arena.allocate(0, kBytes, memory).ok());
}

}  // namespace
}  // namespace ember::driver::sim
