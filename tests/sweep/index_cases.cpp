// Elements at places that an index names.
#include <algorithm>

#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

/// A function and the method of the same name with _ at its end.
void add_both(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
              const std::function<Tensor(Tensors&)>& call,
              const std::function<void(Tensors&)>& in_place, const std::string& note = "",
              const Traits& traits = {}) {
  if (call) add(cases, op, inputs, call, traits, note);
  if (in_place) add_in_place(cases, op + "_", inputs, in_place, traits, note);
}

/// Indices that differ along `dim`.
Input distinct_indices(const Shape& sizes, int dim, std::int64_t limit) {
  std::int64_t inner = 1;
  for (int i = dim + 1; i < sizes.size(); ++i) inner *= std::max<std::int64_t>(sizes[i], 1);
  std::vector<double> list;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(element_count(sizes), 1); ++i)
    list.push_back(static_cast<double>((i / inner % std::max<std::int64_t>(sizes[dim], 1) + 1) %
                                       std::max<std::int64_t>(limit, 1)));
  return {elements(Dtype::int64, sizes, list), false, true, Home::here};
}

/// Some slices along a dimension.
void add_slices(Cases& cases, Dtype dtype, const Shape& sizes, std::int64_t dim, Dtype of_index) {
  const std::int64_t limit = sizes[static_cast<int>(dim)];
  const std::int64_t some = limit > 1 ? limit - 1 : limit;
  const Input x = input(dtype, sizes);
  const Input index = indices({some}, limit, of_index);
  Shape part = sizes;
  part[static_cast<int>(dim)] = some;
  const Input source = input(dtype, part, 3);
  const std::string note = "dim " + std::to_string(dim);
  add_with_out(
      cases, "index_select", {x, index}, [=](Tensors& t) { return index_select(t[0], dim, t[1]); },
      [=](Tensor& out, Tensors& t) { index_select_out(out, t[0], dim, t[1]); }, {}, note);
  add_both(
      cases, "index_add", {x, index, source},
      [=](Tensors& t) { return index_add(t[0], dim, t[1], t[2], 2); },
      [=](Tensors& t) { t[0].index_add_(dim, t[1], t[2], 2); }, note);
  add_out(
      cases, "index_add", {x, index, source},
      [=](Tensors& t) { return index_add(t[0], dim, t[1], t[2], 2); },
      [=](Tensor& out, Tensors& t) { index_add_out(out, t[0], dim, t[1], t[2], 2); }, {}, note);
  if (of_index != Dtype::int64) return;
  // Which of two values for one place stays is nobody's promise.
  add_both(
      cases, "index_copy", {x, distinct_indices({some}, 0, limit), source},
      [=](Tensors& t) { return index_copy(t[0], dim, t[1], t[2]); },
      [=](Tensors& t) { t[0].index_copy_(dim, t[1], t[2]); }, note);
  add_out(
      cases, "index_copy", {x, distinct_indices({some}, 0, limit), source},
      [=](Tensors& t) { return index_copy(t[0], dim, t[1], t[2]); },
      [=](Tensor& out, Tensors& t) { index_copy_out(out, t[0], dim, t[1], t[2]); }, {}, note);
  add_both(
      cases, "index_fill", {x, index}, [=](Tensors& t) { return index_fill(t[0], dim, t[1], 3); },
      [=](Tensors& t) { t[0].index_fill_(dim, t[1], 3); }, note);
  add_both(
      cases, "index_fill", {x, index, input(dtype, {})},
      [=](Tensors& t) { return index_fill(t[0], dim, t[1], t[2]); },
      [=](Tensors& t) { t[0].index_fill_(dim, t[1], t[2]); }, note);
}

