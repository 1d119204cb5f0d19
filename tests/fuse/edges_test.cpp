// Two operations behind each other, each with each, as one kernel: what a compiler could contract,
// or simplify since it knows what the first one gives, has the bits of the two alone.
#include <array>
#include <random>

#include "tests/fuse/support.h"

namespace ember::test {
namespace {

/// An operation of one of the values, with others beside it.
struct Operation {
  const char* name;
  Tensor (*of)(const Tensor& x, const Tensor& y, const Tensor& z);
  bool of_complex;
};

constexpr std::array kOperations{
    Operation{"add", [](const Tensor& x, const Tensor& y, const Tensor&) { return x + y; }, true},
    Operation{"sub", [](const Tensor& x, const Tensor& y, const Tensor&) { return y - x; }, true},
    Operation{"mul", [](const Tensor& x, const Tensor& y, const Tensor&) { return x * y; }, true},
    Operation{"mul by a number",
              [](const Tensor& x, const Tensor&, const Tensor&) { return x * 0.3; }, true},
    Operation{"add of a number",
              [](const Tensor& x, const Tensor&, const Tensor&) { return x + 1; }, true},
    Operation{"square", [](const Tensor& x, const Tensor&, const Tensor&) { return x.square(); },
              true},
    Operation{"cube", [](const Tensor& x, const Tensor&, const Tensor&) { return x.pow(3); }, true},
    Operation{"neg", [](const Tensor& x, const Tensor&, const Tensor&) { return -x; }, true},
    Operation{
        "addcmul",
        [](const Tensor& x, const Tensor& y, const Tensor& z) { return addcmul(x, y, z, 0.5); },
        true},
    Operation{"addcmul with it",
              [](const Tensor& x, const Tensor& y, const Tensor& z) { return addcmul(y, x, z); },
              true},
    Operation{"div", [](const Tensor& x, const Tensor& y, const Tensor&) { return x / y; }, true},
    Operation{
        "where",
        [](const Tensor& x, const Tensor& y, const Tensor& z) { return where(y.isnan(), z, x); },
        true},
    Operation{"isnan", [](const Tensor& x, const Tensor&, const Tensor&) { return x.isnan(); },
              true},
    Operation{"as a float64",
              [](const Tensor& x, const Tensor&, const Tensor&) {
                return x.to(x.is_complex() ? complex128 : float64);
              },
              true},
    Operation{"lerp",
              [](const Tensor& x, const Tensor& y, const Tensor&) {
                return x.lerp(y.to(x.dtype()), 0.3);
              },
              false},
    Operation{"abs", [](const Tensor& x, const Tensor&, const Tensor&) { return x.abs(); }, false},
    Operation{"sqrt", [](const Tensor& x, const Tensor&, const Tensor&) { return x.sqrt(); },
              false},
    Operation{"floor", [](const Tensor& x, const Tensor&, const Tensor&) { return x.floor(); },
              false},
    Operation{"ceil", [](const Tensor& x, const Tensor&, const Tensor&) { return x.ceil(); },
              false},
    Operation{"trunc", [](const Tensor& x, const Tensor&, const Tensor&) { return x.trunc(); },
              false},
    Operation{"maximum",
              [](const Tensor& x, const Tensor& y, const Tensor&) { return maximum(x, y); }, false},
    Operation{"minimum",
              [](const Tensor& x, const Tensor& y, const Tensor&) { return minimum(y, x); }, false},
    Operation{"frac", [](const Tensor& x, const Tensor&, const Tensor&) { return x.frac(); },
              false},
    Operation{"fmod", [](const Tensor& x, const Tensor& y, const Tensor&) { return x.fmod(y); },
              false},
    Operation{"as a float16",
              [](const Tensor& x, const Tensor&, const Tensor&) { return x.to(float16); }, false},
    Operation{"exp", [](const Tensor& x, const Tensor&, const Tensor&) { return x.exp(); }, false},
};

/// What a function gives as one kernel, on every device, beside what it gives without.
template <class Function>
void expect_as_one_by_one(const Function& function, const std::vector<Tensor>& inputs) {
  const auto fused = fuse(function);
  for (const Tensor& place : places(zeros({1}))) {
    const Device device = place.device();
    std::vector<Tensor> in;
    for (const Tensor& each : inputs) in.push_back(each.to(device));
    const std::vector<Tensor> found = fused(in);
    const std::vector<Tensor> alone = function(in);
    ASSERT_EQ(found.size(), alone.size());
    for (std::size_t k = 0; k < found.size(); ++k)
      expect_same_bits(found[k], alone[k], "result " + std::to_string(k) + " on " + device.str());
  }
}

/// Results of `first`: it alone, and behind it each operation that there is for the dtype.
std::vector<Tensor> behind(const Operation& first, const Tensor& x, const Tensor& y,
                           const Tensor& z) {
  std::vector<Tensor> made{first.of(x, y, z)};
  const Tensor one = made[0];
  if (one.dtype() == Dtype::bool_) {
    made.push_back(one.to(float32) * 0.3);
    made.push_back(where(one, y, z));
    return made;
  }
  for (const Operation& next : kOperations)
    if (next.of_complex || !one.is_complex()) made.push_back(next.of(one, z, y));
  // Where both factors are results, and where other steps have the same product.
  made.push_back(addcmul(y, one, first.of(z, y, x)));
  made.push_back(addcmul(y, x, x));
  made.push_back(x.square());
  made.push_back(x.pow(3));
  made.push_back(addcmul(z, x, y));
  made.push_back(x * y);
  return made;
}

void expect_as_alone(const std::array<Dtype, 3>& dtypes) {
  std::mt19937 random(1);
  const Shape sizes{257};
  const auto input = [&](Dtype dtype) {
    std::vector<double> values(257);
    for (double& value : values) {
      value = std::normal_distribution<double>(0, 3)(random);
      if (is_integral(dtype)) value = std::trunc(value * 5);
      if (!is_integral(dtype) && random() % 16 == 0)
        value = std::array{kNaN, kInf, 0.0, -0.0, 1e-45}[random() % 5];
    }
    Tensor made = tensor(values);
    // Infinities and NaN meet differently in complex numbers.
    if (dtype == Dtype::complex64)
      return stack({made, made.flip({0})}, 1).to(float32).view_as_complex();
    return made.to(dtype);
  };
  const Tensor x = input(dtypes[0]);
  const Tensor y = input(dtypes[1]);
  const Tensor z = input(dtypes[2]);
  // The compilers of hosts contract nothing: a third of the pairs shows that the rest of it holds.
  const std::size_t step = cuda::device_count() > 0 && !cuda::is_simulated() ? 1 : 3;
  for (std::size_t i = 0; i < kOperations.size(); i += step) {
    const Operation& first = kOperations[i];
    if (x.is_complex() && !first.of_complex) continue;
    const auto fused = fuse(
        [&](const Tensor& a, const Tensor& b, const Tensor& c) { return behind(first, a, b, c); });
    for (const Tensor& place : places(zeros({1}))) {
      const Device device = place.device();
      const std::vector<Tensor> found = fused(x.to(device), y.to(device), z.to(device));
      const std::vector<Tensor> alone = behind(first, x.to(device), y.to(device), z.to(device));
      ASSERT_EQ(found.size(), alone.size());
      for (std::size_t k = 0; k < found.size(); ++k)
        expect_same_bits(
            found[k], alone[k],
            std::string(first.name) + ", result " + std::to_string(k) + " on " + device.str());
    }
  }
}

/// Products that a compiler could find in two operations although they are written in two ways, and
/// what could cancel between two steps. Each result has the bits of a function of it alone.
TEST(FuseEdges, SameProductsInOtherWays) {
  const Tensor x = numbers({64});
  const Tensor whole = arange(64).to(int32) + 4097;
  const Tensor large = (arange(64) - 32).to(float64).exp2().mul(0x1p90).to(bfloat16);
  const Tensor beside = view_as_complex(stack({-(x * x * x), x}, 1));
  const auto all = [](const std::vector<Tensor>& in) {
    const Tensor &a = in[0], &i = in[1], &b = in[2], &c = in[3];
    const Tensor p = a.square();
    const Tensor q = a * a;
    const Tensor f = i.to(float32) * -4097;
    return std::vector<Tensor>{
        a.pow(3),
        addcmul(a, -a, -a),
        p.pow(3),
        addcmul(a, q, q),
        a.pow(3) + c,
        a.rad2deg().clone().frac(),
        b.pow(3),
        addcmul((b - b) - 0x1p127, b, b),
        addcmul(f, i, i),
        addcmul(f + 1, i, i),
        f.pow(3),
        c * c,
        addcmul(c, c, c),
        addcmul(c, a, c),
        where(a > 0, a.pow(3), a) + a,
        a.erf() + a.exp(),
        a.exp() + a.erf(),
    };
  };
  expect_as_one_by_one(all, {x, whole, large, beside});
}

/// Beside and behind products and quotients, and sums behind them.
TEST(FuseEdges, FunctionsOfComplexNumbers) {
  const auto all = [](const std::vector<Tensor>& in) {
    const Tensor &x = in[0], &y = in[1];
    const Tensor p = x * y;
    const Tensor q = x / y;
    return std::vector<Tensor>{
        x.log(),         x.log1p() + y,    x.exp() - 1,
        x.asin(),        x.acos() - y,     p.atanh(),
        q + x,           addcdiv(y, x, p), p.exp() + q,
        q.log() * x,     x.sigmoid(),      p,
        x.lerp(y, 0.25), q.tanh() - p,     x.square() + p.asin(),
    };
  };
  const Tensor parts = numbers({64, 2});
  const Tensor x = view_as_complex(parts);
  const Tensor y = view_as_complex(parts.flip({0}).contiguous() * 0.7);
  expect_as_one_by_one(all, {x, y});
}

TEST(FuseEdges, Float32) {
  expect_as_alone({Dtype::float32, Dtype::float32, Dtype::float32});
  expect_as_alone({Dtype::float32, Dtype::int32, Dtype::float16});
}

TEST(FuseEdges, Float64) { expect_as_alone({Dtype::float64, Dtype::float32, Dtype::float64}); }

TEST(FuseEdges, Float16) { expect_as_alone({Dtype::float16, Dtype::float16, Dtype::bfloat16}); }

TEST(FuseEdges, ComplexNumbersAndRealOnes) {
  expect_as_alone({Dtype::complex64, Dtype::complex64, Dtype::complex64});
  expect_as_alone({Dtype::complex64, Dtype::int32, Dtype::float16});
}

}  // namespace
}  // namespace ember::test
