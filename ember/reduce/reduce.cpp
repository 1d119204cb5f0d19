#include "ember/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/recorder.h"
#include "ember/reduce/plan.h"

namespace ember::inline v0 {
namespace {

using reduce::ReduceMode;
using reduce::ReduceOp;
using reduce::Reduction;

/// A contiguous tensor for a result: `out` itself where that can be, else a temporary one, which
/// deliver() copies.
Tensor target(Tensor* out, const Tensor& x, const Shape& sizes, Dtype dtype) {
  if (out == nullptr) return empty(sizes, {dtype, x.device()});
  const std::array<const Tensor*, 1> inputs{&x};
  ops::prepare_output(*out, x.device(), sizes, dtype, inputs);
  ops::require_no_internal_overlap(*out);
  ops::require_no_partial_overlap(*out, x);
  // The output may be the input itself, which other outputs still need.
  if (out->dtype() == dtype && out->is_contiguous() && out->storage() != x.storage()) return *out;
  return empty(sizes, {dtype, x.device()});
}

Tensor deliver(Tensor* out, const Tensor& made) {
  if (out == nullptr) return made;
  if (!made.is(*out)) out->copy_(made);
  return *out;
}

/// How many of a tensor's last dimensions a set is; 0 if it is none of these.
int last_dims(const DimSet& gone, int dims) {
  int count = 0;
  while (count < dims && gone[static_cast<std::size_t>(dims - 1 - count)]) ++count;
  return static_cast<std::size_t>(count) == gone.count() ? count : 0;
}

/// What a recorder knows a reduction as.
std::optional<ops::RowReduction> recorded_as(const Reduction& reduction, Dtype x) {
  using ops::RowReduction;
  switch (reduction.op) {
    case ReduceOp::sum:
      return reduction.mode == ReduceMode::divided ? RowReduction::mean : RowReduction::sum;
    case ReduceOp::prod: return RowReduction::prod;
    case ReduceOp::max: return RowReduction::largest;
    case ReduceOp::min: return RowReduction::smallest;
    case ReduceOp::count_nonzero:
      if (reduction.mode == ReduceMode::any) return RowReduction::any;
      if (reduction.mode == ReduceMode::all) return RowReduction::all;
      if (reduction.mode == ReduceMode::plain && x == Dtype::bool_) return RowReduction::sum;
      return {};
    default: return {};
  }
}

/// By a kernel, or as a step that a recorder takes.
Tensor computed(const Tensor& x, const DimSet& gone, bool keepdim, Dtype result,
                Reduction reduction, Tensor* out) {
  if (ops::Recorder* const recorder = ops::recorder(); recorder != nullptr && out == nullptr) {
    const auto known = recorded_as(reduction, x.dtype());
    Tensor recorded;
    if (known && recorder->reduce({*known, result, x, last_dims(gone, x.dim()), keepdim}, recorded))
      return recorded;
  }
  const Tensor made = target(out, x, reduce::reduced_sizes(x.sizes(), gone, keepdim), result);
  reduction.out = &made;
  reduce::run_reduction(x, gone, reduction);
  return deliver(out, made);
}

/// What was computed in a wider dtype as `result`, in `out` if there is one.
Tensor narrowed(const Tensor& wide, Dtype result, const Tensor& x, Tensor* out) {
  Tensor narrow = wide.to(result);
  if (out == nullptr) return narrow;
  const std::array<const Tensor*, 1> inputs{&x};
  ops::prepare_output(*out, x.device(), narrow.sizes(), result, inputs);
  return out->copy_(narrow);
}

/// `reduction` over the set of dimensions, into `out` if there is one.
Tensor reduced(const Tensor& x, const DimSet& gone, bool keepdim, Dtype result, Reduction reduction,
               Tensor* out) {
  if (x.dtype() != Dtype::complex32) return computed(x, gone, keepdim, result, reduction, out);
  // There are no kernels of complex32.
  const Dtype wide = result == Dtype::complex32 ? Dtype::complex64
                     : result == Dtype::float16 ? Dtype::float32
                                                : result;
  return narrowed(computed(x.to(Dtype::complex64), gone, keepdim, wide, reduction, nullptr), result,
                  x, out);
}

bool floating_or_complex(Dtype dtype) { return contains(dtypes::floating_every_complex, dtype); }

Tensor converted(const Tensor& x, std::optional<Dtype> dtype) {
  return dtype && *dtype != x.dtype() ? x.to(*dtype) : x;
}

// ---- Sums and products

Tensor sum_of(Tensor* out, const Tensor& x, const DimList& dims, bool keepdim,
              std::optional<Dtype> dtype, bool product) {
  const DimSet gone = reduce::gone_dims(dims, x.dim());
  if (dtype && out != nullptr) ops::require_dtype(*out, *dtype);
  // Without a dtype the given output's decides, also a lesser one: elements are converted first.
  if (!dtype && out != nullptr) dtype = out->dtype();
  const Dtype result = dtype.value_or(is_integral(x.dtype()) ? Dtype::int64 : x.dtype());
  // Integers wrap around, so a narrow sum is the low bits of the wide one. Bools saturate.
  const bool widened = is_integral(x.dtype()) && is_integral(result, false);
  const Tensor given = widened ? x : converted(x, result);
  // The kernels have no wide unsigned integers; sums of int64 have the same bits.
  const Tensor from = is_unsigned_wide(given.dtype()) ? given.to(Dtype::int64) : given;
  Reduction reduction{product ? ReduceOp::prod : ReduceOp::sum};
  Dtype made = is_integral(result) ? Dtype::int64 : result;
  if (from.dtype() == Dtype::bool_) {
    reduction.op = ReduceOp::count_nonzero;
    if (result == Dtype::bool_) {
      reduction.mode = product ? ReduceMode::all : ReduceMode::any;
      made = Dtype::bool_;
    } else if (product) {
      reduction.mode = ReduceMode::all_int64;
    }
  }
  if (made == result) return reduced(from, gone, keepdim, result, reduction, out);
  return narrowed(reduced(from, gone, keepdim, made, reduction, nullptr), result, x, out);
}

Tensor mean_of(Tensor* out, const Tensor& x, const DimList& dims, bool keepdim,
               std::optional<Dtype> dtype) {
  if (!floating_or_complex(dtype.value_or(x.dtype())))
    throw Error(std::string("mean(): could not infer output dtype. ") +
                (dtype ? "Optional" : "Input") +
                " dtype must be either a floating point or complex dtype. Got: " +
                legacy_name(dtype.value_or(x.dtype())));
  if (dtype && out != nullptr) ops::require_dtype(*out, *dtype);
  const DimSet gone = reduce::gone_dims(dims, x.dim());
  // A wider output has the mean of wider elements; a real one, as of sums, that of real parts.
  if (!dtype && out != nullptr)
    dtype = x.is_complex() && out->is_floating_point() ? out->dtype()
                                                       : promote_types(x.dtype(), out->dtype());
  const Tensor from = converted(x, dtype);
  const Reduction reduction{ReduceOp::sum, ReduceMode::divided,
                            static_cast<double>(reduce::reduced_count(x.sizes(), gone))};
  return reduced(from, gone, keepdim, from.dtype(), reduction, out);
}

bool is_recorded(const Tensor& x, const DimSet& gone) {
  ops::Recorder* const recorder = ops::recorder();
  return recorder != nullptr && recorder->reduces(x, last_dims(gone, x.dim()));
}

/// The variance, or its root, as steps that a recorder takes.
Tensor recorded_var(const Tensor& x, const DimList& dims, double correction, bool keepdim,
                    ReduceMode mode, std::int64_t count) {
  const Tensor wide = is_half(x.dtype()) ? x.to(Dtype::float32) : x;
  const Tensor apart = wide - wide.mean(dims, true);
  const Tensor sums = apart.square().sum(dims, keepdim);
  const Tensor made = sums / std::max(0.0, static_cast<double>(count) - correction);
  return (mode == ReduceMode::root ? made.sqrt() : made).to(x.dtype());
}

Tensor var_of(Tensor* out, const Tensor& x, const DimList& dims, double correction, bool keepdim,
              ReduceMode mode) {
  if (!floating_or_complex(x.dtype()))
    throw Error("std and var only support floating point and complex dtypes");
  const DimSet gone = reduce::gone_dims(dims, x.dim());
  if (out == nullptr && !x.is_complex() && is_recorded(x, gone))
    return recorded_var(x, dims, correction, keepdim, mode, reduce::reduced_count(x.sizes(), gone));
  return reduced(x, gone, keepdim, real_dtype(x.dtype()), {ReduceOp::var, mode, correction}, out);
}

// ---- Extremes

void require_real(const char* name, const Tensor& x) {
  if (!contains(dtypes::real_or_bool, x.dtype())) ops::throw_not_implemented(name, x.dtype());
}

[[noreturn]] void throw_dim_needed(const char* name, bool index_error) {
  const std::string text = std::string(name) +
                           "(): Expected reduction dim to be specified for input.numel() == 0. "
                           "Specify the reduction dim with the 'dim' argument.";
  if (index_error) throw IndexError(text);
  throw Error(text);
}

void require_elements(const char* name, const Tensor& x, const DimSet& gone) {
  for (int i = 0; i < x.dim(); ++i)
    if (gone[static_cast<std::size_t>(i)] && x.sizes()[i] == 0)
      throw IndexError(std::string(name) + "(): Expected reduction dim " + std::to_string(i) +
                       " to have non-zero size.");
}

Tensor extreme(const char* name, Tensor* out, const Tensor& x, const DimList& dims, bool keepdim,
               ReduceOp op) {
  require_real(name, x);
  const DimSet gone = reduce::gone_dims(dims, x.dim());
  if (dims.all() && x.numel() == 0) throw_dim_needed(name, false);
  require_elements(name, x, gone);
  if (out != nullptr && name[0] == 'a' && out->dtype() != x.dtype())  // amax, not max
    throw Error(std::string("Expected the dtype for input and out to match, but got ") +
                legacy_name(x.dtype()) + " for input's dtype and " + legacy_name(out->dtype()) +
                " for out's dtype.");
  return reduced(x, gone, keepdim, x.dtype(), {op}, out);
}

ValuesAndIndices extremes(const char* name, Tensor* values, Tensor* indices, const Tensor& x,
                          std::int64_t dim, bool keepdim, ReduceOp op) {
  require_real(name, x);
  const DimSet gone = reduce::gone_dims(dim, x.dim());
  require_elements(name, x, gone);
  if (values != nullptr) ops::require_dtype(*values, x.dtype());
  if (indices != nullptr) ops::require_dtype(*indices, Dtype::int64);
  if (values != nullptr && indices != nullptr) ops::require_apart(*values, *indices);
  const Shape sizes = reduce::reduced_sizes(x.sizes(), gone, keepdim);
  const std::array<const Tensor*, 1> inputs{&x};
  if (indices != nullptr) ops::require_output(*indices, x.device(), sizes, Dtype::int64, inputs);
  const Tensor made = target(values, x, sizes, x.dtype());
  const Tensor where = target(indices, x, sizes, Dtype::int64);
  reduce::run_reduction(x, gone, {op, ReduceMode::plain, 0, &made, &where});
  return {deliver(values, made), deliver(indices, where)};
}

Tensor position(const char* name, Tensor* out, const Tensor& x, std::optional<std::int64_t> dim,
                bool keepdim, ReduceOp op) {
  require_real(name, x);
  if (x.dtype() == Dtype::bool_) throw Error(std::string(name) + "(): does not support bool input");
  const DimSet gone = reduce::gone_dims(dim ? DimList(*dim) : DimList(), x.dim());
  if (!dim && x.numel() == 0) throw_dim_needed(name, true);
  require_elements(name, x, gone);
  if (out != nullptr) ops::require_dtype(*out, Dtype::int64);
  const Tensor made = target(out, x, reduce::reduced_sizes(x.sizes(), gone, keepdim), Dtype::int64);
  reduce::run_reduction(x, gone, {op, ReduceMode::plain, 0, nullptr, &made});
  return deliver(out, made);
}

// ---- Counts and norms

Tensor count_of(Tensor* out, const Tensor& x, const DimList& dims, bool keepdim, ReduceMode mode) {
  Dtype truth = x.dtype() == Dtype::uint8 ? Dtype::uint8 : Dtype::bool_;
  if (out != nullptr && mode != ReduceMode::plain) {
    if (out->dtype() != Dtype::uint8) ops::require_dtype(*out, Dtype::bool_);
    truth = out->dtype();
  }
  const Tensor from = is_unsigned_wide(x.dtype()) ? x.to(Dtype::bool_) : x;
  return reduced(from, reduce::gone_dims(dims, x.dim()), keepdim,
                 mode == ReduceMode::plain ? Dtype::int64 : truth, {ReduceOp::count_nonzero, mode},
                 out);
}

Tensor norm_of(Tensor* out, const Tensor& x, double p, const DimList& dims, bool keepdim,
               std::optional<Dtype> dtype) {
  if (!floating_or_complex(x.dtype()))
    throw Error(std::string("linalg.vector_norm: Expected a floating point or complex tensor as "
                            "input. Got ") +
                legacy_name(x.dtype()));
  if (dtype && !floating_or_complex(*dtype))
    throw Error(std::string("linalg.vector_norm: dtype should be floating point or complex. Got ") +
                legacy_name(*dtype));
  if (dtype && is_complex_dtype(*dtype) != is_complex_dtype(x.dtype())) {
    const std::string kind = x.is_complex() ? "complex" : "real";
    throw Error("linalg.vector_norm: dtype should be " + kind + " for " + kind +
                " inputs, but got " + legacy_name(*dtype));
  }
  if (dtype && promote_types(x.dtype(), *dtype) != *dtype)
    throw Error(std::string("linalg.vector_norm: the dtype of the input (") +
                legacy_name(x.dtype()) +
                ") should be convertible without narrowing to the specified dtype (" +
                legacy_name(*dtype) + ")");
  if (out != nullptr) ops::require_dtype(*out, real_dtype(dtype.value_or(x.dtype())));
  const DimSet gone = reduce::gone_dims(dims, x.dim());
  const Tensor from = converted(x, dtype);
  Reduction reduction{ReduceOp::norm, ReduceMode::power, p};
  if (p == 0) {
    reduction = {ReduceOp::count_nonzero, ReduceMode::real};
  } else if (reduce::reduced_count(x.sizes(), gone) == 1) {
    reduction.mode = ReduceMode::largest;  // the absolute value: no power is too large or too small
  } else if (p == 2) {
    reduction = {ReduceOp::norm2};
  } else if (p == 1) {
    reduction.mode = ReduceMode::absolute;
  } else if (std::isinf(p)) {
    reduction.mode = p > 0 ? ReduceMode::largest : ReduceMode::smallest;
    if (reduce::reduced_count(x.sizes(), gone) == 0)
      throw Error(
          "linalg.vector_norm cannot compute the infinity norm on an empty tensor because the "
          "operation does not have an identity");
  }
  return reduced(from, gone, keepdim, real_dtype(from.dtype()), reduction, out);
}

}  // namespace

// Each as a function, into an output, and as a method.
#define EMBER_WITH_DTYPE(name, call)                                                            \
  Tensor name(const Tensor& x, const DimList& dims, bool keepdim, std::optional<Dtype> dtype) { \
    return call(nullptr);                                                                       \
  }                                                                                             \
  Tensor& name##_out(Tensor& out, const Tensor& x, const DimList& dims, bool keepdim,           \
                     std::optional<Dtype> dtype) {                                              \
    (void)call(&out);                                                                           \
    return out;                                                                                 \
  }                                                                                             \
  Tensor Tensor::name(const DimList& dims, bool keepdim, std::optional<Dtype> dtype) const {    \
    return ember::name(*this, dims, keepdim, dtype);                                            \
  }
