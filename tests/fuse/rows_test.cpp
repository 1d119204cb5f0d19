// Fused functions with reductions: what they compute, beside the operations one by one in float64,
// and in how many kernels.
#include <cmath>
#include <functional>

#include "ember/jit/launcher.h"
#include "tests/fuse/support.h"

namespace ember::test {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

/// Within `tolerance` of each element or of the largest one, NaN where that is. Hosts add up floats
/// in double; real devices do not, and sums near zero are off by what their terms were rounded by.
void expect_near(const Tensor& given, const Tensor& expected, double tolerance,
                 const std::string& what) {
  if (given.is_cuda() && !cuda::get_device_properties(0).simulated) tolerance *= 10;
  ASSERT_EQ(given.sizes().str(), expected.sizes().str()) << what;
  const Tensor made = given.cpu().to(Dtype::float64);
  const Tensor right = expected.cpu().to(Dtype::float64);
  if (made.numel() == 0) return;
  const Tensor sizes = where(right.isfinite(), right.abs(), zeros_like(right));
  const double scale = sizes.max().item().to<double>();
  EXPECT_TRUE(made.allclose(right, tolerance, tolerance * scale, true))
      << what << "\nfused: " << made.str() << "\nexpected: " << right.str();
}

Tensors map(const Tensors& all, const std::function<Tensor(const Tensor&)>& each) {
  Tensors made;
  for (const Tensor& x : all) made.push_back(each(x));
  return made;
}
Tensor wide(const Tensor& x) { return x.is_floating_point() ? x.to(Dtype::float64) : x; }

/// On every kind of device in one kernel, and what the operations one by one are in float64.
void expect_one_kernel(const Function& function, const Tensors& given, double tolerance,
                       const std::string& what, const FuseOptions& options = {.name = "rows"}) {
  const auto fused = fuse(function, options);
  const Tensor expected = function(map(given, wide));
  const Tensor here = fused(given);
  expect_near(here, expected, tolerance, what + " on the CPU");
  EXPECT_EQ(here.dtype(), function(given).dtype()) << what;
  if (cuda::device_count() == 0) return;
  const Tensors there = map(given, [](const Tensor& x) { return x.to(kDevice); });
  Launches launches;
  const Tensor made = fused(there);
  EXPECT_EQ(launches.names, std::vector<std::string>{options.name}) << what;
  expect_near(made, expected, tolerance, what);
  if (cuda::get_device_properties(0).simulated) {
    EXPECT_EQ(bits(made), bits(here)) << what;
  }
}

constexpr double kFloat = 2e-6;

Tensor layer_norm(const Tensors& x) {
  const Tensor apart = x[0] - x[0].mean(-1, true);
  const Tensor var = (apart * apart).mean(-1, true);
  return apart / (var + 1e-5).sqrt() * x[1] + x[2];
}
Tensor masked_softmax(const Tensors& x) {
  const Tensor scaled = where(x[1], x[0] / 0.7, -kInf);
  const Tensor powers = (scaled - scaled.amax(-1, true)).exp();
  return powers / powers.sum(-1, true);
}

/// Lengths around those where lanes, packs and blocks change.
TEST(FuseRows, LayerNormalisation) {
  for (const int length : {1,   2,   3,    4,    31,   32,   33,   64,    100,   128,  255,
                           256, 257, 1000, 1024, 1028, 4096, 4100, 16384, 16385, 40000})
    for (const int rows : {1, 3, 40}) {
      if (length > 5000 && rows > 3) continue;
      expect_one_kernel(
          layer_norm, {numbers({rows, length}), numbers({length}), numbers({length}) + 1},
          length < 3 ? 1e-3 : kFloat, std::to_string(rows) + " rows of " + std::to_string(length));
    }
}

TEST(FuseRows, SoftmaxWithTemperatureAndMask) {
  for (const int length : {1, 5, 32, 1000, 1024, 5000})
    expect_one_kernel(masked_softmax, {numbers({5, length}), numbers({length}) > -2.0}, kFloat,
                      std::to_string(length));
  // A row in which all is masked, and one with infinity and NaN.
  Tensor x = numbers({4, 50});
  x.select(0, 1).select(0, 3).fill_(kInf);
  x.select(0, 2).select(0, 4).fill_(kNaN);
  Tensor mask = full({4, 50}, true);
  mask.select(0, 3).fill_(false);
  expect_one_kernel(masked_softmax, {x, mask}, kFloat, "specials");
}

TEST(FuseRows, EveryReduction) {
  const Tensor x = numbers({7, 40});
  const Tensor whole = (numbers({7, 40}) * 3).to(Dtype::int32);
  const Tensor factors = 1 + numbers({7, 40}) * 0.01;
  for (const bool keepdim : {false, true})
    for (const DimList& dims : {DimList(-1), DimList({0, 1}), DimList()}) {
      const std::string what = keepdim ? "kept" : "gone";
      const auto expect = [&](const Tensor& given, double tolerance, const Function& function) {
        expect_one_kernel(function, {given}, tolerance, what);
      };
      expect(x, kFloat, [&](const Tensors& t) { return (t[0] * 2).sum(dims, keepdim) + 1; });
      expect(x, kFloat, [&](const Tensors& t) { return (t[0] * 2).mean(dims, keepdim) + 1; });
      expect(x, kFloat, [&](const Tensors& t) { return (t[0] * 2).amax(dims, keepdim) + 1; });
      expect(x, kFloat, [&](const Tensors& t) { return (t[0] * 2).amin(dims, keepdim) + 1; });
      expect(x, kFloat, [&](const Tensors& t) { return (t[0] * 2).var(dims, 1, keepdim) + 1; });
      expect(x, kFloat, [&](const Tensors& t) { return (t[0] * 2).std(dims, 0, keepdim) + 1; });
      expect(factors, 2e-5,
             [&](const Tensors& t) { return (t[0] * t[0]).prod(dims, keepdim) + 1; });
      expect(x, 0, [&](const Tensors& t) { return (t[0] > 3.9).any(dims, keepdim).logical_not(); });
      expect(x, 0, [&](const Tensors& t) { return (t[0] < 3.9).all(dims, keepdim).logical_not(); });
      expect(x, 0, [&](const Tensors& t) { return (t[0] > 1.0).sum(dims, keepdim) + 1; });
      expect(whole, 0, [&](const Tensors& t) { return (t[0] * 2).sum(dims, keepdim) + 1; });
      expect(whole, 0, [&](const Tensors& t) { return (t[0] * 2).amax(dims, keepdim) + 1; });
      expect(whole, 0, [&](const Tensors& t) { return (t[0] * 2).amin(dims, keepdim) + 1; });
      expect(whole, 0,
             [&](const Tensors& t) { return (t[0] * 2).sum(dims, keepdim, Dtype::int16) + 1; });
    }
  expect_one_kernel([](const Tensors& t) { return (t[0] + 1).max() - (t[0] - 1).min(); }, {x},
                    kFloat, "max and min of all");
}

TEST(FuseRows, EveryDtype) {
  const auto function = [](const Tensors& t) {
    const Tensor y = t[0] * 2;
    return (y - y.amax(-1, true)).to(Dtype::float64) * y.sum(-1, true);
  };
  const Tensor x = (numbers({5, 70}) * 3).floor();
  for (const Dtype dtype :
       {Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64, Dtype::float32, Dtype::float64})
    expect_one_kernel(function, {x.to(dtype)}, dtype == Dtype::float32 ? kFloat : 1e-13,
                      dtype_name(dtype));
  expect_one_kernel(function, {x.abs().to(Dtype::uint8)}, 0, "uint8");
  expect_one_kernel(
      [](const Tensors& t) { return t[0].amax(-1, true).logical_xor(t[0].sum(-1, true) > 30); },
      {x > 0}, 0, "bool");
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    const double tolerance = dtype == Dtype::float16 ? 4e-3 : 3e-2;
    const Tensors given{numbers({5, 200}).to(dtype), numbers({200}).to(dtype),
                        numbers({200}).to(dtype)};
    expect_one_kernel(layer_norm, given, tolerance, dtype_name(dtype));
    expect_one_kernel(layer_norm, given, tolerance, dtype_name(dtype),
                      {.precise = false, .name = "rows"});
  }
  const Tensor z = numbers({5, 70, 2}).view_as_complex();
  const auto turned = [](const Tensors& t) { return t[0] * t[0] - (t[0] * 2).mean(-1, true); };
  const Tensor right = turned({z.to(Dtype::complex128)});
  for (const Tensor& at : places(z))
    EXPECT_TRUE(
        fuse(Function(turned))(Tensors{at}).cpu().to(Dtype::complex128).allclose(right, 1e-5));
}

