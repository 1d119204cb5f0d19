// Transforms of float16 and complex32: on devices, along powers of two.
#include "tests/fft/support.h"

namespace ember::test {
namespace {

/// Elements of a device, and as float32 or complex64 on the CPU.
struct Both {
  Tensor there;
  Tensor wide;

  Both(Dtype dtype, const Shape& sizes)
      : there(signal(dtype, sizes).to(kDevice)),
        wide(there.cpu().to(is_complex_dtype(dtype) ? Dtype::complex64 : Dtype::float32)) {}
};

/// cuFFT rounds within a transform: by a half place of float16 per step, at least.
double bound(std::int64_t n) { return 2 * std::max(1.0, std::log2(static_cast<double>(n))); }

TEST(HalfTransforms, OfEveryPowerOfTwo) {
  NEEDS_HOST_FFT();
  for (std::int64_t n = 1; n <= 4096; n *= 2) {
    SCOPED_TRACE(n);
    const Both x(Dtype::complex32, {3, n});
    const Tensor made = fft::fft(x.there);
    EXPECT_EQ(made.dtype(), Dtype::complex32);
    EXPECT_LE(error_of(made, wide(fft::fft(x.wide))), bound(n));
    EXPECT_LE(error_of(fft::ifft(made), wide(x.wide)), 2 * bound(n));

    const Both r(Dtype::float16, {3, n});
    const Tensor half = fft::rfft(r.there);
    EXPECT_EQ(half.dtype(), Dtype::complex32);
    EXPECT_LE(error_of(half, wide(fft::rfft(r.wide))), bound(n));
    const Tensor whole = fft::fft(r.there);
    EXPECT_EQ(whole.dtype(), Dtype::complex32);
    EXPECT_LE(error_of(whole, wide(fft::fft(r.wide))), bound(n));
    const Tensor back = fft::irfft(half, n);
    EXPECT_EQ(back.dtype(), Dtype::float16);
    EXPECT_LE(error_of(back, wide(r.wide)), 2 * bound(n));
  }
}

// Strides that cuFFT does not take of real halves, addresses of a single element, several
// dimensions, and norms.
TEST(HalfTransforms, OfViews) {
  NEEDS_HOST_FFT();
  const Both r(Dtype::float16, {4, 3, 8, 16});
  const auto check = [&](const char* what, auto&& call) {
    SCOPED_TRACE(what);
    EXPECT_LE(error_of(call(r.there), wide(call(r.wide))), bound(4096));
  };
  check("rfft of columns", [](const Tensor& x) { return fft::rfft(x, {}, 0); });
  check("rfft of steps", [](const Tensor& x) { return fft::rfft(x.slice(3, 0, 16, 2)); });
  check("rfft from an odd address", [](const Tensor& x) { return fft::rfft(x.slice(3, 1, 9)); });
  check("rfft2 of a part", [](const Tensor& x) { return fft::rfft2(x.slice(2, 1, 5)); });
  check("rfftn of a turned one", [](const Tensor& x) { return fft::rfftn(x, {}, Shape{3, 0}); });
  check("fftn", [](const Tensor& x) { return fft::fftn(x, {}, Shape{0, 2, 3}, "ortho"); });
  check("ifft2 of a turned one", [](const Tensor& x) {
    return fft::ifft2(x.to(complex_dtype(x.dtype())).transpose(0, 3), {}, Shape{0, 2}, "forward");
  });
  check("irfft2", [](const Tensor& x) {
    return fft::irfft2(fft::rfft2(x, {}, Shape{2, 3}), {}, Shape{2, 3});
  });
  check("hfft", [](const Tensor& x) { return fft::hfft(fft::ihfft(x)); });
  check("padded and cut", [](const Tensor& x) { return fft::rfft2(x, Shape{16, 4}); });
  check("stft", [](const Tensor& x) {
    StftOptions options;
    options.return_complex = true;
    options.window = ones({16}, {x.dtype(), x.device()});
    return stft(x.reshape({-1}), 16, options);
  });
}

// Of so many the dimensions are transformed one after the other. Scaled before the last one, small
// numbers would lose their digits.
TEST(HalfTransforms, OfManyNumbers) {
  NEEDS_HOST_FFT();
  const Shape sizes{2, 4, 1, 1024, 1, 512};
  const double most = bound(std::int64_t{1} << 22);
  const Both r(Dtype::float16, sizes);
  const Shape some{5, 3, 1, 0};
  const Tensor halves = fft::rfftn(r.there, {}, some);
  EXPECT_LE(error_of(halves, wide(fft::rfftn(r.wide, {}, some))), most);
  EXPECT_TRUE(halves.is_contiguous()) << "the last of them lies before the others";
  const Both c(Dtype::complex32, sizes);
  const Tensor there = c.there.mul(0.0625), small = c.wide.mul(0.0625);
  const Tensor result = fft::ifftn(there), expected = fft::ifftn(small);
  EXPECT_LE(error_of(result, wide(expected)), most);
  EXPECT_EQ(result.strides(), expected.strides());
  const Tensor part = there.narrow(5, 0, 257), same = small.narrow(5, 0, 257);
  EXPECT_LE(error_of(fft::irfftn(part.contiguous(), {}, Shape{3, 5}),
                     wide(fft::irfftn(same.contiguous(), {}, Shape{3, 5}))),
            most);
}

TEST(HalfTransforms, ElsewhereAreRefused) {
  NEEDS_HOST_FFT();
  const Tensor x = ones({4, 12}, {Dtype::float16, kDevice});
  const auto text = [](const char* sizes) {
    return std::string(
               "cuFFT only supports dimensions whose sizes are powers of two when "
               "computing in half precision, but got a signal size of") +
           sizes;
  };
  EXPECT_ERROR(fft::fft(x), Error, text("[12]"));
  EXPECT_ERROR(fft::rfft(x), Error, text("[12]"));
  EXPECT_ERROR(fft::rfft2(x), Error, text("[4, 12]"));
  EXPECT_ERROR(fft::irfft(x), Error, text("[22]"));
  EXPECT_ERROR(fft::ifft(x.to(Dtype::complex32)), Error, text("[12]"));
  EXPECT_EQ(fft::fft(x, 16).size(1), 16);
  EXPECT_ERROR(fft::fft(x.to(Dtype::bfloat16)), Error, "Unsupported dtype BFloat16");
}

}  // namespace
}  // namespace ember::test
