// Complex numbers: functions against long double, edges against Annex G of the C standard.
#include <complex>
#include <limits>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

using Z = std::complex<double>;
using LongZ = std::complex<long double>;

const std::vector<double> kSome{-7.0, -3.5, -1.0, -0.8, -0.6, -1e-3,  -1e-4, 0.0, 1e-6,
                                1e-5, 0.6,  0.8,  1.0,  1.5,  1.0001, 2.0,   3.0, 12.0};
// Tiny, huge, and beside the poles and branch points.
const std::vector<double> kWide{-3e38, -1e12, -8e3,     -30.0, -1.7, -1.0, -0.999999,
                                -0.5,  -1e-9, -1e-30,   1e-30, 1e-4, 0.3,  0.49,
                                0.7,   1.0,   1.000001, 3.0,   1e5,  1e30};

/// Expects a complex function of float or double to be that of long double, relative to the larger
/// component, within `ulp` units, for all numbers with these parts.
template <class T, class Function>
void complex_function(const char* name, Tensor (*operation)(const Tensor&), double ulp,
                      const Function& function, const std::vector<double>& parts) {
  std::vector<std::complex<T>> list;
  for (const double re : parts)
    for (const double im : parts) list.emplace_back(static_cast<T>(re), static_cast<T>(im));
  for (const Tensor& x : places(tensor(list))) {
    const std::vector<double> found = values<double>(operation(x).view_as_real());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const LongZ expected = function(LongZ(list[i].real(), list[i].imag()));
      const double size =
          static_cast<double>(std::max(std::abs(expected.real()), std::abs(expected.imag())));
      if (!std::isfinite(size)) continue;
      const double allowed = ulp * std::numeric_limits<T>::epsilon() * size + 1e-300;
      EXPECT_NEAR(found[2 * i], static_cast<double>(expected.real()), allowed)
          << name << list[i] << " in " << sizeof(T) << " bytes";
      EXPECT_NEAR(found[2 * i + 1], static_cast<double>(expected.imag()), allowed)
          << name << list[i] << " in " << sizeof(T) << " bytes";
    }
  }
}

TEST(ComplexNumbers, FunctionsAreThoseOfMathematics) {
  const auto both = [](const char* name, Tensor (*operation)(const Tensor&), double ulp,
                       auto function, const std::vector<double>& parts = kSome) {
    complex_function<float>(name, operation, ulp, function, parts);
    complex_function<double>(name, operation, ulp, function, parts);
  };
  both("exp", &ember::exp, 4, [](LongZ z) { return std::exp(z); });
  both("log", &ember::log, 4, [](LongZ z) { return std::log(z); });
  both("sqrt", &ember::sqrt, 4, [](LongZ z) { return std::sqrt(z); });
  both("sin", &ember::sin, 6, [](LongZ z) { return std::sin(z); });
  both("cos", &ember::cos, 6, [](LongZ z) { return std::cos(z); });
  both("tan", &ember::tan, 16, [](LongZ z) { return std::tan(z); });
  both("sinh", &ember::sinh, 6, [](LongZ z) { return std::sinh(z); });
  both("cosh", &ember::cosh, 6, [](LongZ z) { return std::cosh(z); });
  both("tanh", &ember::tanh, 16, [](LongZ z) { return std::tanh(z); });
  both("square", &ember::square, 4, [](LongZ z) { return z * z; });
  both("sigmoid", &ember::sigmoid, 16, [](LongZ z) { return 1.0L / (1.0L + std::exp(-z)); });
  both("exp2", &ember::exp2, 4, [](LongZ z) { return std::exp(z * std::log(2.0L)); });
  // exp(z) - 1 without cancellation: exp(z / 2) * 2 sinh(z / 2).
  both("expm1", &ember::expm1, 6,
       [](LongZ z) { return std::exp(z / 2.0L) * 2.0L * std::sinh(z / 2.0L); });
  both(
      "log2", &ember::log2, 4, [](LongZ z) { return std::log(z) / std::log(2.0L); }, kWide);
  both(
      "log10", &ember::log10, 4, [](LongZ z) { return std::log10(z); }, kWide);
  // log(1 + z), likewise.
  both("log1p", &ember::log1p, 4, [](LongZ z) {
    return std::abs(z) < 0.1L ? 2.0L * std::atanh(z / (2.0L + z)) : std::log(1.0L + z);
  });
  both(
      "asin", &ember::asin, 4, [](LongZ z) { return std::asin(z); }, kWide);
  both(
      "acos", &ember::acos, 4, [](LongZ z) { return std::acos(z); }, kWide);
  both(
      "atan", &ember::atan, 4, [](LongZ z) { return std::atan(z); }, kWide);
  both(
      "asinh", &ember::asinh, 4, [](LongZ z) { return std::asinh(z); }, kWide);
  both(
      "acosh", &ember::acosh, 4, [](LongZ z) { return std::acosh(z); }, kWide);
  both(
      "atanh", &ember::atanh, 4, [](LongZ z) { return std::atanh(z); }, kWide);
}

