// Fused functions: what they compute, in how many kernels, and what they refuse.
#include <stdexcept>
#include <thread>

#include "tests/fuse/support.h"

namespace ember::test {
namespace {

Tensor gelu(const Tensor& x) { return 0.5 * x * (1.0 + (x * 0.7071067811865476).erf()); }

Tensor black_scholes(const Tensor& spot, const Tensor& strike, const Tensor& years, double rate,
                     double volatility) {
  const auto cdf = [](const Tensor& x) { return 0.5 * (1.0 + (x * 0.7071067811865476).erf()); };
  const Tensor spread = volatility * years.sqrt();
  const Tensor up =
      ((spot / strike).log() + (rate + 0.5 * volatility * volatility) * years) / spread;
  return spot * cdf(up) - strike * (-rate * years).exp() * cdf(up - spread);
}

void adam(const Tensor& weights, const Tensor& gradient, const Tensor& mean, const Tensor& square,
          double rate, int number) {
  mean.mul_(0.9).add_(gradient, 0.1);
  square.mul_(0.999).addcmul_(gradient, gradient * 0.001);
  const double first = 1 - std::pow(0.9, number);
  const double second = 1 - std::pow(0.999, number);
  weights.sub_((mean / first) / ((square / second).sqrt() + 1e-8) * rate);
}

TEST(Fuse, Gelu) {
  const auto fused = fuse(gelu);
  for (const Tensor& x : places(numbers({50, 41}))) expect_same_bits(fused(x), gelu(x), "gelu");
}

TEST(Fuse, BlackScholes) {
  const auto fused = fuse(black_scholes);
  for (const Tensor& x : places(numbers({1000}).abs() + 0.1)) {
    const Tensor price = fused(x * 30, x * 28, x, 0.02, 0.3);
    expect_same_bits(price, black_scholes(x * 30, x * 28, x, 0.02, 0.3), "Black-Scholes");
  }
}

TEST(Fuse, AStepOfAdam) {
  const auto fused = fuse(adam);
  for (const Tensor& start : places(numbers({300}))) {
    const std::vector<Tensor> eager{start.clone(), zeros_like(start), zeros_like(start)};
    const std::vector<Tensor> at_once{start.clone(), zeros_like(start), zeros_like(start)};
    for (int step = 1; step < 4; ++step) {
      const Tensor gradient = start * step;
      adam(eager[0], gradient, eager[1], eager[2], 0.01 / step, step);
      fused(at_once[0], gradient, at_once[1], at_once[2], 0.01 / step, step);
    }
    for (std::size_t k = 0; k < 3; ++k) expect_same_bits(at_once[k], eager[k], "Adam");
  }
}

/// Which a number that was cut off to one must not give it.
TEST(Fuse, IntegersHaveNoNegativeZero) {
  for (const Dtype real : {Dtype::float16, Dtype::bfloat16, Dtype::float32, Dtype::float64})
    for (const Dtype whole : {Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64}) {
      const auto quotient = [&](const Tensor& x) { return 1 / x.to(whole); };
      const auto back = [&](const Tensor& x) { return x.to(whole).to(real).copysign(x).sqrt(); };
      const auto sign = [&](const Tensor& x) { return ones_like(x).copysign(x.to(whole)); };
      const auto fused_quotient = fuse(quotient);
      const auto fused_back = fuse(back);
      const auto fused_sign = fuse(sign);
      for (const Tensor& x : places(tensor({-0.5, -0.0, 0.5, -2.5}).to(real).repeat({20}))) {
        expect_same_bits(fused_quotient(x), quotient(x), "1 / n");
        expect_same_bits(fused_back(x), back(x), "there and back");
        expect_same_bits(fused_sign(x), sign(x), "its sign");
      }
    }
}

TEST(Fuse, IsOneKernel) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a device";
  const Tensor x = numbers({100}).to(kDevice);
  const Tensor y = x.clone();
  const Tensor mean = zeros_like(x), square = zeros_like(x);
  const auto step = fuse(adam, {.name = "adam"});
  Launches launches;
  (void)fuse(gelu, {.name = "gelu"})(x);
  EXPECT_EQ(launches.names, std::vector<std::string>{"gelu"});
  launches.names.clear();
  step(y, x, mean, square, 0.1, 1);
  EXPECT_EQ(launches.names, std::vector<std::string>{"adam"});
}

/// Also where an operation asks for its result's memory before it computes it, as masked_fill does.
TEST(Fuse, WritesNothingThatNobodyHas) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a device";
  const Tensor given = numbers({4, 100}).to(kDevice), mask = given > 1;
  Tensor kept;
  const auto written = [&](const auto& function) {
    Launches launches;
    const Tensor made = fuse(function)(given);
    const std::vector<std::int64_t> counts = launches.written;
    expect_same_bits(made, given.masked_fill(mask, 0).sin(), "filled");
    EXPECT_EQ(counts.size(), 1U);
    return counts.empty() ? -1 : counts[0];
  };
  const auto filled = [&](const Tensor& x) { return x.masked_fill(mask, 0); };
  EXPECT_EQ(written([&](const Tensor& x) { return filled(x).sin(); }), 1);
  EXPECT_EQ(written([&](const Tensor& x) {
              const Tensor made = empty_like(x);
              made.copy_(x).masked_fill_(mask, 0);
              return made.sin();
            }),
            1);
  EXPECT_EQ(written([&](const Tensor& x) {
              kept = filled(x);
              return kept.sin();
            }),
            2);
  EXPECT_EQ(bits(kept), bits(filled(given)));
  EXPECT_EQ(written([&](const Tensor& x) {
              const Tensor made = empty_like(x);
              kept = made[1];
              made.copy_(x).masked_fill_(mask, 0);
              return made.sin();
            }),
            2);
  EXPECT_EQ(bits(kept), bits(filled(given)[1]));
}

