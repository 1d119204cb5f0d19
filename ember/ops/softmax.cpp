#include "ember/ops/softmax.h"

#include <array>
#include <string>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/recorder.h"
#include "ember/ops/run.h"
#include "ember/ops/softmax_args.h"
#include "ember/ops/softmax_kernels.h"

namespace ember::inline v0 {
namespace {

using ops::SoftmaxArgs;

/// That of the last dimension, as steps that a recorder takes.
Tensor recorded_softmax(const Tensor& x, bool logarithm) {
  const Dtype type = x.dtype();
  const Tensor wide = is_half(type) ? x.to(Dtype::float32) : x;
  const Tensor below = wide - wide.amax(-1, true);
  const Tensor powers = below.exp();
  const Tensor sums = powers.sum(-1, true);
  return (logarithm ? below - sums.log() : powers / sums).to(type).contiguous();
}

Tensor softmax_of(Tensor* out, const Tensor& given, std::int64_t given_dim,
                  std::optional<Dtype> dtype, bool logarithm) {
  const int dim = wrap_dim(given_dim, given.dim());
  const Dtype type = dtype.value_or(given.dtype());
  if (!is_floating_point(type))
    ops::throw_not_implemented(logarithm ? "log_softmax" : "softmax", type);
  if (ops::Recorder* const recorder = ops::recorder(); recorder != nullptr && out == nullptr &&
                                                       dim == given.dim() - 1 &&
                                                       recorder->reduces(given, 1))
    return recorded_softmax(given.to(type), logarithm);
  Tensor made;
  if (out != nullptr) {
    ops::require_dtype(*out, type);
    const std::array<const Tensor*, 1> inputs{&given};
    ops::prepare_output(*out, given.device(), given.sizes(), type, inputs);
    ops::require_no_internal_overlap(*out);
    ops::require_no_partial_overlap(*out, given);
    if (out->is_contiguous()) made = *out;
  }
  if (!made.defined()) made = empty(given.sizes(), {type, given.device()});
  const Tensor x = given.to(type).contiguous();
  if (x.numel() > 0) {
    SoftmaxArgs args{x.address(), made.address(), nullptr, 1, 1, 1, logarithm};
    for (int i = 0; i < x.dim(); ++i)
      (i < dim ? args.outer : i == dim ? args.count : args.inner) *= x.sizes()[i];
    const driver::Kernel& kernel = ops::softmax_kernel(type);
    const ops::Site site = ops::at(x, made);
    const Tensor scratch = ops::scratch_for(site, kernel, args);
    if (scratch.defined()) args.scratch = scratch.address();
    const std::array<cuda::Access, 2> accesses{ops::reads(x, "self"), ops::writes_output(made)};
    ops::run(site, kernel, args, accesses);
  }
  if (out == nullptr) return made;
  if (!made.is(*out)) out->copy_(made);
  return *out;
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype) {
  return softmax_of(nullptr, x, dim, dtype, false);
}
Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype) {
  return softmax_of(nullptr, x, dim, dtype, true);
}
Tensor& softmax_out(Tensor& out, const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype) {
  (void)softmax_of(&out, x, dim, dtype, false);
  return out;
}
Tensor& log_softmax_out(Tensor& out, const Tensor& x, std::int64_t dim,
                        std::optional<Dtype> dtype) {
  (void)softmax_of(&out, x, dim, dtype, true);
  return out;
}
Tensor Tensor::softmax(std::int64_t dim, std::optional<Dtype> dtype) const {
  return softmax_of(nullptr, *this, dim, dtype, false);
}
Tensor Tensor::log_softmax(std::int64_t dim, std::optional<Dtype> dtype) const {
  return softmax_of(nullptr, *this, dim, dtype, true);
}

Tensor logsumexp(const Tensor& given, const DimList& dims, bool keepdim) {
  const bool integers = !given.is_floating_point() && !given.is_complex();
  const Tensor x = integers ? given.to(default_dtype()) : given;
  if (x.numel() == 0) return x.exp().sum(dims, keepdim).log_();
  const Tensor largest = x.real().amax(dims, true);
  // Infinite ones must not be subtracted from themselves.
  const Tensor offset = largest.masked_fill(largest.isinf(), 0);
  const Tensor sums = sub(x, offset).exp_().sum(dims, true).log_().add_(offset);
  return keepdim ? sums : sums.view(x.sum(dims, false).sizes());
}
Tensor& logsumexp_out(Tensor& out, const Tensor& x, const DimList& dims, bool keepdim) {
  if (!out.is_floating_point() && !out.is_complex())
    throw Error(
        std::string("logsumexp(): Expected floating point type for result tensor, but got: ") +
        legacy_name(out.dtype()));
  const Tensor made = logsumexp(x, dims, keepdim);
  return ops::put_result(out, made.to(out.dtype()));
}

}  // namespace ember::inline v0
