// New tensors: what is in them, of which type, and where.
#include <limits>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

std::vector<const char*> devices() {
  std::vector<const char*> list{"cpu"};
  if (cuda::device_count() > 0) list.push_back(kDevice);
  return list;
}

TEST(Factories, FillEveryType) {
  for (const char* place : devices())
    for (const Dtype dtype : all_dtypes())
      for (const Shape& sizes : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3, 129}}) {
        const Options options(dtype, place);
        const auto count = static_cast<std::size_t>(element_count(sizes));
        EXPECT_EQ(values<double>(zeros(sizes, options)), std::vector<double>(count, 0));
        EXPECT_EQ(values<double>(ones(sizes, options)), std::vector<double>(count, 1));
        const Tensor x = full(sizes, 3, options);
        EXPECT_EQ(values<double>(x), std::vector<double>(count, dtype == bool_ ? 1 : 3));
        EXPECT_EQ(x.dtype(), dtype);
        EXPECT_EQ(x.device().str(), place);
        EXPECT_EQ(x.sizes(), sizes);
      }
}

// Without a dtype the value's kind decides, as in torch.
TEST(Factories, ChooseTheirTypes) {
  EXPECT_EQ(zeros({1}).dtype(), float32);
  EXPECT_EQ(full({1}, 2).dtype(), int64);
  EXPECT_EQ(full({1}, 2.0).dtype(), float32);
  EXPECT_EQ(full({1}, true).dtype(), bool_);
  EXPECT_EQ(full({1}, std::complex<double>(0, 1)).dtype(), complex64);
  EXPECT_EQ(scalar_tensor(7).item<int>(), 7);
  EXPECT_EQ(tensor<int>({1, 2}).dtype(), int32);
  EXPECT_EQ(tensor<double>({1, 2}, float16).dtype(), float16);
  EXPECT_EQ(tensor<long long>({1, 2}).dtype(), int64);
  EXPECT_EQ(
      tensor(std::vector<bool>{}.empty() ? std::vector<float>{} : std::vector<float>{1}).sizes(),
      Shape({0}));
}

// *_like and new_*: dtype, device and, where it is dense, layout.
TEST(Factories, FollowAnotherTensor) {
  for (const char* place : devices()) {
    const Tensor x = zeros({2, 3}, Options(float64, place)).t();
    EXPECT_EQ(empty_like(x).strides(), Shape({1, 3}));
    EXPECT_EQ(ones_like(x).device().str(), place);
    EXPECT_EQ(values<double>(full_like(x, 2.5)), std::vector<double>(6, 2.5));
    EXPECT_EQ(zeros_like(x, int8).dtype(), int8);
    // Gaps are left out, the order of the dimensions stays.
    EXPECT_EQ(empty_like(x.slice(0, 0, 3, 2)).strides(), Shape({1, 2}));
    EXPECT_EQ(zeros({2, 3, 4}, place).slice(2, 0, 4, 2).permute({2, 0, 1}).clone().strides(),
              Shape({1, 6, 2}));
    EXPECT_EQ(empty_like(x.select(0, 0).expand({4, 2})).strides(), Shape({2, 1}));
    EXPECT_EQ(x.new_full({2}, 1).dtype(), float64);
    EXPECT_EQ(x.new_ones({2}, int64).device().str(), place);
    EXPECT_EQ(x.new_zeros({2, 2}).sizes(), Shape({2, 2}));
    EXPECT_EQ(x.new_empty({0}).numel(), 0);
  }
}

