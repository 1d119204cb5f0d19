// Host threads that take turns by a seed. The suite runs with EMBER_SIM_SCHEDULE=random:0.
#include "ember/runtime/threads.h"

#include <atomic>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/order/program.h"

namespace ember {
namespace {

constexpr int kThreads = 2;

/// Each of two threads adds one to a number on the device, by way of the host.
std::uint32_t two_updates(const test::Words<std::uint32_t>& number, sim::mutex* mutex) {
  cuda::fill_async(number.get(), 0, 4, cuda::default_stream(0));
  const auto add_one = [&] {
    std::unique_lock<sim::mutex> lock;
    if (mutex != nullptr) lock = std::unique_lock(*mutex);
    std::uint32_t seen = 0;
    cuda::copy(&seen, number.get(), 4, cuda::default_stream(0));
    ++seen;
    cuda::copy(number.get(), &seen, 4, cuda::default_stream(0));
  };
  {
    std::vector<sim::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(add_one);
  }
  return number.read()[0];
}

class Turns : public testing::Test {
 protected:
  ~Turns() override { sim::begin_run("random:0"); }
  const test::Words<std::uint32_t> number_{1};
};

TEST_F(Turns, LoseAnUpdateWithSomeSeedAndInEveryReplay) {
  for (const std::string kind : {"random:", "pct:"}) {
    const std::string end = kind == "pct:" ? ":2" : "";
    int seed = 0;
    do {
      ASSERT_LT(++seed, 100) << kind;
      sim::begin_run(kind + std::to_string(seed) + end);
    } while (two_updates(number_, nullptr) == kThreads);
    const std::string log = sim::log();
    EXPECT_NE(log.find("\nturn 2 "), std::string::npos) << log;
    EXPECT_EQ(log.find("\nnote "), std::string::npos) << "managed: " << log;
    const std::string file = testing::TempDir() + "ember_order_threads.log";
    sim::save_log(file);
    for (int i = 0; i < 100; ++i) {
      sim::begin_run("replay:" + file);
      ASSERT_EQ(two_updates(number_, nullptr), 1u) << i;
      if (kind == "random:") {  // the log of pct has a remark, which a replay does not read
        ASSERT_EQ(sim::log(), log);
      }
    }
    std::remove(file.c_str());
  }
}

TEST_F(Turns, LoseNoneUnderAMutex) {
  sim::mutex mutex;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    sim::begin_run(seed);
    ASSERT_EQ(two_updates(number_, &mutex), 2u) << seed;
  }
}

TEST_F(Turns, DoTheSameWithTheSameSeed) {
  std::set<std::string> logs;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    sim::begin_run(seed);
    const std::uint32_t result = two_updates(number_, nullptr);
    const std::string log = sim::log();
    logs.insert(log);
    for (int i = 0; i < 5; ++i) {
      sim::begin_run(seed);
      EXPECT_EQ(two_updates(number_, nullptr), result);
      EXPECT_EQ(sim::log(), log);
    }
  }
  EXPECT_GE(logs.size(), 15u);
}

TEST_F(Turns, HandOverByAConditionInOrder) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    sim::begin_run(seed);
    sim::mutex mutex;
    sim::condition changed;
    std::vector<int> queue, got;
    sim::thread takes([&] {
      for (int i = 0; i < 3; ++i) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !queue.empty(); });
        got.push_back(queue.front());
        queue.erase(queue.begin());
      }
    });
    for (int i = 0; i < 3; ++i) {
      const std::lock_guard lock(mutex);
      queue.push_back(i);
      changed.notify_one();
    }
    takes.join();
    ASSERT_EQ(got, (std::vector<int>{0, 1, 2})) << seed;
  }
}

TEST_F(Turns, RunOneAtATime) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    sim::begin_run(seed);
    // Updates are lost if two run at once. Atomic for the thread sanitizer: turns are no order that
    // a program may rely on.
    std::atomic<int> unguarded = 0;
    {
      std::vector<sim::thread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
          for (int k = 0; k < 50; ++k) {
            unguarded = unguarded + 1;
            sim::yield();
          }
        });
    }
    ASSERT_EQ(unguarded, 200);
  }
}

TEST_F(Turns, RefuseWhatMakesNoSense) {
  EXPECT_ERROR(sim::thread{std::function<void()>()}, ValueError, "empty function");
  sim::thread none;
  EXPECT_FALSE(none.joinable());
  EXPECT_ERROR(none.join(), Error, "there is no thread");
  sim::mutex mutex;
  EXPECT_ERROR(mutex.unlock(), Error, "does not hold the mutex");
  sim::condition condition;
  std::unique_lock lock(mutex, std::defer_lock);
  EXPECT_ERROR(condition.wait(lock), Error, "does not hold the mutex");
  ASSERT_TRUE(mutex.try_lock());
  bool taken = true;
  sim::thread([&] { taken = mutex.try_lock(); }).join();
  EXPECT_FALSE(taken);
  mutex.unlock();
}

}  // namespace
}  // namespace ember
