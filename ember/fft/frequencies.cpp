// The frequencies of transforms, and their order.
#include <string>

#include "ember/base/error.h"
#include "ember/fft/fft.h"
#include "ember/ops/factories.h"
#include "ember/ops/rearrange.h"

namespace ember::inline v0::fft {
namespace {

void require_dtype(Dtype dtype, const char* name) {
  if (!is_floating_point(dtype) && !is_complex_dtype(dtype))
    throw Error(std::string(name) + " requires a floating point or complex dtype");
}

double step(std::int64_t n, double d) { return 1.0 / (static_cast<double>(n) * d); }

Tensor new_one(std::int64_t size, const Options& options, const char* name) {
  require_dtype(options.dtype.value_or(default_dtype()), name);
  Options own = options;
  own.dtype = options.dtype.value_or(default_dtype());
  return empty({size}, own);
}

Tensor& fill(Tensor& out, std::int64_t n, double d) {
  arange_out(out, 0, n);
  Tensor negative = out.slice(0, (n + 1) / 2);
  arange_out(negative, -(n / 2), 0);
  return out.mul_(step(n, d));
}

Tensor shifted(const Tensor& input, const Shapes& dim, bool back) {
  Shape dims;
  if (dim)
    dims = *dim;
  else
    for (int i = 0; i < input.dim(); ++i) dims.push_back(i);
  Shape shifts;
  for (const std::int64_t given : dims) {
    const std::int64_t size = input.size(given);
    shifts.push_back(back ? (size + 1) / 2 : size / 2);
  }
  return roll(input, shifts, dims);
}

}  // namespace

Tensor fftfreq(std::int64_t n, double d, const Options& options) {
  Tensor out = new_one(n, options, "fftfreq");
  return fill(out, n, d);
}
Tensor& fftfreq_out(Tensor& out, std::int64_t n, double d) {
  require_dtype(out.dtype(), "fftfreq");
  return fill(out, n, d);
}

Tensor rfftfreq(std::int64_t n, double d, const Options& options) {
  Tensor out = new_one(n / 2 + 1, options, "rfftfreq");
  return rfftfreq_out(out, n, d);
}
Tensor& rfftfreq_out(Tensor& out, std::int64_t n, double d) {
  require_dtype(out.dtype(), "rfftfreq");
  arange_out(out, 0, n / 2 + 1);
  return out.mul_(step(n, d));
}

Tensor fftshift(const Tensor& input, const Shapes& dim) { return shifted(input, dim, false); }
Tensor ifftshift(const Tensor& input, const Shapes& dim) { return shifted(input, dim, true); }

}  // namespace ember::inline v0::fft