TEST(Factories, RefuseBadSizes) {
  EXPECT_ERROR(zeros({-1}), ValueError, "Trying to create tensor with negative dimension -1: [-1]");
  EXPECT_ERROR(zeros({2}, "cuda:99"), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(empty_strided({2, 2}, {1}), Error, "mismatch in length of strides and shape");
  EXPECT_ERROR(empty_strided({2}, {-1}), Error, "Negative strides are not supported");
  EXPECT_ERROR(empty_strided({3}, {INT64_MAX}), ValueError, "spans more than 2^63 elements");
  EXPECT_EQ(empty_strided({0}, {INT64_MAX}).numel(), 0);
  const Tensor x = empty_strided({2, 3}, {1, 4}, int8);
  EXPECT_EQ(x.storage()->bytes(), 10U);
}

TEST(Arange, CountsAsTorchDoes) {
  for (const char* place : devices()) {
    EXPECT_EQ(values<int>(arange(5, Device(place))), std::vector<int>({0, 1, 2, 3, 4}));
    EXPECT_EQ(values<int>(arange(2, 9, 3, Device(place))), std::vector<int>({2, 5, 8}));
    EXPECT_EQ(values<int>(arange(9, 2, -3, Device(place))), std::vector<int>({9, 6, 3}));
    EXPECT_EQ(values<double>(arange(1, 2.5, 0.5, Options(float64, place))),
              std::vector<double>({1, 1.5, 2}));
    EXPECT_EQ(arange(3, Device(place)).dtype(), int64);
    EXPECT_EQ(arange(3.0, Device(place)).dtype(), float32);
    EXPECT_EQ(arange(0, Device(place)).numel(), 0);
    const auto many = values<std::int64_t>(arange(100000, Device(place)));
    for (std::int64_t i = 0; i < 100000; ++i) ASSERT_EQ(many[static_cast<std::size_t>(i)], i);
    for (const Dtype dtype : all_dtypes())
      if (dtype != bool_) {
        EXPECT_EQ(values<double>(arange(4, Options(dtype, place))),
                  std::vector<double>({0, 1, 2, 3}));
      }
  }
  EXPECT_EQ(arange(INT64_MAX - 2, INT64_MAX).numel(), 2);
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).numel(), 3);
  EXPECT_ERROR(arange(0, 5, 0), Error, "step must be nonzero");
  EXPECT_ERROR(arange(0, 5, -1), Error, "bound inconsistent with step sign");
  EXPECT_ERROR(arange(INT64_MAX, INT64_MAX - 1), Error, "bound inconsistent with step sign");
  EXPECT_ERROR(arange(0.0, INFINITY), Error, "unsupported range: 0 -> inf");
  EXPECT_ERROR(arange(NAN, 5.0), Error, "unsupported range: nan -> 5");
  EXPECT_ERROR(arange(INT64_MIN, INT64_MAX), Error, "invalid size, possible overflow?");
  EXPECT_ERROR(arange(0, 1e30), Error, "invalid size, possible overflow?");
  EXPECT_ERROR(arange(3, Options(bool_)), NotImplementedError,
               "\"arange\" not implemented for 'Bool'");
}