// Where a half of a number and the length of two keep few bits or none, and where a length is
// beyond the largest number.
TEST(ComplexNumbers, AreExactAtBothEndsOfTheRange) {
  for (const double part : {0x1p-149, -0x1p-149, 3 * 0x1p-149, 0x1p-127, 0x1p-101, -0x1p-99}) {
    const std::vector<double> parts{part, 0.0, 0x1p-149, 5 * 0x1p-149};
    complex_function<float>(
        "sqrt", &ember::sqrt, 4, [](LongZ z) { return std::sqrt(z); }, parts);
    complex_function<float>(
        "log", &ember::log, 4, [](LongZ z) { return std::log(z); }, parts);
  }
  for (const double part : {0x1p-1074, -0x1p-1074, 3 * 0x1p-1074, 0x1p-1023, 0x1p-899}) {
    const std::vector<double> parts{part, 0.0, 0x1p-1074, 5 * 0x1p-1074};
    complex_function<double>(
        "sqrt", &ember::sqrt, 4, [](LongZ z) { return std::sqrt(z); }, parts);
    complex_function<double>(
        "log", &ember::log, 4, [](LongZ z) { return std::log(z); }, parts);
  }
  complex_function<float>("sqrt", &ember::sqrt, 4, [](LongZ z) { return std::sqrt(z); },
                          {3.4e38, -3e38, 0x1p125});
  complex_function<double>("sqrt", &ember::sqrt, 4, [](LongZ z) { return std::sqrt(z); },
                           {1.7e308, -1e308, 0x1p1021});
  const std::vector<double> beside{1.0, 0x1p-149, -0x1p-149};
  complex_function<float>(
      "acos", &ember::acos, 16, [](LongZ z) { return std::acos(z); }, beside);
  complex_function<float>(
      "acosh", &ember::acosh, 16, [](LongZ z) { return std::acosh(z); }, beside);
}

// What C99's Annex G says of infinities and branch cuts.
TEST(ComplexNumbers, AtTheEdges) {
  struct Case {
    Tensor (*operation)(const Tensor&);
    const char* name;
    Z in, out;
  };
  const double pi = 3.14159265358979323846;
  const std::vector<Case> cases{
      {&ember::exp, "exp", {kInf, 0}, {kInf, 0}},
      {&ember::exp, "exp", {-kInf, kInf}, {0, 0}},
      {&ember::exp, "exp", {kInf, kInf}, {kInf, kNaN}},
      {&ember::exp, "exp", {kNaN, 0}, {kNaN, 0}},
      {&ember::log, "log", {0, 0}, {-kInf, 0}},
      {&ember::log, "log", {-0.0, 0}, {-kInf, pi}},
      {&ember::log, "log", {kInf, 1}, {kInf, 0}},
      {&ember::log, "log", {kNaN, kInf}, {kInf, kNaN}},
      {&ember::log, "log", {1, 0}, {0, 0}},
      {&ember::sqrt, "sqrt", {-4, 0}, {0, 2}},
      {&ember::sqrt, "sqrt", {-4, -0.0}, {0, -2}},
      {&ember::sqrt, "sqrt", {1, kInf}, {kInf, kInf}},
      {&ember::sqrt, "sqrt", {-kInf, 1}, {0, kInf}},
      {&ember::sqrt, "sqrt", {1e308, 1e308}, {1.0986841134678098e154, 4.5508986056222733e153}},
      {&ember::sinh, "sinh", {kInf, 0}, {kInf, 0}},
      {&ember::cosh, "cosh", {-kInf, 0}, {kInf, -0.0}},
      {&ember::tanh, "tanh", {kInf, 1}, {1, 0}},
      {&ember::tanh, "tanh", {1000, 1}, {1, 0}},
      {&ember::sin, "sin", {0, kInf}, {0, kInf}},
      {&ember::cos, "cos", {0, kInf}, {kInf, -0.0}},
      {&ember::exp2, "exp2", {-kInf, kInf}, {0, 0}},
      {&ember::exp2, "exp2", {3, 0}, {8, 0}},
      {&ember::expm1, "expm1", {-kInf, 1}, {-1, 0}},
      {&ember::expm1, "expm1", {1e-300, -0.0}, {1e-300, -0.0}},
      {&ember::log2, "log2", {-0.0, 0}, {-kInf, pi / std::log(2.0)}},
      {&ember::log1p, "log1p", {-1, 0}, {-kInf, 0}},
      {&ember::log1p, "log1p", {1e-300, 1e-300}, {1e-300, 1e-300}},
      {&ember::acos, "acos", {0, 0}, {pi / 2, -0.0}},
      {&ember::acos, "acos", {1, 0}, {0, -0.0}},
      {&ember::acos, "acos", {2, kInf}, {pi / 2, -kInf}},
      {&ember::acos, "acos", {-kInf, 1}, {pi, -kInf}},
      {&ember::acos, "acos", {kInf, 1}, {0, -kInf}},
      {&ember::acos, "acos", {-kInf, kInf}, {3 * pi / 4, -kInf}},
      {&ember::acos, "acos", {0, kNaN}, {pi / 2, kNaN}},
      {&ember::acos, "acos", {kNaN, kInf}, {kNaN, -kInf}},
      {&ember::asin, "asin", {-0.0, 0}, {-0.0, 0}},
      {&ember::asin, "asin", {2, 0}, {pi / 2, 1.3169578969248167}},
      {&ember::asin, "asin", {2, -0.0}, {pi / 2, -1.3169578969248167}},
      {&ember::asin, "asin", {1e308, 1e308}, {pi / 4, 710.235929413006}},
      {&ember::asinh, "asinh", {0, 1}, {0, pi / 2}},
      {&ember::asinh, "asinh", {kInf, 1}, {kInf, 0}},
      {&ember::asinh, "asinh", {kInf, kInf}, {kInf, pi / 4}},
      {&ember::asinh, "asinh", {1, kInf}, {kInf, pi / 2}},
      {&ember::asinh, "asinh", {kNaN, 0}, {kNaN, 0}},
      {&ember::acosh, "acosh", {0, 0}, {0, pi / 2}},
      {&ember::acosh, "acosh", {-kInf, 1}, {kInf, pi}},
      {&ember::acosh, "acosh", {-kInf, kInf}, {kInf, 3 * pi / 4}},
      {&ember::acosh, "acosh", {kInf, kNaN}, {kInf, kNaN}},
      {&ember::atanh, "atanh", {0, -0.0}, {0, -0.0}},
      {&ember::atanh, "atanh", {1, 0}, {kInf, 0}},
      {&ember::atanh, "atanh", {1, 1e-200}, {230.60508288968474, pi / 4}},
      {&ember::atanh, "atanh", {-1, -0.0}, {-kInf, -0.0}},
      {&ember::atanh, "atanh", {2, kInf}, {0, pi / 2}},
      {&ember::atanh, "atanh", {kInf, 2}, {0, pi / 2}},
      {&ember::atanh, "atanh", {kNaN, kInf}, {0, pi / 2}},
      {&ember::atanh, "atanh", {kInf, kNaN}, {0, kNaN}},
      {&ember::atanh, "atanh", {1e200, 1e-3}, {1e-200, pi / 2}},
      {&ember::atan, "atan", {0, 1}, {0, kInf}},
      {&ember::atan, "atan", {2, 0}, {1.1071487177940904, 0}},
  };
  for (const Case& one : cases) {
    const Tensor x = tensor<Z>({one.in});
    const auto found = values<double>(one.operation(x).view_as_real());
    const auto same = [](double a, double b) {
      return std::isnan(b) ? std::isnan(a)
             : a == b      ? std::signbit(a) == std::signbit(b)
                           : std::abs(a - b) < 1e-15 * std::abs(b);
    };
    EXPECT_TRUE(same(found[0], one.out.real()) && same(found[1], one.out.imag()))
        << one.name << one.in << " is (" << found[0] << "," << found[1] << "), expected "
        << one.out;
  }
  const auto abs = [](Z z) { return tensor<Z>({z}).abs().item<double>(); };
  EXPECT_EQ(abs({3, -4}), 5);
  EXPECT_EQ(abs({kInf, kNaN}), kInf);
  EXPECT_NEAR(abs({1e300, 1e300}) / 1.4142135623730951e300, 1, 1e-15);
  EXPECT_EQ(tensor<Z>({{3, -4}}).abs().dtype(), float64);
}

