#include "ember/ops/factories.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/ops/checks.h"
#include "ember/ops/plan.h"
#include "ember/ops/ramp.h"
#include "ember/ops/run.h"
#include "ember/tensor/dense_strides.h"

namespace ember::inline v0 {
namespace {

Options filled(const Options& options, const Tensor& like) {
  Options all(options.dtype.value_or(like.dtype()), options.device.value_or(like.device()),
              options.pinned);
  return all;
}

/// How many elements of memory a view spans. Error where that makes no sense.
std::int64_t elements_spanned(const Shape& sizes, const Shape& strides) {
  if (sizes.size() != strides.size())
    throw Error("mismatch in length of strides and shape: " + strides.str() + " and " +
                sizes.str());
  const std::int64_t count = element_count(sizes);
  std::int64_t last = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0)
      throw Error("as_strided: Negative strides are not supported at the moment, got strides: " +
                  strides.str());
    std::int64_t step = 0;
    if (count > 0 && (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
                      __builtin_add_overflow(last, step, &last) || last == INT64_MAX))
      throw ValueError("a tensor of sizes " + sizes.str() + " and strides " + strides.str() +
                       " spans more than 2^63 elements");
  }
  return count == 0 ? 0 : last + 1;
}

/// The dtype that numbers get which have none: that of their kind.
Dtype dtype_of_kind(Dtype number) {
  if (number == Dtype::float64) return default_dtype();
  if (number == Dtype::complex128) return complex_dtype(default_dtype());
  return number;
}

bool fit_int64(std::initializer_list<Scalar> numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](const Scalar& number) { return fits(number, Dtype::int64); });
}

/// How many numbers there are from `start` on before `end`.
std::int64_t count_integers(std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step == 0) throw Error("step must be nonzero");  // 0.5 as an integer
  // Through 128 bits: the distance of two 64-bit numbers need not fit into 64.
  __extension__ using Wide = __int128;
  const Wide distance = static_cast<Wide>(end) - start;
  const Wide size = (distance + step - (step > 0 ? 1 : -1)) / step;
  if (size > INT64_MAX)
    throw Error("invalid size, possible overflow? arange of more than 2^63 elements");
  return static_cast<std::int64_t>(size);
}
std::int64_t count_steps(double start, double end, double step) {
  const double size = std::ceil((end - start) / step);
  if (size >= 9.2e18)
    throw Error("invalid size, possible overflow? arange of " + number_text(size) + " elements");
  return static_cast<std::int64_t>(size);
}

}  // namespace

Tensor empty(const Shape& sizes, const Options& options) {
  return Tensor::make(ops::resolve(options.device.value_or(Device(Device::Type::cpu))),
                      options.dtype.value_or(default_dtype()), sizes, nullptr, options.pinned);
}

Tensor empty_strided(const Shape& sizes, const Shape& strides, const Options& options) {
  const Dtype dtype = options.dtype.value_or(default_dtype());
  const Device device = ops::resolve(options.device.value_or(Device(Device::Type::cpu)));
  const std::size_t bytes = byte_count(elements_spanned(sizes, strides), dtype);
  return Tensor(Storage::allocate(device, bytes, options.pinned), dtype, sizes, strides);
}

Tensor full(const Shape& sizes, const Scalar& value, const Options& options) {
  Options all = options;
  if (!all.dtype) all.dtype = dtype_of_kind(value.dtype());
  Tensor made = empty(sizes, all);
  made.fill_(value);
  return made;
}

Tensor zeros(const Shape& sizes, const Options& options) { return full(sizes, 0.0, options); }
Tensor ones(const Shape& sizes, const Options& options) { return full(sizes, 1.0, options); }

Tensor empty_like(const Tensor& other, const Options& options) {
  const bool keep = is_dense(other.sizes(), other.strides());
  return empty_strided(other.sizes(),
                       keep ? other.strides() : dense_strides(other.sizes(), other.strides()),
                       filled(options, other));
}
Tensor full_like(const Tensor& other, const Scalar& value, const Options& options) {
  Tensor made = empty_like(other, options);
  made.fill_(value);
  return made;
}
Tensor zeros_like(const Tensor& other, const Options& options) {
  return full_like(other, 0, options);
}
Tensor ones_like(const Tensor& other, const Options& options) {
  return full_like(other, 1, options);
}

