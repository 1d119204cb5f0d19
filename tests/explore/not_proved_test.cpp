// What one run does not prove, and the condition that is said then.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ember/explore/explore.h"
#include "tests/explore/programs.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using cuda::Event;
using sim::Exploration;
using sim::Verdict;
using namespace test;  // NOLINT(google-build-using-namespace)

TEST(NotProved, NamesTheCondition) {
  const struct {
    const char* reason;
    void (*program)(const Stream& stream, const Word& word);
  } kPrograms[] = {
      {"(a) the program queries", [](const Stream& on, const Word&) { (void)on.query(); }},
      {"(a) the program asks for what depends on time or on other work: memory_allocated",
       [](const Stream&, const Word&) { (void)cuda::memory_allocated(0); }},
      {"other work: recent_launches",
       [](const Stream&, const Word&) { (void)cuda::recent_launches(0); }},
      {"other work: log", [](const Stream&, const Word&) { (void)sim::log(); }},
      {"other work: memory_snapshot",
       [](const Stream&, const Word&) { (void)cuda::memory_snapshot(); }},
      {"other work: host_memory_stats",
       [](const Stream&, const Word&) { (void)cuda::pinned_counters(); }},
      {"other work: elapsed_time",
       [](const Stream& on, const Word&) {
         Event begin(true), end(true);
         begin.record(on);
         end.record(on);
         end.synchronize();
         (void)begin.elapsed_time(end);
       }},
      {"(a) several threads",
       [](const Stream& on, const Word& word) {
         std::thread([&] { set(on, word.at(), 2); }).join();
       }},
      {"(b) it is not known what some work reads and writes: mine",
       [](const Stream& on, const Word&) { cuda::launch(on, "mine", [](const HostLaunch&) {}); }},
      {"(b) bytes are read that were never written: by assign",
       [](const Stream& on, const Word& word) {
         const Word fresh(on);
         assign(on, word.at(), fresh.at());
       }},
      {"it failed: no", [](const Stream&, const Word&) { throw std::runtime_error("no"); }},
  };
  for (const auto& row : kPrograms) {
    const Exploration made = sim::explore([&] {
      const Stream stream(0);
      const Word word(stream);
      set(stream, word.at(), 1);
      row.program(stream, word);
    });
    EXPECT_EQ(made.verdict, Verdict::not_proved) << row.reason;
    EXPECT_TRUE(has_reason(made, row.reason)) << row.reason << "\n" << made.str();
    EXPECT_EQ(made.reasons.size(), 1U) << made.str();
    EXPECT_EQ(made.runs, 1U);
  }
}

// Whether the second half of `both` could be given to somebody else depends on whether the first is
// free again by then.
TEST(NotProved, MemoryThatOtherOrdersGiveToSomebodyElse) {
  const auto program = [](bool fixed) {
    const Stream owner(0), first(0), second(0);
    constexpr std::size_t kBytes = std::size_t{4} << 20;
    DeviceBuffer a = cuda::allocate(kBytes, owner), b = cuda::allocate(kBytes, owner);
    cuda::fill_async(a.data(), 1, kBytes, owner);
    cuda::fill_async(b.data(), 1, kBytes, owner);
    for (const Stream& stream : {first, second}) stream.wait_stream(owner);
    cuda::fill_async(a.data(), 2, kBytes, first);
    cuda::fill_async(b.data(), 2, kBytes, second);
    cuda::record_stream(a.data(), first);
    if (fixed) cuda::record_stream(b.data(), second);
    a.reset();
    b.reset();
    owner.synchronize();
    const DeviceBuffer both = cuda::allocate(2 * kBytes, owner);
    cuda::fill_async(both.data(), 3, 2 * kBytes, owner);
  };
  const Exploration made = sim::explore([&] { program(false); });
  EXPECT_EQ(made.verdict, Verdict::not_proved) << made.str();
  EXPECT_TRUE(has_reason(made, "(c) memory may be used again")) << made.str();
  const Exploration fixed = sim::explore([&] { program(true); });
  EXPECT_EQ(fixed.verdict, Verdict::proved) << fixed.str();
}

TEST(NotProved, APointerToPinnedMemoryThatIsUsedUntold) {
  const auto program = [](bool told) {
    const Stream stream(0);
    const Word word(stream);
    const PinnedBuffer host = cuda::allocate_pinned(4);
    set(stream, word.at(), 3);
    cuda::copy_async(host.data(), word.at(), 4, stream);
    stream.synchronize();
    if (told) cuda::host_reads(host.data(), 4);
    cuda::pinned_record_event(host, stream);
  };
  const Exploration made = sim::explore([&] { program(false); });
  EXPECT_EQ(made.verdict, Verdict::not_proved) << made.str();
  EXPECT_TRUE(has_reason(made, "host_reads")) << made.str();
  const Exploration told = sim::explore([&] { program(true); });
  EXPECT_EQ(told.verdict, Verdict::proved) << told.str();
  // One from before may be known to anybody.
  const PinnedBuffer old = cuda::allocate_pinned(4);
  const Exploration before = sim::explore([&] {
    const Stream stream(0);
    const Word word(stream);
    cuda::host_writes(old.data(), 4);
    cuda::copy_async(word.at(), old.data(), 4, stream);
  });
  EXPECT_TRUE(has_reason(before, "not allocated in the program")) << before.str();
}