/// Memory of somebody else, who reads it.
TEST(Fuse, WritesWhatOthersHaveGiven) {
  std::vector<float> given(100, 1);
  const Tensor made = fuse([&](const Tensor& x) {
    const Tensor others = from_blob(given.data(), {100});
    others.add_(x);
    return x + 1;
  })(ones({100}));
  EXPECT_EQ(bits(made), bits(full({100}, 2.0)));
  EXPECT_EQ(given, std::vector<float>(100, 2));
}

/// New numbers are arguments of the same kernel.
TEST(Fuse, NumbersCompileNothing) {
  const NotedCompiler compiler;
  const Variable named("CXX", compiler.path());
  double captured = 1.5;
  const auto fused = fuse([&](const Tensor& x, double by) { return x * by + captured - by; });
  for (const Tensor& x : places(numbers({77}))) {
    if (!is_compiled_for_host(x)) continue;
    for (const double by : {2.0, 3.25, -1.0}) {
      captured += by;
      expect_same_bits(fused(x, by), x * by + captured - by, "numbers");
    }
  }
  EXPECT_EQ(compiler.starts(), 1);
}

TEST(Fuse, BroadcastsAndViews) {
  const auto function = [](const Tensor& x, const Tensor& row, const Tensor& column,
                           const Tensor& point) { return (x + row) * column - point / x; };
  const auto fused = fuse(function);
  for (const Tensor& x : places(numbers({12, 9}))) {
    const Tensor row = x[3];
    const Tensor column = x.narrow(1, 4, 1);
    const Tensor point = x[1][2];
    expect_same_bits(fused(x, row, column, point), function(x, row, column, point), "rows");
    const Tensor turned = x.t();
    expect_same_bits(fused(turned, turned[0], turned.narrow(1, 0, 1), point),
                     function(turned, turned[0], turned.narrow(1, 0, 1), point), "transposed");
    const Tensor gaps = x.slice(1, 1, 9, 2);
    expect_same_bits(fused(gaps, gaps[0], column, point), function(gaps, gaps[0], column, point),
                     "with gaps");
  }
}

TEST(Fuse, MixedDtypesAndNumbersOfTheCpu) {
  const auto function = [](const Tensor& x, const Tensor& whole, const Tensor& half,
                           const Tensor& truth, const Tensor& factor) {
    const Tensor y = half * whole + x;
    return where(truth, y, whole) * factor - half / 3;
  };
  const auto fused = fuse(function);
  for (const Tensor& x : places(numbers({200}))) {
    const Tensor whole = (x * 10).to(Dtype::int32);
    const Tensor factor = tensor(2.5);
    for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16, Dtype::float64}) {
      const Tensor half = x.to(dtype);
      expect_same_bits(fused(x, whole, half, x > 0, factor),
                       function(x, whole, half, x > 0, factor), dtype_name(dtype));
    }
  }
}

/// 16-bit floats: 1 + 2^-11 is not one of them.
TEST(Fuse, RoundsAfterEachStepUnlessToldOtherwise) {
  const auto function = [](const Tensor& x) { return (x + 0x1p-11) - x; };
  const auto precise = fuse(function);
  const auto loose = fuse(function, {.precise = false});
  for (const Tensor& x : places(ones({5}, Dtype::float16))) {
    EXPECT_EQ(values<float>(precise(x)), std::vector<float>(5, 0.0F));
    EXPECT_EQ(values<float>(loose(x)), std::vector<float>(5, 0x1p-11F));
    EXPECT_EQ(loose(x).dtype(), Dtype::float16);
    // A conversion is a rounding that was asked for.
    const auto converted = fuse(
        [](const Tensor& y) { return (y + 0x1p-11).to(Dtype::float32) - y; }, {.precise = false});
    EXPECT_EQ(values<float>(converted(x)), std::vector<float>(5, 0x1p-11F));
    const auto rounded = fuse(
        [](const Tensor& y) { return (y.to(Dtype::float32) + 0x1p-11).to(Dtype::float16) - y; },
        {.precise = false});
    EXPECT_EQ(values<float>(rounded(x)), std::vector<float>(5, 0.0F));
  }
}

