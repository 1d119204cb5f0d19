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

constexpr std::array kOrderMistakes{
    Mistake{"(item) cannot be captured", true, true, &a_call_spoils_the_capture},
    Mistake{"The branch forked where", true, true, &a_branch_is_not_joined},
    Mistake{"read-before-replay", false, true, &a_result_is_read_before_the_replay},
    Mistake{"read-before-replay", false, true, &a_result_is_read_during_the_capture},
    Mistake{"read-from-outside", false, true, &a_captured_read_of_what_was_not_captured},
};

}  // namespace

std::span<const Mistake> order_mistakes() { return kOrderMistakes; }

}  // namespace ember::test
