// Discrete Fourier transforms. (PyTorch: torch.fft)
//
// Inputs are floating point or complex; integers and bool count as float32, and where complex
// numbers are needed real ones become such. float16 and complex32 are transformed on devices, along
// dimensions whose sizes are powers of two (Error elsewhere): what leaves the range of float16 on
// the way may become infinite, and sums are scaled after they have been rounded. Error `Unsupported
// dtype BFloat16` for bfloat16. Results are new tensors on the input's device. Their dimensions
// have torch's order in memory: those that are transformed last.
//
//  - `n`, `s`: the sizes of the signal, which is cut off or padded with zeros at its end; -1 in `s`
//    keeps a size. Error `Invalid number of data points (0) specified`.
//  - `dim`: which dimensions. IndexError outside the range; Error `FFT dims must be unique`. Of
//    functions with `s` and without `dim` the last ones, or all without either.
//  - `norm`: "backward" divides by the number of points in inverse transforms, "forward" in forward
//    ones, "ortho" by its root in both. "backward" unless given. Error `Invalid normalization mode:
//    "x"`.
//
// The functions ending in _out write into `out`, which may be of any precision and share memory
// with the input; of another shape it is resized, with a warning unless it is empty. Error where
// the result is complex and the output is not, and the other way round.
//
// On the CPU and on simulated devices the transforms are ducc0's: the same bits on both, whatever
// the number of threads. A build without its headers refuses them: Error that says so. On CUDA
// devices they are cuFFT's, opened at the first transform: AcceleratorError 801 that names the
// library and where it was looked for if it is missing. A transform's plan is kept
// (fft/plan_cache_control.h). Nothing blocks on CUDA devices, except where plans that were dropped
// are destroyed. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::fft {

using Count = std::optional<std::int64_t>;
using Shapes = std::optional<Shape>;
using NormName = std::optional<std::string_view>;

// ---- One dimension

/// The transform of a signal, and the signal of a transform.
EMBER_API Tensor fft(const Tensor& input, Count n = {}, std::int64_t dim = -1, NormName norm = {});
EMBER_API Tensor ifft(const Tensor& input, Count n = {}, std::int64_t dim = -1, NormName norm = {});
/// The first half, n / 2 + 1 numbers, of the transform of a real signal; the other half mirrors it.
/// Error `rfft expects a real input tensor, but got ComplexFloat`.
EMBER_API Tensor rfft(const Tensor& input, Count n = {}, std::int64_t dim = -1, NormName norm = {});
/// The real signal of such a half: of 2 * (size - 1) points unless `n` says otherwise. What the
/// half says against being one, as an imaginary part of its first number, is not looked at.
EMBER_API Tensor irfft(const Tensor& input, Count n = {}, std::int64_t dim = -1,
                       NormName norm = {});
/// The real transform of a Hermitian signal, given as its first half, and the first half of the
/// signal of a real transform.
EMBER_API Tensor hfft(const Tensor& input, Count n = {}, std::int64_t dim = -1, NormName norm = {});
EMBER_API Tensor ihfft(const Tensor& input, Count n = {}, std::int64_t dim = -1,
                       NormName norm = {});

EMBER_API Tensor& fft_out(Tensor& out, const Tensor& input, Count n = {}, std::int64_t dim = -1,
                          NormName norm = {});
EMBER_API Tensor& ifft_out(Tensor& out, const Tensor& input, Count n = {}, std::int64_t dim = -1,
                           NormName norm = {});
EMBER_API Tensor& rfft_out(Tensor& out, const Tensor& input, Count n = {}, std::int64_t dim = -1,
                           NormName norm = {});
EMBER_API Tensor& irfft_out(Tensor& out, const Tensor& input, Count n = {}, std::int64_t dim = -1,
                            NormName norm = {});
EMBER_API Tensor& hfft_out(Tensor& out, const Tensor& input, Count n = {}, std::int64_t dim = -1,
                           NormName norm = {});