TEST(Arange, OfIntegersCountsBetweenIntegers) {
  // What torch 2.11 gives: int64 counts between numbers that are cut off, others between these.
  struct Row {
    double start, end, step;
    std::vector<double> int64s, int32s, float64s;
  };
  const std::vector<Row> rows = {
      {0, 2.5, 1, {0, 1}, {0, 1, 2}, {0, 1, 2}},
      {0, 0.9, 1, {}, {0}, {0}},
      {-0.5, 2.5, 1, {0, 1}, {0, 1, 2}, {-0.5, 0.5, 1.5}},
      {0.5, 3.5, 1, {0, 1, 2}, {0, 1, 2}, {0.5, 1.5, 2.5}},
      {5.75, 0, -1, {5, 4, 3, 2, 1}, {5, 4, 3, 2, 1, 0}, {5.75, 4.75, 3.75, 2.75, 1.75, 0.75}},
      {5, 1, -1.5, {5, 4, 3, 2}, {5, 4, 3}, {5, 3.5, 2}},
      {5, 1, -2.5, {5, 3}, {5, 3}, {5, 2.5}},
      {0, -2.5, -1, {0, -1}, {0, -1, -2}, {0, -1, -2}},
      {3, 3, -1, {}, {}, {}},
  };
  for (const char* place : devices()) {
    for (const auto& [start, end, step, int64s, int32s, float64s] : rows) {
      const std::string what = std::to_string(start) + " to " + std::to_string(end);
      EXPECT_EQ(values<double>(arange(start, end, step, Options(int64, place))), int64s) << what;
      EXPECT_EQ(values<double>(arange(start, end, step, Options(int32, place))), int32s) << what;
      EXPECT_EQ(values<double>(arange(start, end, step, Options(float64, place))), float64s)
          << what;
    }
    EXPECT_EQ(arange(2.5, Options(int64, place)).numel(), 2);
  }
  EXPECT_ERROR(arange(0, 5, 0.5, int64), Error, "step must be nonzero");
  EXPECT_ERROR(arange(0, -2.5, 1, int64), Error, "bound inconsistent with step sign");
  EXPECT_ERROR(arange(0, 1e19, 1e18, int64), Error, "value cannot be converted to type int64");
  EXPECT_ERROR(arange(1e19, 2e19, 1e18, int32), Error, "value cannot be converted to type int64");
  constexpr std::uint64_t kBeyond = std::uint64_t{1} << 63;
  EXPECT_ERROR(arange(kBeyond), Error, "9223372036854775808");
  EXPECT_ERROR(arange(0, kBeyond, 1 << 30), Error, "9223372036854775808");
  EXPECT_EQ(
      values<double>(arange(kBeyond, std::uint64_t{0xc000000000000000}, kBeyond / 4, float64)),
      (std::vector<double>{0x1p63, 0x1.4p63}));
}

TEST(Tensors, OfNumbersThatTheDtypeHolds) {
  // As full does; floating types round.
  EXPECT_ERROR(tensor({300}, int8), Error,
               "value cannot be converted to type int8 without overflow");
  EXPECT_ERROR(tensor({1, -129}, int8), Error, "-129");
  EXPECT_ERROR(tensor<std::int64_t>({std::int64_t{1} << 40}, int32), Error, "type int32");
  EXPECT_ERROR(tensor({1e10}, int32), Error, "type int32");
  EXPECT_ERROR(tensor({NAN}, int64), Error, "type int64");
  EXPECT_ERROR(tensor({std::complex<double>(1, 2)}, int64), Error, "type int64");
  EXPECT_ERROR(tensor({std::complex<float>(1, 2)}, float32), Error, "type float32");
  EXPECT_ERROR(tensor(std::vector<int>{0, 256}, uint8), Error, "type uint8");
  for (const char* place : devices()) {
    EXPECT_EQ(values<int>(tensor({127, -128}, Options(int8, place))),
              (std::vector<int>{127, -128}));
    EXPECT_EQ(values<int>(tensor({1.5, -1.5}, Options(int8, place))), (std::vector<int>{1, -1}));
    EXPECT_EQ(values<int>(tensor({3, 0}, Options(bool_, place))), (std::vector<int>{1, 0}));
    EXPECT_EQ(values<float>(tensor({1e6}, Options(float16, place)))[0], INFINITY);
    EXPECT_EQ(values<double>(tensor({std::complex<double>(1.5, 0)}, Options(float64, place)))[0],
              1.5);
    EXPECT_EQ(tensor({}, Options(int8, place)).numel(), 0);
  }
}

