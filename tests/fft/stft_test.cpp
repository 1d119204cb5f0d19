// Transforms of overlapping pieces: by the definition, there and back, and what is refused.
#include "ember/base/error.h"
#include "tests/fft/support.h"

namespace ember::test {
namespace {

Tensor window_of(std::int64_t size, Dtype dtype, Device device) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < size; ++i)
    list.push_back(0.1 + std::pow(std::sin(3.14159265 * (static_cast<double>(i) + 0.5) /
                                           static_cast<double>(size)),
                                  2));
  return tensor(list).to({dtype, device});
}

StftOptions options_of(const Tensor& window, std::int64_t hop, bool center = true) {
  StftOptions options;
  options.hop_length = hop;
  options.win_length = window.numel();
  options.window = window;
  options.center = center;
  options.return_complex = true;
  return options;
}

TEST(Stft, IsTheTransformOfEachPiece) {
  NEEDS_HOST_FFT();
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex128}) {
    for (const Tensor& x : places(signal(dtype, {2, 50}))) {
      const Tensor window = window_of(8, real_dtype(dtype), x.device());
      StftOptions options = options_of(window, 3, false);
      const Tensor got = stft(x, 8, options);
      EXPECT_EQ(got.sizes(), (Shape{2, x.is_complex() ? 8 : 5, 15}));
      for (std::int64_t t = 0; t < got.size(2); ++t) {
        const Tensor piece = x.narrow(1, 3 * t, 8).mul(window);
        const Tensor expected = x.is_complex() ? fft::fft(piece) : fft::rfft(piece);
        EXPECT_LE(error_of(got.select(2, t), wide(expected)), 4) << dtype_name(dtype) << t;
      }
    }
  }
}

TEST(Stft, PadsAsAsked) {
  NEEDS_HOST_FFT();
  const Tensor x = arange(1, 7, 1, Dtype::float64);  // 1 ... 6
  const Tensor window = ones({4}, Dtype::float64);
  struct Row {
    const char* mode;
    std::vector<double> padded;
  };
  for (const Row& row : {Row{"reflect", {3, 2, 1, 2, 3, 4, 5, 6, 5, 4}},
                         Row{"constant", {0, 0, 1, 2, 3, 4, 5, 6, 0, 0}},
                         Row{"replicate", {1, 1, 1, 2, 3, 4, 5, 6, 6, 6}},
                         Row{"circular", {5, 6, 1, 2, 3, 4, 5, 6, 1, 2}}}) {
    for (const Tensor& here : places(x)) {
      StftOptions options = options_of(window.to(here.device()), 2);
      options.pad_mode = row.mode;
      const Tensor got = stft(here, 4, options);
      options.center = false;
      const Tensor expected = stft(tensor(row.padded).to(here.device()), 4, options);
      EXPECT_LE(error_of(got, wide(expected)), 1) << row.mode;
    }
  }
}

TEST(Stft, GoesThereAndBack) {
  NEEDS_HOST_FFT();
  for (const Dtype dtype : {Dtype::float32, Dtype::complex64}) {
    for (const Tensor& x : places(signal(dtype, {3, 60}))) {
      for (const bool normalized : {false, true})
        for (const std::int64_t win : {8, 5}) {
          const Tensor window = window_of(win, Dtype::float32, x.device());
          StftOptions options = options_of(window, 2);
          options.normalized = normalized;
          const Tensor pieces = x.stft(8, options);
          options.return_complex = x.is_complex();
          options.length = 60;
          const Tensor back = pieces.istft(8, options);
          EXPECT_EQ(back.sizes(), x.sizes());
          EXPECT_LE(error_of(back, wide(x)), 32) << dtype_name(dtype) << win;
          if (win < 8) continue;  // beyond the end the windows leave gaps
          options.length = 70;
          EXPECT_EQ(istft(pieces, 8, options).sizes(), (Shape{3, 70}));
        }
    }
  }
}

