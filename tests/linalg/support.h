// Matrices to multiply, and what comes out of it by the definition.
#pragma once

#include <complex>
#include <random>

#include "tests/ops/support.h"

namespace ember::test {

/// Numbers that every type holds exactly and whose products 16-bit types still tell apart.
inline Tensor matrix(Dtype dtype, const Shape& sizes, unsigned seed) {
  std::mt19937 random(seed);
  const auto count = static_cast<std::size_t>(element_count(sizes));
  const bool fine = dtype == Dtype::float32 || dtype == Dtype::float64 || is_complex_dtype(dtype);
  const int step = fine ? 64 : 4;
  std::vector<std::complex<double>> numbers(count);
  const auto number = [&] {
    const int value = static_cast<int>(random() % static_cast<unsigned>(2 * step + 1)) -
                      (dtype == Dtype::uint8 ? 0 : step);
    return is_integral(dtype) ? value : static_cast<double>(value) / step;
  };
  for (auto& value : numbers) {
    const double re = number();
    value = {re, is_complex_dtype(dtype) ? number() : 0};
  }
  return tensor(numbers).to(dtype).view(sizes);
}

/// The elements of a tensor as complex numbers in double precision.
inline std::vector<std::complex<double>> numbers(const Tensor& given) {
  const Tensor tensor = given.cpu().to(Dtype::complex128).contiguous();
  std::vector<std::complex<double>> out(static_cast<std::size_t>(tensor.numel()));
  if (!out.empty()) std::memcpy(out.data(), tensor.data_ptr(), tensor.nbytes());
  return out;
}

/// beta * input + alpha * a @ b of batches (b x n x k, b x k x m) by the definition.
inline std::vector<std::complex<double>> reference(const Tensor& a, const Tensor& b,
                                                   std::complex<double> alpha = 1,
                                                   std::complex<double> beta = 0,
                                                   const Tensor& input = {}) {
  const auto x = numbers(a);
  const auto y = numbers(b);
  const std::int64_t batch = a.size(0);
  const std::int64_t n = a.size(1);
  const std::int64_t k = a.size(2);
  const std::int64_t m = b.size(2);
  const auto z =
      input.defined() ? numbers(input.expand({batch, n, m})) : std::vector<std::complex<double>>();
  std::vector<std::complex<double>> out;
  for (std::int64_t s = 0; s < batch; ++s)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) {
        std::complex<double> sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += x[static_cast<std::size_t>((s * n + i) * k + p)] *
                 y[static_cast<std::size_t>((s * k + p) * m + j)];
        sum *= alpha;
        if (beta != 0.0) sum += beta * z[out.size()];
        out.push_back(sum);
      }
  return out;
}

/// Expects a result to be the reference's within the rounding of sums of `k` numbers of the size
/// of one.
inline void expect_close(const Tensor& result, const std::vector<std::complex<double>>& expected,
                         std::int64_t k, const std::string& what) {
  const auto got = numbers(result);
  ASSERT_EQ(got.size(), expected.size()) << what;
  const bool narrow = item_size(result.dtype()) == 2;
  const double unit = epsilon(narrow ? Dtype::float32 : result.dtype());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double bound = unit * 4 * static_cast<double>(k + 2) +
                         (narrow ? epsilon(result.dtype()) * std::abs(expected[i]) : 0);
    ASSERT_LE(std::abs(got[i] - expected[i]), bound)
        << what << ", element " << i << ": " << got[i].real() << ", expected "
        << expected[i].real();
  }
}

/// The dtypes of products: on the CPU, and on devices.
inline std::vector<Dtype> product_dtypes(bool on_device) {
  return dtypes_in(on_device ? dtypes::floating_complex : dtypes::any_number);
}

}  // namespace ember::test