#define EMBER_SUM(out) sum_of(out, x, dims, keepdim, dtype, false)
#define EMBER_PROD(out) sum_of(out, x, dims, keepdim, dtype, true)
#define EMBER_MEAN(out) mean_of(out, x, dims, keepdim, dtype)
EMBER_WITH_DTYPE(sum, EMBER_SUM)
EMBER_WITH_DTYPE(prod, EMBER_PROD)
EMBER_WITH_DTYPE(mean, EMBER_MEAN)

#define EMBER_WITH_CORRECTION(name, mode)                                                  \
  Tensor name(const Tensor& x, const DimList& dims, double correction, bool keepdim) {     \
    return var_of(nullptr, x, dims, correction, keepdim, mode);                            \
  }                                                                                        \
  Tensor& name##_out(Tensor& out, const Tensor& x, const DimList& dims, double correction, \
                     bool keepdim) {                                                       \
    (void)var_of(&out, x, dims, correction, keepdim, mode);                                \
    return out;                                                                            \
  }                                                                                        \
  Tensor Tensor::name(const DimList& dims, double correction, bool keepdim) const {        \
    return var_of(nullptr, *this, dims, correction, keepdim, mode);                        \
  }
EMBER_WITH_CORRECTION(var, ReduceMode::plain)
EMBER_WITH_CORRECTION(std, ReduceMode::root)

