// Functions of tensors as graphs. Chapter 7 of the documents, make_graphed_callables.
#include "ember/graphs/callables.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::GraphedCallable;
using cuda::make_graphed_callable;
using cuda::make_graphed_callables;

using test::kFloats;

class GraphedCallables : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
};

std::vector<double> elements_of(const Tensor& tensor) {
  cuda::synchronize();
  const Tensor host = tensor.to(float64).cpu().contiguous();
  const auto* first = static_cast<const double*>(host.data_ptr());
  return {first, first + host.numel()};
}

TEST_F(GraphedCallables, AreCalledLikeTheFunction) {
  int calls = 0;
  const Tensor weight = full({3, 3}, 2, kFloats);
  const auto function = [&](const std::vector<Tensor>& in) {
    ++calls;
    return std::vector<Tensor>{matmul(in[0], weight) + in[1], in[1].sum()};
  };
  const Tensor x = ones({3, 3}, kFloats), y = full({3}, 5, kFloats);
  const GraphedCallable graphed = make_graphed_callable(function, {x, y});
  EXPECT_EQ(calls, 4) << "three times to warm up, once to capture";
  for (const float value : {1.0F, -2.0F}) {
    const Tensor a = full({3, 3}, value, kFloats), b = full({3}, value + 1, kFloats);
    const std::vector<Tensor> got = graphed({a, b});
    EXPECT_EQ(elements_of(got[0]), elements_of(matmul(a, weight) + b));
    EXPECT_EQ(elements_of(got[1]), elements_of(b.sum()));
  }
  weight.fill_(1);
  EXPECT_EQ(elements_of(graphed({x, y})[0])[0], elements_of(matmul(x, weight) + y)[0]);
  EXPECT_EQ(calls, 4) << "and never again";
}

TEST_F(GraphedCallables, CopyOnlyWhatLiesElsewhere) {
  const Tensor x = ones({2, 2}, kFloats);
  const GraphedCallable graphed = make_graphed_callable(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 10}; }, {x});
  x.copy_(arange(4, kFloats).view({2, 2}));
  EXPECT_EQ(elements_of(graphed({x})[0]), (std::vector<double>{0, 10, 20, 30}));
  EXPECT_EQ(elements_of(graphed({x.t()})[0]), (std::vector<double>{0, 20, 10, 30}))
      << "the same address, and other strides";
  const Tensor before = x.clone();
  EXPECT_EQ(elements_of(graphed({full({2, 2}, 7, kFloats)})[0]), std::vector<double>(4, 70));
  EXPECT_EQ(elements_of(x), std::vector<double>(4, 7)) << "to the sample's memory";
  EXPECT_EQ(elements_of(graphed({before.cpu()})[0]), (std::vector<double>{0, 20, 10, 30}));
}

TEST_F(GraphedCallables, TakeTheSamplesInOtherPlaces) {
  const Tensor x = full({2, 2}, 5, kFloats), y = full({2, 2}, 2, kFloats);
  const GraphedCallable graphed = make_graphed_callable(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] - in[1]}; }, {x, y});
  EXPECT_EQ(elements_of(graphed({y, x})[0]), std::vector<double>(4, -3));
  EXPECT_EQ(elements_of(x), std::vector<double>(4, 2)) << "copied, as all that lies elsewhere";
  EXPECT_EQ(elements_of(y), std::vector<double>(4, 5));
  const Tensor both = arange(8, kFloats);
  const GraphedCallable halves = make_graphed_callable(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] - in[1]}; },
      {both.narrow(0, 0, 4), both.narrow(0, 4, 4)});
  EXPECT_EQ(elements_of(halves({both.narrow(0, 2, 4), both.narrow(0, 1, 4)})[0]),
            std::vector<double>(4, 1));
}

TEST_F(GraphedCallables, ResultsLieInTheSameMemory) {
  const GraphedCallable graphed = make_graphed_callable(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + 1}; },
      {zeros({4}, kFloats)}, {.num_warmup_iters = 0});
  const Tensor first = graphed({full({4}, 1, kFloats)})[0];
  const Tensor second = graphed({full({4}, 2, kFloats)})[0];
  EXPECT_EQ(first.data_ptr(), second.data_ptr());
  EXPECT_FALSE(first.is(second));
  EXPECT_EQ(elements_of(first)[0], 3);
}

TEST_F(GraphedCallables, SeveralShareAPool) {
  const cuda::MemPoolId pool = cuda::graph_pool_handle();
  const auto times = [](float factor) {
    return [factor](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{(in[0] * factor).relu()};
    };
  };
  const Tensor x = zeros({64}, kFloats), y = zeros({64}, kFloats);
  const std::vector<GraphedCallable> graphed =
      make_graphed_callables({times(2), times(3)}, {{x}, {y}}, {.pool = pool});
  ASSERT_EQ(graphed.size(), 2U);
  for (const float value : {1.0F, 4.0F}) {
    const std::vector<Tensor> middle = graphed[0]({full({64}, value, kFloats)});
    EXPECT_EQ(elements_of(graphed[1](middle)[0])[63], value * 6);
  }
}

