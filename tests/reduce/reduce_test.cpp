// Reductions: against sums made one element after the other in long double, and the device against
// the CPU.
#include "ember/reduce/reduce.h"

#include <cmath>
#include <complex>
#include <functional>
#include <limits>

#include "tests/ops/support.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

using Number = std::complex<long double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// The elements that go into each output, in the order of the dimensions.
std::vector<std::vector<Number>> groups(const Tensor& x, const std::vector<int>& dims) {
  const Tensor wide = x.cpu().to(Dtype::complex128).contiguous();
  const auto* data = static_cast<const Complex<double>*>(wide.data_ptr());
  std::vector<bool> gone(static_cast<std::size_t>(x.dim()), dims.empty());
  for (const int dim : dims)
    if (x.dim() > 0) gone[static_cast<std::size_t>((dim + x.dim()) % x.dim())] = true;
  std::int64_t outputs = 1;
  for (int i = 0; i < x.dim(); ++i)
    if (!gone[static_cast<std::size_t>(i)]) outputs *= x.sizes()[i];
  std::vector<std::vector<Number>> all(static_cast<std::size_t>(outputs));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i;
    std::int64_t out = 0;
    std::int64_t step = 1;
    for (int d = x.dim() - 1; d >= 0; --d) {
      const std::int64_t index = rest % x.sizes()[d];
      rest /= x.sizes()[d];
      if (gone[static_cast<std::size_t>(d)]) continue;
      out += index * step;
      step *= x.sizes()[d];
    }
    all[static_cast<std::size_t>(out)].emplace_back(data[i].re, data[i].im);
  }
  return all;
}

using Reference = std::function<Number(const std::vector<Number>&)>;

/// Expects every element of `made` to be the reference's, within `units` of the last place of
/// `dtype` relative to `scale(group)`.
void expect_reduced(const Tensor& made, const Tensor& x, const std::vector<int>& dims,
                    const Reference& reference, double units, const std::string& what,
                    const Reference& scale = {}) {
  const auto all = groups(x, dims);
  const Tensor wide = made.cpu().to(Dtype::complex128).contiguous();
  ASSERT_EQ(static_cast<std::size_t>(made.numel()), all.size()) << what;
  const auto* data = static_cast<const Complex<double>*>(wide.data_ptr());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Number expected = reference(all[i]);
    const std::complex<double> got(data[i].re, data[i].im);
    if (std::isnan(expected.real()) && std::isnan(got.real())) continue;
    if (std::isinf(expected.real()) && static_cast<double>(expected.real()) == got.real()) continue;
    // 65520 and more round to infinity.
    if (made.dtype() == Dtype::float16 && std::abs(expected) >= 65488 && std::isinf(got.real()))
      continue;
    const double size = static_cast<double>(std::abs(scale ? scale(all[i]) : expected));
    const double difference = static_cast<double>(std::abs(Number(got) - expected));
    ASSERT_LE(difference, units * epsilon(made.dtype()) * size + 1e-40)
        << what << ", output " << i << ": " << got << ", expected "
        << static_cast<double>(expected.real());
  }
}

Number sum_ref(const std::vector<Number>& x) {
  Number all = 0;
  for (const Number& value : x) all += value;
  return all;
}
Number size_ref(const std::vector<Number>& x) {
  Number all = 0;
  for (const Number& value : x) all += std::abs(value);
  return all;
}
Number mean_ref(const std::vector<Number>& x) {
  if (x.empty()) return {std::numeric_limits<long double>::quiet_NaN(), 0};
  return sum_ref(x) / static_cast<long double>(x.size());
}
Number var_ref(const std::vector<Number>& x, double correction) {
  const Number mean = mean_ref(x);
  long double squares = 0;
  for (const Number& value : x) squares += std::norm(value - mean);
  return {squares / std::max<long double>(0, static_cast<long double>(x.size()) - correction), 0};
}

Tensor sample(Dtype dtype, const Shape& sizes, int seed) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < element_count(sizes); ++i)
    numbers.push_back(static_cast<double>((i * 7919 + seed * 104729 + i * i % 31) % 201 - 100) /
                      16);
  Tensor made = tensor(numbers).reshape(sizes);
  if (dtype == Dtype::uint8) made = made.abs();
  made = made.to(dtype);
  if (is_complex_dtype(dtype) && made.numel() > 0) {
    const Tensor parts = made.view_as_real();
    Tensor imaginary = parts.select(-1, 1);
    std::vector<double> others;
    for (std::int64_t i = 0; i < element_count(sizes); ++i)
      others.push_back(static_cast<double>((i * 31 + seed) % 17 - 8) / 4);
    imaginary.copy_(tensor(others).reshape(sizes).to(imaginary.dtype()));
  }
  return made;
}

struct Case {
  std::string name;
  std::function<Tensor(Dtype)> make;
  std::vector<std::vector<int>> dims;
};

