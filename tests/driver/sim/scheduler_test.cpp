#include "ember/driver/sim/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ember::driver::sim {
namespace {

using Task = Scheduler::Task;

TEST(PriorityScheduler, LetsCopiesStartAtOnce) {
  PriorityScheduler scheduler(1);
  for (int i = 0; i < 100; ++i) scheduler.begin({.computes = false});
  for (int i = 0; i < 100; ++i) scheduler.end({.computes = false});
}

TEST(PriorityScheduler, FullDeviceStillMakesRoom) {
  PriorityScheduler scheduler(2);
  // Nobody ends: each further one has to wait out its patience, and then starts.
  for (int i = 0; i < PriorityScheduler::kSlotsPerDevice + 3; ++i) scheduler.begin({});
  scheduler.begin({.device = 1});
  for (int i = 0; i < PriorityScheduler::kSlotsPerDevice + 3; ++i) scheduler.end({});
  scheduler.end({.device = 1});
  scheduler.begin({});
  scheduler.end({});
}

TEST(PriorityScheduler, NeverLosesAWaiter) {
  PriorityScheduler scheduler(1);
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 12; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const Task task{.priority = -(t % 4)};
        scheduler.begin(task);
        if (i % 7 == 0) std::this_thread::yield();
        scheduler.end(task);
        ++done;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 12 * 500);
}

}  // namespace
}  // namespace ember::driver::sim
