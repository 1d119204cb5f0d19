// Short-time Fourier transforms: the transforms of overlapping pieces of a signal, and back.
// (PyTorch: torch.stft, torch.istft)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The optional arguments of stft() and istft(), by torch's names.
struct StftOptions {
  std::optional<std::int64_t> hop_length;  ///< between pieces: n_fft / 4
  std::optional<std::int64_t> win_length;  ///< n_fft; a shorter window is centred
  std::optional<Tensor> window;            ///< of win_length elements; ones, which warns
  /// Whether piece t has its middle, and not its beginning, at t * hop_length. stft() then pads the
  /// signal by n_fft / 2 on both sides.
  bool center = true;
  std::string_view pad_mode = "reflect";  ///< or "constant", "replicate", "circular"
  bool normalized = false;                ///< by the root of n_fft
  /// Whether there is only the first half: where signal and window are real.
  std::optional<bool> onesided;
  /// Of stft(): whether the result is complex, or has a last dimension of two instead. Must be
  /// given for real signals; false warns.
  std::optional<bool> return_complex;
  /// Of stft() with center = false: whether piece t has its window, and not the n_fft elements
  /// around that, at t * hop_length.
  std::optional<bool> align_to_window;
  std::optional<std::int64_t> length;  ///< of istft()'s result
};

/// `input` is a signal, or a batch of them (1 or 2 dimensions, of a floating or complex dtype); the
/// result has the dimensions (batch, frequencies, pieces). Error, with all arguments, where they do
/// not fit: `expected 0 < n_fft < 10, but got n_fft=20`. Does not block on CUDA devices.
EMBER_API Tensor stft(const Tensor& input, std::int64_t n_fft, const StftOptions& options = {});
/// The signals that have these pieces, as far as their windows overlap: pieces are multiplied by
/// the window, added up, and divided by the sum of the squared windows. Real unless return_complex
/// is true. Error where that sum is zero somewhere, for which it blocks on CUDA devices.
EMBER_API Tensor istft(const Tensor& input, std::int64_t n_fft, const StftOptions& options = {});

}  // namespace ember::inline v0
