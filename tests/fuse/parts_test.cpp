// Where fused functions are cut: what is not element-wise, views, memory that is written and read,
// streams and events.
#include "tests/fuse/support.h"

namespace ember::test {
namespace {

template <class Function>
void expect_as_eager(const Function& function, const Tensor& start, const std::string& what) {
  const auto fused = fuse(function);
  for (const Tensor& x : places(start)) {
    const Tensor here = x.clone();
    const Tensor there = x.clone();
    expect_same_bits(fused(here), function(there), what);
    expect_same_bits(here, there, what + ": the input");
  }
}

TEST(FuseParts, OtherOperations) {
  expect_as_eager([](const Tensor& x) { return (x * 2 + 1).mm((x - 1).t()) * 0.5 + 1; },
                  numbers({6, 6}), "a product");
  expect_as_eager([](const Tensor& x) { return (x * x + 1).cumsum(0) * 2 - x.sort(0).values; },
                  numbers({50}), "in order");
  expect_as_eager([](const Tensor& x) { return x * 2 + zeros_like(x) + ones_like(x) * x; },
                  numbers({50}), "constants");
}

TEST(FuseParts, ViewsOfResults) {
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor y = x * 2 + 1;
        const Tensor first = y[0];
        y.add_(1);
        return (y.t() + first.unsqueeze(1)) * y.view({9, 9});
      },
      numbers({9, 9}), "views");
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor y = x * 2 + 1;
        y.narrow(0, 2, 3).mul_(10);
        return y * 2 + 1;
      },
      numbers({8}), "a view that is written");
}

TEST(FuseParts, WritesAndReadsOfOneMemory) {
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor before = x.narrow(0, 0, 4) * 2;
        x.add_(1).mul_(x);
        const Tensor after = x.narrow(0, 0, 4) * 2;
        x.narrow(0, 0, 4).copy_(before + after);
        return x - 1;
      },
      numbers({8}), "views of one memory");
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor kept = x + 0.5;
        x.mul_(2);
        x.fill_(3);
        x.add_(kept);
        return kept * x;
      },
      numbers({8}), "overwritten");
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor other = x.clone();
        other.add_(1);
        x.copy_(other * 2);
        Tensor out = empty_like(x);
        add_out(out, x, other);
        Tensor wrong = empty({3}, x.options());
        mul_out(wrong, out, out);
        return wrong + out;
      },
      numbers({8}), "given outputs");
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor turned = x.t();
        x.add_(1);
        turned.mul_(2);
        return turned + x;
      },
      numbers({5, 5}), "the same elements in another order");
}

TEST(FuseParts, OtherShapes) {
  expect_as_eager(
      [](const Tensor& x) {
        const Tensor row = x[0] * 2 + 1;
        const Tensor all = x * row + row;
        const Tensor point = all[0][0] + 1;
        return all * point - row;
      },
      numbers({7, 5}), "shapes");
}

/// More steps, inputs and numbers than a kernel has room for.
TEST(FuseParts, ManySteps) {
  expect_as_eager(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 300; ++i) y = y * 0.99 + x;
        return y;
      },
      numbers({20}), "steps");
  expect_as_eager(
      [](const Tensor& x) {
        std::vector<Tensor> all;
        for (int i = 0; i < 50; ++i) all.push_back(x.narrow(0, i, 20) + i);
        Tensor sum = all[0];
        for (const Tensor& each : all) sum = sum + each;
        return sum;
      },
      numbers({70}), "inputs");
}

TEST(FuseParts, StreamsAndEvents) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a device";
  const Tensor x = numbers({1000}).to(kDevice);
  const Tensor expected = ((x * 2 + 1) * 3 + 1).cpu();
  const cuda::Stream side(0);
  const auto fused = fuse([&](const Tensor& y) {
    const Tensor first = y * 2 + 1;
    cuda::Event done;
    done.record(cuda::current_stream(0));
    Tensor second;
    {
      const cuda::StreamGuard guard(side);
      done.wait(side);
      second = first * 3 + 1;
    }
    cuda::Event over;
    over.record(side);
    over.wait(cuda::current_stream(0));
    return second;
  });
  const Tensor found = fused(x);
  expect_same_bits(found.cpu(), expected, "two streams");
}

}  // namespace
}  // namespace ember::test
