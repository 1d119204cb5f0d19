#include "ember/fft/stft.h"

#include <algorithm>
#include <string>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/fft/transform.h"
#include "ember/ops/cat.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/rearrange.h"

namespace ember::inline v0 {
namespace {

using fft::Norm;

/// The options with nothing left open.
struct Pieces {
  std::int64_t hop, win;
  const Tensor* window;  ///< null: ones
};

Pieces pieces_of(std::int64_t n_fft, const StftOptions& options) {
  return {options.hop_length.value_or(n_fft / 4), options.win_length.value_or(n_fft),
          options.window ? &*options.window : nullptr};
}

// ---- How torch shows the arguments in its errors

std::string type_text(const Tensor& tensor) {
  return std::string(tensor.is_cuda() ? "torch.cuda." : "torch.") + legacy_name(tensor.dtype()) +
         "Tensor";
}

template <class T>
std::string option_text(const std::optional<T>& option) {
  return option ? std::to_string(static_cast<std::int64_t>(*option)) : "None";
}

std::string text_of(const Pieces& pieces, std::int64_t n_fft) {
  std::string window = "None";
  if (pieces.window != nullptr)
    window = type_text(*pieces.window) + "{" + pieces.window->sizes().str() + "}";
  return ", n_fft=" + std::to_string(n_fft) + ", hop_length=" + std::to_string(pieces.hop) +
         ", win_length=" + std::to_string(pieces.win) + ", window=" + window;
}

std::string stft_text(const Tensor& input, std::int64_t n_fft, const Pieces& pieces,
                      const StftOptions& options) {
  return "stft(" + type_text(input) + input.sizes().str() + text_of(pieces, n_fft) +
         ", normalized=" + std::to_string(static_cast<int>(options.normalized)) +
         ", onesided=" + option_text(options.onesided) +
         ", return_complex=" + option_text(options.return_complex) +
         ", align_to_window=" + option_text(options.align_to_window) + ") : expected ";
}

std::string istft_text(const Tensor& input, std::int64_t n_fft, const Pieces& pieces,
                       const StftOptions& options) {
  return std::string("istft(") + (input.is_cuda() ? "CUDA" : "CPU") + legacy_name(input.dtype()) +
         "Type" + input.sizes().str() + text_of(pieces, n_fft) +
         ", center=" + std::to_string(static_cast<int>(options.center)) +
         ", normalized=" + std::to_string(static_cast<int>(options.normalized)) +
         ", onesided=" + option_text(options.onesided) + ", length=" + option_text(options.length) +
         ", return_complex=" +
         std::to_string(static_cast<int>(options.return_complex.value_or(false))) + ")";
}

// ---- Signals and windows

/// The elements of the last dimension `start`, `start` + step, ... where step is 1 or -1.
Tensor stretch(const Tensor& x, std::int64_t start, std::int64_t count, bool backwards) {
  const Tensor part = x.narrow(-1, start, count);
  return backwards ? part.flip({-1}) : part;
}

/// The last dimension of x, padded at both ends.
Tensor padded(const Tensor& x, std::int64_t pad, std::string_view mode) {
  const std::int64_t size = x.size(-1);
  const auto refuse = [&](const char* expected) {
    throw Error(std::string("Argument #4: Padding size should be ") + expected +
                " the corresponding input dimension, but got: padding (" + std::to_string(pad) +
                ", " + std::to_string(pad) + ") at dimension 2 of input " +
                (x.dim() == 1 ? x.unsqueeze(0).unsqueeze(0) : x.unsqueeze(0)).sizes().str());
  };
  Shape edge = x.sizes();
  edge[x.dim() - 1] = pad;
  if (mode == "constant") {
    const Tensor zero = zeros(edge, x.options());
    return cat({zero, x, zero}, -1);
  }
  if (mode == "reflect") {
    if (pad >= size) refuse("less than");
    return cat({stretch(x, 1, pad, true), x, stretch(x, size - 1 - pad, pad, true)}, -1);
  }
  if (mode == "replicate") {
    if (size == 0) refuse("less than");
    return cat({x.narrow(-1, 0, 1).expand(edge), x, x.narrow(-1, size - 1, 1).expand(edge)}, -1);
  }
  if (mode == "circular") {
    if (pad > size) refuse("no larger than");
    return cat({stretch(x, size - pad, pad, false), x, stretch(x, 0, pad, false)}, -1);
  }
  throw NotImplementedError("Unrecognised padding mode " + std::string(mode));
}

Tensor with_zeros(const Tensor& x, std::int64_t before, std::int64_t after) {
  Shape sizes = x.sizes();
  sizes[x.dim() - 1] += before + after;
  Tensor out = zeros(sizes, x.options());
  out.narrow(-1, before, x.size(-1)).copy_(x);
  return out;
}

/// The window of n_fft elements, centred; undefined where there is none and none is needed.
Tensor window_of(const Pieces& pieces, std::int64_t n_fft, const Options& like) {
  if (pieces.window == nullptr && pieces.win == n_fft) return {};
  const Tensor window = pieces.window != nullptr ? *pieces.window : ones({pieces.win}, like);
  const std::int64_t before = (n_fft - pieces.win) / 2;
  return pieces.win == n_fft ? window : with_zeros(window, before, n_fft - pieces.win - before);
}

/// Pieces (batch, pieces, n_fft), each `hop` behind the one before, added up.
Tensor overlapped(const Tensor& pieces, std::int64_t hop) {
  const std::int64_t batch = pieces.size(0);
  const std::int64_t count = pieces.size(1);
  const std::int64_t n_fft = pieces.size(2);
  // Cut into parts of `hop` elements, part j of piece t belongs to part t + j of the signal.
  const std::int64_t parts = (n_fft + hop - 1) / hop;
  const Tensor whole = parts * hop == n_fft ? pieces : with_zeros(pieces, 0, parts * hop - n_fft);
  const Tensor cut = whole.reshape({batch, count, parts, hop});
  const Tensor out = zeros({batch, count + parts - 1, hop}, pieces.options());
  for (std::int64_t j = 0; j < parts; ++j) out.narrow(1, j, count).add_(cut.select(2, j));
  return out.view({batch, (count + parts - 1) * hop}).narrow(1, 0, n_fft + hop * (count - 1));
}

}  // namespace

Tensor stft(const Tensor& signal, std::int64_t n_fft, const StftOptions& options) {
  const Pieces pieces = pieces_of(n_fft, options);
  Tensor input = signal;
  if (options.center) {
    if (options.align_to_window)
      throw Error("stft align_to_window should only be set when center = false");
    // Of a signal without dimensions there is not enough to pad with.
    const Tensor given = input.dim() == 0 ? input.unsqueeze(0) : input;
    input = padded(given, std::max<std::int64_t>(n_fft / 2, 0), options.pad_mode);
  }
  if (pieces.window == nullptr)
    warn(Warning::user,
         "A window was not provided. A rectangular window will be applied,which is known to cause "
         "spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are "
         "recommended to reduce spectral leakage.To suppress this warning and use a rectangular "
         "window, explicitly set `window=torch.ones(n_fft, device=<device>)`.");
  const Tensor shown = input;
  const auto refuse = [&](const std::string& expected) {
    throw Error(stft_text(shown, n_fft, pieces, options) + expected);
  };
  const bool as_complex = options.return_complex.value_or(
      input.is_complex() || (pieces.window != nullptr && pieces.window->is_complex()));
  if (!as_complex) {
    if (!options.return_complex)
      throw Error(
          "stft requires the return_complex parameter be given for real inputs, and will further "
          "require that return_complex=True in a future PyTorch release.");
    warn(Warning::user,
         "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
         "return complex tensors for all inputs, and return_complex=False will raise an error.\n"
         "Note: you can still call torch.view_as_real on the complex output to recover the old "
         "return format.");
  }
  if (!input.is_floating_point() && !input.is_complex())
    refuse("a tensor of floating point or complex values");
  if (input.dim() != 1 && input.dim() != 2) refuse("a 1D or 2D tensor");
  if (input.dim() == 1) input = input.unsqueeze(0);
  const std::int64_t length = input.size(1);
  if (n_fft <= 0 || n_fft > length)
    refuse("0 < n_fft < " + std::to_string(length) + ", but got n_fft=" + std::to_string(n_fft));
  if (pieces.hop <= 0) refuse("hop_length > 0, but got hop_length=" + std::to_string(pieces.hop));
  if (pieces.win <= 0 || pieces.win > n_fft)
    refuse("0 < win_length <= n_fft, but got win_length=" + std::to_string(pieces.win));
  if (pieces.window != nullptr &&
      (pieces.window->dim() != 1 || pieces.window->size(0) != pieces.win))
    refuse("a 1D window tensor of size equal to win_length=" + std::to_string(pieces.win) +
           ", but got window with size " + pieces.window->sizes().str());

  std::int64_t count = 1 + (length - n_fft) / pieces.hop;
  if (!options.center && options.align_to_window.value_or(false)) {
    count = 1 + (length - pieces.win) / pieces.hop;
    const std::int64_t before = (n_fft - pieces.win) / 2;
    input = with_zeros(input, before, n_fft - pieces.win - before);
  }
  Tensor cut = input.as_strided({input.size(0), count, n_fft},
                                {input.stride(0), pieces.hop * input.stride(1), input.stride(1)});
  if (const Tensor window = window_of(pieces, n_fft, input.options()); window.defined())
    cut = cut.mul(window);
  fft::require_transformable(cut.dtype(), cut.device());
  const bool onesided = options.onesided.value_or(!cut.is_complex());
  const Norm norm = options.normalized ? Norm::by_root_n : Norm::none;
  if (cut.is_complex() && onesided)
    throw Error("Cannot have onesided output if window or input is complex");
  Tensor out = cut.is_complex() ? fft::c2c(cut, Shape{2}, norm, true)
                                : fft::r2c(cut, Shape{2}, norm, onesided);
  out = out.transpose(1, 2);
  if (signal.dim() < 2) out = out.squeeze(0);
  return as_complex ? out : out.view_as_real();
}

Tensor istft(const Tensor& given, std::int64_t n_fft, const StftOptions& options) {
  const Pieces pieces = pieces_of(n_fft, options);
  if (pieces.window == nullptr)
    warn(Warning::user,
         "A window was not provided. A rectangular window will be applied.Please provide the same "
         "window used by stft to make the inversion lossless.To suppress this warning and use a "
         "rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`.");
  if (!given.is_complex())
    throw Error(
        "istft requires a complex-valued input tensor matching the output from stft with "
        "return_complex=True.");
  const auto refuse = [&](const std::string& reason) {
    throw Error(istft_text(given, n_fft, pieces, options) + reason);
  };
  const std::int64_t count = given.size(-1);
  const std::int64_t frequencies = given.size(-2);
  if (given.numel() == 0) refuse(" : input tensor cannot be empty.");
  if (given.dim() != 2 && given.dim() != 3)  // torch counts real and imaginary part as one
    refuse(" : expected a tensor with 3 or 4 dimensions, but got " +
           std::to_string(given.dim() + 1));
  const bool onesided = options.onesided.value_or(frequencies != n_fft);
  if (frequencies != (onesided ? n_fft / 2 + 1 : n_fft))
    refuse(std::string(" : expected the frequency dimension (3rd to the last) of the input tensor "
                       "to match ") +
           (onesided ? "n_fft / 2 + 1 when onesided=True" : "n_fft when onesided=False") +
           ", but got " + std::to_string(frequencies));
  if (pieces.hop <= 0 || pieces.hop > pieces.win)
    refuse(" : expected 0 < hop_length <= win_length");
  if (pieces.win <= 0 || pieces.win > n_fft) refuse(" : expected 0 < win_length <= n_fft");
  if (pieces.window != nullptr &&
      (pieces.window->dim() != 1 || pieces.window->size(0) != pieces.win))
    refuse(" : Invalid window shape. window has to be 1D and length of `win_length`");

  fft::require_transformable(given.dtype(), given.device());
  const bool as_complex = options.return_complex.value_or(false);
  if (as_complex && onesided)
    throw Error("Cannot have onesided output if window or input is complex");
  if (!as_complex && pieces.window != nullptr && pieces.window->is_complex())
    throw Error("Complex windows are incompatible with return_complex=False");
  Tensor input = (given.dim() == 2 ? given.unsqueeze(0) : given).transpose(1, 2);
  const Norm norm = options.normalized ? Norm::by_root_n : Norm::by_n;
  if (as_complex)
    input = fft::c2c(input, Shape{2}, norm, false);
  else
    input = fft::c2r(onesided ? input : input.slice(2, 0, n_fft / 2 + 1), Shape{2}, norm, n_fft);

  Tensor window = window_of(pieces, n_fft, {real_dtype(given.dtype()), given.device()});
  if (!window.defined()) window = ones({n_fft}, {real_dtype(given.dtype()), given.device()});
  Tensor sum = overlapped(input.mul(window), pieces.hop);
  Tensor weight = overlapped(window.mul(window).expand({1, count, n_fft}), pieces.hop);
  const std::int64_t whole = sum.size(1);
  const std::int64_t start = options.center ? n_fft / 2 : 0;
  const std::int64_t end = options.length   ? start + *options.length
                           : options.center ? -(n_fft / 2)
                                            : whole;
  sum = sum.slice(1, start, end);
  weight = weight.slice(1, start, end);
  constexpr double kLeast = 1e-11;
  if (weight.abs().min().item<double>() < kLeast) refuse(" window overlap add min: 1");
  sum = sum.div(weight);
  if (given.dim() == 2) sum = sum.squeeze(0);
  if (end > whole) {
    warn(Warning::user,
         "The length of signal is shorter than the length parameter. Result is being padded with "
         "zeros in the tail. Please check your center and hop_length settings.");
    sum = with_zeros(sum, 0, end - whole);
  }
  return sum;
}

Tensor Tensor::stft(std::int64_t n_fft, const StftOptions& options) const {
  return ember::stft(*this, n_fft, options);
}
Tensor Tensor::istft(std::int64_t n_fft, const StftOptions& options) const {
  return ember::istft(*this, n_fft, options);
}

}  // namespace ember::inline v0