/// Shapes and strides that go through every way of the kernels.
std::vector<Case> cases() {
  std::vector<Case> list;
  const auto add = [&](const std::string& name, const Shape& sizes,
                       const std::vector<std::vector<int>>& dims,
                       std::function<Tensor(const Tensor&)> view = {}) {
    list.push_back({name,
                    [=](Dtype dtype) {
                      const Tensor made = sample(dtype, sizes, static_cast<int>(sizes.size()));
                      return view ? view(made) : made;
                    },
                    dims});
  };
  add("no dimensions", {}, {{}, {0}, {-1}});
  add("one element", {1, 1}, {{}, {0}, {1}});
  add("row", {7}, {{}, {0}});
  add("long row", {40009}, {{}});
  add("short rows", {1000, 3}, {{}, {0}, {1}});
  add("odd matrix", {37, 1029}, {{}, {0}, {1}, {0, 1}});
  add("tall", {5003, 17}, {{0}, {1}});
  add("wide", {3, 5003}, {{0}, {-1}});
  add("cube", {9, 33, 20}, {{}, {0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1}, {-1, 0}});
  add("six dimensions", {3, 2, 4, 3, 2, 5}, {{0, 2, 4}, {1, 3, 5}, {0, 5}});
  add("ten dimensions", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}});
  add("transposed", {65, 130}, {{}, {0}, {1}}, [](const Tensor& x) { return x.t(); });
  add("every second", {64, 129}, {{}, {0}, {1}},
      [](const Tensor& x) { return x.slice(1, 1, {}, 2); });
  add("expanded", {40, 1}, {{}, {0}, {1}}, [](const Tensor& x) { return x.expand({40, 33}); });
  add("from the middle", {50, 40}, {{0}, {1}},
      [](const Tensor& x) { return x.narrow(0, 3, 41).narrow(1, 1, 37); });
  add("permuted", {6, 7, 8}, {{}, {0}, {1}, {2}, {0, 1}}, [](const Tensor& x) {
    return x.permute({2, 0, 1});
  });
  return list;
}

DimList list_of(const std::vector<int>& dims) {
  return std::vector<std::int64_t>(dims.begin(), dims.end());
}

