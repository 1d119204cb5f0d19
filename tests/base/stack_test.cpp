// Where a thread stands, as a number.
#include "ember/base/stack.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ember {
namespace {

/// The compiler must not make a jump of the call, or one function of two.
void keep() { asm volatile("" ::: "memory"); }

[[gnu::noinline]] std::uint64_t here() {
  const std::uint64_t stack = capture_stack();
  keep();
  return stack;
}
[[gnu::noinline]] std::uint64_t one_way() {
  const std::uint64_t stack = here();
  keep();
  return stack;
}
[[gnu::noinline]] std::uint64_t another_way() {
  const std::uint64_t stack = here();
  keep();
  asm volatile("nop");
  return stack;
}
[[gnu::noinline]] std::uint64_t deeper(int calls) {
  const std::uint64_t stack = calls == 0 ? here() : deeper(calls - 1);
  keep();
  return stack;
}

TEST(Stack, EqualStacksHaveEqualNumbers) {
  std::set<std::uint64_t> one, another;
  for (int i = 0; i < 100; ++i) {
    (i % 2 == 0 ? one : another).insert(i % 2 == 0 ? one_way() : another_way());
  }
  EXPECT_EQ(one.size(), 1U);
  EXPECT_EQ(another.size(), 1U);
  EXPECT_NE(*one.begin(), *another.begin()) << "they call the same function at the same depth";
  EXPECT_EQ(one.count(0), 0U);
}

TEST(Stack, ManyDifferentStacksAreToldApart) {
  std::set<std::uint64_t> seen;
  for (int round = 0; round < 3; ++round)
    for (int calls = 0; calls < 15; ++calls) seen.insert(deeper(calls));
  EXPECT_EQ(seen.size(), 15U);
}

/// Unwinding takes thirty times as long, so whether it happens must not depend on where the stacks
/// of a process lie, nor on how many operations a loop has.
TEST(Stack, OfALoopIsUnwoundOnce) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "stacks are not known again on this kind of processor";
#endif
  std::thread([] {  // which has had none before
    const auto unwound = [] { return detail::stacks_unwound.load(); };
    const std::uint64_t before = unwound();
    for (int round = 0; round < 10; ++round)
      for (int calls = 0; calls < 20; ++calls) (void)deeper(calls);
    EXPECT_EQ(unwound() - before, 20U);

    const std::uint64_t then = unwound();
    std::set<std::uint64_t> numbers;
    for (int round = 0; round < 10; ++round) {
#define EMBER_ONE numbers.insert(here()), keep();
#define EMBER_FIVE EMBER_ONE EMBER_ONE EMBER_ONE EMBER_ONE EMBER_ONE
      EMBER_FIVE EMBER_FIVE EMBER_FIVE EMBER_FIVE EMBER_FIVE EMBER_FIVE EMBER_FIVE EMBER_FIVE
#undef EMBER_FIVE
#undef EMBER_ONE
    }
    EXPECT_EQ(numbers.size(), 40U);
    EXPECT_EQ(unwound() - then, 40U);
  })
      .join();
}

TEST(Stack, ThreadsThatStandAtOnePlaceAgree) {
  std::vector<std::uint64_t> stacks(4);
  std::vector<std::thread> threads;
  for (std::uint64_t& stack : stacks) threads.emplace_back([&stack] { stack = deeper(30); });
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t stack : stacks) EXPECT_EQ(stack, stacks[0]);
}

TEST(Stack, ThreadsWhoseStacksAreNewAgree) {
  std::vector<std::vector<std::uint64_t>> stacks(8);
  std::vector<std::thread> threads;
  for (auto& mine : stacks)
    threads.emplace_back([&mine] {
      for (int calls = 0; calls < 12; ++calls) mine.push_back(deeper(calls));
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : stacks) EXPECT_EQ(mine, stacks[0]);
  EXPECT_EQ(std::set<std::uint64_t>(stacks[0].begin(), stacks[0].end()).size(), 12U);
  EXPECT_NE(stack_text(stacks[0][3]), stack_text(stacks[0][4]));
}

/// Takes a stack when the thread's variables are destroyed: made first, it goes last.
struct AtTheEnd {
  std::uint64_t* taken = nullptr;
  ~AtTheEnd() {
    for (int i = 0; i < 3 && taken != nullptr; ++i) *taken = one_way();
  }
};

TEST(Stack, CanStillBeTakenWhenAThreadEnds) {
  std::uint64_t before = 0;
  std::uint64_t taken = 0;
  std::thread([&] {
    static thread_local AtTheEnd last;
    last.taken = &taken;
    before = one_way();
  }).join();
  EXPECT_NE(taken, 0U);
  EXPECT_NE(taken, before) << "the same function, called from elsewhere";
  EXPECT_NE(stack_text(taken).find("test_base"), std::string::npos);
}

TEST(Stack, BecomesText) {
  EXPECT_EQ(stack_text(0), "");
  const std::string text = stack_text(one_way());
  EXPECT_EQ(text.find("  "), 0U) << text;
  EXPECT_NE(text.find("test_base"), std::string::npos) << text;
  EXPECT_EQ(text.find("capture_stack"), std::string::npos) << "begins with who asked: " << text;
}

}  // namespace
}  // namespace ember