#define EMBER_EXTREMES(name, op)                                                           \
  Tensor name(const Tensor& x) { return extreme(#name, nullptr, x, {}, false, op); }       \
  Tensor& name##_out(Tensor& out, const Tensor& x) {                                       \
    (void)extreme(#name, &out, x, {}, false, op);                                          \
    return out;                                                                            \
  }                                                                                        \
  ValuesAndIndices name(const Tensor& x, std::int64_t dim, bool keepdim) {                 \
    return extremes(#name, nullptr, nullptr, x, dim, keepdim, op);                         \
  }                                                                                        \
  void name##_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim,      \
                  bool keepdim) {                                                          \
    (void)extremes(#name, &values, &indices, x, dim, keepdim, op);                         \
  }                                                                                        \
  Tensor Tensor::name() const { return ember::name(*this); }                               \
  ValuesAndIndices Tensor::name(std::int64_t dim, bool keepdim) const {                    \
    return ember::name(*this, dim, keepdim);                                               \
  }                                                                                        \
  Tensor a##name(const Tensor& x, const DimList& dims, bool keepdim) {                     \
    return extreme("a" #name, nullptr, x, dims, keepdim, op);                              \
  }                                                                                        \
  Tensor& a##name##_out(Tensor& out, const Tensor& x, const DimList& dims, bool keepdim) { \
    (void)extreme("a" #name, &out, x, dims, keepdim, op);                                  \
    return out;                                                                            \
  }                                                                                        \
  Tensor Tensor::a##name(const DimList& dims, bool keepdim) const {                        \
    return ember::a##name(*this, dims, keepdim);                                           \
  }                                                                                        \
  Tensor arg##name(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {       \
    return position("arg" #name, nullptr, x, dim, keepdim, op);                            \
  }                                                                                        \
  Tensor& arg##name##_out(Tensor& out, const Tensor& x, std::optional<std::int64_t> dim,   \
                          bool keepdim) {                                                  \
    (void)position("arg" #name, &out, x, dim, keepdim, op);                                \
    return out;                                                                            \
  }                                                                                        \
  Tensor Tensor::arg##name(std::optional<std::int64_t> dim, bool keepdim) const {          \
    return ember::arg##name(*this, dim, keepdim);                                          \
  }
EMBER_EXTREMES(max, ReduceOp::max)
EMBER_EXTREMES(min, ReduceOp::min)

Tensor max(const Tensor& x, const Tensor& y) { return maximum(x, y); }
Tensor min(const Tensor& x, const Tensor& y) { return minimum(x, y); }
Tensor Tensor::max(const Tensor& other) const { return maximum(other); }
Tensor Tensor::min(const Tensor& other) const { return minimum(other); }

#define EMBER_COUNTED(name, mode)                                                       \
  Tensor name(const Tensor& x, const DimList& dims, bool keepdim) {                     \
    return count_of(nullptr, x, dims, keepdim, mode);                                   \
  }                                                                                     \
  Tensor& name##_out(Tensor& out, const Tensor& x, const DimList& dims, bool keepdim) { \
    (void)count_of(&out, x, dims, keepdim, mode);                                       \
    return out;                                                                         \
  }                                                                                     \
  Tensor Tensor::name(const DimList& dims, bool keepdim) const {                        \
    return ember::name(*this, dims, keepdim);                                           \
  }
