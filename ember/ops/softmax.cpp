#include "ember/ops/softmax.h"

#include <algorithm>
#include <array>

#include "ember/driver/kernels.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/ops/softmax_args.h"

namespace ember::inline v0 {
namespace {

using driver::HostLaunch;
using ops::SoftmaxArgs;

constexpr int kColumns = 256;         ///< of inner elements, worked on together
constexpr std::int64_t kBlock = 256;  ///< exponentials added up before they enter the sum

/// What exponentials are added up in. They take most of the time in any case.
using Sum = double;

template <class T>
void softmax_row(const T* in, T* out, std::int64_t count, bool logarithm) {
  using Value = Compute<T>;
  constexpr int kLanes = 16;
  Value most[kLanes];
  for (auto& lane : most) lane = convert<Value>(in[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int k = 0; k < kLanes; ++k) most[k] = m::maximum(convert<Value>(in[i + k]), most[k]);
  for (; i < count; ++i) most[0] = m::maximum(convert<Value>(in[i]), most[0]);
  for (int k = 1; k < kLanes; ++k) most[0] = m::maximum(most[0], most[k]);
  const Value top = most[0];
  // The exponentials are kept where the output has room for them.
  constexpr bool kKeep = std::is_same_v<T, Value>;
  Sum sum = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    Sum part = 0;
    for (i = first; i < std::min(first + kBlock, count); ++i) {
      const Value power = m::exp(convert<Value>(in[i]) - top);
      part += static_cast<Sum>(power);
      if constexpr (kKeep)
        if (!logarithm) out[i] = power;
    }
    sum += part;
  }
  const auto total = static_cast<Value>(sum);
  if (logarithm) {
    const Value shift = m::log(total);
    for (i = 0; i < count; ++i) out[i] = convert<T>((convert<Value>(in[i]) - top) - shift);
  } else if constexpr (kKeep) {
    for (i = 0; i < count; ++i) out[i] = out[i] / total;
  } else {
    for (i = 0; i < count; ++i) out[i] = convert<T>(m::exp(convert<Value>(in[i]) - top) / total);
  }
}

/// `width` columns whose elements are `step` apart.
template <class T>
void softmax_columns(const T* in, T* out, std::int64_t count, std::int64_t step, int width,
                     bool logarithm) {
  using Value = Compute<T>;
  Value top[kColumns];
  Sum sum[kColumns];
  for (int c = 0; c < width; ++c) {
    top[c] = convert<Value>(in[c]);
    sum[c] = 0;
  }
  for (std::int64_t i = 1; i < count; ++i)
    for (int c = 0; c < width; ++c) top[c] = m::maximum(convert<Value>(in[i * step + c]), top[c]);
  for (std::int64_t first = 0; first < count; first += kBlock) {
    Sum part[kColumns];
    std::fill_n(part, width, Sum(0));
    for (std::int64_t i = first; i < std::min(first + kBlock, count); ++i)
      for (int c = 0; c < width; ++c)
        part[c] += static_cast<Sum>(m::exp(convert<Value>(in[i * step + c]) - top[c]));
    for (int c = 0; c < width; ++c) sum[c] += part[c];
  }
  Value total[kColumns];
  for (int c = 0; c < width; ++c) {
    total[c] = static_cast<Value>(sum[c]);
    if (logarithm) total[c] = m::log(total[c]);
  }
  for (std::int64_t i = 0; i < count; ++i)
    for (int c = 0; c < width; ++c) {
      const Value x = convert<Value>(in[i * step + c]) - top[c];
      out[i * step + c] = convert<T>(logarithm ? x - total[c] : m::exp(x) / total[c]);
    }
}

template <class T>
Status host_implementation(const driver::Params& params, const HostLaunch& on) {
  const auto& args = params.as<SoftmaxArgs>();
  const std::int64_t all = args.outer * args.count * args.inner;
  const T* in = on.at(static_cast<const T*>(args.in), static_cast<std::size_t>(all));
  if (in == nullptr) return on.fault();
  T* out = on.at(static_cast<T*>(args.out), static_cast<std::size_t>(all));
  if (out == nullptr) return on.fault();
  for (std::int64_t o = 0; o < args.outer; ++o) {
    const std::int64_t at = o * args.count * args.inner;
    if (args.inner == 1) {
      softmax_row(in + at, out + at, args.count, args.logarithm);
      continue;
    }
    for (std::int64_t c = 0; c < args.inner; c += kColumns)
      softmax_columns(in + at + c, out + at + c, args.count, args.inner,
                      static_cast<int>(std::min<std::int64_t>(kColumns, args.inner - c)),
                      args.logarithm);
  }
  return {};
}

// From float16 on, in the order of Dtype.
constinit driver::Kernel kernels[] = {
    {"softmax.float16", &host_implementation<Half>, nullptr},
    {"softmax.bfloat16", &host_implementation<BFloat16>, nullptr},
    {"softmax.float32", &host_implementation<float>, nullptr},
    {"softmax.float64", &host_implementation<double>, nullptr},
};
const driver::kernels::Table table(kernels, driver::arguments<SoftmaxArgs>());

Tensor softmax_of(Tensor* out, const Tensor& given, std::int64_t given_dim,
                  std::optional<Dtype> dtype, bool logarithm) {
  const int dim = wrap_dim(given_dim, given.dim());
  const Dtype type = dtype.value_or(given.dtype());
  if (!is_floating_point(type))
    ops::throw_not_implemented(logarithm ? "log_softmax" : "softmax", type);
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
    SoftmaxArgs args{x.data_ptr(), made.data_ptr(), 1, 1, 1, logarithm};
    for (int i = 0; i < x.dim(); ++i)
      (i < dim ? args.outer : i == dim ? args.count : args.inner) *= x.sizes()[i];
    const std::array<cuda::Access, 2> accesses{ops::reads(x), ops::writes(made)};
    ops::run(ops::at(x, made), kernels[static_cast<int>(type) - static_cast<int>(Dtype::float16)],
             args, accesses);
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

}  // namespace ember::inline v0