/// With float16 between steps too much would be lost, and sums be too large.
TEST(FuseRows, SoftmaxVarianceAndMeanOfHalf) {
  const Tensor x = (numbers({5, 3000}) * 30).to(Dtype::float16);
  expect_one_kernel([](const Tensors& t) { return (t[0] * 2).softmax(-1); }, {x}, 2e-3, "softmax");
  expect_one_kernel([](const Tensors& t) { return (t[0] * 2).log_softmax(-1); }, {x}, 2e-3, "log");
  expect_one_kernel([](const Tensors& t) { return (t[0] + 50).mean(-1) * 2; }, {x}, 2e-3, "mean");
  expect_one_kernel([](const Tensors& t) { return (t[0] * 0.1 + 50).var(-1) * 2; }, {x}, 2e-2,
                    "variance");
}

TEST(FuseRows, SpecialValues) {
  Tensor x = numbers({6, 40});
  x.select(0, 0).fill_(-kInf);
  x.select(0, 1).fill_(kNaN);
  x.select(0, 2).select(0, 39).fill_(kNaN);
  x.select(0, 3).select(0, 7).fill_(kInf);
  x.select(0, 4).select(0, 7).fill_(-kInf);
  const auto all = [](const Tensors& t) {
    const Tensor y = t[0] * 1.5;
    const Tensor rows = y.amax(-1, true) + y.amin(-1, true) * 2;
    return rows + y.sum(-1, true) + y.mean(-1, true) * y.any(-1, true);
  };
  expect_one_kernel(all, {x}, kFloat, "specials");
  expect_one_kernel([](const Tensors& t) { return (t[0] * 1.5).amax(-1) * 1; }, {x}, kFloat,
                    "amax");
  expect_one_kernel([](const Tensors& t) { return (t[0] * 1.5).amin(-1) * 1; }, {x}, kFloat,
                    "amin");
}