/// Calls `check(x on the CPU, x on the device, dims, text)` for every case.
template <class Check>
void each_case(DtypeSet dtypes, const Check& check) {
  for (const Case& one : cases())
    for (const Dtype dtype : one_of_three_if_sanitized(dtypes_in(dtypes))) {
      const Tensor here = one.make(dtype);
      const Tensor base = here.to(kDevice);
      // With the same strides, so that the device goes the same way.
      Tensor there = base;
      if (base.strides() != here.strides()) {
        Tensor flat = empty({here.storage_offset() + 1 +
                             [&] {
                               std::int64_t last = 0;
                               for (int i = 0; i < here.dim(); ++i)
                                 last += (here.size(i) - 1) * here.stride(i);
                               return last;
                             }()},
                            {dtype, Device(kDevice)});
        there = flat.as_strided(here.sizes(), here.strides(), here.storage_offset());
        bool overlaps = false;
        for (int i = 0; i < here.dim(); ++i) overlaps |= here.stride(i) == 0 && here.size(i) > 1;
        if (overlaps)
          there = here.select(1, 0).to(kDevice).unsqueeze(1).expand(here.sizes());
        else
          there.copy_(base);
      }
      for (const auto& dims : one.dims) {
        std::string text = one.name + " " + dtype_name(dtype) + " over";
        for (const int dim : dims) text += " " + std::to_string(dim);
        check(here, there, dims, text);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
}

// Every dtype, shape, stride and set of dimensions against sums in long double.
TEST(Reduce, Sum) {
  NEEDS_DEVICES(1);
  each_case(dtypes::any, [](const Tensor& x, const Tensor& there, const std::vector<int>& dims,
                            const std::string& text) {
    const Tensor made = sum(x, list_of(dims));
    EXPECT_EQ(made.dtype(), is_integral(x.dtype()) ? Dtype::int64 : x.dtype());
    expect_reduced(made, x, dims, sum_ref, 8, text, size_ref);
    // Sums that cancel have larger relative errors on real devices.
    if (cuda::is_simulated() || is_integral(x.dtype()))
      expect_same(sum(there, list_of(dims)), made, 0, text);
    else
      expect_reduced(sum(there, list_of(dims)), x, dims, sum_ref, 8, text, size_ref);
  });
}

// Against the mean in long double.
TEST(Reduce, Mean) {
  NEEDS_DEVICES(1);
  const auto scale = [](const std::vector<Number>& x) {
    return size_ref(x) / static_cast<long double>(x.size());
  };
  each_case(dtypes::floating_complex, [&](const Tensor& x, const Tensor& there,
                                          const std::vector<int>& dims, const std::string& text) {
    expect_reduced(mean(x, list_of(dims)), x, dims, mean_ref, 8, text, scale);
    expect_reduced(mean(there, list_of(dims)), x, dims, mean_ref, 8, text, scale);
  });
}

// As sums: a real output has the mean of the real parts.
TEST(Reduce, MeanOfComplexNumbersInARealOutput) {
  NEEDS_DEVICES(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")})
    for (const Dtype dtype : {Dtype::float16, Dtype::float32, Dtype::float64}) {
      Tensor x = ones({2}, {device, Dtype::complex128});
      x.imag().fill_(3.5);
      x.select(0, 1).fill_(2);
      Tensor out = zeros(Shape{}, {device, dtype});
      mean_out(out, x);
      EXPECT_EQ(out.item<double>(), 1.5);
      EXPECT_EQ(out.dtype(), dtype);
    }
}

// Exact products of twos and threes in every dtype.
TEST(Reduce, Prod) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : dtypes_in(dtypes::any)) {
    // Ones and a few twos: exact in every type, wrapping around in none.
    Tensor x = ones({33, 70}, dtype);
    if (dtype != Dtype::bool_) {
      x.select(0, 3).fill_(2);
      x.select(1, 5).fill_(1);
      x.select(1, 6).mul_(3);
    }
    for (const std::vector<int>& dims : std::vector<std::vector<int>>{{0}, {1}}) {
      const Tensor y = dims[0] == 1 ? x.narrow(1, 0, 12).contiguous() : x;
      const Tensor made = prod(dims[0] == 0 ? y.narrow(0, 0, 6) : y, list_of(dims));
      const Tensor from = dims[0] == 0 ? y.narrow(0, 0, 6) : y;
      EXPECT_EQ(made.dtype(), is_integral(dtype) ? Dtype::int64 : dtype);
      expect_reduced(
          made, from, dims,
          [](const std::vector<Number>& all) {
            Number product = 1;
            for (const Number& value : all) product *= value;
            return product;
          },
          0.5, dtype_name(dtype));
      expect_same(prod(from.to(kDevice), list_of(dims)), made, 0, dtype_name(dtype));
    }
  }
  EXPECT_EQ(prod(tensor({true, true, false})).item<std::int64_t>(), 0);
  EXPECT_EQ(prod(tensor({true, true})).item<std::int64_t>(), 1);
}

// With and without correction, against long double.
TEST(Reduce, VarianceAndDeviation) {
  NEEDS_DEVICES(1);
  each_case(dtypes::floating_complex, [](const Tensor& x, const Tensor& there,
                                         const std::vector<int>& dims, const std::string& text) {
    for (const double correction : {1.0, 0.0}) {
      const auto reference = [&](const std::vector<Number>& all) {
        return var_ref(all, correction);
      };
      const Tensor made = var(x, list_of(dims), correction);
      EXPECT_EQ(made.dtype(), real_dtype(x.dtype()));
      expect_reduced(made, x, dims, reference, 16, text);
      expect_reduced(var(there, list_of(dims), correction), x, dims, reference, 16, text);
      const auto root = [&](const std::vector<Number>& all) {
        return std::sqrt(var_ref(all, correction));
      };
      expect_reduced(ember::std(there, list_of(dims), correction), x, dims, root, 16, text);
    }
  });
  // Far from zero: no digits may be lost.
  std::vector<double> numbers;
  for (int i = 0; i < 10000; ++i) numbers.push_back(1e6 + i % 3);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor(numbers).to(Options(Dtype::float32, Device(place)));
    expect_reduced(
        var(x), x, {}, [](const auto& all) { return var_ref(all, 1); }, 1000, place);
    EXPECT_TRUE(std::isnan(var(tensor({1.0F}, place)).item<float>()));
    EXPECT_TRUE(std::isinf(var(tensor({1.0F, 2.0F}, place), {}, 5).item<float>()));
    EXPECT_TRUE(std::isnan(var(tensor({1.0F, 2.0F, INFINITY}, place)).item<float>()));
    EXPECT_TRUE(std::isnan(var(zeros({0}, place)).item<float>()));
  }
}

// Values and positions, one dimension or all, against a loop.
TEST(Reduce, Extremes) {
  NEEDS_DEVICES(1);
  each_case(dtypes::real_or_bool, [](const Tensor& x, const Tensor& there,
                                     const std::vector<int>& dims, const std::string& text) {
    for (const bool largest : {true, false}) {
      const auto first = [&](const std::vector<Number>& all) {
        std::size_t at = 0;
        for (std::size_t i = 1; i < all.size(); ++i)
          if (largest ? all[i].real() > all[at].real() : all[i].real() < all[at].real()) at = i;
        return at;
      };
      const Reference value = [&](const auto& all) { return all[first(all)]; };
      const Reference index = [&](const auto& all) {
        return Number(static_cast<long double>(first(all)));
      };
      const Tensor made = largest ? amax(x, list_of(dims)) : amin(x, list_of(dims));
      expect_reduced(made, x, dims, value, 0, text);
      expect_same(largest ? amax(there, list_of(dims)) : amin(there, list_of(dims)), made, 0, text);
      if (dims.size() > 1) continue;
      std::optional<std::int64_t> dim;
      if (!dims.empty()) dim = dims[0];
      if (!dim) expect_same(largest ? there.max() : there.min(), made, 0, text);
      const bool positions = x.dtype() != Dtype::bool_;  // of bools only with their values
      if (!dim && !positions) continue;
      const auto position = [&](const Tensor& of) {
        if (positions) return largest ? argmax(of, dim) : argmin(of, dim);
        return largest ? max(of, *dim).indices : min(of, *dim).indices;
      };
      const Tensor where = position(x);
      EXPECT_EQ(where.dtype(), Dtype::int64);
      expect_reduced(where, x, dims, index, 0, text);
      expect_same(position(there), where, 0, text);
      if (!dim) continue;
      const auto here = largest ? max(x, *dim) : min(x, *dim);
      expect_same(here.values, made, 0, text);
      expect_same(here.indices, where, 0, text);
      const auto both = largest ? max(there, *dim, true) : min(there, *dim, true);
      expect_same(both.values, x.dim() == 0 ? made : made.unsqueeze(*dim), 0, text);
      expect_same(both.indices, x.dim() == 0 ? where : where.unsqueeze(*dim), 0, text);
    }
  });
}