EMBER_COUNTED(any, ReduceMode::any)
EMBER_COUNTED(all, ReduceMode::all)

Tensor count_nonzero(const Tensor& x, const DimList& dims) {
  return count_of(nullptr, x, dims, false, ReduceMode::plain);
}
Tensor& count_nonzero_out(Tensor& out, const Tensor& x, const DimList& dims) {
  (void)count_of(&out, x, dims, false, ReduceMode::plain);
  return out;
}
Tensor Tensor::count_nonzero(const DimList& dims) const {
  return ember::count_nonzero(*this, dims);
}

Tensor norm(const Tensor& x, double p, const DimList& dims, bool keepdim,
            std::optional<Dtype> dtype) {
  return norm_of(nullptr, x, p, dims, keepdim, dtype);
}
Tensor& norm_out(Tensor& out, const Tensor& x, double p, const DimList& dims, bool keepdim,
                 std::optional<Dtype> dtype) {
  (void)norm_of(&out, x, p, dims, keepdim, dtype);
  return out;
}
Tensor Tensor::norm(double p, const DimList& dims, bool keepdim, std::optional<Dtype> dtype) const {
  return ember::norm(*this, p, dims, keepdim, dtype);
}

Tensor trace(const Tensor& x) {
  if (x.dim() != 2)
    throw Error("trace: expected a matrix, but got tensor with dim " + std::to_string(x.dim()));
  if (x.dtype() == Dtype::bool_) ops::throw_not_implemented("trace", x.dtype());
  return x.diagonal().sum();
}

