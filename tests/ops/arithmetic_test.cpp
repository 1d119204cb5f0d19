// Sums with a factor, and quotients that are rounded.
#include <cmath>
#include <limits>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

// add and sub with alpha.
TEST(Arithmetic, SumsWithAFactor) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor({1.0F, 2.0F, -3.0F}, place);
    const Tensor y = tensor({10.0F, 0.5F, 4.0F}, place);
    EXPECT_EQ(values<float>(add(x, y, 2)), (std::vector<float>{21, 3, 5}));
    EXPECT_EQ(values<float>(x.sub(y, 0.5)), (std::vector<float>{-4, 1.75, -5}));
    EXPECT_EQ(values<float>(add(x, y, 1)), values<float>(x + y));
    EXPECT_EQ(values<float>(sub(100, x, 10)), (std::vector<float>{90, 80, 130}));
    Tensor z = x.clone();
    EXPECT_EQ(&z.add_(3, -1), &z);
    EXPECT_EQ(values<float>(z), (std::vector<float>{-2, -1, -6}));
    z.sub_(y, 2);
    EXPECT_EQ(values<float>(z), (std::vector<float>{-22, -2, -14}));
    Tensor out = empty({0}, Options(float64, Device(place)));
    EXPECT_EQ(&add_out(out, x, y, 4), &out);
    EXPECT_EQ(values<double>(out), (std::vector<double>{41, 4, 13}));
    // Rounded once: 3 * (1 + 2^-10) lies halfway between two numbers of 16 bits.
    const Tensor half = full({1}, 1 + 0x1p-10, Options(float16, Device(place)));
    EXPECT_EQ(add(full({1}, -3, Options(float16, Device(place))), half, 3).item<float>(),
              3 * 0x1p-10F);
    // Integers wrap around, also where the factor is negative.
    const Tensor bytes = full({1}, 5, Options(uint8, Device(place)));
    EXPECT_EQ(sub(bytes, bytes, 2).item<int>(), 251);
    EXPECT_EQ(add(bytes, 1, -6).item<int>(), 255);
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(sub(tensor<std::int64_t>({5}).to(Device(place)), 1, kLeast).item<std::int64_t>(),
              kLeast + 5);
    const Tensor no = zeros({1}, Options(bool_, Device(place)));
    EXPECT_TRUE(add(no, true, 2).item<bool>());
    EXPECT_FALSE(add(no, true, false).item<bool>());
    EXPECT_EQ(add(no, true, 2).dtype(), bool_);
  }
}

TEST(Arithmetic, AFactorChangesNoShapeDtypeOrDevice) {
  NEEDS_DEVICES(1);
  // Some factors are special cases; what comes out has the shape of x + y for all of them.
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{1}, {3}}, {{}, {2, 2}}, {{2, 1}, {3}}, {{1, 1, 1}, {4}}, {{0}, {1}}, {{3}, {}}};
  for (const char* place : {"cpu", kDevice}) {
    for (const Dtype dtype : dtypes_in(dtypes::every_number_or_bool)) {
      for (const auto& [a, b] : shapes) {
        const Tensor x = ones(a, Options(dtype, Device(place)));
        const Tensor y = ones(b, Options(dtype, Device(place)));
        const Tensor plain = x + y;
        for (const int factor : {0, 1, 2, -1}) {
          const Scalar alpha = dtype == bool_ ? Scalar(factor != 0) : Scalar(factor);
          const std::string what = std::string(dtype_name(dtype)) + a.str() + b.str() + place;
          const Tensor sum = add(x, y, alpha);
          EXPECT_EQ(sum.sizes().str(), plain.sizes().str()) << what << " alpha " << factor;
          EXPECT_EQ(sum.dtype(), dtype) << what;
          EXPECT_EQ(sum.device(), x.device()) << what;
          const double expected = dtype == bool_                 ? 1
                                  : dtype == uint8 && factor < 0 ? 0
                                                                 : 1 + factor;
          for (const double element : values<double>(sum)) EXPECT_EQ(element, expected) << what;
          Tensor out = empty({0}, Options(dtype, Device(place)));
          EXPECT_EQ(add_out(out, x, y, alpha).sizes().str(), plain.sizes().str()) << what;
          if (dtype == bool_) continue;
          EXPECT_EQ(sub(x, y, alpha).sizes().str(), plain.sizes().str()) << what;
          EXPECT_EQ(addcmul(x, y, y, alpha).sizes().str(), plain.sizes().str()) << what;
        }
      }
    }
    Tensor x = ones({1}, Options(bool_, Device(place)));
    const Tensor y = ones({3}, Options(bool_, Device(place)));
    EXPECT_ERROR(x.add_(y, false), Error, "doesn't match the broadcast shape");
    EXPECT_ERROR(add(ones({2}, bool_), y.cpu(), false), Error, "must match");
  }
  EXPECT_ERROR(add(ones({2}, bool_), ones({2}, Options(bool_, Device(kDevice))), false), Error,
               "on the same device");
}

