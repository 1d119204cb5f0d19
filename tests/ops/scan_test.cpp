// cumsum and cumprod against loops in long double.
#include <complex>
#include <limits>

#include "tests/ops/support.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

using Wide = std::complex<long double>;

/// The elements in rows along a dimension.
std::vector<Wide> rows_of(const Tensor& x, std::int64_t dim) {
  const Tensor turned = (x.dim() == 0 ? x.view({1}) : x.transpose(dim, -1)).contiguous();
  const auto parts = values<double>(turned.to(Dtype::complex128).view_as_real());
  std::vector<Wide> out;
  for (std::size_t i = 0; i < parts.size(); i += 2) out.emplace_back(parts[i], parts[i + 1]);
  return out;
}

/// Small numbers, so that sums of the narrowest types stay in range; exact in all of them.
Tensor sample(Dtype dtype, const Shape& sizes) {
  std::vector<double> numbers(static_cast<std::size_t>(element_count(sizes)));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<double>(i * i % 11) / 4 - (i % 3 == 0 ? 1.5 : 0.75);
  Tensor made = tensor(numbers);
  if (is_integral(dtype) && !is_signed(dtype)) made = made.abs();
  made = made.to(dtype);
  if (is_complex_dtype(dtype)) made = made.mul(Scalar(std::complex<double>(1, 0.5)));
  return made.reshape(sizes);
}

/// `units` of the last place of the result's type, relative to the sum of all sizes.
void expect_scanned(const Tensor& result, const Tensor& x, std::int64_t dim, bool product,
                    double units, const std::string& what) {
  ASSERT_EQ(result.sizes().str(), x.sizes().str()) << what;
  EXPECT_TRUE(result.is_contiguous()) << what;
  if (x.numel() == 0) return;
  const auto in = rows_of(x, dim);
  const auto out = rows_of(result, dim);
  const auto n = static_cast<std::size_t>(x.dim() == 0 ? 1 : x.size(dim));
  for (std::size_t row = 0; row < in.size(); row += n) {
    Wide expected = product ? 1 : 0;
    long double size = product ? 1 : 0;
    for (std::size_t i = row; i < row + n; ++i) {
      expected = product ? expected * in[i] : expected + in[i];
      size = product ? size * std::abs(in[i]) : size + std::abs(in[i]);
      const double bound = units * epsilon(result.dtype()) * static_cast<double>(size) + 1e-290;
      ASSERT_LE(static_cast<double>(std::abs(out[i] - expected)), bound)
          << what << ": row " << row / n << ", element " << i - row;
    }
  }
}

struct ScanCase {
  Shape sizes;
  std::int64_t dim;
};
const std::vector<ScanCase> kScanCases = {
    {{}, 0},          {{}, -1},        {{0}, 0},       {{3, 0}, 0},    {{3, 0}, 1},
    {{1}, 0},         {{33}, 0},       {{5, 100}, 1},  {{100, 5}, 0},  {{4, 70, 9}, 1},
    {{3, 20, 40}, 1}, {{3, 700}, -1},  {{2, 9000}, 1}, {{300, 64}, 0}, {{2, 3000, 37}, 1},
    {{6, 1, 4}, 1},   {{1, 1, 600}, 2}};

/// Rows beyond a thousand lose so much in the narrow types that there is nothing to compare.
double units_for(Dtype dtype, std::int64_t n) {
  if (item_size(real_dtype(dtype)) == 2) return 2;
  return 2 + static_cast<double>(n) / 256;
}

TEST(Scan, SumsOfAllTypesAndShapes) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : all_dtypes())
    for (const ScanCase& c : kScanCases) {
      const Tensor x = sample(dtype, c.sizes);
      const std::string what = std::string("cumsum of ") + dtype_name(dtype) + " " + c.sizes.str() +
                               " along " + std::to_string(c.dim);
      const Tensor here = cumsum(x, c.dim);
      EXPECT_EQ(here.dtype(), is_integral(dtype) ? Dtype::int64 : dtype) << what;
      const std::int64_t n = x.dim() == 0 ? 1 : x.size(c.dim);
      expect_scanned(here, x, c.dim, false, 1, what);
      const Tensor there = x.to(kDevice).cumsum(c.dim);
      if (cuda::is_simulated()) expect_same(there, here, 0, what);
      expect_scanned(there, x, c.dim, false, units_for(here.dtype(), n), what);
      if (HasFailure()) return;
    }
}

