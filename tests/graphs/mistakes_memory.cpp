// Memory that is gone when a replay uses it.
#include <array>
#include <vector>

#include "tests/graphs/mistakes.h"

namespace ember::test {
namespace {

using cuda::CUDAGraph;
using Level = std::optional<cuda::GraphCheck>;

const Options kPinned(float32, Device(Device::Type::cpu), true);

void input_was_freed(bool fixed, const Level& level) {
  Tensor x = ones({1000}, kFloats);
  Tensor y;
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    y = x + 1;
    scope.end();
  }
  if (!fixed) x = Tensor();
  step.replay();
  EXPECT_EQ(first_of(y), 2);
}

void output_was_freed(bool fixed, const Level& level) {
  const Tensor x = ones({1000}, kFloats);
  Tensor sum = zeros({1000}, kFloats);
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    sum.add_(x);
    scope.end();
  }
  step.replay();
  cuda::synchronize();
  if (!fixed) sum = Tensor();
  step.replay();
  if (fixed) {
    EXPECT_EQ(first_of(sum), 2);
  }
  cuda::synchronize();
}

void memory_was_unregistered(bool fixed, const Level& level) {
  std::vector<float> here(1000, 3);
  const Tensor there = zeros({1000}, kFloats);
  cuda::HostRegistration locked(here.data(), here.size() * sizeof(float));
  CUDAGraph step(false, level);
  {
    auto scope = cuda::graph(step);
    cuda::copy_async(there.data_ptr(), here.data(), here.size() * sizeof(float));
    scope.end();
  }
  if (!fixed) locked = cuda::HostRegistration();
  step.replay();
  if (fixed) {
    EXPECT_EQ(first_of(there), 3);
  }
  cuda::synchronize();
}

constexpr std::array kMemoryMistakes{
    Mistake{"stale-memory", false, false, &input_was_freed},
    Mistake{"stale-memory", false, false, &output_was_freed},
    Mistake{"stale-host-memory", false, true, &memory_was_unregistered},
};

}  // namespace

std::span<const Mistake> memory_mistakes() { return kMemoryMistakes; }

}  // namespace ember::test