TEST(Reduce, BoolsHaveNoPositions) {
  const Tensor x = zeros({3}, Dtype::bool_);
  EXPECT_ERROR(x.argmax(), Error, "argmax(): does not support bool input");
  EXPECT_ERROR(x.argmin(0), Error, "argmin(): does not support bool input");
}

TEST(Reduce, NanIsTheExtremeAndTheFirstOneCounts) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : dtypes_in(dtypes::floating))
      for (const std::int64_t count : {5, 100, 1000, 70000}) {
        Tensor x = full({count, 3}, -kInf, {dtype, Device(place)});
        EXPECT_EQ(argmax(x, 0).select(0, 0).item<std::int64_t>(), 0);
        EXPECT_EQ(argmax(x).item<std::int64_t>(), 0);
        x.fill_(2);
        x.select(0, count - 1).select(0, 1).fill_(kNan);
        x.select(0, count - 2).select(0, 1).fill_(kNan);
        x.select(0, count / 2).select(0, 2).fill_(kInf);
        EXPECT_EQ(values<std::int64_t>(argmax(x, 0)),
                  (std::vector<std::int64_t>{0, count - 2, count / 2}));
        EXPECT_EQ(values<std::int64_t>(argmin(x, 0)), (std::vector<std::int64_t>{0, count - 2, 0}));
        EXPECT_EQ(argmax(x).item<std::int64_t>(), (count - 2) * 3 + 1);
        EXPECT_EQ(argmin(x.t()).item<std::int64_t>(), 2 * count - 2);
        EXPECT_TRUE(std::isnan(x.max().item<double>()));
        EXPECT_TRUE(std::isnan(x.min().item<double>()));
        EXPECT_TRUE(std::isnan(x.sum().item<double>()));
        const auto most = values<double>(amax(x, 0));
        EXPECT_EQ(most[0], 2);
        EXPECT_TRUE(std::isnan(most[1]));
        EXPECT_EQ(most[2], kInf);
      }
}

TEST(Reduce, TheExtremeOfEqualZerosIsTheFirstOne) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    for (const std::int64_t count : {5, 100, 70000})
      for (const double first : {0.0, -0.0}) {
        Tensor x = full({count}, -first, place);
        x.select(0, 0).fill_(first);
        const auto most = max(x, 0);
        const auto least = min(x, 0);
        EXPECT_EQ(most.indices.item<std::int64_t>(), 0);
        EXPECT_EQ(least.indices.item<std::int64_t>(), 0);
        EXPECT_EQ(std::signbit(most.values.item<double>()), std::signbit(first));
        EXPECT_EQ(std::signbit(least.values.item<double>()), std::signbit(first));
      }
}

TEST(Reduce, TheFirstOfEqualsIsTakenOnEitherSideOfEveryBorder) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    for (const std::int64_t stride : {1, 2})
      for (const std::int64_t count : {7, 40, 513, 1100, 2600}) {
        const Tensor all = full({count * stride}, -3.0, place);
        Tensor x = all.as_strided({count}, {stride});
        for (const std::int64_t first : {0L, 3L, 31L, 255L, 511L, 512L, 1024L, 1090L, 2590L}) {
          if (first + 3 >= count) continue;
          const std::int64_t last = count - 1;
          x.fill_(-3);
          x.select(0, first).fill_(-0.0);
          x.select(0, first + 2).fill_(0.0);
          x.select(0, last).fill_(0.0);
          EXPECT_EQ(argmax(x).item<std::int64_t>(), first) << count << " " << stride;
          EXPECT_TRUE(std::signbit(x.max().item<double>())) << count << " " << first;
          EXPECT_EQ(argmin(x).item<std::int64_t>(), first == 0 ? 1 : 0);
          // A number that is better comes before NaN, and after it.
          x.select(0, 0).fill_(9);
          x.select(0, first + 1).fill_(kNan);
          x.select(0, last).fill_(kNan);
          x.select(0, last - 1).fill_(first + 1 == last - 1 ? kNan : 10);
          EXPECT_EQ(argmax(x).item<std::int64_t>(), first + 1) << count << " " << stride;
          EXPECT_EQ(argmin(x).item<std::int64_t>(), first + 1) << count << " " << stride;
          EXPECT_TRUE(std::isnan(x.max().item<double>()));
        }
      }
}

