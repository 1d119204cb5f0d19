// The lock that leans towards one thread: whoever has it, nobody else does.
#include "ember/memory/biased_lock.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace ember::test {
namespace {

using memory::BiasedGuard;
using memory::BiasedLock;

/// Not atomic: a lost update, or the thread sanitizer, tells when two threads are inside.
struct Counted {
  BiasedLock lock;
  long value = 0;

  void add(int times) {
    for (int i = 0; i < times; ++i) {
      BiasedGuard guard(lock);
      ++value;
    }
  }
};

constexpr int kLeans = 5'000;  // as often as it takes, and more

TEST(BiasedLock, IsTakenFromItsOwnerWhileThatOneIsBusy) {
  for (int round = 0; round < 20; ++round) {
    Counted counted;
    counted.add(kLeans);
    std::latch start(2);
    std::thread other([&] {
      start.arrive_and_wait();
      counted.add(round % 2 == 0 ? 1 : kLeans);
    });
    start.arrive_and_wait();
    counted.add(kLeans);
    other.join();
    EXPECT_EQ(counted.value, 2 * kLeans + (round % 2 == 0 ? 1 : kLeans));
  }
}

TEST(BiasedLock, LeansFromThreadToThread) {
  Counted counted;
  std::vector<std::thread> threads;
  constexpr int kThreads = 4, kRounds = 8;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) counted.add(kLeans);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted.value, long{kThreads} * kRounds * kLeans);
}

TEST(BiasedLock, OutlivesItsOwners) {
  Counted counted;
  for (int i = 0; i < 10; ++i) {
    std::thread([&] { counted.add(kLeans); }).join();
    if (i % 3 == 0) counted.add(1);
  }
  EXPECT_EQ(counted.value, 10 * kLeans + 4);
}

// Seen through ASSERT_TRUE, the analysis of locks does not know what try_lock has said.
bool take(BiasedLock& lock) EMBER_THREAD_NOTE(no_thread_safety_analysis) { return lock.try_lock(); }
void leave(BiasedLock& lock) EMBER_THREAD_NOTE(no_thread_safety_analysis) { lock.unlock(); }

TEST(BiasedLock, OnlyOneOfTwoTriesSucceeds) {
  BiasedLock lock;
  for (int i = 0; i < kLeans; ++i) {
    ASSERT_TRUE(take(lock));
    leave(lock);
  }
  ASSERT_TRUE(take(lock));  // as owner
  std::latch tried(1);
  bool inside = true;
  std::thread other([&] {
    tried.count_down();
    BiasedGuard guard(lock);  // takes the lock away from its owner, and waits for it to leave
    inside = false;
  });
  tried.wait();
  EXPECT_TRUE(inside);
  leave(lock);
  other.join();
  EXPECT_FALSE(inside);
}

}  // namespace
}  // namespace ember::test