TEST(NotProved, ResultsThatAreReadTooEarlyOrWereNeverWritten) {
  const auto program = [](bool fixed) {
    const Stream stream(0);
    const Word word(stream);
    set(stream, word.at(), 3);
    std::uint32_t value = 0;
    cuda::copy_async(&value, word.at(), 4, stream);
    if (fixed) stream.synchronize();
    sim::result("value", &value, 4);
  };
  EXPECT_EQ(sim::explore([&] { program(true); }).verdict, Verdict::proved);
  EXPECT_EQ(sim::explore([&] { program(false); }).pairs, 1U);
  const Exploration half = sim::explore([] {
    const Tensor x = empty({8}, "cuda");
    x.narrow(0, 0, 4).fill_(1);
    sim::result(x, "x");
  });
  EXPECT_TRUE(has_reason(half, "never written: by result 'x'")) << half.str();
}

// Of memory that is new, what is written by an index may be any part; a view is exactly that view,
// also where it has many pieces.
TEST(NotProved, ReadingWhatMayNotHaveBeenWritten) {
  const auto made = [](const std::function<void(const Tensor&)>& write) {
    return sim::explore([&] {
      const Tensor x = empty({5000, 2}, "cuda");
      write(x);
      sim::result(x + 1);
    });
  };
  const auto rows = [] { return arange(5000).to("cuda"); };
  const std::string possible = "(b) bytes are read of which it is not known that they were written";
  for (const Exploration& each : {
           made([&](const Tensor& x) { x.index_fill_(0, rows(), 1); }),
           made([&](const Tensor& x) {
             x.index_copy_(0, rows(), ones({5000, 2}, "cuda"));
           }),
           made([&](const Tensor& x) {
             x.scatter_(1, zeros({5000, 1}, {"cuda", int64}), 1);
           }),
       }) {
    EXPECT_EQ(each.verdict, Verdict::not_proved) << each.str();
    EXPECT_TRUE(has_reason(each, possible)) << each.str();
  }
  const Exploration half = made([](const Tensor& x) { x.select(1, 0).fill_(1); });
  EXPECT_TRUE(has_reason(half, "(b) bytes are read that were never written")) << half.str();
  const Exploration whole = made([](const Tensor& x) {
    x.select(1, 0).fill_(1);
    x.select(1, 1).fill_(2);
  });
  EXPECT_EQ(whole.verdict, Verdict::proved) << whole.str();
  const Exploration after = made([&](const Tensor& x) {
    x.fill_(0);
    x.index_fill_(0, rows(), 1);
  });
  EXPECT_EQ(after.verdict, Verdict::proved) << after.str();
}

TEST(NotProved, AProgramThatFollowsItsData) {
  const Exploration made = sim::explore([] {
    const Stream stream(0);
    const Word word(stream), other(stream);
    PinnedBuffer host = cuda::allocate_pinned(4);
    *host.as<int>() = 0;
    cuda::host_writes(host.data(), 4);
    set(stream, word.at(), 7);
    cuda::copy_async(host.data(), word.at(), 4, stream);
    cuda::host_reads(host.data(), 4);
    if (*host.as<int>() == 7) set(stream, other.at(), 1);  // nobody ever reads it
    cuda::pinned_record_event(host, stream);
  });
  EXPECT_EQ(made.verdict, Verdict::not_proved) << made.str();
  EXPECT_TRUE(has_reason(made, "(a) the program does something else in 2 of")) << made.str();
  EXPECT_FALSE(made.complete);
}

TEST(NotProved, AProgramThatNeverRepeatsItself) {
  int runs = 0;
  const Exploration made = sim::explore([&] {
    writer_and_readers(1);
    const Stream stream(0);
    const Word word(stream);
    for (int i = 0; i < runs; ++i) set(stream, word.at(), 1);
    ++runs;
  });
  EXPECT_EQ(made.verdict, Verdict::not_proved) << made.str();
  EXPECT_TRUE(has_reason(made, "when it is run again in the same order")) << made.str();
}

TEST(NotProved, MemoryThatIsFreedWhileAnotherStreamUsesIt) {
  NEEDS_CACHING();
  const auto program = [](bool fixed) {
    const Stream side(0);
    Tensor x = ones({64}, "cuda");
    side.wait_stream(cuda::current_stream());
    {
      const cuda::StreamGuard on(side);
      sim::result(x + 1, "y");
    }
    if (fixed) x.record_stream(side);
    x = Tensor();
    const Tensor z = zeros({64}, "cuda");  // may lie where x lay
    (void)z.cpu();
  };
  const Exploration fixed = sim::explore([&] { program(true); });
  EXPECT_EQ(fixed.verdict, Verdict::proved) << fixed.str();
  const Exploration made = sim::explore([&] { program(false); });
  EXPECT_EQ(made.verdict, Verdict::differs) << made.str();
  EXPECT_FALSE(made.clean());
}

TEST(NotProved, AProgramThatNeverEnds) {
  const auto explored = [](const std::function<void()>& program) {
    const auto begin = std::chrono::steady_clock::now();
    const Exploration made = sim::explore(program, {.max_seconds = 0.5});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    EXPECT_EQ(made.verdict, Verdict::not_proved);
    EXPECT_TRUE(
        has_reason(made, "the program does not end: it was ended after 0.5 s (max_seconds)"))
        << made.str();
    EXPECT_EQ(made.runs, 1u);
  };
  explored([] {
    const Stream stream(0);
    const Word word(stream);
    while (true) {
      set(stream, word.at(), 1);
      stream.synchronize();
    }
  });
  explored([] {
    const Stream first(0), second(0);
    const Word word(first);
    set(first, word.at(), 1);
    set(second, word.at(), 2);  // a race, too: it is not run again
    word.used_by(second);
    while (true) (void)first.query();
  });
  EXPECT_EQ(sim::explore([] { (void)add_and_multiply(true); }).verdict, Verdict::proved);
}

}  // namespace
}  // namespace ember