TEST(Numbers, Unsigned) {
  constexpr std::uint64_t kNumber = std::uint64_t{1} << 63;
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const std::vector<Dtype> wide = {float32, float64, bfloat16, complex64, complex128};
  for (const char* place : devices()) {
    for (const Dtype dtype : wide) {
      const Options options(dtype, place);
      const Tensor one = ones({2}, options);
      const char* const what = dtype_name(dtype);
      EXPECT_EQ(values<double>(full({2}, kNumber, options)[0])[0], 0x1p63) << what;
      EXPECT_EQ(values<double>(full({2}, kMost, options)[0])[0], 0x1p64) << what;
      EXPECT_EQ(values<double>((one + kNumber)[0])[0], 0x1p63) << what;
      EXPECT_EQ(values<double>((one * kMost)[0])[0], 0x1p64) << what;
      EXPECT_EQ(values<double>(add(one, one, kNumber)[0])[0], 0x1p63) << what;
      EXPECT_EQ(values<double>(sub(one, one, kNumber)[0])[0], -0x1p63) << what;
      EXPECT_EQ(values<double>(addcmul(one, one, one, kNumber)[0])[0], 0x1p63) << what;
      EXPECT_TRUE(one.ne(kNumber).all().item<bool>()) << what;
      Tensor x = one.clone();
      x.index_put_({0}, kNumber);
      x[1].fill_(kMost);
      EXPECT_EQ(values<double>(x), (std::vector<double>{0x1p63, 0x1p64})) << what;
      x.index_put_({arange(1)}, kMost);
      x.masked_fill_(tensor({0, 1}).to(bool_).to(Device(place)), kNumber);
      EXPECT_EQ(values<double>(x), (std::vector<double>{0x1p64, 0x1p63})) << what;
      if (is_complex_dtype(dtype)) continue;
      EXPECT_TRUE(one.lt(kNumber).all().item<bool>()) << what;
      EXPECT_FALSE(one.gt(kMost).any().item<bool>()) << what;
      EXPECT_EQ(values<double>(clamp(one, 0, kNumber)), (std::vector<double>{1, 1})) << what;
    }
    // No integer type holds it, so that none may turn it into a negative number.
    for (const Dtype dtype : dtypes_in(dtypes::integer)) {
      const Options options(dtype, place);
      const Tensor one = ones({2}, options);
      const Tensor two = ones({2, 2}, options).t();
      const std::string text = "value cannot be converted to type ";
      EXPECT_ERROR(full({2}, kNumber, options), Error, text + dtype_name(dtype));
      EXPECT_ERROR(one + kNumber, Error, text);
      EXPECT_ERROR(two + kMost, Error, text);
      EXPECT_ERROR(kMost - one, Error, text);
      EXPECT_ERROR(one.lt(kNumber), Error, text);
      EXPECT_ERROR(two.ge(kMost), Error, text);
      EXPECT_ERROR(one.eq(kMost), Error, text);
      EXPECT_ERROR(one.pow(kMost), Error, text);
      EXPECT_ERROR(one.bitwise_and(kMost), Error, text);
      EXPECT_ERROR(add(one, one, kNumber), Error, text);
      EXPECT_ERROR(where(one.gt(0), one, kNumber), Error, text);
      Tensor x = one.clone();
      EXPECT_ERROR(x.fill_(kNumber), Error, text);
      EXPECT_ERROR(x.index_put_({0}, kNumber), Error, text);
      EXPECT_ERROR(x.masked_fill_(x.gt(0), kNumber), Error, text);
      EXPECT_ERROR(x.index_fill_(0, arange(1, Device(place)), kNumber), Error, text);
      EXPECT_ERROR(x.add_(kNumber), Error, text);
      EXPECT_ERROR(x.index_add_(0, arange(2, Device(place)), one, kNumber), Error, text);
      EXPECT_EQ(values<int>(x), (std::vector<int>{1, 1}));
    }
    EXPECT_TRUE(full({1}, kNumber, Options(bool_, place)).item<bool>());
    EXPECT_ERROR(full({1}, kNumber, Options(place)), Error, "9223372036854775808");
    EXPECT_ERROR(full({1}, kNumber, Options(float16, place)), Error, "type float16");
  }
  EXPECT_EQ(Scalar(kMost).to<double>(), 0x1p64);
  EXPECT_EQ(Scalar(kMost).to<std::uint64_t>(), kMost);
  EXPECT_EQ(Scalar(kNumber - 1).to<std::int64_t>(), INT64_MAX);
  EXPECT_TRUE(fits(kNumber - 1, int64));
  EXPECT_FALSE(fits(kNumber, int64));
}

