// What tests of operations share: reading tensors, the devices to compare, and how far results may
// be apart.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ember/ember.h"
#include "tests/support/devices.h"

namespace ember::test {

/// All elements in the order of the dimensions, on the host. T may differ from the element type.
template <class T>
std::vector<T> values(const Tensor& tensor) {
  const Tensor here = tensor.cpu().to(dtype_of<T>).contiguous();
  std::vector<T> out(static_cast<std::size_t>(here.numel()));
  if (!out.empty()) std::memcpy(out.data(), here.data_ptr(), here.nbytes());
  return out;
}
template <>
inline std::vector<bool> values<bool>(const Tensor& tensor) {
  const std::vector<std::uint8_t> bytes = values<std::uint8_t>(tensor);
  return {bytes.begin(), bytes.end()};
}

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The CUDA device that tests use beside the CPU.
inline constexpr const char* kDevice = "cuda:0";

/// Every element type.
inline std::vector<Dtype> all_dtypes() {
  std::vector<Dtype> list;
  for (int i = 0; i < kDtypes; ++i) list.push_back(static_cast<Dtype>(i));
  return list;
}
inline std::vector<Dtype> dtypes_in(DtypeSet set) {
  std::vector<Dtype> list;
  for (const Dtype dtype : all_dtypes())
    if (contains(set, dtype)) list.push_back(dtype);
  return list;
}

/// One unit of the last place of the element type, relative to one. Zero for integers.
inline double epsilon(Dtype dtype) {
  switch (real_dtype(dtype)) {
    case Dtype::float16: return 0x1p-10;
    case Dtype::bfloat16: return 0x1p-7;
    case Dtype::float32: return 0x1p-23;
    case Dtype::float64: return 0x1p-52;
    default: return 0;
  }
}

/// Expects a device's result to be the CPU's: bit for bit on simulated devices, within `ulp` units
/// of the last place on real ones (zero: bit for bit there too, NaN being NaN). Results below
/// `floor` are compared as if they were that large.
inline void expect_same(const Tensor& device, const Tensor& cpu, double ulp,
                        const std::string& what, double floor = 0) {
  ASSERT_EQ(device.dtype(), cpu.dtype()) << what;
  ASSERT_EQ(device.sizes().str(), cpu.sizes().str()) << what;
  const Tensor here = device.cpu().contiguous();
  const Tensor there = cpu.contiguous();
  if (here.numel() == 0) return;
  if (cuda::is_simulated() || !(is_floating_point(cpu.dtype()) || is_complex_dtype(cpu.dtype()))) {
    EXPECT_EQ(std::memcmp(here.data_ptr(), there.data_ptr(), here.nbytes()), 0)
        << what << ": the device's bytes differ from the CPU's";
    return;
  }
  const bool complex = here.is_complex();
  const auto a = values<double>(complex ? here.view_as_real() : here);
  const auto b = values<double>(complex ? there.view_as_real() : there);
  const std::size_t parts = complex ? 2 : 1;
  const bool narrow = item_size(real_dtype(cpu.dtype())) == 2;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    double size = std::max(std::abs(b[i]), floor);
    for (std::size_t j = i - i % parts; j < i - i % parts + parts; ++j)
      size = std::max(size, std::abs(b[j]));
    // A 16-bit result is the rounding of a float's, and may fall to either side.
    const double units = narrow ? 1 : ulp;
    EXPECT_LE(std::abs(a[i] - b[i]), units * epsilon(cpu.dtype()) * size + 1e-300)
        << what << ", element " << i / parts << ": " << a[i] << " on the device, " << b[i]
        << " on the CPU";
    if (::testing::Test::HasFailure()) return;
  }
}

/// The tensor on the CPU and on the device, if there is one.
inline std::vector<Tensor> places(const Tensor& x) {
  std::vector<Tensor> list{x};
  if (cuda::device_count() > 0) list.push_back(x.to(kDevice));
  return list;
}

}  // namespace ember::test
