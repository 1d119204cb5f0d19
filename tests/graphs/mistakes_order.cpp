// Work and replays in an order that cannot be meant, and captures that fail.
#include <array>

#include "tests/graphs/mistakes.h"

namespace ember::test {
namespace {

using cuda::CUDAGraph;
using cuda::Stream;
using Level = std::optional<cuda::GraphCheck>;

void a_call_spoils_the_capture(bool fixed, const Level& level) {
  const Tensor x = ones({1}, kFloats);
  Tensor y;
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    y = x + 1;
    try {
      if (!fixed) (void)y.item();
    } catch (const AcceleratorError&) {  // the program goes on, and the end fails
    }
    scope.end();
  }
  step.replay();
  EXPECT_EQ(first_of(y), 2);
}

void a_branch_is_not_joined(bool fixed, const Level& level) {
  const Tensor x = zeros({8}, kFloats);
  const Stream side(0);
  cuda::synchronize();
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    const Stream main = cuda::current_stream();
    side.wait_stream(main);
    {
      const cuda::StreamGuard there(side);
      x.add_(1);
    }
    if (fixed) main.wait_stream(side);
    scope.end();
  }
  step.replay();
  EXPECT_EQ(first_of(x), 1);
}

void a_result_is_read_before_the_replay(bool fixed, const Level& level) {
  const Tensor x = ones({1000}, kFloats);
  Tensor y;
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    y = x + 1;
    scope.end();
  }
  if (fixed) step.replay();
  const Tensor z = y * 2;
  if (fixed) {
    EXPECT_EQ(first_of(z), 4);
  }
  cuda::synchronize();
}

void a_result_is_read_during_the_capture(bool fixed, const Level& level) {
  const Tensor x = ones({1000}, kFloats), z = zeros({1000}, kFloats);
  const Stream other(0);
  Tensor y;
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    y = x + 1;
    if (!fixed) {
      const cuda::StreamGuard elsewhere(other);
      z.copy_(y);
    }
    scope.end();
  }
  step.replay();
  if (fixed) z.copy_(y);
  if (fixed) {
    EXPECT_EQ(first_of(z), 2);
  }
  cuda::synchronize();
}

void a_captured_read_of_what_was_not_captured(bool fixed, const Level& level) {
  const Tensor x = zeros({1000}, kFloats);
  const Stream other(0);
  cuda::synchronize();
  Tensor y;
  CUDAGraph step(false, level);
  const auto fill = [&] {
    const cuda::StreamGuard elsewhere(other);
    x.fill_(5);
  };
  if (fixed) fill();
  {
    auto scope = cuda::graph(step);  // waits for the device
    if (!fixed) fill();
    y = x + 1;
    scope.end();
  }
  cuda::synchronize();
  step.replay();
  EXPECT_EQ(first_of(y), 6);
}

/// Two captures of one pool: the second uses what the first has computed, and its freed memory.
struct Pair {
  explicit Pair(const Level& level) : first(false, level), second(false, level) {
    {
      auto scope = cuda::graph(first);
      y = (x + 1) * 2;
      scope.end();
    }
    {
      auto scope = cuda::graph(second, first.pool());
      z = (y + 1) * 10;
      scope.end();
    }
    cuda::synchronize();
  }
  const Tensor x = ones({1000}, kFloats);
  CUDAGraph first, second;
  Tensor y, z;
};

void replays_overlap(bool fixed, const Level& level) {
  Pair pair(level);
  const Stream a(0), b(0);
  {
    const cuda::StreamGuard on(a);
    pair.first.replay();
  }
  if (fixed) b.wait_stream(a);
  {
    const cuda::StreamGuard on(b);
    pair.second.replay();
  }
  b.synchronize();
  if (fixed) {
    EXPECT_EQ(first_of(pair.z), 50);
  }
  cuda::synchronize();
}

void replays_are_ordered_the_long_way(bool fixed, const Level& level) {
  Pair pair(level);
  const Stream a(0), between(0), b(0);
  cuda::Event event;
  {
    const cuda::StreamGuard on(a);
    if (!fixed) event.record(a);  // too early
    pair.first.replay();
    if (fixed) event.record(a);
  }
  between.wait_event(event);
  b.wait_stream(between);
  {
    const cuda::StreamGuard on(b);
    pair.second.replay();
  }
  b.synchronize();
  if (fixed) {
    EXPECT_EQ(first_of(pair.z), 50);
  }
  {
    const cuda::StreamGuard on(a);
    if (fixed) pair.first.replay();  // the host has waited
  }
  cuda::synchronize();
}

void replays_are_out_of_order(bool fixed, const Level& level) {
  Pair pair(level);
  if (fixed) pair.first.replay();
  pair.second.replay();
  pair.first.replay();
  if (fixed) pair.second.replay();
  if (fixed) {
    EXPECT_EQ(first_of(pair.z), 50);
  }
  cuda::synchronize();
}

void the_host_writes_beside_a_replay(bool fixed, const Level& level) {
  const Tensor here = ones({1000}, Options(float32, Device(Device::Type::cpu), true));
  const Tensor there = zeros({1000}, kFloats);
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    there.copy_(here, true);
    scope.end();
  }
  step.replay();
  if (fixed) cuda::synchronize();
  here.fill_(2);
  there.add_(1);  // where the error is thrown
  if (fixed) {
    EXPECT_EQ(first_of(there), 2);
  }
  cuda::synchronize();
}

constexpr std::array kOrderMistakes{
    Mistake{"(item) cannot be captured", true, false, &a_call_spoils_the_capture},
    Mistake{"The branch forked where", true, false, &a_branch_is_not_joined},
    Mistake{"read-before-replay", false, false, &a_result_is_read_before_the_replay},
    Mistake{"read-before-replay", false, false, &a_result_is_read_during_the_capture},
    Mistake{"read-from-outside", false, false, &a_captured_read_of_what_was_not_captured},
    Mistake{"overlapping-replays", false, false, &replays_overlap},
    Mistake{"overlapping-replays", false, false, &replays_are_ordered_the_long_way},
    Mistake{"replays-out-of-order", false, false, &replays_are_out_of_order},
    Mistake{"host-access-during-replay", false, false, &the_host_writes_beside_a_replay},
};

}  // namespace

std::span<const Mistake> order_mistakes() { return kOrderMistakes; }

}  // namespace ember::test