TEST(Stft, IsTheSameOnTheDevice) {
  NEEDS_HOST_FFT();
  NEEDS_DEVICES(1);
  const Tensor x = signal(Dtype::float32, {2, 400});
  const Tensor window = window_of(30, Dtype::float32, x.device());
  const Tensor here = stft(x, 30, options_of(window, 7));
  const Tensor there = stft(x.to(kDevice), 30, options_of(window.to(kDevice), 7));
  expect_same(there, here, 64, "stft", 10);
  StftOptions back = options_of(window, 7);
  back.return_complex = false;
  StftOptions back_there = options_of(window.to(kDevice), 7);
  back_there.return_complex = false;
  expect_same(istft(there, 30, back_there), istft(here, 30, back), 64, "istft", 1);
}

TEST(Stft, RefusesInTorchsWords) {
  const Tensor x = ones({20});
  const Tensor window = ones({8});
  StftOptions options = options_of(window, 2);
  options.return_complex = {};
  EXPECT_ERROR(stft(x, 8, options), Error, "stft requires the return_complex parameter be given");
  options = options_of(window, 0);
  EXPECT_ERROR(stft(x, 8, options), Error,
               "stft(torch.FloatTensor[28], n_fft=8, hop_length=0, win_length=8, "
               "window=torch.FloatTensor{[8]}, normalized=0, onesided=None, return_complex=1, "
               "align_to_window=None) : expected hop_length > 0, but got hop_length=0");
  options = options_of(window, 2);
  EXPECT_ERROR(stft(x, 5, options), Error,
               "expected 0 < win_length <= n_fft, but got win_length=8");
  EXPECT_ERROR(stft(x, 60, options), Error,
               "Argument #4: Padding size should be less than the corresponding input dimension, "
               "but got: padding (30, 30) at dimension 2 of input [1, 1, 20]");
  EXPECT_ERROR(stft(ones({20}, Dtype::int64), 8, options), Error,
               "expected a tensor of floating point or complex values");
  EXPECT_ERROR(stft(ones({2, 3, 20}), 8, options), Error, "expected a 1D or 2D tensor");
  options.pad_mode = "bad";
  EXPECT_ERROR(stft(x, 8, options), NotImplementedError, "Unrecognised padding mode bad");
  options = options_of(window, 2);
  options.align_to_window = true;
  EXPECT_ERROR(stft(x, 8, options), Error,
               "stft align_to_window should only be set when center = false");
  options.center = false;
  EXPECT_ERROR(stft(x, 30, options), Error, "expected 0 < n_fft < 20, but got n_fft=30");

  options = options_of(window, 2);
  options.return_complex = false;
  const Tensor pieces = ones({2, 5, 6}, Dtype::complex64);
  EXPECT_ERROR(istft(ones({2, 5, 6}), 8, options), Error,
               "istft requires a complex-valued input tensor");
  EXPECT_ERROR(istft(pieces, 12, options), Error,
               "istft(CPUComplexFloatType[2, 5, 6], n_fft=12, hop_length=2, win_length=8, "
               "window=torch.FloatTensor{[8]}, center=1, normalized=0, onesided=None, length=None, "
               "return_complex=0) : expected the frequency dimension");
  EXPECT_ERROR(istft(ones({1, 2, 5, 6}, Dtype::complex64), 8, options), Error,
               "expected a tensor with 3 or 4 dimensions, but got 5");
  EXPECT_ERROR(istft(ones({2, 5, 0}, Dtype::complex64), 8, options), Error,
               "input tensor cannot be empty.");
  options.return_complex = true;
  EXPECT_ERROR(istft(pieces, 8, options), Error,
               "Cannot have onesided output if window or input is complex");
}

TEST(Stft, RefusesWindowsThatLeaveGaps) {
  NEEDS_HOST_FFT();
  StftOptions options = options_of(zeros({8}), 2);
  options.return_complex = false;
  EXPECT_ERROR(istft(ones({2, 5, 6}, Dtype::complex64), 8, options), Error,
               "window overlap add min: 1");
}

}  // namespace
}  // namespace ember::test