/// An index as large as the tensor but for one slice.
void add_gathers(Cases& cases, Dtype dtype, const Shape& sizes, std::int64_t dim, Dtype of_index) {
  const std::int64_t limit = sizes[static_cast<int>(dim)];
  Shape part = sizes;
  if (limit > 1) part[static_cast<int>(dim)] = limit - 1;
  const Input x = input(dtype, sizes);
  const Input index = indices(part, limit, of_index);
  const Input source = input(dtype, sizes, 3);
  const std::string note = "dim " + std::to_string(dim);
  add_with_out(
      cases, "gather", {x, index}, [=](Tensors& t) { return gather(t[0], dim, t[1]); },
      [=](Tensor& out, Tensors& t) { gather_out(out, t[0], dim, t[1]); }, {}, note);
  if (of_index == Dtype::int64)
    add_with_out(
        cases, "take_along_dim", {x, indices(part, limit, of_index)},
        [=](Tensors& t) { return take_along_dim(t[0], t[1].narrow(dim, 0, 1), dim); },
        [=](Tensor& out, Tensors& t) {
          take_along_dim_out(out, t[0], t[1].narrow(dim, 0, 1), dim);
        },
        {}, note);
  add_both(
      cases, "scatter", {x, distinct_indices(part, static_cast<int>(dim), limit), source},
      [=](Tensors& t) { return scatter(t[0], dim, t[1], t[2]); },
      [=](Tensors& t) { t[0].scatter_(dim, t[1], t[2]); }, note);
  add_both(
      cases, "scatter", {x, index}, [=](Tensors& t) { return scatter(t[0], dim, t[1], 5); },
      [=](Tensors& t) { t[0].scatter_(dim, t[1], 5); }, note);
  add_out(
      cases, "scatter", {x, distinct_indices(part, static_cast<int>(dim), limit), source},
      [=](Tensors& t) { return scatter(t[0], dim, t[1], t[2]); },
      [=](Tensor& out, Tensors& t) { scatter_out(out, t[0], dim, t[1], t[2]); }, {}, note);
  for (const std::string_view reduce : {"add", "multiply"}) {
    if (is_unsigned_wide(dtype)) break;
    const std::string how = note + ", " + std::string(reduce);
    add_both(
        cases, "scatter", {x, index, source},
        [=](Tensors& t) { return scatter(t[0], dim, t[1], t[2], reduce); },
        [=](Tensors& t) { t[0].scatter_(dim, t[1], t[2], reduce); }, how);
    add_out(
        cases, "scatter", {x, index, source},
        [=](Tensors& t) { return scatter(t[0], dim, t[1], t[2], reduce); },
        [=](Tensor& out, Tensors& t) { scatter_out(out, t[0], dim, t[1], t[2], reduce); }, {}, how);
  }
  add_out(
      cases, "scatter_add", {x, index, source},
      [=](Tensors& t) { return scatter_add(t[0], dim, t[1], t[2]); },
      [=](Tensor& out, Tensors& t) { scatter_add_out(out, t[0], dim, t[1], t[2]); }, {}, note);
  add_both(
      cases, "scatter_add", {x, index, source},
      [=](Tensors& t) { return scatter_add(t[0], dim, t[1], t[2]); },
      [=](Tensors& t) { t[0].scatter_add_(dim, t[1], t[2]); }, note);
}

/// The tensor as one row.
void add_takes(Cases& cases, Dtype dtype, const Shape& sizes) {
  const std::int64_t count = element_count(sizes);
  const Input x = input(dtype, sizes);
  for (const Shape& of_index : {Shape{5}, Shape{2, 3}, Shape{}, Shape{0}}) {
    if (count < element_count(of_index)) continue;
    const Input index = indices(of_index, count);
    add_with_out(
        cases, "take", {x, index}, [](Tensors& t) { return take(t[0], t[1]); },
        [](Tensor& out, Tensors& t) { take_out(out, t[0], t[1]); });
    const Input source = input(dtype, of_index, 3);
    for (const bool accumulate : {false, true})
      add_in_place(
          cases, "put_", {x, index, source}, [=](Tensors& t) { t[0].put_(t[1], t[2], accumulate); },
          {}, accumulate ? "accumulate" : "");
  }
}

void add_masks(Cases& cases, Dtype dtype, const Shape& sizes, const Shape& of_mask) {
  const Input x = input(dtype, sizes);
  const Input mask = input(Dtype::bool_, of_mask, 1);
  add_both(
      cases, "masked_fill", {x, mask}, [](Tensors& t) { return masked_fill(t[0], t[1], 3); },
      [](Tensors& t) { t[0].masked_fill_(t[1], 3); });
  add_both(
      cases, "masked_fill", {x, mask, input(dtype, {})},
      [](Tensors& t) { return masked_fill(t[0], t[1], t[2]); },
      [](Tensors& t) { t[0].masked_fill_(t[1], t[2]); });
}