// Products and quotients, also where naive formulas overflow.
TEST(ComplexNumbers, Arithmetic) {
  const Tensor x = tensor<Z>({{1, 2}, {3, -4}, {0, 1}, {1e300, 1e300}, {1, 1}});
  const Tensor y = tensor<Z>({{5, -1}, {0, 2}, {0, 1}, {1e300, 1e300}, {0, 0}});
  const auto product = values<double>((x * y).view_as_real().narrow(0, 0, 3));
  EXPECT_EQ(product, std::vector<double>({7, 9, 8, 6, -1, 0}));
  const auto quotient = values<double>((x / y).view_as_real());
  EXPECT_NEAR(quotient[0], 3.0 / 26, 1e-15);
  EXPECT_NEAR(quotient[1], 11.0 / 26, 1e-15);
  EXPECT_EQ(quotient[4], 1);
  EXPECT_NEAR(quotient[6], 1, 1e-15);
  EXPECT_EQ(quotient[8], kInf);
  EXPECT_EQ(values<double>(x.conj().imag())[0], -2);
  EXPECT_EQ(pow(x, 0).view_as_real()[3][0].item<double>(), 1);
  EXPECT_NEAR(pow(x, 2).view_as_real()[0][1].item<double>(), 4, 1e-14);
  EXPECT_EQ(pow(tensor<Z>({{0, 0}}), 2).item<Complex<double>>(), Complex<double>(0, 0));
  EXPECT_TRUE(std::isnan(pow(tensor<Z>({{0, 0}}), -1).imag().item<double>()));
  EXPECT_EQ(values<bool>(x == y), std::vector<bool>({false, false, true, true, false}));
  EXPECT_ERROR(static_cast<void>(x < y), NotImplementedError,
               "\"lt\" not implemented for 'ComplexDouble'");
}

}  // namespace
}  // namespace ember::test