TEST(FuseRows, LayoutsAndBroadcasts) {
  const auto centred = [](const Tensors& t) {
    const Tensor y = t[0] + t[1];
    return y - y.mean({-2, -1}, true);
  };
  const Tensor x = numbers({4, 6, 8, 10});
  const Tensor row = numbers({8, 1});
  expect_one_kernel(centred, {x, numbers({4, 1, 1, 1})}, kFloat, "a number for each");
  expect_one_kernel(centred, {x, numbers({})}, kFloat, "a number");
  for (const Tensor& each : {x.transpose(0, 1), x.transpose(2, 3), x.transpose(1, 3), x.flip(3),
                             x.expand({3, 4, 6, 8, 10}), numbers({4, 6, 8, 20}).narrow(3, 3, 10),
                             numbers({4, 6, 8, 10, 2}).select(4, 1)})
    for (const Tensor& at : places(x)) {
      const auto fused = fuse(Function(centred));
      const Tensor there = each.to(at.device());
      const Tensor given = at.device().is_cuda() ? there : each;
      const Tensor beside = numbers({given.sizes()[given.dim() - 2], 1}).to(at.device());
      const Tensor made = fused(Tensors{given, beside});
      const Tensor eager = centred(Tensors{given, beside});
      expect_near(made, eager, kFloat, each.strides().str());
      EXPECT_EQ(made.strides().str(), eager.strides().str());
    }
}