/// `x[...]` and `x[...] = value`. The index is made from the tensors behind the first one.
void add_indexing(Cases& cases, const std::vector<Input>& inputs,
                  const std::function<std::vector<Index>(const Tensors&)>& index,
                  const std::string& note, bool by_value = false) {
  const auto call = [=](Tensors& t) { return t[0].index(index(t)); };
  add(cases, "index", inputs, call, {}, note);
  const Dtype dtype = inputs[0].content.dtype;
  std::vector<Input> with_value = inputs;
  const Input result = target_for(call, inputs);
  with_value.push_back(input(dtype, result.content.sizes, 3));
  for (const bool accumulate : {false, true})
    add_in_place(
        cases, "index_put_", with_value,
        [=](Tensors& t) {
          const Tensors rest(t.begin(), t.end() - 1);
          t[0].index_put_(index(rest), t.back(), accumulate);
        },
        {.selects = true, .by_value = by_value}, note + (accumulate ? ", accumulate" : ""));
  add_in_place(
      cases, "index_put_", inputs, [=](Tensors& t) { t[0].index_put_(index(t), 4); },
      {.selects = true}, note + ", a number");
}

void add_indexings(Cases& cases, Dtype dtype) {
  using List = std::vector<Index>;
  const Input x = input(dtype, {3, 4});
  const Input cube = input(dtype, {2, 3, 5});
  add_indexing(
      cases, {x},
      [](const Tensors&) {
        return List{1, Slice(1, 3)};
      },
      "1, 1:3");
  add_indexing(
      cases, {cube},
      [](const Tensors&) {
        return List{Ellipsis, Slice({}, {}, 2)};
      },
      "..., ::2");
  add_indexing(
      cases, {cube},
      [](const Tensors&) {
        return List{None, 1};
      },
      "None, 1");
  for (const Dtype of_index : {Dtype::int64, Dtype::int32}) {
    const Input rows = indices({2}, 3, of_index);
    add_indexing(
        cases, {x, rows}, [](const Tensors& t) { return List{t[1]}; }, "rows");
    add_indexing(
        cases, {x, rows},
        [](const Tensors& t) {
          return List{Slice(), t[1]};
        },
        "columns");
    add_indexing(
        cases, {cube, indices({2, 2}, 5, of_index)},
        [](const Tensors& t) {
          return List{Ellipsis, t[1]};
        },
        "..., two dimensions");
    add_indexing(
        cases, {cube, indices({2, 1}, 2, of_index), indices({2}, 5, of_index)},
        [](const Tensors& t) {
          return List{t[1], Slice(), t[2]};
        },
        "tensor, :, tensor");
    add_indexing(
        cases, {cube, indices({2}, 2, of_index), indices({2}, 3, of_index)},
        [](const Tensors& t) {
          return List{t[1], t[2], Slice(1, {}, 2)};
        },
        "tensor, tensor, 1::2");
  }
  add_indexing(
      cases, {x, input(Dtype::bool_, {3, 4}, 1)}, [](const Tensors& t) { return List{t[1]}; },
      "mask", true);
  add_indexing(
      cases, {x, input(Dtype::bool_, {3}, 1)}, [](const Tensors& t) { return List{t[1]}; },
      "mask of rows", true);
  add_indexing(
      cases, {cube, input(Dtype::bool_, {3}, 1), indices({1}, 2)},
      [](const Tensors& t) {
        return List{t[2], t[1]};
      },
      "tensor and mask", true);
}

}  // namespace

void add_index_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::bfloat16, Dtype::complex128}) {
    for (const Shape& sizes : {Shape{7}, Shape{3, 4}, Shape{2, 3, 5}, Shape{1, 4, 1}})
      for (int dim = 0; dim < sizes.size(); ++dim)
        for (const Dtype of_index : {Dtype::int64, Dtype::int32}) {
          if (of_index != Dtype::int64 && dtype != Dtype::float32) continue;
          add_slices(cases, dtype, sizes, dim, of_index);
          add_gathers(cases, dtype, sizes, dim, of_index);
        }
    for (const Shape& sizes : {Shape{10}, Shape{3, 4}, Shape{2, 3, 5}, Shape{1, 6, 1}})
      add_takes(cases, dtype, sizes);
    add_masks(cases, dtype, {3, 4}, {3, 4});
    add_masks(cases, dtype, {2, 3, 5}, {3, 1});
    add_masks(cases, dtype, {1, 4, 1}, {1, 4, 1});
    add_masks(cases, dtype, {0, 3}, {3});
    add_indexings(cases, dtype);
  }
  for (const Shape& sizes : {Shape{3, 4}, Shape{2, 3, 5}, Shape{}, Shape{0, 3}})
    for (const Dtype dtype : {Dtype::bool_, Dtype::float64}) {
      const Input x = input(dtype, sizes);
      cases.push_back({"where", text_of({x}), {x}, [](Tensors& t, Device) { return where(t[0]); }});
    }
}

}  // namespace ember::test
