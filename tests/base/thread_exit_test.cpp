// What belongs to a thread goes with it, in the right order, and can still be asked for afterwards.
#include "ember/base/thread_exit.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace ember {
namespace {

/// Calls a function when the thread's variables are destroyed. Made before anything is registered
/// in its thread, so that it dies after what was.
struct AtTheVeryEnd {
  std::function<void()> run;
  ~AtTheVeryEnd() {
    if (run) run();
  }
};
AtTheVeryEnd& at_the_very_end() {
  static thread_local AtTheVeryEnd made;
  return made;
}

std::vector<int> calls;

// The last one registered is called first, and a call may register no further one.
TEST(ThreadExit, CallsBackwards) {
  calls.clear();
  std::thread([] {
    EXPECT_TRUE(at_thread_exit([]() noexcept { calls.push_back(1); }));
    EXPECT_TRUE(at_thread_exit([]() noexcept {
      calls.push_back(2);
      EXPECT_FALSE(at_thread_exit([]() noexcept { calls.push_back(4); }));
    }));
    EXPECT_TRUE(at_thread_exit([]() noexcept { calls.push_back(3); }));
    EXPECT_TRUE(calls.empty());
  }).join();
  EXPECT_EQ(calls, (std::vector<int>{3, 2, 1}));
}

TEST(ThreadExit, RefusesWhenItIsTooLate) {
  bool registered = true;
  std::thread([&] {
    at_the_very_end().run = [&] {
      registered = at_thread_exit([]() noexcept { calls.push_back(5); });
    };
    EXPECT_TRUE(at_thread_exit([]() noexcept {}));
  }).join();
  EXPECT_FALSE(registered);
}

struct PerThreadCounted {
  static inline int alive = 0;
  PerThreadCounted() { ++alive; }
  ~PerThreadCounted() { --alive; }
  int value = 0;
};

TEST(PerThread, IsOneForEachThreadAndGoesWithIt) {
  using Own = PerThread<PerThreadCounted>;
  std::thread([] {
    EXPECT_EQ(PerThreadCounted::alive, 0);
    Own::get().value = 1;
    EXPECT_EQ(Own::get().value, 1);
    EXPECT_EQ(PerThreadCounted::alive, 1);
    std::thread([] {
      EXPECT_EQ(Own::get().value, 0);
      EXPECT_EQ(PerThreadCounted::alive, 2);
    }).join();
    EXPECT_EQ(PerThreadCounted::alive, 1);
  }).join();
  EXPECT_EQ(PerThreadCounted::alive, 0);
}

struct Lasting {
  int value = 0;
};

// A destructor that asks when the thread's own is gone gets a new one, the same one each time.
TEST(PerThread, IsThereForDestructorsThatRunLater) {
  using Own = PerThread<Lasting>;
  int first = -1;
  int second = -1;
  std::thread([&] {
    at_the_very_end().run = [&] {
      first = Own::get().value;
      Own::get().value = 9;
      second = Own::get().value;
    };
    Own::get().value = 7;
  }).join();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 9);
}

}  // namespace
}  // namespace ember