Tensor& empty_out(Tensor& out, const Shape& sizes) {
  ops::prepare_output(out, out.device(), sizes, out.dtype(), {}, nullptr, ops::Resizing::is_silent);
  return out;
}
Tensor& full_out(Tensor& out, const Shape& sizes, const Scalar& value) {
  require_fits(value, out.dtype());  // before the output changes
  empty_out(out, sizes).fill_(value);
  return out;
}
Tensor& zeros_out(Tensor& out, const Shape& sizes) { return full_out(out, sizes, 0); }
Tensor& ones_out(Tensor& out, const Shape& sizes) { return full_out(out, sizes, 1); }
Tensor& arange_out(Tensor& out, const Scalar& start, const Scalar& end, const Scalar& step) {
  const Tensor made = arange(start, end, step, {out.dtype(), out.device()});
  // As many elements in another shape are as good.
  return ops::put_result(out, made.numel() == out.numel() ? made.view(out.sizes()) : made);
}

Tensor Tensor::new_empty(const Shape& sizes, const Options& options) const {
  return ember::empty(sizes, filled(options, *this));
}
Tensor Tensor::new_zeros(const Shape& sizes, const Options& options) const {
  return ember::zeros(sizes, filled(options, *this));
}
Tensor Tensor::new_ones(const Shape& sizes, const Options& options) const {
  return ember::ones(sizes, filled(options, *this));
}
Tensor Tensor::new_full(const Shape& sizes, const Scalar& value, const Options& options) const {
  return ember::full(sizes, value, filled(options, *this));
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const Options& options) {
  const bool integers =
      is_integral(start.dtype()) && is_integral(end.dtype()) && is_integral(step.dtype());
  Options all = options;
  if (!all.dtype) all.dtype = integers ? Dtype::int64 : default_dtype();
  for (const Scalar& number : {start, end, step}) require_fits(number, Dtype::float64);
  const double from = start.to<double>();
  const double to = end.to<double>();
  const double by = step.to<double>();
  if (by == 0 || std::isnan(by)) throw Error("step must be nonzero");
  if (!std::isfinite(from) || !std::isfinite(to))
    throw Error("unsupported range: " + number_text(from) + " -> " + number_text(to));
  // int64 elements are counted between numbers that are cut off to int64; so are whole numbers.
  const bool whole = *all.dtype == Dtype::int64 || (integers && fit_int64({start, end, step}));
  if (is_integral(*all.dtype))
    for (const Scalar& number : {start, step}) require_fits(number, Dtype::int64);
  if (*all.dtype == Dtype::int64) require_fits(end, Dtype::int64);
  const bool exact = integers && whole;
  const bool backwards = exact ? start.to<std::int64_t>() > end.to<std::int64_t>() : from > to;
  const bool forwards = exact ? start.to<std::int64_t>() < end.to<std::int64_t>() : from < to;
  if (by > 0 ? backwards : forwards)
    throw Error("upper bound and lower bound inconsistent with step sign");
  Tensor made = empty({whole ? count_integers(start.to<std::int64_t>(), end.to<std::int64_t>(),
                                              step.to<std::int64_t>())
                             : count_steps(from, to, by)},
                      all);
  ops::ramp(made, start, step);
  return made;
}

namespace {

/// The same of a floating dtype, to which an integer one is cut off afterwards: whole elements
/// between are not at equal distances.
Tensor real_linspace(double start, double end, std::int64_t steps, const Options& options) {
  const bool integers = is_integral(*options.dtype);
  Options floating = options;
  if (integers) floating.dtype = Dtype::float64;
  const Tensor made = empty({steps}, floating);
  ops::ramp_between(made, start, end);
  return integers ? made.to(options) : made;
}

void require_not_negative(const char* name, std::int64_t value) {
  if (value < 0)
    throw Error(std::string(name) + " must be greater or equal to 0, got " + std::to_string(value));
}

}  // namespace