/// What lies in rows of its own within each row is copied before, once for all rows.
TEST(FuseRows, BroadcastsWithinRows) {
  const auto scaled = [](const Tensor& x, const Tensor& scale) {
    return x * scale - (x * scale).mean({1, 2}, true);
  };
  for (const Tensor& x : places(numbers({50, 6, 8}))) {
    const Tensor scale = numbers({6, 1}).to(x.device());
    Launches launches;
    const Tensor made = fuse(scaled, {.name = "rows"})(x, scale);
    if (x.is_cuda()) {
      EXPECT_EQ(launches.names.size(), 2U);
      EXPECT_EQ(launches.count("rows"), 1);
    }
    expect_near(made, scaled(x, scale), kFloat, "scaled");
  }
}

/// More dimensions of rows than a kernel has room for.
TEST(FuseRows, ManyDimensions) {
  Tensor x = numbers({2, 3, 2, 3, 2, 3, 2, 3, 2, 5});
  for (int i = 0; i < 4; ++i) x = x.transpose(2 * i, 2 * i + 1);
  for (const Tensor& at : places(numbers({1}))) {
    const Tensor there = x.to(at.device());
    const auto function = [](const Tensor& y) { return y * 2 - (y * y).sum(-1, true); };
    expect_near(fuse(function)(there), function(there), kFloat, "dimensions");
  }
}

TEST(FuseRows, WritesInPlace) {
  const auto function = [](const Tensor& x, const Tensor& sums) {
    x.sub_(x.amax(-1, true)).exp_();
    sums.add_(x.sum(-1, true)).mul_(2);
    x.div_(sums);
    const Tensor largest = x.amax(-1);
    largest.add_(1).mul_(3);
    return largest;
  };
  for (const Tensor& start : places(numbers({6, 300}))) {
    const Tensor x = start.clone(), sums = ones({6, 1}, start.options());
    const Tensor y = start.clone(), totals = ones({6, 1}, start.options());
    Launches launches;
    const Tensor made = fuse(function, {.name = "rows"})(x, sums);
    if (start.device().is_cuda()) {
      EXPECT_EQ(launches.count("rows"), 1);
    }
    const Tensor right = function(y, totals);
    expect_near(made, right, kFloat, "returned");
    expect_near(x, y, kFloat, "elements");
    expect_near(sums, totals, kFloat, "rows");
  }
}

/// What is read along one way is not written along another one in the same kernel.
TEST(FuseRows, KeepsTheOrderOfReadsAndWrites) {
  const auto function = [](const Tensor& x) {
    const Tensor means = (x * 2).mean(-1);
    x.select(1, 0).copy_(means);
    const Tensor y = x * 3;
    x.t().copy_(y - y.sum(-1, true));
    return x.sum(0) + means;
  };
  for (const Tensor& start : places(numbers({20, 20}))) {
    const Tensor x = start.clone(), y = start.clone();
    expect_near(fuse(function)(x), function(y), 1e-5, "returned");
    expect_near(x, y, 1e-5, "written");
  }
}

/// Results of rows that are broadcast along the rows: element i is that of row i.
TEST(FuseRows, ResultsAcrossRows) {
  const auto function = [](const Tensor& x) {
    const Tensor y = x + 1;
    const Tensor sums = y.sum(-1);
    const Tensor across = y / sums;
    return across + sums.unsqueeze(1) + y.sum(0) * y.sum(0, true) + y.amax();
  };
  for (const Tensor& x : places(numbers({9, 9})))
    expect_near(fuse(function)(x), function(x), 1e-5, "across");
}

/// A vector that each row reads as a whole is not written by rows meanwhile.
TEST(FuseRows, VectorsThatAreReadAlongRowsAndWrittenByRows) {
  const auto expect = [](const Shape& sizes, const auto& function) {
    for (const Tensor& start : places(numbers(sizes))) {
      const Tensor v = ones(sizes.size() == 2 ? Shape{4} : Shape{4, 4}, start.options());
      const Tensor w = v.clone();
      const Tensor made = fuse(function)(start, v);
      const Tensor right = function(start, w);
      expect_near(made, right, kFloat, "returned");
      expect_near(v, w, kFloat, "written");
    }
  };
  for (const Shape& sizes : {Shape{4, 4}, Shape{4, 4, 4}}) {
    expect(sizes, [](const Tensor& a, const Tensor& v) { return v.copy_((a * v).sum(-1)); });
    expect(sizes, [](const Tensor& a, const Tensor& v) {
      const Tensor s = (a * v).sum(-1, true);
      v.add_(1);
      return s;
    });
    expect(sizes, [](const Tensor& a, const Tensor& v) {
      const Tensor kept = v.unsqueeze(-1);
      const Tensor s = (a * kept).sum(-1, true);
      kept.add_(s);
      return s * kept;
    });
  }
}

