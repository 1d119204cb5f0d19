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

// Random programs on a table that was used before and one that is new.
TEST(HandleTable, ComesAsANewOneOnceItWasRenewed) {
  HandleTable<Thing> used;
  std::vector<void*> held;
  for (unsigned seed = 0; seed < 200; ++seed) {
    HandleTable<Thing> fresh;
    std::mt19937 random(seed);
    std::vector<void*> live;
    for (int step = 0; step < 100; ++step) {
      if (live.empty() || random() % 3 != 0) {
        void* native = nullptr;
        void* expected = nullptr;
        const int kind = static_cast<int>(random() % 2);
        ASSERT_NE(acquire(used, native, kind), nullptr);
        ASSERT_NE(acquire(fresh, expected, kind), nullptr);
        ASSERT_EQ(native, expected) << "seed " << seed << ", step " << step;
        live.push_back(native);
      } else {
        const std::size_t which = random() % live.size();
        ASSERT_NE(used.release(live[which]), nullptr);
        ASSERT_NE(fresh.release(live[which]), nullptr);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    for (void* native : live) used.release(native);
    used.renew();
  }
}

TEST(HandleTable, KeepsLiveHandlesWhenItIsRenewed) {
  HandleTable<Thing> table;
  void* handles[4] = {};
  Thing* things[4] = {};
  for (int i = 0; i < 4; ++i) things[i] = acquire(table, handles[i]);
  table.release(handles[0]);
  table.release(handles[2]);
  table.renew();
  EXPECT_EQ(table.find(handles[1]), things[1]);
  EXPECT_EQ(table.find(handles[3]), things[3]);
  EXPECT_EQ(table.find(handles[0]), nullptr);
  table.release(handles[1]);  // later than the renewal
  table.renew();
  void* native = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(acquire(table, native), nullptr);
    EXPECT_EQ(native, handles[i]) << i << ": the first free place, from its first handle on";
  }
  EXPECT_EQ(table.find(handles[3]), things[3]);
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