TEST_F(GraphedCallables, DrawAnew) {
  cuda::manual_seed(3);
  const GraphedCallable graphed = make_graphed_callable(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{rand_like(in[0])}; },
      {zeros({8}, kFloats)}, {.num_warmup_iters = 1});
  cuda::manual_seed(3);
  const std::vector<double> first = elements_of(graphed({zeros({8}, kFloats)})[0]);
  const std::vector<double> second = elements_of(graphed({zeros({8}, kFloats)})[0]);
  cuda::manual_seed(3);
  EXPECT_EQ(first, elements_of(rand({8}, kFloats)));
  EXPECT_EQ(second, elements_of(rand({8}, kFloats)));
}

// Their memory can hold one of two different arguments.
TEST_F(GraphedCallables, SamplesThatShareMemoryTakeWhatSharesIt) {
  const auto sum = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] + in[1] * 10};
  };
  const Tensor x = full({4}, 1, kFloats), y = full({4}, 2, kFloats);
  const GraphedCallable twice = make_graphed_callable(sum, {x, x});
  EXPECT_EQ(elements_of(twice({x, x})[0])[0], 11);
  EXPECT_EQ(elements_of(twice({y, y})[0])[0], 22);
  EXPECT_ERROR(twice({y, full({4}, 3, kFloats)}), ValueError,
               "arguments 0 and 1 of a graphed callable have samples that share memory, so that it "
               "cannot hold both: expected one tensor for both");
  EXPECT_EQ(elements_of(twice({y, y})[0])[0], 22);
  const Tensor whole = full({5}, 1, kFloats);
  const Tensor first = whole.narrow(0, 0, 4), last = whole.narrow(0, 1, 4);
  const GraphedCallable shifted = make_graphed_callable(sum, {first, last});
  whole.select(0, 4).fill_(5);
  EXPECT_EQ(elements_of(shifted({first, last})[0]), (std::vector<double>{11, 11, 11, 51}));
  EXPECT_ERROR(shifted({y, last}), ValueError, "expected the samples themselves");
  // Neighbours in one storage share nothing.
  const Tensor halves = zeros({2, 4}, kFloats);
  const GraphedCallable apart =
      make_graphed_callable(sum, {halves.select(0, 0), halves.select(0, 1)});
  EXPECT_EQ(elements_of(apart({full({4}, 1, kFloats), y})[0])[0], 21);
}

TEST_F(GraphedCallables, MovingCopies) {
  const Tensor x = full({4}, 3, kFloats);
  GraphedCallable graphed = make_graphed_callable(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; }, {x});
  const GraphedCallable moved = std::move(graphed);
  EXPECT_EQ(elements_of(graphed({x})[0])[0], 6);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(elements_of(moved({x})[0])[0], 6);
}

TEST_F(GraphedCallables, SayWhatIsWrong) {
  const Tensor x = zeros({4}, kFloats);
  const auto same = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + 1}; };
  EXPECT_ERROR(make_graphed_callables({same}, {}), Error,
               "there are 1 callables and sample_args for 0");
  EXPECT_ERROR(make_graphed_callable(same, {Tensor()}), Error, "sample argument 0 is undefined");
  EXPECT_ERROR(
      make_graphed_callable(same, {x.cpu()}), ValueError,
      "make_graphed_callables: sample argument 0 is on the CPU, where nothing is captured, "
      "expected a CUDA device or pinned memory");
  EXPECT_ERROR(make_graphed_callable({}, {x}), ValueError,
               "make_graphed_callables: got an empty function, expected a callable one");
  EXPECT_ERROR(make_graphed_callable(same, {x}, {.num_warmup_iters = -1}), Error,
               "num_warmup_iters must not be negative, got -1");
  const GraphedCallable graphed = make_graphed_callable(same, {x});
  EXPECT_ERROR(graphed({}), Error, "expected 1 tensors, as in sample_args, got 0");
  EXPECT_ERROR(graphed({zeros({1}, kFloats)}), Error,
               "argument 0 of a graphed callable has to be like its sample, float32 [4], got "
               "float32 [1]");
  EXPECT_ERROR(graphed({x.to(float64)}), Error, "got float64 [4]");
  int calls = 0;
  const auto throws = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    if (++calls == 4) throw std::runtime_error("mine");
    return {in[0] + 1};
  };
  EXPECT_THROW((void)make_graphed_callable(throws, {x}), std::runtime_error);
  EXPECT_ERROR((void)make_graphed_callable(
                   [](const std::vector<Tensor>& in) {
                     if (cuda::is_current_stream_capturing()) (void)in[0].sum().item();
                     return in;
                   },
                   {x}),
               AcceleratorError, "item");
  EXPECT_FALSE(cuda::is_current_stream_capturing());
  EXPECT_EQ(elements_of(graphed({x})[0])[0], 1) << "and the others are as they were";
}

}  // namespace
}  // namespace ember