TEST(Arithmetic, FactorsThatTheResultCannotHave) {
  const Tensor whole = ones({2}, int32);
  EXPECT_ERROR(add(whole, whole, 1.5), Error,
               "For integral input tensors, argument alpha must not be a floating point number.");
  EXPECT_ERROR(add(whole, whole, std::complex<double>(0, 1)), Error,
               "For integral input tensors, argument alpha must not be a floating point number.");
  EXPECT_ERROR(add(whole, whole, true), Error, "Boolean alpha only supported for Boolean results.");
  EXPECT_ERROR(sub(ones({2}), whole, std::complex<double>(0, 1)), Error,
               "For non-complex input tensors, argument alpha must not be a complex number.");
  EXPECT_ERROR(sub(ones({2}, bool_), ones({2}, bool_), 2), Error, "Subtraction, the `-` operator");
  EXPECT_EQ(add(ones({1}, complex64), 1, std::complex<double>(0, 2)).item<Complex<float>>(),
            Complex<float>(1, 2));
}

// addcmul and addcdiv with value.
TEST(Arithmetic, ProductsWithAFactor) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor({1.0F, 2.0F}, place);
    const Tensor y = tensor({3.0F, -4.0F}, place);
    const Tensor z = tensor({2.0F, 0.5F}, place);
    EXPECT_EQ(values<float>(addcmul(x, y, z, 0.5)), (std::vector<float>{4, 1}));
    EXPECT_EQ(values<float>(addcdiv(x, y, z, 2)), (std::vector<float>{4, -14}));
    EXPECT_EQ(values<float>(addcmul(x, y, z, 1)), values<float>(x.addcmul(y, z)));
    EXPECT_EQ(values<float>(addcmul(x, 3, z, 2)), (std::vector<float>{13, 5}));
    Tensor out = empty({0}, Options(float64, Device(place)));
    EXPECT_EQ(&addcdiv_out(out, x, y, z, -1), &out);
    EXPECT_EQ(values<double>(out), (std::vector<double>{-0.5, 10}));
    Tensor self = x.clone();
    addcmul_out(self, self, y, z, -1);
    EXPECT_EQ(values<float>(self), (std::vector<float>{-5, 4}));
    // Integers take the factor without its fraction, and keep all of their digits.
    const Tensor whole = full({1}, (std::int64_t{1} << 60) + 1, Options(int64, Device(place)));
    EXPECT_EQ(addcmul(whole, whole, 1, 1.5).item<std::int64_t>(), (std::int64_t{1} << 61) + 2);
    // 16-bit products are rounded once.
    const Tensor half = full({1}, 1 + 0x1p-10, Options(float16, Device(place)));
    EXPECT_EQ(addcmul(full({1}, -3, Options(float16, Device(place))), half, 1, 3).item<float>(),
              3 * 0x1p-10F);
    EXPECT_EQ(addcmul(x.to(float64), y, z, 0.1).dtype(), float64);
    EXPECT_ERROR(addcmul(x, y, z, std::complex<double>(0, 1)), Error, "without overflow");
    const Tensor bytes = ones({1}, Options(int8, Device(place)));
    EXPECT_ERROR(addcmul(bytes, bytes, bytes, 300), Error, "without overflow");
  }
}

