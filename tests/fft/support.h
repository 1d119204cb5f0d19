// Signals to transform, and what comes out of it by the definition.
#pragma once

#include <cmath>
#include <complex>
#include <random>

#include "ember/fft/host/transform.h"
#include "tests/ops/support.h"

namespace ember::test {

/// Skips the test, with the reason, where nothing transforms on the CPU.
#define NEEDS_HOST_FFT()                                                          \
  do {                                                                            \
    if (const ember::Status status = ember::fft::host::available(); !status.ok()) \
      GTEST_SKIP() << status.detail();                                            \
  } while (false)

using Wide = std::complex<long double>;

/// Numbers between -1 and 1.
inline Tensor signal(Dtype dtype, const Shape& sizes, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<std::complex<double>> list(static_cast<std::size_t>(element_count(sizes)));
  for (auto& value : list) value = {number(random), is_complex_dtype(dtype) ? number(random) : 0};
  const Tensor all = tensor(list);
  return (is_complex_dtype(dtype) ? all : all.real()).to(dtype).view(sizes);
}

inline std::vector<Wide> wide(const Tensor& given) {
  std::vector<Wide> out;
  for (const auto& value : values<Complex<double>>(given)) out.emplace_back(value.re, value.im);
  return out;
}

/// The transform by the definition of one row.
inline std::vector<Wide> dft(const std::vector<Wide>& x, bool forward) {
  const std::size_t n = x.size();
  std::vector<Wide> roots(n);
  for (std::size_t i = 0; i < n; ++i) {
    const long double angle = 2 * std::acos(-1.0L) * static_cast<long double>(i) /
                              static_cast<long double>(n) * (forward ? -1 : 1);
    roots[i] = {std::cos(angle), std::sin(angle)};
  }
  std::vector<Wide> out(n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t j = 0; j < n; ++j) out[k] += x[j] * roots[k * j % n];
  return out;
}

/// The distance of two rows relative to the size of the second, in units of the last place.
inline double error_of(const Tensor& got, const std::vector<Wide>& expected) {
  const auto numbers = wide(got);
  EXPECT_EQ(numbers.size(), expected.size());
  long double apart = 0;
  long double size = 0;
  for (std::size_t i = 0; i < expected.size() && i < numbers.size(); ++i) {
    apart += std::norm(numbers[i] - expected[i]);
    size += std::norm(expected[i]);
  }
  return static_cast<double>(std::sqrt(apart / std::max(size, 1e-300L))) / epsilon(got.dtype());
}

/// How far it may be, in the same units: what the issue of these transforms asks for.
inline double bound_of(std::int64_t n) {
  std::int64_t rest = n;
  for (const std::int64_t factor : {2, 3, 5, 7})
    while (rest % factor == 0) rest /= factor;
  return (rest == 1 ? 2 : 8) * std::max(std::log2(static_cast<double>(n)), 1.0);
}

}  // namespace ember::test
