#include "ember/driver/sim/handle_table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

namespace ember::driver::sim {
namespace {

struct Thing {
  bool reusable() const { return free; }
  std::atomic<bool> free{true};
  int kind = 0;
};

template <class Table>
Thing* acquire(Table& table, void*& native, int kind = 0) {
  return table.acquire(
      native, [&](const Thing& idle) { return idle.kind == kind; },
      [&] {
        auto made = std::make_unique<Thing>();
        made->kind = kind;
        return made;
      },
      [&](Thing& chosen) { EXPECT_EQ(chosen.kind, kind); });
}

TEST(HandleTable, FindsWhatIsLive) {
  HandleTable<Thing> table;
  void* native = nullptr;
  Thing* thing = acquire(table, native);
  ASSERT_NE(thing, nullptr);
  ASSERT_NE(native, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(native) % 2, 0u);
  EXPECT_EQ(table.find(native), thing);
  EXPECT_EQ(table.release(native), thing);
  EXPECT_EQ(table.find(native), nullptr);
  EXPECT_EQ(table.release(native), nullptr);
}

TEST(HandleTable, ReusesObjectsButNotHandles) {
  HandleTable<Thing> table;
  void* first = nullptr;
  Thing* thing = acquire(table, first);
  table.release(first);
  void* second = nullptr;
  EXPECT_EQ(acquire(table, second), thing);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.find(first), nullptr) << "the old handle stays dead";
  table.release(second);
  thing->free = false;
  void* third = nullptr;
  EXPECT_NE(acquire(table, third), thing) << "not while it is still in use";
  thing->free = true;
  void* other_kind = nullptr;
  EXPECT_NE(acquire(table, other_kind, 7), thing) << "only for a fitting request";
}

// Addresses that were never handles, or lie beside one, are not followed.
TEST(HandleTable, RecognisesGarbage) {
  HandleTable<Thing> table;
  std::set<void*> live;
  for (int i = 0; i < 1000; ++i) {
    void* native = nullptr;
    acquire(table, native);
    live.insert(native);
  }
  EXPECT_EQ(live.size(), 1000u);
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    std::uint64_t bits = random();
    if (i % 3 == 0) bits &= 0x1'0000'1fff;         // close to real ones
    void* native = reinterpret_cast<void*>(bits);  // NOLINT
    EXPECT_EQ(table.find(native) != nullptr, live.count(native) == 1);
  }
  EXPECT_EQ(table.find(nullptr), nullptr);
}

TEST(HandleTable, SurvivesManyThreads) {
  HandleTable<Thing> table;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        void* native = nullptr;
        Thing* thing = acquire(table, native);
        ASSERT_EQ(table.find(native), thing);
        ASSERT_EQ(table.release(native), thing);
      }
    });
  for (std::thread& thread : threads) thread.join();
  int live = 0;
  table.for_each([&](void*, Thing&) { ++live; });
  EXPECT_EQ(live, 0);
}

}  // namespace
}  // namespace ember::driver::sim