TEST(Factories, Linspace) {
  for (const char* place : devices()) {
    EXPECT_EQ(values<double>(linspace(0, 1, 5, place)),
              (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
    EXPECT_EQ(linspace(0, 1, 5, place).dtype(), float32);
    EXPECT_EQ(values<double>(linspace(5, -5, 4, {int32, place})),
              (std::vector<double>{5, 1, -1, -5}));
    EXPECT_EQ(values<double>(linspace(0, 10, 4, {int64, place})),
              (std::vector<double>{0, 3, 6, 10}));
    EXPECT_EQ(values<double>(linspace(3, 7, 1, place)), (std::vector<double>{3}));
    EXPECT_EQ(values<double>(linspace(0.5, 3, 5, {int8, place})),
              (std::vector<double>{0, 0, 1, 2, 3}));
    EXPECT_EQ(linspace(3, 7, 0, place).sizes(), Shape({0}));
    // Both ends are exact, and the numbers the same from either end.
    for (const std::int64_t steps : {2, 3, 7, 50, 1000}) {
      const Tensor x = linspace(0.1, 0.7, steps, {float64, place});
      EXPECT_EQ(x[0].item<double>(), 0.1);
      EXPECT_EQ(x[steps - 1].item<double>(), 0.7);
      EXPECT_EQ(values<double>(linspace(-1, 1, steps, {float64, place})),
                values<double>(linspace(1, -1, steps, {float64, place}).flip({0})));
    }
    const Tensor line = linspace(0, std::complex<double>(0, 1), 3, place);
    EXPECT_EQ(line.dtype(), complex64);
    EXPECT_EQ(values<double>(line.imag()), (std::vector<double>{0, 0.5, 1}));
    EXPECT_EQ(values<double>(line.real()), (std::vector<double>{0, 0, 0}));
    EXPECT_ERROR(linspace(0, 1, -1, place), Error, "number of steps must be non-negative");
    EXPECT_ERROR(linspace(0, 1, 3, {bool_, place}), NotImplementedError,
                 "\"linspace\" not implemented for 'Bool'");
    EXPECT_ERROR(linspace(0, 300, 4, {uint8, place}), Error,
                 "value cannot be converted to type uint8 without overflow");
    EXPECT_ERROR(linspace(0, std::complex<double>(0, 1), 3, {float32, place}), Error,
                 "inferred dtype complex64 can't be safely cast to passed dtype float32");
    Tensor out = empty({0}, {float64, place});
    EXPECT_EQ(values<double>(linspace_out(out, 0, 3, 4)), (std::vector<double>{0, 1, 2, 3}));
  }
}

TEST(Factories, Eye) {
  for (const char* place : devices()) {
    EXPECT_EQ(values<double>(eye(2, place)), (std::vector<double>{1, 0, 0, 1}));
    EXPECT_EQ(eye(2, place).dtype(), float32);
    EXPECT_EQ(values<double>(eye(2, 3, place)), (std::vector<double>{1, 0, 0, 0, 1, 0}));
    EXPECT_EQ(values<double>(eye(3, 2, {int8, place})), (std::vector<double>{1, 0, 0, 1, 0, 0}));
    EXPECT_EQ(values<bool>(eye(2, {bool_, place})), (std::vector<bool>{true, false, false, true}));
    EXPECT_EQ(eye(0, place).sizes(), Shape({0, 0}));
    EXPECT_EQ(eye(2, 0, place).sizes(), Shape({2, 0}));
    EXPECT_ERROR(eye(-1, place), Error, "n must be greater or equal to 0, got -1");
    EXPECT_ERROR(eye(2, -1, place), Error, "m must be greater or equal to 0, got -1");
    Tensor out = ones({2, 2}, place);
    EXPECT_EQ(values<double>(eye_out(out, 2)), (std::vector<double>{1, 0, 0, 1}));
  }
}

}  // namespace
}  // namespace ember::test