// Against counting zeros; uint8 answers in uint8.
TEST(Reduce, AnyAllAndCounts) {
  NEEDS_DEVICES(1);
  const auto zeros_in = [](const std::vector<Number>& all) {
    return static_cast<long double>(std::count(all.begin(), all.end(), Number(0)));
  };
  each_case(dtypes::any, [&](const Tensor& x, const Tensor& there, const std::vector<int>& dims,
                             const std::string& text) {
    const Tensor some = any(there, list_of(dims));
    const Tensor every = all(there, list_of(dims));
    const Dtype truth = x.dtype() == Dtype::uint8 ? Dtype::uint8 : Dtype::bool_;
    EXPECT_EQ(some.dtype(), truth);
    EXPECT_EQ(every.dtype(), truth);
    expect_reduced(
        some, x, dims,
        [&](const auto& all) {
          return Number(zeros_in(all) < static_cast<long double>(all.size()) ? 1 : 0);
        },
        0, text);
    expect_reduced(
        every, x, dims, [&](const auto& all) { return Number(zeros_in(all) == 0 ? 1 : 0); }, 0,
        text);
    const Tensor number = count_nonzero(there, list_of(dims));
    EXPECT_EQ(number.dtype(), Dtype::int64);
    expect_reduced(
        number, x, dims,
        [&](const auto& all) {
          return Number(static_cast<long double>(all.size()) - zeros_in(all));
        },
        0, text);
    expect_same(number, count_nonzero(x, list_of(dims)), 0, text);
  });
  EXPECT_EQ(count_nonzero(tensor({0.0F, -0.0F, NAN, 1.0F}).to(Dtype::float16)).item<int>(), 2);
  EXPECT_TRUE(any(tensor({0.0F, NAN})).item<bool>());
}

// Rows and columns of several blocks, in which one element decides, or none.
TEST(Reduce, AnyAndAllBelongToTheirOwnRow) {
  NEEDS_DEVICES(1);
  const std::int64_t rows = 1300;
  const std::int64_t columns = 1200;
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : {Dtype::bool_, Dtype::float32, Dtype::int64})
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{511}, rows - 1}) {
        Tensor x = zeros({rows, columns}, {dtype, Device(place)});
        x.select(0, at).select(0, 7).fill_(1);
        std::vector<bool> row(static_cast<std::size_t>(rows), false);
        std::vector<bool> column(static_cast<std::size_t>(columns), false);
        row[static_cast<std::size_t>(at)] = true;
        column[7] = true;
        EXPECT_EQ(values<bool>(any(x, {1})), row);
        EXPECT_EQ(values<bool>(any(x, {0})), column);
        EXPECT_TRUE(any(x).item<bool>());
        EXPECT_FALSE(any(x.select(1, 8)).item<bool>());
        row.flip();
        column.flip();
        const Tensor others = x.logical_not();
        EXPECT_EQ(values<bool>(all(others, {1})), row);
        EXPECT_EQ(values<bool>(all(others, {0})), column);
        EXPECT_FALSE(all(others).item<bool>());
        EXPECT_TRUE(all(others.select(1, 8)).item<bool>());
        EXPECT_EQ(count_nonzero(x).item<std::int64_t>(), 1);
      }
}

TEST(Reduce, NanStaysInItsColumn) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : dtypes_in(dtypes::floating))
      for (const std::int64_t row : {0, 1, 63, 64, 150, 199}) {
        Tensor x = full({200, 700}, 2, {dtype, Device(place)});
        x.select(0, row).select(0, 600).fill_(kNan);
        x.select(0, 120).select(0, 3).fill_(5);
        for (const bool largest : {true, false}) {
          const auto best = values<double>(largest ? amax(x, {0}) : amin(x, {0}));
          const auto where = values<std::int64_t>(largest ? argmax(x, 0) : argmin(x, 0));
          for (std::size_t c = 0; c < best.size(); ++c) {
            if (c == 600) {
              EXPECT_TRUE(std::isnan(best[c]));
              EXPECT_EQ(where[c], row);
            } else {
              EXPECT_EQ(best[c], c == 3 && largest ? 5 : 2);
              EXPECT_EQ(where[c], c == 3 && largest ? 120 : 0);
            }
          }
        }
      }
}

// p = 2, 1, 0, 3 and both infinities, against long double.
TEST(Reduce, Norms) {
  NEEDS_DEVICES(1);
  each_case(dtypes::floating_complex, [](const Tensor& x, const Tensor& there,
                                         const std::vector<int>& dims, const std::string& text) {
    for (const double p : {2.0, 1.0, 0.0, 3.0, kInf, -kInf}) {
      const auto reference = [&](const std::vector<Number>& all) -> Number {
        long double size = p == -kInf ? kInf : 0;
        for (const Number& value : all) {
          const long double a = std::abs(value);
          if (p == 0)
            size += a != 0;
          else if (std::isinf(p))
            size = p > 0 ? std::max(size, a) : std::min(size, a);
          else
            size += p == 3 ? a * a * a : p == 2 ? a * a : a;
        }
        if (p == 0 || std::isinf(p)) return size;
        return std::pow(size, 1 / static_cast<long double>(p));
      };
      const std::string what = text + ", p = " + std::to_string(p);
      const Tensor made = norm(x, p, list_of(dims));
      EXPECT_EQ(made.dtype(), real_dtype(x.dtype()));
      expect_reduced(made, x, dims, reference, 16, what);
      expect_reduced(norm(there, p, list_of(dims)), x, dims, reference, 16, what);
    }
  });
}