TEST(Scan, ProductsOfAllTypes) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : all_dtypes())
    for (const Shape& sizes : {Shape{}, Shape{0}, Shape{12}, Shape{3, 20}, Shape{20, 3}}) {
      // Near one, so that nothing leaves the range.
      Tensor x = sample(dtype, sizes);
      if (is_floating_point(dtype)) x = x.mul(0.125).add(1);
      if (is_complex_dtype(dtype)) x = x.mul(0.125).add(1);
      const std::string what = std::string("cumprod of ") + dtype_name(dtype) + " " + sizes.str();
      for (std::int64_t dim = 0; dim < std::max(1, x.dim()); ++dim) {
        const Tensor here = cumprod(x, dim);
        EXPECT_EQ(here.dtype(), is_integral(dtype) ? Dtype::int64 : dtype) << what;
        expect_scanned(here, x, dim, true, 32, what);
        const Tensor there = cumprod(x.to(kDevice), dim);
        if (cuda::is_simulated()) expect_same(there, here, 0, what);
        expect_scanned(there, x, dim, true, 64, what);
      }
    }
}

TEST(Scan, LongRows) {
  NEEDS_DEVICES(1);
  // Integers are exact: what a GPU does in tiles has to be right to the last one.
  for (const Shape& sizes : {Shape{300007}, Shape{5, 70001}, Shape{600, 20000 / 8}}) {
    const Tensor x = sample(Dtype::int64, sizes);
    for (const Dtype dtype : one_of_three_if_sanitized(std::vector{
             Dtype::int64, Dtype::float64, Dtype::float32, Dtype::complex64, Dtype::complex128})) {
      const Tensor here = cumsum(x, -1, dtype);
      expect_scanned(here, x, -1, false, 1, "long rows");
      // Whole numbers below 2^24: no type rounds them.
      expect_same(x.to(kDevice).cumsum(-1, dtype), here, 0, "long rows");
    }
  }
  const Tensor ones_there = ones({1 << 22}, {Dtype::float32, kDevice});
  EXPECT_EQ(ones_there.cumsum(0).select(0, -1).item<float>(), 4194304.F);
}

TEST(Scan, RowsOfManyTiles) {
  NEEDS_DEVICES(1);
  // A GPU passes sums on from 128 tiles to the next: rows of several times as many, not aligned.
  constexpr std::int64_t kRows = 2;
  constexpr std::int64_t kLength = 2200001;
  for (const Dtype dtype : {Dtype::int64, Dtype::float32, Dtype::complex128}) {
    const Tensor counted = ones({kRows, kLength}, {dtype, kDevice}).cumsum(1).cpu();
    const Tensor real = counted.is_complex() ? counted.view_as_real().select(-1, 0) : counted;
    const auto got = values<double>(real.contiguous());
    std::vector<double> expected(got.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      expected[i] = static_cast<double>(i % static_cast<std::size_t>(kLength) + 1);
    EXPECT_TRUE(got == expected) << dtype_name(dtype);
  }
}

TEST(Scan, GivesTheSameBitsAgain) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : one_of_three_if_sanitized(std::vector{Dtype::float32, Dtype::float64})) {
    const Tensor x = (arange(0, 5000000, 1, {dtype, kDevice}) * 0.7).sin();
    const auto first = values<double>(x.cumsum(0));
    for (int i = 0; i < 5; ++i)
      ASSERT_TRUE(values<double>(x.cumsum(0)) == first) << dtype_name(dtype);
  }
}

TEST(Scan, IntegersWrapAround) {
  NEEDS_DEVICES(1);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  for (const char* device : {"cpu", kDevice}) {
    const Tensor x = tensor({kMost, std::int64_t{1}, std::int64_t{-1}}).to(Device(device));
    EXPECT_EQ(values<std::int64_t>(x.cumsum(0)),
              (std::vector<std::int64_t>{kMost, -kMost - 1, kMost}));
    EXPECT_EQ(values<std::int64_t>(tensor({kMost, std::int64_t{2}}).to(Device(device)).cumprod(0)),
              (std::vector<std::int64_t>{kMost, -2}));
    const Tensor bytes = full({4}, 100, {Dtype::uint8, Device(device)});
    EXPECT_EQ(values<std::int64_t>(bytes.cumsum(0)),
              (std::vector<std::int64_t>{100, 200, 300, 400}));
    const Tensor narrow = cumsum(bytes, 0, Dtype::uint8);
    EXPECT_EQ(narrow.dtype(), Dtype::uint8);
    EXPECT_EQ(values<std::int64_t>(narrow), (std::vector<std::int64_t>{100, 200, 44, 144}));
  }
}

