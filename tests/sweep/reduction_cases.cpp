// Reductions and softmax.
#include <cmath>

#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

/// Powers of two and their opposites: products are exact.
Input powers(Dtype dtype, const Shape& sizes) {
  return {elements(dtype, sizes, {1, -2, 0.5, 1, -1, 2, -0.5}), false, false, Home::here};
}

struct Reduced {
  Shape sizes;
  std::vector<DimList> dims;
};

const std::vector<Reduced>& reduced() {
  static const auto* const kReduced = new std::vector<Reduced>{
      {{7}, {{}, 0}},
      {{3, 4}, {{}, 0, -1}},
      {{2, 3, 5}, {{}, 1, DimList{0, 2}, DimList{1, 2}}},
      {{1, 4, 1}, {0, 1}},
      {{}, {{}}},
      // Longer than what one thread, or one vector instruction, adds up.
      {{3, 200}, {{}, 0, 1}},
      {{130, 5}, {0, 1}},
  };
  return *kReduced;
}

std::string note_of(const DimList& dims) { return "dims " + dims.list().str(); }

/// Sums of floating-point numbers may depend on the strides: their inputs are such that all of them
/// are exact.
void add_sums(Cases& cases, Dtype dtype, const Shape& sizes, const DimList& dims) {
  const std::vector<Input> x{input(dtype, sizes)};
  const std::string note = note_of(dims);
  add_with_out(
      cases, "sum", x, [=](Tensors& t) { return sum(t[0], dims); },
      [=](Tensor& out, Tensors& t) { sum_out(out, t[0], dims); }, {}, note);
  add_with_out(
      cases, "any", x, [=](Tensors& t) { return any(t[0], dims); },
      [=](Tensor& out, Tensors& t) { any_out(out, t[0], dims); }, {}, note);
  add_with_out(
      cases, "all", x, [=](Tensors& t) { return all(t[0], dims); },
      [=](Tensor& out, Tensors& t) { all_out(out, t[0], dims); }, {}, note);
  add_with_out(
      cases, "count_nonzero", x, [=](Tensors& t) { return count_nonzero(t[0], dims); },
      [=](Tensor& out, Tensors& t) { count_nonzero_out(out, t[0], dims); }, {}, note);
  if (!is_complex_dtype(dtype))
    add_with_out(
        cases, "prod", {powers(dtype, sizes)}, [=](Tensors& t) { return prod(t[0], dims, true); },
        [=](Tensor& out, Tensors& t) { prod_out(out, t[0], dims, true); }, {}, note);
  if (is_integral(dtype)) return;
  add_with_out(
      cases, "mean", x, [=](Tensors& t) { return mean(t[0], dims); },
      [=](Tensor& out, Tensors& t) { mean_out(out, t[0], dims); }, {.ulp = 4, .view_ulp = 1}, note);
  // Deviations from a mean that is not exact: sums in any order are this far apart.
  const Traits rounded{.ulp = 64, .view_ulp = 64, .floor = 1};
  add_with_out(
      cases, "var", x, [=](Tensors& t) { return var(t[0], dims, 0); },
      [=](Tensor& out, Tensors& t) { var_out(out, t[0], dims, 0); }, rounded, note);
  add_with_out(
      cases, "std", x, [=](Tensors& t) { return ember::std(t[0], dims, 0); },
      [=](Tensor& out, Tensors& t) { std_out(out, t[0], dims, 0); }, rounded, note);
  cases.push_back({"var_mean", text_of(x) + ", " + note, x,
                   [=](Tensors& t, Device) {
                     const auto [var, mean] = var_mean(t[0], dims, 0);
                     return Tensors{var, mean};
                   },
                   rounded});
  cases.push_back({"std_mean", text_of(x) + ", " + note, x,
                   [=](Tensors& t, Device) {
                     const auto [std, mean] = std_mean(t[0], dims, 0);
                     return Tensors{std, mean};
                   },
                   rounded});
  for (const double p : {0.0, 1.0, 2.0, 3.0, static_cast<double>(INFINITY)})
    add_with_out(
        cases, "norm", x, [=](Tensors& t) { return norm(t[0], p, dims); },
        [=](Tensor& out, Tensors& t) { norm_out(out, t[0], p, dims); },
        {.ulp = 64, .view_ulp = is_complex_dtype(dtype) || p == 3 ? 64.0 : 0.0}, note);
}