// round with decimals, also before the point.
TEST(Arithmetic, RoundsToDigits) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor<double>({1234.5678, -0.125, 2.5}, place);
    EXPECT_EQ(values<double>(round(x, 2)), (std::vector<double>{1234.57, -0.12, 2.5}));
    EXPECT_EQ(values<double>(round(x, -2)), (std::vector<double>{1200, -0.0, 0}));
    EXPECT_EQ(values<double>(round(x, 0)), values<double>(x.round()));
    Tensor self = x.to(float16);
    EXPECT_EQ(&round_out(self, self, 1), &self);
    EXPECT_EQ(values<double>(self),
              values<double>(tensor<double>({1235.0, -0.1, 2.5}, place).to(float16)));
    EXPECT_TRUE(std::isnan(round(x.to(float32), 400).select(0, 0).item<float>()));
    EXPECT_ERROR(round(x.to(int64), 1), NotImplementedError, "not implemented for 'Long'");
    EXPECT_EQ(round(x.to(int64), 0).select(0, 0).item<int>(), 1234);
  }
}

// div with a rounding: towards zero and down, for every sign and dtype.
TEST(Arithmetic, RoundedQuotients) {
  NEEDS_DEVICES(1);
  const std::vector<double> above = {7, -7, 7, -7, 6, -6, 0.5, -0.5};
  const std::vector<double> below = {2, 2, -2, -2, 3, 3, 1, 1};
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : {int8, int16, int32, int64, float16, bfloat16, float32, float64}) {
      const Tensor x = tensor(above).to(Options(dtype, Device(place)));
      const Tensor y = tensor(below).to(Options(dtype, Device(place)));
      std::vector<double> towards_zero;
      std::vector<double> down;
      for (std::size_t i = 0; i < above.size(); ++i) {
        const double number = is_integral(dtype) ? std::trunc(above[i]) : above[i];
        towards_zero.push_back(std::trunc(number / below[i]));
        down.push_back(std::floor(number / below[i]));
      }
      EXPECT_EQ(div(x, y, Rounding::trunc).dtype(), dtype);
      EXPECT_EQ(values<double>(div(x, y, Rounding::trunc).to(float64)), towards_zero);
      EXPECT_EQ(values<double>(x.div(y, Rounding::floor).to(float64)), down);
      Tensor z = x.clone();
      z.div_(y, Rounding::trunc);
      EXPECT_EQ(values<double>(z.to(float64)), towards_zero);
      Tensor out = empty({0}, Options(float64, Device(place)));
      EXPECT_EQ(values<double>(div_out(out, x, y, Rounding::floor)), down);
    }
  const Tensor x = tensor<std::int32_t>({5, -5});
  EXPECT_EQ(values<float>(div(x, 2, Rounding::none)), (std::vector<float>{2.5, -2.5}));
  EXPECT_EQ(values<std::int32_t>(div(x, 0, Rounding::trunc)), (std::vector<std::int32_t>{0, 0}));
  const Tensor least = tensor<std::int64_t>({std::numeric_limits<std::int64_t>::min()});
  EXPECT_EQ(div(least, -1, Rounding::trunc).item<std::int64_t>(), least.item<std::int64_t>());
  Tensor none = empty({0});
  EXPECT_ERROR(none.div_(empty({3, 0}), Rounding::trunc), Error, "output with shape [0] doesn't");
  const Tensor row = ones({5});
  Tensor tail = row.narrow(0, 1, 4);
  EXPECT_ERROR(div_out(tail, row.narrow(0, 0, 4), 2, Rounding::trunc), Error, "memory");
  // The quotient is 2.9961, which would be 3 as a bfloat16.
  const Tensor near = tensor({2.984375F}).to(bfloat16);
  EXPECT_EQ(div(near, tensor({0.99609375F}).to(bfloat16), Rounding::trunc).item<float>(), 2);
  EXPECT_ERROR(div(ones({1}, bool_), true, Rounding::trunc), NotImplementedError,
               "\"div_trunc\" not implemented for 'Bool'");
  EXPECT_ERROR(div(ones({1}, complex64), 2, Rounding::trunc), NotImplementedError,
               "\"div_trunc\" not implemented for 'ComplexFloat'");
}

}  // namespace
}  // namespace ember::test