EMBER_API Tensor& ihfft_out(Tensor& out, const Tensor& input, Count n = {}, std::int64_t dim = -1,
                            NormName norm = {});

// ---- Two dimensions and more: the same one after the other; half of a real transform is along the
// last of `dim`. Error `rfftn must transform at least one axis`.

EMBER_API Tensor fftn(const Tensor& input, const Shapes& s = {}, const Shapes& dim = {},
                      NormName norm = {});
EMBER_API Tensor ifftn(const Tensor& input, const Shapes& s = {}, const Shapes& dim = {},
                       NormName norm = {});
EMBER_API Tensor rfftn(const Tensor& input, const Shapes& s = {}, const Shapes& dim = {},
                       NormName norm = {});
EMBER_API Tensor irfftn(const Tensor& input, const Shapes& s = {}, const Shapes& dim = {},
                        NormName norm = {});
EMBER_API Tensor hfftn(const Tensor& input, const Shapes& s = {}, const Shapes& dim = {},
                       NormName norm = {});
EMBER_API Tensor ihfftn(const Tensor& input, const Shapes& s = {}, const Shapes& dim = {},
                        NormName norm = {});

EMBER_API Tensor& fftn_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                           const Shapes& dim = {}, NormName norm = {});
EMBER_API Tensor& ifftn_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                            const Shapes& dim = {}, NormName norm = {});
EMBER_API Tensor& rfftn_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                            const Shapes& dim = {}, NormName norm = {});
EMBER_API Tensor& irfftn_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                             const Shapes& dim = {}, NormName norm = {});
EMBER_API Tensor& hfftn_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                            const Shapes& dim = {}, NormName norm = {});
EMBER_API Tensor& ihfftn_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                             const Shapes& dim = {}, NormName norm = {});

namespace detail {
inline Shapes last_two() { return Shape{-2, -1}; }
}  // namespace detail

/// The last two dimensions unless `dim` is given: what the functions with n do with that.
EMBER_API Tensor fft2(const Tensor& input, const Shapes& s = {},
                      const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor ifft2(const Tensor& input, const Shapes& s = {},
                       const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor rfft2(const Tensor& input, const Shapes& s = {},
                       const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor irfft2(const Tensor& input, const Shapes& s = {},
                        const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor hfft2(const Tensor& input, const Shapes& s = {},
                       const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor ihfft2(const Tensor& input, const Shapes& s = {},
                        const Shapes& dim = detail::last_two(), NormName norm = {});

EMBER_API Tensor& fft2_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                           const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor& ifft2_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                            const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor& rfft2_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                            const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor& irfft2_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                             const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor& hfft2_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                            const Shapes& dim = detail::last_two(), NormName norm = {});
EMBER_API Tensor& ihfft2_out(Tensor& out, const Tensor& input, const Shapes& s = {},
                             const Shapes& dim = detail::last_two(), NormName norm = {});

// ---- Frequencies, and their order

/// The frequencies of the numbers in a transform of n points that lie `d` apart: 0, 1, ...
/// n / 2 - 1, -n / 2, ... -1 over n * d; and those of its first half. float32 unless another
/// floating dtype is given; Error `fftfreq requires a floating point or complex dtype`.
EMBER_API Tensor fftfreq(std::int64_t n, double d = 1, const Options& options = {});
EMBER_API Tensor rfftfreq(std::int64_t n, double d = 1, const Options& options = {});
/// In an output of a floating dtype; of another size it is resized, with a warning unless it is
/// empty.
EMBER_API Tensor& fftfreq_out(Tensor& out, std::int64_t n, double d = 1);
EMBER_API Tensor& rfftfreq_out(Tensor& out, std::int64_t n, double d = 1);

/// A transform (of any dtype) with the zero frequency in the middle, along all dimensions unless
/// some are given; and back. Errors of roll().
EMBER_API Tensor fftshift(const Tensor& input, const Shapes& dim = {});
EMBER_API Tensor ifftshift(const Tensor& input, const Shapes& dim = {});

}  // namespace ember::inline v0::fft