Tensor linspace(const Scalar& start, const Scalar& end, std::int64_t steps,
                const Options& options) {
  if (steps < 0) throw Error("number of steps must be non-negative");
  const bool complex = is_complex_dtype(start.dtype()) || is_complex_dtype(end.dtype());
  Options all = options;
  if (!all.dtype) all.dtype = complex ? complex_dtype(default_dtype()) : default_dtype();
  if (*all.dtype == Dtype::bool_) ops::throw_not_implemented("linspace", *all.dtype);
  if (complex && !is_complex_dtype(*all.dtype))
    throw Error(std::string("torch.linspace(): inferred dtype ") +
                dtype_name(complex_dtype(default_dtype())) +
                " can't be safely cast to passed dtype " + dtype_name(*all.dtype));
  for (const Scalar& number : {start, end}) require_fits(number, *all.dtype);
  if (is_integral(*all.dtype))  // the ends are cut off first
    return real_linspace(std::trunc(start.to<double>()), std::trunc(end.to<double>()), steps, all);
  if (!is_complex_dtype(*all.dtype))
    return real_linspace(start.to<double>(), end.to<double>(), steps, all);
  Tensor made = empty({steps}, all);
  const Tensor parts = made.view_as_real();
  const auto first = start.to<Complex<double>>();
  const auto last = end.to<Complex<double>>();
  const Options part(parts.dtype(), made.device());
  parts.select(1, 0).copy_(real_linspace(first.re, last.re, steps, part));
  parts.select(1, 1).copy_(real_linspace(first.im, last.im, steps, part));
  return made;
}
Tensor& linspace_out(Tensor& out, const Scalar& start, const Scalar& end, std::int64_t steps) {
  return ops::put_result(out, linspace(start, end, steps, {out.dtype(), out.device()}));
}

Tensor eye(std::int64_t n, std::optional<std::int64_t> m, const Options& options) {
  require_not_negative("n", n);
  require_not_negative("m", m.value_or(n));
  Tensor made = zeros({n, m.value_or(n)}, options);
  made.diagonal().fill_(1);
  return made;
}
Tensor& eye_out(Tensor& out, std::int64_t n, std::optional<std::int64_t> m) {
  return ops::put_result(out, eye(n, m, {out.dtype(), out.device()}), ops::Resizing::is_silent);
}

namespace {

/// The numbers of nested lists in order, with the lengths that the first lists of each depth have.
struct Flattened {
  Shape sizes;
  std::vector<Scalar> numbers;
  Dtype kind = Dtype::bool_;  ///< the widest

  void add(const NestedNumbers& from, int depth) {
    if (!from.is_list()) {
      if (depth != sizes.size())
        throw ValueError("tensor: got a number beside lists, expected a list of length " +
                         std::to_string(sizes[depth]) + " at dim " + std::to_string(depth));
      numbers.push_back(from.number());
      kind = promote_types(kind, from.number().dtype());
      return;
    }
    const auto length = static_cast<std::int64_t>(from.items().size());
    if (depth == sizes.size() && numbers.empty() && !closed) sizes.push_back(length);
    if (depth >= sizes.size() || sizes[depth] != length)
      throw ValueError("tensor: expected " +
                       (depth < sizes.size() ? "a list of length " + std::to_string(sizes[depth])
                                             : std::string("a number")) +
                       " at dim " + std::to_string(depth) + ", got a list of length " +
                       std::to_string(length));
    for (const NestedNumbers& item : from.items()) add(item, depth + 1);
    closed = true;
  }

 private:
  bool closed = false;  ///< a list has ended: all depths are known
};

}  // namespace

Tensor tensor(const NestedNumbers& numbers, const Options& options) {
  Flattened flat;
  flat.add(numbers, 0);
  Options all = options;
  if (!all.dtype) all.dtype = flat.numbers.empty() ? default_dtype() : dtype_of_kind(flat.kind);
  for (const Scalar& number : flat.numbers)
    if (is_integral(*all.dtype) ||
        (is_complex_dtype(number.dtype()) && !is_complex_dtype(*all.dtype)))
      require_fits(number, *all.dtype);
  Tensor made = empty(flat.sizes, *all.dtype);
  with_type(*all.dtype, [&]<class T>() {
    T* to = made.data<T>();
    for (const Scalar& number : flat.numbers) *to++ = number.to<T>();
  });
  const bool stays = (!all.device || !all.device->is_cuda()) && !all.pinned;
  return stays ? made : made.to(all);
}

Tensor scalar_tensor(const Scalar& value, const Options& options) {
  return full({}, value, options);
}

Tensor from_blob(void* data, const Shape& sizes, const Options& options,
                 std::function<void()> release, const std::optional<Shape>& strides) {
  const Dtype dtype = options.dtype.value_or(default_dtype());
  const Device device = ops::resolve(options.device.value_or(Device(Device::Type::cpu)));
  const Shape steps = strides.value_or(contiguous_strides(sizes));
  // Nothing can fail once `release` belongs to the storage.
  const std::size_t bytes = byte_count(elements_spanned(sizes, steps), dtype);
  if (data == nullptr && bytes > 0)
    throw ValueError("from_blob: data is null, expected " + std::to_string(bytes) + " bytes");
  auto storage = Storage::adopt(device, data, bytes, std::move(release));
  return Tensor(std::move(storage), dtype, sizes, steps);
}

}  // namespace ember::inline v0
