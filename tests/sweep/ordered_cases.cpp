// Sorting, running sums, and what masks select.
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

using Pair = ValuesAndIndices;

void add_pair(Cases& cases, const std::string& op, const Input& x,
              const std::function<Pair(const Tensor&)>& call,
              const std::function<void(Tensor&, Tensor&, const Tensor&)>& call_out,
              const std::string& note) {
  cases.push_back({op, text_of({x}) + note, {x}, [=](Tensors& t, Device) {
                     const Pair made = call(t[0]);
                     return Tensors{made.values, made.indices};
                   }});
  const Input values = target_for([=](Tensors& t) { return call(t[0]).values; }, {x});
  cases.push_back({op + "_out",
                   text_of({x}) + note,
                   {values, target(Dtype::int64, values.content.sizes), x},
                   [=](Tensors& t, Device) {
                     call_out(t[0], t[1], t[2]);
                     return Tensors{};
                   }});
}

void add_sorts(Cases& cases, Dtype dtype, const Shape& sizes, std::int64_t dim) {
  const Input x = input(dtype, sizes);
  for (const bool descending : {false, true}) {
    const std::string note =
        std::string(descending ? ", down" : ", up") + " dim " + std::to_string(dim);
    add_pair(
        cases, "sort", x, [=](const Tensor& t) { return sort(t, dim, descending); },
        [=](Tensor& values, Tensor& places, const Tensor& t) {
          sort_out(values, places, t, dim, descending);
        },
        note);
    add_with_out(
        cases, "argsort", {x}, [=](Tensors& t) { return argsort(t[0], dim, descending); },
        [=](Tensor& out, Tensors& t) { argsort_out(out, t[0], dim, descending); }, {}, note);
    const std::int64_t k = sizes.empty() ? 1 : (sizes[wrap_dim(dim, sizes.size())] + 1) / 2;
    add_pair(
        cases, "topk", x, [=](const Tensor& t) { return topk(t, k, dim, descending); },
        [=](Tensor& values, Tensor& places, const Tensor& t) {
          topk_out(values, places, t, k, dim, descending);
        },
        note);
  }
}

void add_medians(Cases& cases, Dtype dtype, const Shape& sizes, std::int64_t dim) {
  const Input x = input(dtype, sizes);
  if (sizes.empty() || sizes[wrap_dim(dim, sizes.size())] > 0)
    add_pair(
        cases, "median", x, [=](const Tensor& t) { return median(t, dim); },
        [=](Tensor& values, Tensor& places, const Tensor& t) {
          median_out(values, places, t, dim);
        },
        ", dim " + std::to_string(dim));
  add(cases, "median", {x}, [](Tensors& t) { return median(t[0]); });
}

void add_scans(Cases& cases, Dtype dtype, const Shape& sizes, std::int64_t dim) {
  const std::string note = "dim " + std::to_string(dim);
  const std::vector<Input> x{input(dtype, sizes)};
  add_with_out(
      cases, "cumsum", x, [=](Tensors& t) { return cumsum(t[0], dim); },
      [=](Tensor& out, Tensors& t) { cumsum_out(out, t[0], dim); }, {}, note);
  // Powers of two whose products stay exact, unless a layout repeats them until they overflow.
  const std::vector<Input> y{
      {elements(dtype, sizes, {1, -2, 0.5, 1, -1, 2}), false, true, Home::here}};
  add_with_out(
      cases, "cumprod", y, [=](Tensors& t) { return cumprod(t[0], dim); },
      [=](Tensor& out, Tensors& t) { cumprod_out(out, t[0], dim); }, {}, note);
  if (dtype == Dtype::bool_) return;
  add_in_place(
      cases, "cumsum_", x, [=](Tensors& t) { t[0].cumsum_(dim); }, {}, note);
  add_in_place(
      cases, "cumprod_", y, [=](Tensors& t) { t[0].cumprod_(dim); }, {}, note);
}

}  // namespace

void add_ordered_cases(Cases& cases) {
  struct Along {
    Shape sizes;
    std::int64_t dim;
  };
  const std::vector<Along> list{{{7}, 0},       {{3, 4}, 0},    {{3, 4}, -1}, {{2, 3, 5}, 1},
                                {{1, 4, 1}, 1}, {{1, 4, 1}, 0}, {{}, 0},      {{0, 3}, 1},
                                {{0, 3}, 0},    {{2, 300}, 1}};
  for (const Along& along : list) {
    for (const Dtype dtype : {Dtype::float32, Dtype::int16, Dtype::bool_, Dtype::float64})
      add_sorts(cases, dtype, along.sizes, along.dim);
    for (const Dtype dtype : {Dtype::float32, Dtype::int64, Dtype::bool_, Dtype::complex64})
      add_scans(cases, dtype, along.sizes, along.dim);
    for (const Dtype dtype : {Dtype::float32, Dtype::int16})
      add_medians(cases, dtype, along.sizes, along.dim);
  }
  add_with_out(
      cases, "cumsum", {input(Dtype::int8, {3, 4})},
      [](Tensors& t) { return cumsum(t[0], 0, Dtype::float64); },
      [](Tensor& out, Tensors& t) { cumsum_out(out, t[0], 0, Dtype::float64); }, {}, "dtype");

  for (const Shape& sizes : {Shape{7}, Shape{3, 4}, Shape{2, 3, 5}, Shape{1, 4, 1}, Shape{},
                             Shape{0, 3}, Shape{3, 200}}) {
    for (const Dtype dtype : {Dtype::bool_, Dtype::float32, Dtype::uint8})
      add_with_out(
          cases, "nonzero", {input(dtype, sizes)}, [](Tensors& t) { return nonzero(t[0]); },
          [](Tensor& out, Tensors& t) { nonzero_out(out, t[0]); }, {.by_value = true});
    add(cases, "argwhere", {input(Dtype::float32, sizes)},
        [](Tensors& t) { return argwhere(t[0]); }, {.by_value = true});
    for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::complex128})
      add_with_out(
          cases, "masked_select", {input(dtype, sizes), input(Dtype::bool_, sizes, 1)},
          [](Tensors& t) { return masked_select(t[0], t[1]); },
          [](Tensor& out, Tensors& t) { masked_select_out(out, t[0], t[1]); }, {.by_value = true});
  }
  add_with_out(
      cases, "masked_select", {input(Dtype::float32, {3, 1}), input(Dtype::bool_, {4}, 1)},
      [](Tensors& t) { return masked_select(t[0], t[1]); },
      [](Tensor& out, Tensors& t) { masked_select_out(out, t[0], t[1]); }, {.by_value = true});
}

}  // namespace ember::test