// Powers that no float32 holds are none of the result's business.
TEST(Norms, DoNotOverflowOnTheWay) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = full({100}, 1e30, Device(place));
    EXPECT_NEAR(x.norm().item<double>(), 1e31, 1e25);
    EXPECT_NEAR(x.norm(3).item<double>(), 1e30 * std::cbrt(100.0), 1e25);
    EXPECT_NEAR(full({4}, 1e-30, Device(place)).norm().item<double>(), 2e-30, 1e-36);
    const Tensor complex = full({2, 2}, std::complex<double>(3e30, 4e30), {complex64, place});
    EXPECT_NEAR(complex.norm().item<double>(), 1e31, 1e25);
  }
}

// One element is as large as its norm, whatever its square and its reciprocal would be.
TEST(Norms, OfSingleElementsAreTheirSizes) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const std::vector<std::pair<Dtype, double>> numbers{
        {bfloat16, 0x1.fep127}, {bfloat16, 0x1p-126}, {bfloat16, 0x1p-133},
        {float16, 65504},       {float64, 1e200},     {float64, -1e200},
        {float64, 0x1p-1022},   {float64, kInf},      {float32, 0}};
    for (const auto& [dtype, number] : numbers) {
      const Tensor x = full({3, 1}, number, {dtype, place});
      for (const double p : {2.0, 3.0, 0.5, 1.0, -1.0, -2.5, kInf, -kInf}) {
        SCOPED_TRACE(std::to_string(number) + ", p = " + std::to_string(p));
        const double size = std::abs(number);
        EXPECT_EQ(values<double>(x.norm(p, 1).to(float64)),
                  (std::vector<double>{size, size, size}));
        EXPECT_EQ(x.select(0, 0).norm(p).item<double>(), size);
        EXPECT_EQ(full({}, number, {dtype, place}).norm(p).item<double>(), size);
      }
      EXPECT_EQ(x.select(0, 0).norm(0).item<double>(), number == 0 ? 0 : 1);
    }
    const Tensor complex = full({1}, std::complex<double>(3e200, -4e200), {complex128, place});
    EXPECT_DOUBLE_EQ(complex.norm().item<double>(), 5e200);
    EXPECT_TRUE(std::isnan(full({1}, NAN, Device(place)).norm().item<double>()));
  }
}

// The output's dtype is that of the sum: elements are converted before they are added up.
TEST(Reduce, SumsIntoOutputsOfLesserKinds) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor({-9.5, -0.5, 8.5, 2.5, 0.0, 3.9}).view({2, 3}).to(Device(place));
    Tensor whole = empty({2}, {int64, place});
    EXPECT_EQ(values<std::int64_t>(sum_out(whole, x, 1)), (std::vector<std::int64_t>{-1, 5}));
    EXPECT_EQ(values<std::int64_t>(prod_out(whole, x + 4, 1)),
              (std::vector<std::int64_t>{-5 * 3 * 12, 6 * 4 * 7}));
    Tensor small = empty({2}, {uint8, place});
    EXPECT_EQ(values<std::uint8_t>(sum_out(small, x + 10, 1)),
              (std::vector<std::uint8_t>{0 + 9 + 18, 12 + 10 + 13}));
    Tensor truth = empty({2}, {bool_, place});
    EXPECT_EQ(values<bool>(sum_out(truth, x, 1)), (std::vector<bool>{true, true}));
    EXPECT_EQ(values<bool>(prod_out(truth, x, 1)), (std::vector<bool>{true, false}));
    Tensor real = empty({2}, {float32, place});
    EXPECT_EQ(values<float>(sum_out(real, x.to(complex64), 1)), (std::vector<float>{-1.5, 6.4F}));
    Tensor wide = empty({2}, {uint64, place});
    EXPECT_EQ(values<std::int64_t>(sum_out(wide, x + 10, 1).to(int64)),
              (std::vector<std::int64_t>{27, 35}));
  }
}