namespace {

void require_spread(const char* name, const Tensor& x) {
  if (!floating_or_complex(x.dtype()))
    throw Error(std::string(name) + " only support floating point and complex dtypes");
}

}  // namespace

std::pair<Tensor, Tensor> var_mean(const Tensor& x, const DimList& dims, double correction,
                                   bool keepdim) {
  require_spread("var_mean", x);
  return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const DimList& dims, double correction,
                                   bool keepdim) {
  require_spread("std_mean", x);
  return {std(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

namespace {

DimList one_of(std::optional<std::int64_t> dim) { return dim ? DimList(*dim) : DimList(); }

void require_extremes(const Tensor& x, std::optional<std::int64_t> dim) {
  require_real("aminmax", x);
  if (dim)
    require_elements("aminmax", x, reduce::gone_dims(one_of(dim), x.dim()));
  else if (x.numel() == 0)
    throw Error(
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
        "identity.");
}

}  // namespace

std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  require_extremes(x, dim);
  return {amin(x, one_of(dim), keepdim), amax(x, one_of(dim), keepdim)};
}
void aminmax_out(Tensor& min, Tensor& max, const Tensor& x, std::optional<std::int64_t> dim,
                 bool keepdim) {
  for (const Tensor* out : {&min, &max}) {
    ops::require_dtype(*out, x.dtype());
    ops::require_same_device(x.device(), out->device());
    ops::require_no_internal_overlap(*out);
    ops::require_no_overlap(*out, x);
  }
  ops::require_apart(min, max);
  amin_out(min, x, one_of(dim), keepdim);
  amax_out(max, x, one_of(dim), keepdim);
}

}  // namespace ember::inline v0
