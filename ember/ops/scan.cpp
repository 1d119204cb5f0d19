#include "ember/ops/scan.h"

#include <array>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/ops/scan_args.h"
#include "ember/ops/scan_kernels.h"

namespace ember::inline v0 {
namespace {

using ops::ScanOp;

/// Both contiguous, of the type that is computed in.
void scan(ScanOp op, const Tensor& out, const Tensor& in, int along) {
  ops::ScanArgs args{in.address(), out.address(), nullptr, 1, 1, 1};
  for (int i = 0; i < in.dim(); ++i)
    (i < along ? args.outer : i == along ? args.n : args.inner) *= in.sizes()[i];
  const driver::Kernel& kernel = *ops::scan_kernel(op, in.dtype());
  const ops::Site site = ops::at(in, out);
  const Tensor scratch = ops::scratch_for(site, kernel, args);
  if (scratch.defined()) args.scratch = scratch.address();
  const std::array<cuda::Access, 2> accesses{ops::reads(in, "self"), ops::writes_output(out)};
  ops::run(site, kernel, args, accesses);
}

/// Whether a GPU is quicker with rows than with columns: if there are too few columns to read
/// adjacent ones at once, or to keep all of the device busy.
bool better_as_rows(const Tensor& x, int along) {
  if (!x.is_cuda() || along + 1 >= x.dim()) return false;
  std::int64_t inner = 1;
  for (int i = along + 1; i < x.dim(); ++i) inner *= x.sizes()[i];
  const std::int64_t n = x.sizes()[along];
  if (n == 1) return false;
  const std::int64_t outer = x.numel() / (n * inner);
  return inner > 1 && (inner < 32 || (n > 4096 && outer * (inner / 32) < 128));
}

Tensor scan_into(ScanOp op, Tensor* out, const Tensor& x, std::int64_t dim,
                 std::optional<Dtype> dtype) {
  const char* const name = op == ScanOp::cumsum ? "cumsum" : "cumprod";
  const int along = wrap_dim(dim, x.dim());
  Dtype result = is_integral(x.dtype()) ? Dtype::int64 : x.dtype();
  if (out != nullptr) result = out->dtype();
  if (dtype) result = *dtype;
  if (result == Dtype::bool_) ops::throw_not_implemented(name, result);
  // The low bits of a wide sum are those of a narrow one.
  const Dtype computed = is_integral(result)          ? Dtype::int64
                         : result == Dtype::complex32 ? Dtype::complex64
                                                      : result;
  if (out != nullptr) {
    ops::require_dtype(*out, result);
    const std::array<const Tensor*, 1> inputs{&x};
    ops::prepare_output(*out, x.device(), x.sizes(), result, inputs);
    ops::require_no_internal_overlap(*out);
    ops::require_no_partial_overlap(*out, x);
  }
  const bool turn = x.numel() > 0 && better_as_rows(x, along);
  // What is summed is x.to(result). Of integers, that has the low bits which are computed with.
  const Tensor taken = is_integral(x.dtype()) ? x : x.to(result);
  const Tensor in = (turn ? taken.transpose(along, -1) : taken).to(computed).contiguous();
  if (out != nullptr && !turn && out->is_contiguous() && out->dtype() == computed &&
      out->storage() != x.storage()) {
    if (x.numel() > 0) scan(op, *out, in, along);
    return *out;
  }
  Tensor made = empty(in.sizes(), {computed, x.device()});
  if (x.numel() > 0) scan(op, made, in, turn ? in.dim() - 1 : along);
  if (turn) made = made.transpose(along, -1);
  if (out == nullptr) return made.to(result).contiguous();
  return out->copy_(made);
}

}  // namespace

#define EMBER_SCAN(name)                                                                           \
  Tensor name(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype) {                     \
    return scan_into(ScanOp::name, nullptr, x, dim, dtype);                                        \
  }                                                                                                \
  Tensor& name##_out(Tensor& out, const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype) { \
    (void)scan_into(ScanOp::name, &out, x, dim, dtype);                                            \
    return out;                                                                                    \
  }                                                                                                \
  Tensor Tensor::name(std::int64_t dim, std::optional<Dtype> dtype) const {                        \
    return scan_into(ScanOp::name, nullptr, *this, dim, dtype);                                    \
  }                                                                                                \
  Tensor& Tensor::name##_(std::int64_t dim, std::optional<Dtype> dtype) const {                    \
    (void)scan_into(ScanOp::name, &self(), *this, dim, dtype);                                     \
    return self();                                                                                 \
  }
EMBER_SCAN(cumsum)
EMBER_SCAN(cumprod)
#undef EMBER_SCAN

}  // namespace ember::inline v0