// Elements become the dtype first, and sums and products wrap around.
TEST(Reduce, SumsOfFloatsAsWideUnsignedIntegers) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor({3.7, 40000.9, 30000.0}).to(Device(place));
    const auto whole = [](const Tensor& made, Dtype dtype) {
      EXPECT_EQ(made.dtype(), dtype);
      return made.to(int64).item<std::int64_t>();
    };
    for (const Tensor& from : {x, x.to(complex64), x.to(float64)}) {
      const std::int64_t sum = 3 + 40000 + 30000;
      EXPECT_EQ(whole(from.sum({}, false, uint16), uint16), sum - 65536);
      EXPECT_EQ(whole(from.sum(0, false, uint32), uint32), sum);
      EXPECT_EQ(whole(from.sum({}, false, uint64), uint64), sum);
      EXPECT_EQ(whole(from.prod({}, false, uint16), uint16), 3600000000LL % 65536);
      EXPECT_EQ(whole(from.prod(0, false, uint64), uint64), 3600000000LL);
    }
    const Tensor large = full({2}, 0x1p63, {float64, place});
    EXPECT_EQ(whole(large.sum({}, false, uint64), uint64), 0);
    EXPECT_EQ(large.select(0, 0).sum({}, false, uint64).item<std::uint64_t>(),
              std::uint64_t{1} << 63);
  }
}

TEST(Reduce, NothingHasANeutralElementOrAnError) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = zeros({0, 3}, place);
    EXPECT_EQ(values<double>(x.sum(0)), (std::vector<double>{0, 0, 0}));
    EXPECT_EQ(values<double>(x.prod(0)), (std::vector<double>{1, 1, 1}));
    EXPECT_EQ(x.sum(1).sizes(), Shape({0}));
    EXPECT_EQ(x.sum(1, true).sizes(), Shape({0, 1}));
    EXPECT_EQ(x.sum().item<double>(), 0);
    EXPECT_TRUE(std::isnan(x.mean().item<double>()));
    EXPECT_TRUE(std::isnan(values<double>(x.var(0, -1))[2]));
    EXPECT_FALSE(x.any().item<bool>());
    EXPECT_TRUE(x.all().item<bool>());
    EXPECT_EQ(values<bool>(x.all(0)), (std::vector<bool>{true, true, true}));
    EXPECT_EQ(x.count_nonzero().item<int>(), 0);
    EXPECT_EQ(x.norm().item<double>(), 0);
    EXPECT_EQ(x.argmax(1).sizes(), Shape({0}));
    EXPECT_EQ(x.max(1).values.sizes(), Shape({0}));
    EXPECT_EQ(x.amax(1, true).sizes(), Shape({0, 1}));
    EXPECT_ERROR(x.max(), Error,
                 "max(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                 "the reduction dim with the 'dim' argument.");
    EXPECT_ERROR(x.argmin(), IndexError, "argmin(): Expected reduction dim to be specified");
    EXPECT_ERROR(x.min(0), IndexError, "min(): Expected reduction dim 0 to have non-zero size.");
    EXPECT_ERROR(x.argmax(0), IndexError,
                 "argmax(): Expected reduction dim 0 to have non-zero size.");
    EXPECT_ERROR(x.amax({0, 1}), IndexError,
                 "amax(): Expected reduction dim 0 to have non-zero size.");
    EXPECT_ERROR(x.norm(kInf), Error, "does not have an identity");
  }
}

// Dimensions and dtypes that are refused, in torch's words.
TEST(Reduce, ErrorsAndTypes) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = ones({2, 3}, place);
    EXPECT_ERROR(x.sum(2), IndexError,
                 "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    EXPECT_ERROR(x.sum({0, -2}), Error, "dim 0 appears multiple times in the list of dims");
    const Tensor n = ones({2, 3}, {Dtype::int64, Device(place)});
    EXPECT_ERROR(
        n.mean(), Error,
        "mean(): could not infer output dtype. Input dtype must be either a floating point "
        "or complex dtype. Got: Long");
    EXPECT_ERROR(x.mean({}, false, Dtype::int32), Error, "Optional dtype must be");
    EXPECT_ERROR(n.var(), Error, "std and var only support floating point and complex dtypes");
    EXPECT_ERROR(n.norm(), Error,
                 "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                 "Long");
    EXPECT_ERROR(x.to(Dtype::complex64).max(), NotImplementedError,
                 "\"max\" not implemented for 'ComplexFloat'");
    EXPECT_EQ(n.mean({}, false, Dtype::float64).dtype(), Dtype::float64);
    EXPECT_EQ(n.sum(0, false, Dtype::float32).dtype(), Dtype::float32);
    EXPECT_EQ(n.to(Dtype::uint8).sum().dtype(), Dtype::int64);
    EXPECT_EQ(n.to(Dtype::uint8).mul(100).sum({}, false, Dtype::uint8).item<int>(), 600 % 256);
    EXPECT_EQ(x.sum(1, true).sizes(), Shape({2, 1}));
    EXPECT_EQ(x.sum({0, 1}, true).sizes(), Shape({1, 1}));
    EXPECT_EQ(x.argmax({}, true).sizes(), Shape({1, 1}));
    // Signed sums wrap around.
    const Tensor big =
        full({3}, std::numeric_limits<std::int64_t>::max(), {Dtype::int64, Device(place)});
    EXPECT_EQ(big.sum().item<std::int64_t>(), std::numeric_limits<std::int64_t>::max() - 2);
    // Many small numbers in a half: only the result is rounded.
    const Tensor halves = ones({4096}, {Dtype::float16, Device(place)});
    EXPECT_EQ(halves.sum().item<float>(), 4096);
    EXPECT_EQ(halves.mean().item<float>(), 1);
  }
}