void add_extremes(Cases& cases, Dtype dtype, const Shape& sizes, const DimList& dims) {
  const std::vector<Input> x{input(dtype, sizes)};
  const std::string note = note_of(dims);
  add_with_out(
      cases, "amax", x, [=](Tensors& t) { return amax(t[0], dims); },
      [=](Tensor& out, Tensors& t) { amax_out(out, t[0], dims); }, {}, note);
  add_with_out(
      cases, "amin", x, [=](Tensors& t) { return amin(t[0], dims, true); },
      [=](Tensor& out, Tensors& t) { amin_out(out, t[0], dims, true); }, {}, note);
  if (dims.list().size() > 1) return;
  if (dims.all()) {
    add_with_out(
        cases, "max", x, [](Tensors& t) { return max(t[0]); },
        [](Tensor& out, Tensors& t) { max_out(out, t[0]); });
    add_with_out(
        cases, "min", x, [](Tensors& t) { return min(t[0]); },
        [](Tensor& out, Tensors& t) { min_out(out, t[0]); });
  }
  std::optional<std::int64_t> dim;
  if (!dims.all()) dim = dims.list()[0];
  const auto smallest = [=](Tensors& t) { return aminmax(t[0], dim).first; };
  cases.push_back({"aminmax", text_of(x) + ", " + note, x, [=](Tensors& t, Device) {
                     const auto [min, max] = aminmax(t[0], dim);
                     return Tensors{min, max};
                   }});
  const Input extreme = target_for(smallest, x);
  cases.push_back(
      {"aminmax_out", text_of(x) + ", " + note, {extreme, extreme, x[0]}, [=](Tensors& t, Device) {
         aminmax_out(t[0], t[1], t[2], dim);
         return Tensors{};
       }});
  if (dtype != Dtype::bool_) {
    add_with_out(
        cases, "argmax", x, [=](Tensors& t) { return argmax(t[0], dim); },
        [=](Tensor& out, Tensors& t) { argmax_out(out, t[0], dim); }, {}, note);
    add_with_out(
        cases, "argmin", x, [=](Tensors& t) { return argmin(t[0], dim); },
        [=](Tensor& out, Tensors& t) { argmin_out(out, t[0], dim); }, {}, note);
  }
  if (!dim) return;
  const std::int64_t along = *dim;
  const auto pair = [&](const char* op, ValuesAndIndices (*call)(const Tensor&, std::int64_t, bool),
                        void (*call_out)(Tensor&, Tensor&, const Tensor&, std::int64_t, bool)) {
    cases.push_back({op, text_of(x) + ", " + note, x, [=](Tensors& t, Device) {
                       const ValuesAndIndices made = call(t[0], along, false);
                       return Tensors{made.values, made.indices};
                     }});
    const Input values = target_for([=](Tensors& t) { return call(t[0], along, true).values; }, x);
    cases.push_back({std::string(op) + "_out",
                     text_of(x) + ", " + note,
                     {values, target(Dtype::int64, values.content.sizes), x[0]},
                     [=](Tensors& t, Device) {
                       call_out(t[0], t[1], t[2], along, true);
                       return Tensors{};
                     }});
  };
  pair("max", ember::max, ember::max_out);
  pair("min", ember::min, ember::min_out);
}

void add_softmaxes(Cases& cases, Dtype dtype, const Shape& sizes, std::int64_t dim) {
  const std::vector<Input> x{input(dtype, sizes)};
  const Traits rounded{.ulp = 32, .view_ulp = 32, .floor = 1e-3};
  add_with_out(
      cases, "softmax", x, [=](Tensors& t) { return softmax(t[0], dim); },
      [=](Tensor& out, Tensors& t) { softmax_out(out, t[0], dim); }, rounded,
      "dim " + std::to_string(dim));
  Traits logs = rounded;
  logs.floor = 1;
  add_with_out(
      cases, "logsumexp", x, [=](Tensors& t) { return logsumexp(t[0], dim); },
      [=](Tensor& out, Tensors& t) { logsumexp_out(out, t[0], dim); }, logs,
      "dim " + std::to_string(dim));
  add_with_out(
      cases, "log_softmax", x, [=](Tensors& t) { return log_softmax(t[0], dim); },
      [=](Tensor& out, Tensors& t) { log_softmax_out(out, t[0], dim); }, logs,
      "dim " + std::to_string(dim));
}

}  // namespace

void add_reduction_cases(Cases& cases) {
  for (const Reduced& shape : reduced()) {
    for (const DimList& dims : shape.dims) {
      add_sums(cases, Dtype::float32, shape.sizes, dims);
      add_extremes(cases, Dtype::float32, shape.sizes, dims);
      if (element_count(shape.sizes) > 100) continue;
      for (const Dtype dtype : {Dtype::uint8, Dtype::bool_, Dtype::complex64})
        add_sums(cases, dtype, shape.sizes, dims);
      for (const Dtype dtype : {Dtype::bool_, Dtype::int64, Dtype::float16})
        add_extremes(cases, dtype, shape.sizes, dims);
    }
  }
  const std::vector<Input> nothing{input(Dtype::float32, {0, 3})};
  add_with_out(
      cases, "sum", nothing, [](Tensors& t) { return sum(t[0], 0); },
      [](Tensor& out, Tensors& t) { sum_out(out, t[0], 0); });
  add_with_out(
      cases, "prod", nothing, [](Tensors& t) { return prod(t[0], 1); },
      [](Tensor& out, Tensors& t) { prod_out(out, t[0], 1); });
  add_with_out(
      cases, "sum", {input(Dtype::int16, {3, 4})},
      [](Tensors& t) { return sum(t[0], 0, false, Dtype::float64); },
      [](Tensor& out, Tensors& t) { sum_out(out, t[0], 0, false, Dtype::float64); }, {}, "dtype");
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16}) {
    add_softmaxes(cases, dtype, {3, 4}, 0);
    add_softmaxes(cases, dtype, {3, 4}, 1);
    add_softmaxes(cases, dtype, {2, 3, 5}, 1);
    add_softmaxes(cases, dtype, {2, 300}, -1);
  }
  add_softmaxes(cases, Dtype::float32, {}, 0);
  add_softmaxes(cases, Dtype::float32, {0, 3}, 1);
  add_softmaxes(cases, Dtype::float32, {1, 1}, 1);
}

}  // namespace ember::test
