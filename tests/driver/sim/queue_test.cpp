#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ember/driver/sim/task_queue.h"
#include "ember/driver/sim/timeline.h"

namespace ember::driver::sim {
namespace {

// One thread writes, another takes everything in the order it was written.
TEST(TaskQueue, KeepsOrderAcrossChunksAndThreads) {
  constexpr std::uint64_t kTasks = 200'000;
  TaskQueue queue;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kTasks; ++i) {
      Task& task = queue.next_slot(Params(i));
      task.kind = Task::Kind::stamp;
      ASSERT_EQ(queue.publish(), i + 1);
    }
  });
  for (std::uint64_t done = 0; done < kTasks; ++done) {
    while (queue.published() <= done) std::this_thread::yield();
    const Task& task = queue.front(done);
    ASSERT_EQ(task.params.as<std::uint64_t>(), done);
    ASSERT_EQ(task.kind, Task::Kind::stamp);
  }
  producer.join();
}

TEST(TaskQueue, HoldsManyTasksAtOnce) {
  TaskQueue queue;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    queue.next_slot(Params(i));
    queue.publish();
  }
  for (std::uint64_t done = 0; done < 10'000; ++done)
    ASSERT_EQ(queue.front(done).params.as<std::uint64_t>(), done);
}

// What is held has its number at once, and is seen with the next that is published.
TEST(TaskQueue, WhatIsHeldIsSeenTogether) {
  TaskQueue queue;
  for (std::uint64_t i = 0; i < 100; ++i) {
    queue.next_slot(Params(i));
    ASSERT_EQ(queue.hold(), i + 1);
    ASSERT_EQ(queue.next_number(), i + 2);
  }
  EXPECT_EQ(queue.published(), 0U);
  queue.next_slot(Params(std::uint64_t{100}));
  EXPECT_EQ(queue.publish(), 101U);
  EXPECT_EQ(queue.published(), 101U);
  EXPECT_EQ(queue.held(), 0U);
  for (std::uint64_t done = 0; done <= 100; ++done)
    ASSERT_EQ(queue.front(done).params.as<std::uint64_t>(), done);
}

TEST(Timeline, WakesEveryWaiterAtItsValue) {
  const Exit exit;
  Timeline timeline(exit, 0);
  std::vector<std::thread> waiters;
  std::atomic<int> woken{0};
  for (std::uint64_t value = 1; value <= 8; ++value)
    waiters.emplace_back([&, value] {
      timeline.wait(value);
      EXPECT_GE(timeline.reached(), value);
      ++woken;
    });
  timeline.wait(0);
  for (int i = 0; i < 8; ++i) timeline.advance();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(woken, 8);
  EXPECT_TRUE(timeline.has_reached(8));
  EXPECT_FALSE(timeline.has_reached(9));
}

TEST(Timeline, PingPongLosesNoWakeUp) {
  const Exit exit;
  Timeline ping(exit, 0);
  Timeline pong(exit, 0);
  constexpr std::uint64_t kRounds = 20'000;
  std::thread other([&] {
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      ping.wait(i);
      pong.advance();
    }
  });
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    ping.advance();
    pong.wait(i);
  }
  other.join();
}

TEST(Timeline, RefusesTheThreadThatLeavesTheProcess) {
  Exit exit;
  Timeline timeline(exit, 0);
  std::thread other([&] { EXPECT_EQ(timeline.wait(1), Timeline::Waited::reached); });
  exit.stop();
  EXPECT_EQ(timeline.wait(1), Timeline::Waited::exiting);
  timeline.advance();
  other.join();
  EXPECT_EQ(timeline.wait(1), Timeline::Waited::reached);
}

TEST(Timeline, GivesUpWhenToldAndWoken) {
  const Exit exit;
  Timeline timeline(exit, 0);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    EXPECT_EQ(timeline.wait(1, [&] { return stop.load(); }), Timeline::Waited::given_up);
  });
  stop = true;
  timeline.wake();
  other.join();
}

TEST(Timeline, KnowsWhatWasDroppedInWhichEpoch) {
  const Exit exit;
  Timeline timeline(exit, 0);
  timeline.advance();     // 1
  timeline.drop_next(0);  // 2 and 3 are dropped in epoch 0
  timeline.advance();
  timeline.drop_next(0);
  timeline.advance();
  timeline.advance();  // 4 is done, in epoch 1
  for (std::uint64_t number = 1; number <= 4; ++number)
    EXPECT_EQ(timeline.was_dropped(number, 0), number == 2 || number == 3) << number;
  EXPECT_FALSE(timeline.was_dropped(3, 1)) << "recorded after the reset: nothing is missing";
}

// An event that was never recorded holds nobody up.
TEST(Point, WithoutATimelineIsReached) { EXPECT_TRUE(Point().reached()); }

}  // namespace
}  // namespace ember::driver::sim