TEST(Reduce, IntoAnOutput) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = arange(6, Options(Dtype::float32, Device(place))).reshape({2, 3});
    Tensor out = empty({0}, place);
    sum_out(out, x, 0);
    EXPECT_EQ(values<float>(out), (std::vector<float>{3, 5, 7}));
    Tensor wide = empty({3}, {Dtype::float64, Device(place)});
    sum_out(wide, x, 0);
    EXPECT_EQ(values<double>(wide), (std::vector<double>{3, 5, 7}));
    Tensor gaps = zeros({3, 2}, place);
    Tensor column = gaps.select(1, 1);
    amax_out(column, x, 0);
    EXPECT_EQ(values<float>(gaps), (std::vector<float>{0, 3, 0, 4, 0, 5}));
    Tensor whole = empty({2}, {Dtype::int64, Device(place)});
    EXPECT_ERROR(mean_out(whole, x, 1), Error,
                 "result type Float can't be cast to the desired output type Long");
    Tensor value = empty({0}, place);
    Tensor index = empty({0}, {Dtype::int64, Device(place)});
    max_out(value, index, x, 1, true);
    EXPECT_EQ(values<float>(value), (std::vector<float>{2, 5}));
    EXPECT_EQ(values<std::int64_t>(index), (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(index.sizes(), Shape({2, 1}));
    // The output is a part of the input.
    Tensor y = x.clone();
    Tensor first = y.select(0, 0);
    EXPECT_ERROR(sum_out(first, y, 0), Error, "refer to a single memory location");
    Tensor device = empty({0}, place == std::string("cpu") ? kDevice : "cpu");
    EXPECT_ERROR(sum_out(device, x), Error, "Expected all tensors to be on the same device");
    Tensor number = empty({0}, {Dtype::int32, Device(place)});
    EXPECT_EQ(sum_out(number, x.to(Dtype::int32), 1).dtype(), Dtype::int32);
    EXPECT_EQ(values<int>(number), (std::vector<int>{3, 12}));
  }
}

TEST(Reduce, OutputsOfOtherTypesAreRefused) {
  const Tensor x = ones({2, 3});
  Tensor wide = empty({2}, Dtype::float64);
  Tensor narrow = empty({2}, Dtype::int32);
  Tensor index = empty({2}, Dtype::int64);
  Tensor value = empty({2});
  const char* const text = "Expected out tensor to have dtype float32, but got float64 instead";
  const char* const match =
      "Expected the dtype for input and out to match, but got Float for input's dtype and Double "
      "for out's dtype.";
  EXPECT_ERROR(amax_out(wide, x, 1), Error, match);
  EXPECT_ERROR(amin_out(wide, x, 1), Error, match);
  EXPECT_ERROR(max_out(wide, index, x, 1), Error, text);
  EXPECT_ERROR(sum_out(wide, x, 1, false, Dtype::float32), Error, text);
  EXPECT_ERROR(mean_out(wide, x, 1, false, Dtype::float32), Error, text);
  EXPECT_ERROR(min_out(value, narrow, x, 1), Error, "to have dtype int64, but got int32 instead");
  EXPECT_ERROR(argmax_out(narrow, x, 1), Error, "to have dtype int64, but got int32 instead");
  EXPECT_ERROR(any_out(narrow, x, 1), Error, "to have dtype bool, but got int32 instead");
  Tensor bytes = empty({2}, Dtype::uint8);
  EXPECT_EQ(values<int>(all_out(bytes, x.mul(256).to(Dtype::int64), 1)), (std::vector<int>{1, 1}));
  Tensor flags = empty({2}, Dtype::bool_);
  EXPECT_EQ(values<bool>(any_out(flags, x.to(Dtype::uint8), 1)), (std::vector<bool>{true, true}));
  Tensor one = empty({}, Dtype::float64);
  EXPECT_EQ(max_out(one, x).item<double>(), 1);
  Tensor self = x.alias();
  EXPECT_ERROR(amax_out(self, self, 1), Error, "and can't be resized: it shares memory");
}

TEST(Reduce, IsAccurate) {
  NEEDS_DEVICES(1);
  // A naive sum of so many floats would be wrong in the third digit.
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = full({3000000}, 0.1F, place);
    EXPECT_NEAR(x.sum().item<double>(), 3000000 * static_cast<double>(0.1F), 0.2);
    const Tensor columns = full({200000, 16}, 0.1F, place);
    for (const double value : values<double>(columns.sum(0)))
      EXPECT_NEAR(value, 200000 * static_cast<double>(0.1F), 0.02);
  }
}

TEST(Reduce, IsTheSameEveryTime) {
  NEEDS_DEVICES(1);
  const Tensor x = sample(Dtype::float32, {1031, 977}, 5).mul(1.37).to(kDevice);
  const Tensor first = x.sum();
  const Tensor columns = x.var(0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(x.sum().item<float>(), first.item<float>());
    EXPECT_EQ(values<float>(x.var(0)), values<float>(columns));
  }
}

}  // namespace
}  // namespace ember::test
