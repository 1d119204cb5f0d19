// What is refused, in torch's words.
#include "ember/base/error.h"
#include "tests/fft/support.h"

namespace ember::test {
namespace {

class FftErrors : public ::testing::Test {
 protected:
  const Tensor real_ = ones({4, 5, 6});
  const Tensor complex_ = real_.to(Dtype::complex64);
};

TEST_F(FftErrors, Points) {
  for (const std::int64_t n : {0, -1, -2})
    EXPECT_ERROR(fft::fft(real_, n), Error,
                 "Invalid number of data points (" + std::to_string(n) + ") specified");
  EXPECT_ERROR(fft::fft(zeros({0})), Error, "Invalid number of data points (0) specified");
  EXPECT_ERROR(fft::irfft(complex_.narrow(2, 0, 1)), Error,
               "Invalid number of data points (0) specified");
  EXPECT_ERROR(fft::irfft(zeros({0})), Error, "Invalid number of data points (-2) specified");
  EXPECT_ERROR(fft::fft2(real_, Shape{2, -3}), Error,
               "Invalid number of data points (-3) specified");
  EXPECT_ERROR(fft::irfftn(complex_, Shape{4, 0}), Error,
               "Invalid number of data points (0) specified");
}

TEST_F(FftErrors, Dimensions) {
  EXPECT_ERROR(fft::fft(real_, {}, 3), IndexError,
               "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
  EXPECT_ERROR(fft::rfft(ones({})), IndexError,
               "Dimension specified as -1 but tensor has no dimensions");
  EXPECT_ERROR(fft::fftn(real_, {}, Shape{0, -3}), Error, "FFT dims must be unique");
  EXPECT_ERROR(fft::fft2(real_, Shape{2, 3, 4}), Error,
               "When given, dim and shape arguments must have the same length");
  EXPECT_ERROR(fft::fftn(real_, Shape{2, 3, 4, 5}), Error,
               "Got shape with 4 values but input tensor only has 3 dimensions.");
  EXPECT_ERROR(fft::rfftn(real_, {}, Shape{}), Error, "rfftn must transform at least one axis");
  EXPECT_ERROR(fft::irfftn(real_, {}, Shape{}), Error, "irfftn must transform at least one axis");
  EXPECT_ERROR(fft::hfftn(real_, {}, Shape{}), Error, "hfftn must transform at least one axis");
  EXPECT_ERROR(fft::ihfftn(real_, {}, Shape{}), Error, "ihfftn must transform at least one axis");
  EXPECT_ERROR(fft::fftshift(real_, Shape{5}), IndexError, "Dimension out of range");
  EXPECT_ERROR(fft::fftshift(ones({})), Error, "`shifts` required");
}

TEST_F(FftErrors, Norms) {
  EXPECT_ERROR(fft::fft(real_, {}, -1, "bad"), Error, "Invalid normalization mode: \"bad\"");
  EXPECT_ERROR(fft::irfftn(real_, {}, {}, ""), Error, "Invalid normalization mode: \"\"");
}

TEST_F(FftErrors, Dtypes) {
  EXPECT_ERROR(fft::fft(real_.to(Dtype::float16)), Error,
               "Unsupported dtype Half: it is transformed on CUDA devices");
  EXPECT_ERROR(fft::ifft(real_.to(Dtype::complex32)), Error, "Unsupported dtype ComplexHalf");
  EXPECT_ERROR(fft::irfft(real_.to(Dtype::float16)), Error, "Unsupported dtype Half");
  EXPECT_ERROR(fft::rfft2(real_.to(Dtype::bfloat16)), Error, "Unsupported dtype BFloat16");
  EXPECT_ERROR(fft::rfft(complex_), Error,
               "rfft expects a real input tensor, but got ComplexFloat");
  EXPECT_ERROR(fft::ihfft(complex_), Error,
               "ihfft expects a real input tensor, but got ComplexFloat");
  EXPECT_ERROR(fft::rfftn(complex_), Error,
               "rfftn expects a real-valued input tensor, but got ComplexFloat");
  EXPECT_ERROR(fft::ihfftn(complex_), Error,
               "Only supports floating-point dtypes, but found: ComplexFloat");
  EXPECT_ERROR(fft::fftfreq(5, 1, Dtype::int32), Error,
               "fftfreq requires a floating point or complex dtype");
  EXPECT_ERROR(fft::rfftfreq(5, 1, Dtype::int64), Error,
               "rfftfreq requires a floating point or complex dtype");
}

TEST_F(FftErrors, LeaveOutputsAlone) {
  Tensor real = ones({3});
  Tensor complex = ones({3}, Dtype::complex64);
  EXPECT_ERROR(fft::fft_out(real, complex_), Error,
               "fft expects a complex output tensor, but got Float");
  EXPECT_ERROR(fft::fft2_out(real, complex_), Error,
               "fftn expects a complex output tensor, but got Float");
  EXPECT_ERROR(fft::irfft_out(complex, complex_), Error,
               "irfft expects a floating point output tensor, but got ComplexFloat");
  EXPECT_EQ(values<float>(real), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(complex.sizes(), Shape{3});
}

TEST(FftWithoutHeaders, SaysWhatIsMissing) {
  const Status status = fft::host::available();
  if (status.ok()) GTEST_SKIP() << "this build has them";
  EXPECT_ERROR(fft::fft(ones({4})), Error, "ducc0");
  if (cuda::device_count() > 0 && cuda::is_simulated())
    EXPECT_ERROR(fft::fft(ones({4}, kDevice)), Error, "ducc0");
}

TEST(FftErrorsOnDevices, TensorsOfAnEarlierEpoch) {
  NEEDS_HOST_FFT();
  NEEDS_DEVICES(1);
  if (!cuda::is_simulated()) GTEST_SKIP() << "resets a device, which other tests' tensors are on";
  const Tensor x = ones({8}, kDevice);
  (void)fft::fft(x).cpu();
  EXPECT_GT(cuda::FftPlanCache(0).size(), 0);
  cuda::reset_device(0);
  EXPECT_EQ(cuda::FftPlanCache(0).size(), 0);
  EXPECT_ERROR(fft::fft(x), AcceleratorError, "context is destroyed");
  EXPECT_EQ(fft::fft(ones({8}, kDevice)).select(0, 0).item<std::complex<float>>(), 8.0F);
}

}  // namespace
}  // namespace ember::test
