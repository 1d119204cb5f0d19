// What the arguments mean, and which transforms they ask for.
#include "ember/fft/fft.h"

#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/fft/transform.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"

namespace ember::inline v0::fft {
namespace {

// ---- Checks

Norm norm_of(NormName name, bool forward) {
  if (!name || *name == "backward") return forward ? Norm::none : Norm::by_n;
  if (*name == "forward") return forward ? Norm::by_n : Norm::none;
  if (*name == "ortho") return Norm::by_root_n;
  throw Error("Invalid normalization mode: \"" + std::string(*name) + "\"");
}

void require_points(std::int64_t n) {
  if (n < 1) throw Error("Invalid number of data points (" + std::to_string(n) + ") specified");
}

/// The input in a dtype that can be transformed; into complex numbers if those are needed. `made`
/// holds it where it had to be made. (References to tensors are counted, which takes time.)
const Tensor& promoted(const Tensor& input, bool to_complex, Tensor& made) {
  Dtype dtype = input.dtype();
  if (is_integral(dtype)) dtype = default_dtype();
  require_transformable(dtype, input.device());
  if (to_complex) dtype = complex_dtype(dtype);
  return input.dtype() == dtype ? input : made = input.to(dtype);
}
Tensor promoted(const Tensor& input, bool to_complex) {
  Tensor made;
  return promoted(input, to_complex, made);
}

int one_dim(const Tensor& input, std::int64_t dim) {
  if (input.dim() == 0)
    throw IndexError("Dimension specified as " + std::to_string(dim) +
                     " but tensor has no dimensions");
  return wrap_dim(dim, input.dim());
}

void require_real(const Tensor& input, const char* name, const char* kind) {
  if (input.is_complex())
    throw Error(std::string(name) + " expects a " + kind + " input tensor, but got " +
                legacy_name(input.dtype()));
}

/// Before anything is computed.
void require_output(const Tensor* out, bool is_complex, const char* name) {
  if (out == nullptr || (is_complex ? out->is_complex() : out->is_floating_point())) return;
  throw Error(std::string(name) + " expects a " + (is_complex ? "complex" : "floating point") +
              " output tensor, but got " + legacy_name(out->dtype()));
}

/// Into an output of any precision.
Tensor put(Tensor* out, Tensor&& result) {
  if (out == nullptr) return std::move(result);
  if (out->dtype() == result.dtype()) return ops::put_result(*out, result);
  ops::prepare_output(*out, result.device(), result.sizes(), result.dtype());
  ops::require_no_internal_overlap(*out);
  out->copy_(result);
  return *out;
}

/// Cut off, or padded with zeros at the end.
Tensor resized(const Tensor& input, const Shape& dims, const Shape& sizes) {
  Tensor out = input;
  bool grows = false;
  Shape wanted = input.sizes();
  for (int i = 0; i < dims.size(); ++i) {
    const int dim = static_cast<int>(dims[i]);
    wanted[dim] = sizes[i];
    if (sizes[i] < out.sizes()[dim]) out = out.narrow(dim, 0, sizes[i]);
    grows = grows || sizes[i] > out.sizes()[dim];
  }
  if (!grows) return out;
  Tensor padded = zeros(wanted, {input.dtype(), input.device()});
  Tensor inside = padded;
  for (const std::int64_t dim : dims)
    inside = inside.narrow(dim, 0, out.sizes()[static_cast<int>(dim)]);
  inside.copy_(out);
  return padded;
}
/// The same along one dimension; `made` holds it where it had to be made.
const Tensor& resized(const Tensor& input, int dim, Count size, Tensor& made) {
  if (!size || input.sizes()[dim] == *size) return input;
  return made = resized(input, Shape{dim}, Shape{*size});
}

// ---- One dimension

/// fft and ifft.
Tensor complex_1d(Tensor* out, const char* name, const Tensor& given, Count n, std::int64_t dim,
                  NormName norm, bool forward) {
  Tensor converted;
  const Tensor& input = promoted(given, false, converted);
  require_output(out, true, name);
  const int axis = one_dim(input, dim);
  require_points(n.value_or(input.sizes()[axis]));
  const Norm scale = norm_of(norm, forward);
  Tensor cut;
  const Tensor& signal = resized(input, axis, n, cut);
  if (signal.is_complex()) return put(out, c2c(signal, Shape{axis}, scale, forward));
  Tensor result = r2c(signal, Shape{axis}, scale, false);
  if (!forward) result.conj_();
  return put(out, std::move(result));
}

/// rfft and ihfft.
Tensor half_1d(Tensor* out, const char* name, const Tensor& given, Count n, std::int64_t dim,
               NormName norm, bool forward) {
  require_real(given, name, "real");
  Tensor converted;
  const Tensor& input = promoted(given, false, converted);
  require_output(out, true, name);
  const int axis = one_dim(input, dim);
  require_points(n.value_or(input.sizes()[axis]));
  const Norm scale = norm_of(norm, forward);
  Tensor cut;
  Tensor result = r2c(resized(input, axis, n, cut), Shape{axis}, scale, true);
  if (!forward) result.conj_();
  return put(out, std::move(result));
}

/// irfft and hfft.
Tensor real_1d(Tensor* out, const char* name, const Tensor& given, Count n, std::int64_t dim,
               NormName norm, bool forward) {
  Tensor input = promoted(given, true);
  require_output(out, false, name);
  const int axis = one_dim(input, dim);
  const std::int64_t points = n.value_or((input.sizes()[axis] - 1) * 2);
  require_points(points);
  const Norm scale = norm_of(norm, forward);
  if (n) {
    Tensor cut;
    input = resized(input, axis, points / 2 + 1, cut);
  }
  if (forward) input = input.conj();
  return put(out, c2r(input, Shape{axis}, scale, points));
}

// ---- Several dimensions

struct Signal {
  Shape dims;
  Shape sizes;
};

Signal signal_of(const Tensor& input, const Shapes& s, const Shapes& dim) {
  Signal signal;
  if (dim) {
    DimSet seen;
    for (const std::int64_t given : *dim) {
      const int axis = one_dim(input, given);
      if (seen.test(static_cast<std::size_t>(axis))) throw Error("FFT dims must be unique");
      seen.set(static_cast<std::size_t>(axis));
      signal.dims.push_back(axis);
    }
  }
  if (s) {
    if (dim && dim->size() != s->size())
      throw Error("When given, dim and shape arguments must have the same length");
    if (s->size() > input.dim())
      throw Error("Got shape with " + std::to_string(s->size()) +
                  " values but input tensor only has " + std::to_string(input.dim()) +
                  " dimensions.");
    if (!dim)
      for (int i = 0; i < s->size(); ++i) signal.dims.push_back(input.dim() - s->size() + i);
    for (int i = 0; i < s->size(); ++i)
      signal.sizes.push_back((*s)[i] == -1 ? input.sizes()[static_cast<int>(signal.dims[i])]
                                           : (*s)[i]);
  } else {
    if (!dim)
      for (int i = 0; i < input.dim(); ++i) signal.dims.push_back(i);
    for (const std::int64_t axis : signal.dims)
      signal.sizes.push_back(input.sizes()[static_cast<int>(axis)]);
  }
  for (const std::int64_t size : signal.sizes) require_points(size);
  return signal;
}

/// The same for a signal that is given as half of it: `points` is what the last dimension has.
Signal half_signal_of(const char* name, const Tensor& input, const Shapes& s, const Shapes& dim,
                      std::int64_t& points) {
  Signal signal = signal_of(input, s, dim);
  if (signal.dims.empty()) throw Error(std::string(name) + " must transform at least one axis");
  const int last = signal.sizes.size() - 1;
  points = s && s->back() != -1 ? signal.sizes[last]
                                : 2 * (input.sizes()[static_cast<int>(signal.dims.back())] - 1);
  require_points(points);
  signal.sizes[last] = points / 2 + 1;
  return signal;
}

Shape without_last(const Shape& dims) {
  const std::span<const std::int64_t> all = dims;
  return Shape(all.first(all.size() - 1));
}

Tensor complex_nd(Tensor* out, const char* name, const Tensor& given, const Shapes& s,
                  const Shapes& dim, NormName norm, bool forward) {
  const Signal signal = signal_of(given, s, dim);
  const Tensor input = promoted(given, true);
  require_output(out, true, name);
  const Norm scale = norm_of(norm, forward);
  return put(out, c2c(resized(input, signal.dims, signal.sizes), signal.dims, scale, forward));
}

Tensor do_rfftn(Tensor* out, const Tensor& given, const Shapes& s, const Shapes& dim,
                NormName norm) {
  require_real(given, "rfftn", "real-valued");
  const Tensor input = promoted(given, false);
  const Signal signal = signal_of(input, s, dim);
  if (signal.dims.empty()) throw Error("rfftn must transform at least one axis");
  require_output(out, true, "rfftn");
  const Norm scale = norm_of(norm, true);
  return put(out, r2c(resized(input, signal.dims, signal.sizes), signal.dims, scale, true));
}

Tensor do_irfftn(Tensor* out, const Tensor& given, const Shapes& s, const Shapes& dim,
                 NormName norm) {
  std::int64_t points = 0;
  const Signal signal = half_signal_of("irfftn", given, s, dim, points);
  const Tensor input = promoted(given, true);
  require_output(out, false, "irfftn");
  const Norm scale = norm_of(norm, false);
  return put(out, c2r(resized(input, signal.dims, signal.sizes), signal.dims, scale, points));
}

Tensor do_hfftn(Tensor* out, const Tensor& given, const Shapes& s, const Shapes& dim,
                NormName norm) {
  std::int64_t points = 0;
  const Signal signal = half_signal_of("hfftn", given, s, dim, points);
  const Tensor input = promoted(given, true);
  require_output(out, false, "hfftn");
  const Norm scale = norm_of(norm, true);
  Tensor half = resized(input, signal.dims, signal.sizes);
  if (signal.dims.size() > 1) half = c2c(half, without_last(signal.dims), scale, true);
  return put(out, c2r(half.conj(), Shape{signal.dims.back()}, scale, points));
}

Tensor do_ihfftn(Tensor* out, const Tensor& given, const Shapes& s, const Shapes& dim,
                 NormName norm) {
  const Signal signal = signal_of(given, s, dim);
  if (signal.dims.empty()) throw Error("ihfftn must transform at least one axis");
  const Tensor input = promoted(given, false);
  if (input.is_complex())
    throw Error(std::string("Only supports floating-point dtypes, but found: ") +
                legacy_name(input.dtype()));
  require_output(out, true, "ihfftn");
  const Norm scale = norm_of(norm, false);
  Tensor half =
      r2c(resized(input, signal.dims, signal.sizes), Shape{signal.dims.back()}, scale, true);
  half.conj_();
  if (signal.dims.size() > 1) half = c2c(half, without_last(signal.dims), scale, false);
  return put(out, std::move(half));
}

Tensor do_fftn(Tensor* out, const Tensor& input, const Shapes& s, const Shapes& dim,
               NormName norm) {
  return complex_nd(out, "fftn", input, s, dim, norm, true);
}
Tensor do_ifftn(Tensor* out, const Tensor& input, const Shapes& s, const Shapes& dim,
                NormName norm) {
  return complex_nd(out, "ifftn", input, s, dim, norm, false);
}

}  // namespace

// Each as a function and with an output.
#define EMBER_FFT_1D(name, call, forward)                                                          \
  Tensor name(const Tensor& input, Count n, std::int64_t dim, NormName norm) {                     \
    return call(nullptr, #name, input, n, dim, norm, forward);                                     \
  }                                                                                                \
  Tensor& name##_out(Tensor& out, const Tensor& input, Count n, std::int64_t dim, NormName norm) { \
    (void)call(&out, #name, input, n, dim, norm, forward);                                         \
    return out;                                                                                    \
  }
EMBER_FFT_1D(fft, complex_1d, true)
EMBER_FFT_1D(ifft, complex_1d, false)
EMBER_FFT_1D(rfft, half_1d, true)
EMBER_FFT_1D(ihfft, half_1d, false)
EMBER_FFT_1D(hfft, real_1d, true)
EMBER_FFT_1D(irfft, real_1d, false)
#undef EMBER_FFT_1D

#define EMBER_FFT_ND(name, call)                                                           \
  Tensor name(const Tensor& input, const Shapes& s, const Shapes& dim, NormName norm) {    \
    return call(nullptr, input, s, dim, norm);                                             \
  }                                                                                        \
  Tensor& name##_out(Tensor& out, const Tensor& input, const Shapes& s, const Shapes& dim, \
                     NormName norm) {                                                      \
    (void)call(&out, input, s, dim, norm);                                                 \
    return out;                                                                            \
  }
EMBER_FFT_ND(fftn, do_fftn)
EMBER_FFT_ND(ifftn, do_ifftn)
EMBER_FFT_ND(rfftn, do_rfftn)
EMBER_FFT_ND(irfftn, do_irfftn)
EMBER_FFT_ND(hfftn, do_hfftn)
EMBER_FFT_ND(ihfftn, do_ihfftn)
EMBER_FFT_ND(fft2, do_fftn)
EMBER_FFT_ND(ifft2, do_ifftn)
EMBER_FFT_ND(rfft2, do_rfftn)
EMBER_FFT_ND(irfft2, do_irfftn)
EMBER_FFT_ND(hfft2, do_hfftn)
EMBER_FFT_ND(ihfft2, do_ihfftn)
#undef EMBER_FFT_ND

}  // namespace ember::inline v0::fft
