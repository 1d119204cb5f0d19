// Fourier transforms in captures: their work areas are the graph's, and their plans live as long as
// it does.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;

using test::kFloats;

class GraphFft : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
};

bool same_numbers(const Tensor& a, const Tensor& b) {
  cuda::synchronize();
  return equal(a, b);
}

/// Lengths with large prime factors need work areas.
std::vector<Tensor> transforms(const Tensor& x) {
  const Tensor half = fft::rfft(x);
  return {half,
          fft::irfft(half, x.size(-1)),
          fft::fft(x.to(complex64)),
          fft::fft2(x.to(complex128)),
          fft::ifft(half.slice(1, 0, 1009)),
          fft::hfft(half)};
}

void fill(const Tensor& x, int seed) {
  x.copy_(arange(x.numel(), kFloats).mul_(seed).sin_().view(x.sizes()));
}

TEST_F(GraphFft, ReplaysGiveWhatEagerTransformsGive) {
  const Tensor x = zeros({6, 2 * 1009}, kFloats);
  // With a large factor the plans of CUDA's are made before: it waits for the device then.
  if (!cuda::is_simulated()) (void)transforms(x);
  CUDAGraph graph;
  std::vector<Tensor> out;
  {
    auto scope = cuda::graph(graph);
    out = transforms(x);
    scope.end();
  }
  for (int i = 1; i < 4; ++i) {
    fill(x, i);
    graph.replay();
    const std::vector<Tensor> eager = transforms(x);
    for (std::size_t k = 0; k < out.size(); ++k) EXPECT_TRUE(same_numbers(out[k], eager[k])) << k;
  }
}

TEST_F(GraphFft, PlansOutliveTheCache) {
  const Tensor x = zeros({4, 360}, kFloats);
  cuda::FftPlanCache(0).clear();
  CUDAGraph graph;
  Tensor out;
  {
    auto scope = cuda::graph(graph);
    out = fft::rfft(x);
    cuda::FftPlanCache(0).clear();  // in the middle of the capture, too
    scope.end();
  }
  cuda::FftPlanCache(0).clear();
  // Others come and go, which destroys those that nothing uses.
  for (int i = 0; i < 40; ++i) {
    (void)fft::rfft(zeros({100 + i}, kFloats));
    cuda::FftPlanCache(0).clear();
  }
  fill(x, 3);
  graph.replay();
  EXPECT_TRUE(same_numbers(out, fft::rfft(x)));
}

TEST_F(GraphFft, EagerTransformsOfOtherStreamsGoOn) {
  const Tensor x = zeros({4, 2 * 1009}, kFloats), y = zeros({4, 2 * 1009}, kFloats);
  fill(x, 1);
  fill(y, 2);
  const Tensor of_x = fft::rfft(x), of_y = fft::rfft(y);
  CUDAGraph graph;
  Tensor out;
  {
    auto scope = cuda::graph(graph);
    out = fft::rfft(x);
    scope.end();
  }
  cuda::synchronize();
  const cuda::Stream first(0), second(0);
  for (int i = 0; i < 20; ++i) {
    Tensor beside;
    {
      const cuda::StreamGuard on(first);
      graph.replay();
    }
    {
      const cuda::StreamGuard on(second);
      beside = fft::rfft(y);
    }
    ASSERT_TRUE(same_numbers(out, of_x)) << i;
    ASSERT_TRUE(same_numbers(beside, of_y)) << i;
  }
}

}  // namespace
}  // namespace ember
