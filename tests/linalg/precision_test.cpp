// The settings of how exact products are, and the handle that has them too.
#include "ember/linalg/precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ember/ember.h"
#include "ember/linalg/product.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using namespace backends::cuda::matmul;

/// Leaves the settings as they were at the start of a program.
class Precision : public testing::Test {
 protected:
  ~Precision() override {
    set_fp32_precision("none");
    set_allow_fp16_reduced_precision_reduction(true);
    set_allow_bf16_reduced_precision_reduction(true);
    set_allow_fp16_accumulation(false);
  }
};

TEST_F(Precision, Defaults) {
  EXPECT_FALSE(allow_tf32());
  EXPECT_TRUE(allow_fp16_reduced_precision_reduction());
  EXPECT_TRUE(allow_bf16_reduced_precision_reduction());
  EXPECT_FALSE(allow_fp16_accumulation());
  EXPECT_EQ(fp32_precision(), "none");
  EXPECT_EQ(get_float32_matmul_precision(), "highest");
  EXPECT_EQ(linalg::precision_bits(), 0);
}

TEST_F(Precision, Float32HasOneSettingByThreeNames) {
  const auto expect = [](const char* precision, bool allowed, const char* name) {
    EXPECT_EQ(get_float32_matmul_precision(), precision);
    EXPECT_EQ(allow_tf32(), allowed);
    EXPECT_EQ(fp32_precision(), name);
  };
  set_float32_matmul_precision("high");
  expect("high", true, "tf32");
  set_float32_matmul_precision("medium");
  expect("medium", true, "tf32");
  set_float32_matmul_precision("highest");
  expect("highest", false, "ieee");
  set_allow_tf32(true);
  expect("high", true, "tf32");
  set_allow_tf32(false);
  expect("highest", false, "ieee");
  set_fp32_precision("tf32");
  expect("high", true, "tf32");
  set_fp32_precision("none");
  expect("highest", false, "none");
}

TEST_F(Precision, UnknownNames) {
  set_float32_matmul_precision("high");
  set_float32_matmul_precision("highly");  // a warning
  EXPECT_EQ(get_float32_matmul_precision(), "high");
  EXPECT_ERROR(set_fp32_precision("bf16"), Error, "Unknown precision: bf16");
  EXPECT_EQ(fp32_precision(), "tf32");
}

/// The largest error of a product of 256 x 256 numbers against one of float64, as a part of the
/// largest element.
double error_of(const Tensor& x, const Tensor& y) {
  const Tensor exact = x.to(float64).mm(y.to(float64));
  const Tensor difference = x.mm(y).to(float64) - exact;
  return difference.abs().max().item<double>() / exact.abs().max().item<double>();
}

TEST_F(Precision, Tf32IsForCudaDevicesAlone) {
  NEEDS_DEVICES(1);
  cuda::manual_seed(1);
  const Tensor x = randn({256, 256}, "cuda:0");
  const Tensor y = randn({256, 256}, "cuda:0");
  const double before = error_of(x, y);
  EXPECT_LT(before, 1e-6);
  set_allow_tf32(true);
  const double rounded = error_of(x, y);
  const auto [major, minor] = cuda::get_device_capability(0);
  if (cuda::is_simulated() || major < 8) {
    EXPECT_EQ(rounded, before);
  } else {
    EXPECT_GT(rounded, 1e-5) << "factors of 10 bits";
    EXPECT_LT(rounded, 1e-2);
  }
  set_allow_tf32(false);
  EXPECT_EQ(error_of(x, y), before) << "the plan of before";
}

TEST_F(Precision, SumsOf16BitFloats) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {float16, bfloat16}) {
    const Tensor x = ones({64, 16384}, "cuda:0").to(dtype);
    for (const bool allow : {true, false}) {
      set_allow_fp16_reduced_precision_reduction(allow);
      set_allow_bf16_reduced_precision_reduction(allow);
      EXPECT_EQ(x.mm(x.t()).to(float32).max().item<float>(), 16384);
    }
  }
}

TEST_F(Precision, Float16MayBeAddedUpInFloat16) {
  set_allow_fp16_accumulation(true);
  EXPECT_TRUE(allow_fp16_accumulation());
  EXPECT_EQ(linalg::precision_bits(), driver::kHalfSums);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    if (device.is_cuda() && cuda::device_count() == 0) continue;
    const Tensor x = ones({64, 1024}, {float16, device});
    EXPECT_EQ(x.mm(x.t()).to(float32).max().item<float>(), 1024) << "every sum is a float16";
    // A factor that is no float16 needs float32.
    const Tensor scaled = addmm(zeros({64, 64}, {float16, device}), x, x.t(), 0, 1e-7);
    EXPECT_NEAR(scaled.to(float32).max().item<float>(), 1024e-7, 1e-4);
    EXPECT_EQ(
        addmm(zeros({64, 64}, {float16, device}), x, x.t(), 1e5, 1).to(float32).max().item<float>(),
        1024);
    // Elsewhere the setting changes nothing: 2^16 is no float16, and half of it is one.
    if (device.is_cuda() && !cuda::is_simulated()) continue;
    const Tensor row = full({1, 1024}, 8, {float16, device});
    EXPECT_EQ(addmm(zeros({1, 1}, {float16, device}), row, row.t(), 0, 0.5).item<float>(), 32768);
  }
}

TEST(BlasHandle, IsOneOfTheThread) {
  NEEDS_DEVICES(1);
  if (cuda::is_simulated()) {
    EXPECT_ERROR((void)cuda::current_blas_handle(), Error,
                 "the simulated driver does not offer handles of cuBLAS");
    return;
  }
  ::cublasContext* const handle = cuda::current_blas_handle();
  EXPECT_NE(handle, nullptr);
  const cuda::Stream side;
  const cuda::StreamGuard on(side);
  EXPECT_EQ(cuda::current_blas_handle(), handle);
}

}  // namespace
}  // namespace ember