// What is summed is x.to(dtype): of numbers that the dtype does not hold, whatever those become.
TEST(Scan, TakesNumbersAsTheResultsDtypeHasThem) {
  NEEDS_DEVICES(1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor numbers =
      tensor({1.0, -kInfinity, 2.0, kInfinity, 300.0, -5e9, 1e10, 1e30}, Dtype::float64);
  for (const char* device : {"cpu", kDevice})
    for (const Dtype from : {Dtype::float32, Dtype::float64, Dtype::bfloat16})
      for (const Dtype dtype : {Dtype::int32, Dtype::int16, Dtype::int8, Dtype::uint8}) {
        const Tensor x = numbers.to(from).to(Device(device));
        const std::string what = std::string(dtype_name(from)) + " as " + dtype_name(dtype);
        EXPECT_EQ(values<std::int64_t>(cumsum(x, 0, dtype)),
                  values<std::int64_t>(cumsum(x.to(dtype), 0, dtype)))
            << what;
        EXPECT_EQ(values<std::int64_t>(cumprod(x, 0, dtype)),
                  values<std::int64_t>(cumprod(x.to(dtype), 0, dtype)))
            << what;
      }
}

TEST(Scan, HalvesAreSummedInFloat) {
  NEEDS_DEVICES(1);
  // 4096 halves of one: half itself stops counting at 2048.
  for (const char* device : {"cpu", kDevice})
    for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16})
      EXPECT_EQ(ones({4096}, {dtype, Device(device)}).cumsum(0).select(0, 4095).item<float>(),
                4096.F);
}

// Infinities and NaN go on from where they are.
TEST(Scan, SpecialValues) {
  NEEDS_DEVICES(1);
  for (const char* device : {"cpu", kDevice}) {
    const Tensor x = tensor({1.F, INFINITY, 2.F, -INFINITY, 3.F}).to(Device(device));
    const auto sums = values<float>(x.cumsum(0));
    EXPECT_EQ(sums[0], 1.F);
    EXPECT_EQ(sums[1], INFINITY);
    EXPECT_EQ(sums[2], INFINITY);
    EXPECT_TRUE(std::isnan(sums[3]));
    EXPECT_TRUE(std::isnan(sums[4]));
    const auto products = values<float>(tensor({0.F, 2.F, NAN, 0.F}).to(Device(device)).cumprod(0));
    EXPECT_EQ(products[1], 0.F);
    EXPECT_TRUE(std::isnan(products[2]));
    EXPECT_TRUE(std::isnan(products[3]));
  }
}

TEST(Scan, StridedInputsOutputsAndInPlace) {
  NEEDS_DEVICES(1);
  for (const char* name : {"cpu", kDevice}) {
    const Device device(name);
    const Tensor base = sample(Dtype::float64, {6, 10, 8}).to(device);
    for (const Tensor& x : {base.transpose(0, 2), base.slice(1, 1, 9, 3),
                            base.select(0, 0).unsqueeze(0).expand({4, 10, 8})})
      for (std::int64_t dim = -x.dim(); dim < x.dim(); ++dim)
        expect_scanned(cumsum(x, dim), x, dim, false, 4, "strided");

    Tensor out = empty({0}, {Dtype::float64, device});
    cumsum_out(out, base, 1);
    expect_scanned(out, base, 1, false, 4, "an empty output");
    const Tensor wide = empty({8, 10, 6}, {Dtype::float32, device});
    Tensor turned = wide.transpose(0, 2);
    cumsum_out(turned, base, 0);
    EXPECT_EQ(values<double>(turned), values<double>(base.cumsum(0, Dtype::float32)));

    Tensor own = base.clone();
    EXPECT_TRUE(own.cumsum_(2).is(own));
    EXPECT_EQ(values<double>(own), values<double>(base.cumsum(2)));
    Tensor narrow = base.to(Dtype::int32);
    narrow.cumprod_(0);
    EXPECT_EQ(narrow.dtype(), Dtype::int32);
    EXPECT_EQ(values<std::int32_t>(narrow),
              values<std::int32_t>(base.to(Dtype::int32).cumprod(0).to(Dtype::int32)));

    EXPECT_ERROR(cumsum(base, 3), IndexError, "Dimension out of range");
    EXPECT_ERROR(cumsum(ones({}, device), 1), IndexError, "Dimension out of range");
    EXPECT_ERROR(cumsum(base, 0, Dtype::bool_), NotImplementedError,
                 "\"cumsum\" not implemented for 'Bool'");
    EXPECT_ERROR(base.gt(0).cumprod_(0), NotImplementedError,
                 "\"cumprod\" not implemented for 'Bool'");
  }
  Tensor out = empty({3}, {Dtype::float32, kDevice});
  EXPECT_ERROR(cumsum_out(out, ones({3}), 0), Error,
               "Expected all tensors to be on the same device");
}

}  // namespace
}  // namespace ember::test