/// Into a sum of float32 no product is contracted: a * a - a * a rounded is zero.
TEST(Fuse, ContractsNothing) {
  const auto fused = fuse([](const Tensor& a, const Tensor& rounded) { return a * a - rounded; });
  for (const Tensor& a : places(numbers({999})))
    EXPECT_EQ(values<float>(fused(a, a * a)), std::vector<float>(999, 0.0F));
}

TEST(Fuse, SeveralResults) {
  const auto function = [](const Tensor& x) {
    const Tensor sine = x.sin();
    return std::vector<Tensor>{sine, sine > 0, sine.to(Dtype::float64) * 2, x};
  };
  const auto fused = fuse(function);
  for (const Tensor& x : places(numbers({64}))) {
    const auto expected = function(x);
    const auto found = fused(x);
    for (std::size_t k = 0; k < expected.size(); ++k)
      expect_same_bits(found[k], expected[k], "result " + std::to_string(k));
    EXPECT_TRUE(found[3].is(x));
  }
}

TEST(Fuse, NothingToDo) {
  const auto fused = fuse([](const Tensor& x) { return x + 1; });
  for (const Tensor& x : places(zeros({0, 3}))) EXPECT_EQ(fused(x).sizes().str(), "[0, 3]");
  fuse([] {})();
}

TEST(Fuse, RefusesWhatDependsOnValues) {
  const auto fused =
      fuse([](const Tensor& x) { return (x + 1).sum().item<float>() > 0 ? x * 2 : x; },
           {.name = "choose"});
  for (const Tensor& x : places(ones({3}))) {
    try {
      (void)fused(x);
      ADD_FAILURE() << "it was not refused";
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what()).find("fuse: 'choose' asks for the value of a tensor (item())"),
          std::string::npos)
          << error.what();
    }
    EXPECT_EQ(x.sum().item<float>(), 3);  // afterwards all is as ever
  }
}

TEST(Fuse, ErrorsAreThoseOfTheOperations) {
  const auto add = fuse([](const Tensor& x, const Tensor& y) { return x + y; });
  const auto shift = fuse([](const Tensor& x) { x.narrow(0, 1, 3).add_(x.narrow(0, 0, 3)); });
  const auto truth = fuse([](const Tensor& x) { return (x > 0).neg(); });
  for (const Tensor& x : places(ones({4}))) {
    EXPECT_THROW((void)add(x, ones({3}, x.device())), Error);
    EXPECT_THROW(shift(x), Error);
    EXPECT_THROW((void)truth(x), Error);
    EXPECT_EQ(values<float>(x), std::vector<float>(4, 1.0F));
  }
}

/// What a function has changed before its error stays changed, as without fuse.
TEST(Fuse, AnErrorKeepsWhatWasDone) {
  const auto fused = fuse([](const Tensor& x) {
    x.add_(1);
    throw std::runtime_error("on the way");
  });
  for (const Tensor& x : places(ones({4}))) {
    EXPECT_THROW(fused(x), std::runtime_error);
    EXPECT_EQ(values<float>(x), std::vector<float>(4, 2.0F));
  }
}

TEST(Fuse, WithoutACompiler) {
  const Variable named("CXX", "no-such-compiler");
  const Tensor x = ones({4});
  const auto fused = fuse([](const Tensor& y) { return y.lgamma().erf().lgamma() + 0.123; });
  EXPECT_THROW((void)fused(x), Error);
  EXPECT_EQ(values<float>(x + 1), std::vector<float>(4, 2.0F));
}

TEST(Fuse, InsideAnotherOne) {
  const auto inner = fuse(gelu);
  const auto outer = fuse([&](const Tensor& x) { return inner(x) * 2; });
  for (const Tensor& x : places(numbers({30})))
    expect_same_bits(outer(x), gelu(x) * 2, "inside another one");
}

TEST(Fuse, OtherThreadsWaitForTheResult) {
  for (const Tensor& x : places(ones({4}))) {
    std::string said;
    const auto fused = fuse([&](const Tensor& y) {
      const Tensor made = y * 2 + 1;
      std::thread([&] {
        try {
          (void)(made + 1);
        } catch (const Error& error) {
          said = error.what();
        }
      }).join();
      return made;
    });
    EXPECT_EQ(values<float>(fused(x)), std::vector<float>(4, 3.0F));
    EXPECT_NE(said.find("a fused function that has not returned"), std::string::npos) << said;
  }
}

TEST(Fuse, OnSeveralThreads) {
  const auto fused = fuse(gelu);
  for (const Tensor& x : places(numbers({1000}))) {
    const Tensor expected = gelu(x);
    std::vector<std::thread> threads;
    std::vector<Tensor> found(4);
    for (Tensor& each : found) threads.emplace_back([&] { each = fused(x); });
    for (std::thread& each : threads) each.join();
    if (x.is_cuda()) cuda::synchronize(x.get_device());
    for (const Tensor& each : found) expect_same_bits(each, expected, "threads");
  }
}

}  // namespace
}  // namespace ember::test