/// Steps on rows whose reductions nobody needs.
TEST(FuseRows, DroppedReductions) {
  const auto function = [](const Tensor& x, const Tensor& w) {
    (void)(x * 2).sum(-1);
    const Tensor sums = x.sum(-1);
    w.mul_(2).add_(1);
    return w * 2 + 1;
  };
  const auto beside = [](const Tensor& x, const Tensor& w) {
    (void)x.sum(-1, true);
    const Tensor y = x * 2 + 1;
    w.mul_(2);
    return y;
  };
  for (const std::int64_t length : {3, 1000, 100'000})
    for (const Tensor& x : places(numbers({3, length})))
      for (const Shape& rows : {Shape{3}, Shape{3, 1}}) {
        const Tensor v = ones(rows, x.options()), w = v.clone();
        expect_same_bits(fuse(function)(x, v), function(x, w), "rows");
        expect_same_bits(v, w, "rows");
        expect_same_bits(fuse(beside)(x, v), beside(x, w), "elements");
        expect_same_bits(v, w, "beside");
      }
}

TEST(FuseRows, LieAsThoseOfTheOperations) {
  for (const Tensor& x : places(numbers({3, 2}))) {
    const auto expect = [&](const auto& function) {
      EXPECT_EQ(fuse(function)(x).strides().str(), function(x).strides().str());
    };
    expect([](const Tensor& y) { return y.t().softmax(-1); });
    expect([](const Tensor& y) { return (y.t() * 2).log_softmax(-1); });
    expect([](const Tensor& y) { return y.t() * 2 - y.t().mean(-1, true); });
    expect([](const Tensor& y) { return (y.t() * 2).var(-1, 0, true); });
  }
}

/// All threads of a row have the same extreme, and hosts and devices have, too.
TEST(FuseRows, ZerosOfBothSigns) {
  for (const int length : {2, 32, 100, 1024, 5000}) {
    const Tensor even = arange(length) % 2 == 0;
    for (const Tensor& zeros_here :
         places(where(even, full({length}, 0.0), full({length}, -0.0)))) {
      const Tensor x = zeros_here.expand({3, length}) * 1;
      const auto turned = [](const Tensor& y) { return 1 / ((y * 1).amax(-1, true) + y * 0); };
      EXPECT_TRUE((fuse(turned)(x) == kInf).all().item<bool>()) << length;
      const auto least = [](const Tensor& y) { return 1 / (y * 1).amin(-1); };
      EXPECT_TRUE((fuse(least)(x) == -kInf).all().item<bool>()) << length;
    }
  }
}

TEST(FuseRows, OtherRowsAreAnotherKernel) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a device";
  const auto function = [](const Tensor& x) {
    const Tensor y = x * 2;
    return (y - y.mean(-1, true)) / (y * y).mean({1, 2}, true) + (y + 1).amax();
  };
  const Tensor x = numbers({4, 5, 6}).to(kDevice);
  Launches launches;
  const Tensor made = fuse(function, {.name = "rows"})(x);
  EXPECT_GE(launches.count("rows"), 2);
  expect_near(made, function(x), kFloat, "three kinds of rows");
}

/// A reduction of what lies in memory is what the library's own kernels are for, and so are those
/// that are not over the last dimensions.
TEST(FuseRows, ReductionsAlone) {
  for (const Tensor& x : places(numbers({5, 60}))) {
    const auto alone = [&](auto function) {
      const auto fused = fuse(function, {.name = "rows"});
      Launches launches;
      const Tensor made = fused(x);
      EXPECT_EQ(launches.count("rows"), 0);
      expect_same_bits(made, function(x), "alone");
    };
    alone([](const Tensor& y) { return y.sum(-1); });
    alone([](const Tensor& y) { return y.mean(1, true); });
    alone([](const Tensor& y) { return y.amax(); });
    alone([](const Tensor& y) { return y.amin(DimList(), true); });
    alone([](const Tensor& y) { return y.prod({0, 1}); });
    alone([](const Tensor& y) { return y.any(-1); });
    alone([](const Tensor& y) { return y.all(); });
    alone([](const Tensor& y) { return y.sum(0); });
    alone([](const Tensor& y) { return y.max(1).indices; });
    alone([](const Tensor& y) { return y.argmin(1, true); });
    alone([](const Tensor& y) { return y.narrow(1, 0, 0).sum(-1); });
  }
}

/// Longer than what threads keep in registers.
TEST(FuseRows, LongRows) {
  const auto function = [](const Tensors& t) {
    const Tensor powers = (t[0] - t[0].amax(-1, true)).exp();
    return powers / powers.sum(-1, true) + (t[0] * t[0]).mean(-1, true);
  };
  expect_one_kernel(function, {numbers({3, 50'000})}, kFloat, "50,000");
  for (const std::int64_t length : {70'001, 300'000})
    for (const Tensor& x : places(numbers({2, length})))
      expect_near(fuse(Function(function))(Tensors{x}), function({x.to(Dtype::float64)}), kFloat,
                  std::to_string(length));
}

// Each compilation begins, and waits until the other one has begun.
TEST(FuseRows, KernelsOfOneCallAreCompiledBesideEachOther) {
  const NotedCompiler compiler(
      "cd \"$(dirname \"$0\")\"; tries=0\n"
      "until [ \"$(wc -l < starts)\" -ge 2 ]; do\n"
      "  sleep 0.1; tries=$((tries + 1)); [ $tries -lt 300 ] || exit 1\n"
      "done\n"
      "exec c++ \"$@\"");
  const Variable variable("CXX", compiler.path());
  const auto f = fuse([](const Tensor& x) { return (x.tan() - x.cosh()).sum() * x.amax(); });
  const Tensor x = numbers({1 << 20}).to(Dtype::float64) * 0.1;
  EXPECT_NEAR(f(x).item().to<double>(), ((x.tan() - x.cosh()).sum() * x.amax()).item().to<double>(),
              1e-3);
  EXPECT_EQ(compiler.starts(), 2);
}

TEST(FuseRows, OffsetsAreAsLargeAsTheyMustBe) {
  const auto layout = [](const Shape& rows, const Shape& strides) {
    jit::Plan made;
    const std::vector<ops::PlanOperand> operands{{nullptr, &rows, &strides, 4}};
    jit::plan_rows(made, rows, operands, 10, 20);
    EXPECT_EQ(made.length, 10);
    EXPECT_EQ(made.count, 20);
    return made.layout;
  };
  constexpr std::int64_t k = std::int64_t{1} << 31;
  EXPECT_EQ(layout({}, {}), jit::Layout::narrow);
  EXPECT_EQ(layout({5}, {1}), jit::Layout::narrow) << "there is no other for rows";
  EXPECT_EQ(layout({5, 3}, {100, 10}), jit::Layout::narrow);
  EXPECT_EQ(layout({k - 1}, {1}), jit::Layout::narrow);
  EXPECT_EQ(layout({k}, {1}), jit::Layout::wide);
  EXPECT_EQ(layout({k}, {0}), jit::Layout::wide);
  EXPECT_EQ(layout({2}, {k}), jit::Layout::wide);
  EXPECT_EQ(layout({3}, {k / 2}), jit::Layout::wide);
}

/// A few long rows are cut into parts, for each of which, and for what comes of them, there is a
/// kernel: what is left of a row behind equal parts is another one.
TEST(FuseRows, FewLongRowsAreDivided) {
  struct Case {
    Shape sizes;
    int kernels;
  };
  for (const Case& each : {Case{{1 << 20}, 2}, Case{{3, 70'001}, 3}, Case{{2, 3, 100'003}, 3}})
    for (const Tensor& x : places(numbers(each.sizes) * 0.25)) {
      const auto all = [](const Tensor& y, const Tensor& sums) {
        const Tensor z = y * 1.5;
        const Tensor rows = z.sum(-1, true) + (z * z).mean(-1, true) * 2 + z.amax(-1, true);
        sums.add_(rows - z.amin(-1, true) * (z > 1.4).any(-1, true));
        y.copy_(z + 1);
        return (z < 1.6).all(-1).logical_and(sums.view(rows.sizes()).squeeze(-1) > 0);
      };
      const auto loss = [](const Tensor& y, const Tensor& sums) {
        const Tensor z = y * y - y;
        sums.add_(z.amax(-1, true));
        return z.mean(-1) * 0.5 + z.prod(-1) + (z + 1).sum(-1) / 3;
      };
      Shape rows = each.sizes;
      rows[rows.size() - 1] = 1;
      for (const bool first : {true, false}) {
        const Tensor y = x.clone(), sums = ones(rows, x.options());
        const Tensor z = x.to(Dtype::float64), totals = ones(rows, z.options());
        Launches launches;
        const auto of = [&](const Tensor& a, const Tensor& b) {
          return first ? loss(a, b) : all(a, b);
        };
        const Tensor made = fuse(of, {.name = "rows"})(y, sums);
        if (first && x.is_cuda()) {
          EXPECT_EQ(launches.count("rows"), each.kernels);
        }
        const Tensor right = of(z, totals);
        expect_near(made, right, kFloat, "returned");
        expect_near(y, z, kFloat, "elements");
        expect_near(sums, totals, kFloat, "rows");
      }
    }
  // Sums of float16 that do not fit into one.
  for (const Tensor& x : places(full({1 << 17}, 2.0, Dtype::float16))) {
    const auto mean = [](const Tensor& y) { return (y * 2).mean() + (y - 1).amax(); };
    EXPECT_EQ(fuse(mean)(x).item().to<double>(), 5);
    const Tensor counts = fuse([](const Tensor& y) { return (y > 1).sum() + 1; })(x);
    EXPECT_EQ(counts.item().to<std::int64_t>(), (1 << 17) + 1);
    EXPECT_EQ(counts.dtype(), Dtype::int64);
    // Between steps they are float32.
    const auto scaled = [](const Tensor& y) { return (y * 2).sum() / 1000; };
    const Tensor loose = fuse(scaled, {.precise = false})(x);
    EXPECT_NEAR(loose.item().to<double>(), (1 << 19) / 1000.0, 0.3);
  }
}

TEST(FuseRows, NothingToDo) {
  const auto function = [](const Tensor& y) { return (y * 2).sum(-1, true) + 1; };
  for (const Tensor& x : places(numbers({4}))) {
    const Tensor none = zeros({0, 3}, x.options());
    EXPECT_EQ(fuse(function)(none).sizes().str(), "[0, 1]");
    const Tensor empty_rows = zeros({3, 0}, x.options());
    expect_same_bits(fuse(function)(empty_rows), function(empty_rows), "of nothing");
    const Tensor point = ones({}, x.options());
    const auto all = [](const Tensor& y) { return (y * 2).sum() + 1; };
    expect_same_bits(fuse(all)(point), all(point), "a number");
  }
}

TEST(FuseRows, ErrorsAreThoseOfTheOperations) {
  for (const Tensor& x : places(numbers({4, 5}))) {
    EXPECT_ERROR(fuse([](const Tensor& y) { return (y * 2).sum(2); })(x), IndexError,
                 "Dimension out of range");
    EXPECT_ERROR(fuse([](const Tensor& y) { return (y > 0).mean(); })(x), Error,
                 "could not infer output dtype");
    EXPECT_ERROR(fuse([](const Tensor& y) { return (y * 2).softmax(3); })(x), IndexError,
                 "Dimension out of range");
  }
}

}  // namespace
}  // namespace ember::test
