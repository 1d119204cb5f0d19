#include "ember/base/ref.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace ember {
namespace {

struct Counted : RefCounted {
  explicit Counted(std::atomic<int>& counter, int number = 0) : deaths(counter), value(number) {}
  ~Counted() { ++deaths; }
  std::atomic<int>& deaths;
  int value;
};

TEST(Ref, EmptyOwnsNothing) {
  const Ref<Counted> empty;
  const Ref<Counted> null{};
  EXPECT_FALSE(empty);
  EXPECT_EQ(empty.get(), nullptr);
  EXPECT_EQ(empty, null);
}

TEST(Ref, TheLastOwnerDeletes) {
  std::atomic<int> deaths = 0;
  {
    Ref<Counted> first = make_ref<Counted>(deaths, 7);
    {
      const Ref<Counted> second = first;
      EXPECT_EQ(first, second);
      EXPECT_EQ(second->value, 7);
      first = {};
      EXPECT_EQ(deaths, 0);
    }
    EXPECT_EQ(deaths, 1);
  }
  EXPECT_EQ(deaths, 1);
}

TEST(Ref, MovingPassesOwnershipOn) {
  std::atomic<int> deaths = 0;
  Ref<Counted> first = make_ref<Counted>(deaths);
  Counted* const object = first.get();
  const Ref<Counted> second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved from means empty
  EXPECT_EQ(second.get(), object);
  EXPECT_EQ(deaths, 0);
}

TEST(Ref, AssigningReleasesTheOldObject) {
  std::atomic<int> deaths = 0;
  Ref<Counted> ref = make_ref<Counted>(deaths, 1);
  ref = make_ref<Counted>(deaths, 2);
  EXPECT_EQ(deaths, 1);
  EXPECT_EQ(ref->value, 2);
}

TEST(Ref, AssigningToItselfKeepsTheObject) {
  std::atomic<int> deaths = 0;
  Ref<Counted> ref = make_ref<Counted>(deaths, 3);
  const Ref<Counted>& same = ref;
  ref = same;
  EXPECT_EQ(deaths, 0);
  EXPECT_EQ(ref->value, 3);
}

TEST(Ref, OwnersOnManyThreadsDeleteOnce) {
  std::atomic<int> deaths = 0;
  for (int round = 0; round < 100; ++round) {
    Ref<Counted> shared = make_ref<Counted>(deaths, round);
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([mine = shared, round] {
        for (int i = 0; i < 1000; ++i) {
          const Ref<Counted> copy = mine;
          ASSERT_EQ(copy->value, round);
        }
      });
    }
    shared = {};
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    ASSERT_EQ(deaths, round + 1);
  }
}

struct Findable : FindableRefCounted {
  explicit Findable(std::atomic<int>& counter) : disposals(counter) {}
  static void dispose(Findable* object) { ++object->disposals; }
  std::atomic<int>& disposals;
};

TEST(Ref, AnObjectWithoutOwnersIsNotFound) {
  std::atomic<int> disposals = 0;
  Findable object(disposals);
  EXPECT_FALSE(object.try_acquire());
  {
    const Ref<Findable> owner(&object);
    ASSERT_TRUE(object.try_acquire());
    const Ref<Findable> found = Ref<Findable>::adopt(&object);
    EXPECT_EQ(found, owner);
  }
  EXPECT_EQ(disposals, 1);
  EXPECT_FALSE(object.try_acquire());
}

// The last owner goes while another thread looks: either it finds the object, which then lives on,
// or it does not. In neither case does the object go twice, or while it has an owner.
TEST(Ref, FindingRacesWithTheLastOwner) {
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int> disposals = 0;
    Findable object(disposals);
    Ref<Findable> owner(&object);
    std::atomic<bool> begun = false;
    std::thread finder([&] {
      begun = true;
      if (!object.try_acquire()) return;
      const Ref<Findable> found = Ref<Findable>::adopt(&object);
      EXPECT_EQ(disposals, 0);
    });
    while (!begun) std::this_thread::yield();
    owner = {};
    finder.join();
    ASSERT_EQ(disposals, 1);
  }
}

}  // namespace
}  // namespace ember
