// Tensors side by side, and the same elements in another order.
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

void add_cats(Cases& cases, const std::vector<Input>& inputs, std::int64_t dim) {
  add_with_out(
      cases, "cat", inputs, [=](Tensors& t) { return cat(t, dim); },
      [=](Tensor& out, Tensors& t) { cat_out(out, t, dim); }, {}, "dim " + std::to_string(dim));
}

void add_stacks(Cases& cases, const std::vector<Input>& inputs, std::int64_t dim) {
  add_with_out(
      cases, "stack", inputs, [=](Tensors& t) { return stack(t, dim); },
      [=](Tensor& out, Tensors& t) { stack_out(out, t, dim); }, {}, "dim " + std::to_string(dim));
}

void add_beside(Cases& cases, const std::vector<Input>& inputs) {
  add_with_out(
      cases, "hstack", inputs, [](Tensors& t) { return hstack(t); },
      [](Tensor& out, Tensors& t) { hstack_out(out, t); });
  add_with_out(
      cases, "vstack", inputs, [](Tensors& t) { return vstack(t); },
      [](Tensor& out, Tensors& t) { vstack_out(out, t); });
  add_with_out(
      cases, "dstack", inputs, [](Tensors& t) { return dstack(t); },
      [](Tensor& out, Tensors& t) { dstack_out(out, t); });
  add_with_out(
      cases, "column_stack", inputs, [](Tensors& t) { return column_stack(t); },
      [](Tensor& out, Tensors& t) { column_stack_out(out, t); });
}

}  // namespace

void add_rearranging_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::float16, Dtype::complex128}) {
    add_cats(cases, {input(dtype, {3, 4}), input(dtype, {2, 4}, 1), input(dtype, {1, 4}, 2)}, 0);
    add_cats(cases, {input(dtype, {3, 4}), input(dtype, {3, 1}, 1), input(dtype, {0}, 2)}, 1);
    add_cats(cases, {input(dtype, {2, 3, 5}), input(dtype, {2, 2, 5}, 1)}, 1);
    add_cats(cases, {input(dtype, {7}), input(dtype, {5}, 1)}, 0);
    add_beside(cases, {input(dtype, {3, 4}), input(dtype, {3, 4}, 1)});
    add_beside(cases, {input(dtype, {7}), input(dtype, {7}, 1)});
    add_beside(cases, {input(dtype, {2, 3, 5}), input(dtype, {2, 3, 5}, 1)});
    add_cats(cases, {input(dtype, {0, 3}), input(dtype, {1, 3}, 1)}, 0);
    add_stacks(cases, {input(dtype, {3, 4}), input(dtype, {3, 4}, 1)}, 0);
    add_stacks(cases, {input(dtype, {3, 4}), input(dtype, {3, 4}, 1)}, 2);
    add_stacks(cases, {input(dtype, {}), input(dtype, {}, 1), input(dtype, {}, 2)}, 0);
    add_stacks(cases, {input(dtype, {1, 1}), input(dtype, {1, 1}, 1)}, 1);

    const Input row = input(dtype, {7});
    const Input matrix = input(dtype, {3, 4});
    const Input cube = input(dtype, {2, 3, 5});
    for (const Input& x : {row, matrix, cube, input(dtype, {1, 4, 1}), input(dtype, {0, 3})}) {
      for (int dim = 0; dim < x.content.sizes.size(); ++dim) {
        add(cases, "flip", {x}, [=](Tensors& t) { return flip(t[0], {dim}); });
        add(cases, "roll", {x}, [=](Tensors& t) { return roll(t[0], {2}, {dim}); });
      }
      add(cases, "roll", {x}, [](Tensors& t) { return roll(t[0], {-3}); });
      add(cases, "repeat", {x}, [](Tensors& t) { return repeat(t[0], {2, 1, 3}); });
      add(cases, "tile", {x}, [](Tensors& t) { return tile(t[0], {2}); });
      add_with_out(
          cases, "diff", {x}, [](Tensors& t) { return diff(t[0]); },
          [](Tensor& out, Tensors& t) { diff_out(out, t[0]); });
      add_with_out(
          cases, "diff", {x}, [](Tensors& t) { return diff(t[0], 2, 0); },
          [](Tensor& out, Tensors& t) { diff_out(out, t[0], 2, 0); });
      add(cases, "diff", {x}, [](Tensors& t) { return diff(t[0], 1, 0, t[0], t[0]); });
      if (x.content.sizes.size() < 2) continue;
      add(cases, "flip", {x}, [](Tensors& t) { return flip(t[0], {0, -1}); });
      add(cases, "fliplr", {x}, [](Tensors& t) { return fliplr(t[0]); });
      add(cases, "flipud", {x}, [](Tensors& t) { return flipud(t[0]); });
      add(cases, "roll", {x}, [](Tensors& t) { return roll(t[0], {1, -2}, {0, 1}); });
      for (const int diagonal : {0, 1, -1}) {
        add_with_out(
            cases, "tril", {x}, [=](Tensors& t) { return tril(t[0], diagonal); },
            [=](Tensor& out, Tensors& t) { tril_out(out, t[0], diagonal); });
        add_with_out(
            cases, "triu", {x}, [=](Tensors& t) { return triu(t[0], diagonal); },
            [=](Tensor& out, Tensors& t) { triu_out(out, t[0], diagonal); });
        add_in_place(cases, "tril_", {x}, [=](Tensors& t) { t[0].tril_(diagonal); });
        add_in_place(cases, "triu_", {x}, [=](Tensors& t) { t[0].triu_(diagonal); });
      }
    }
    add(cases, "trace", {matrix}, [](Tensors& t) { return trace(t[0]); });
    cases.push_back(
        {"meshgrid", text_of({row, row}), {row, input(dtype, {4}, 1)}, [](Tensors& t, Device) {
           return meshgrid(t);
         }});
    for (const int diagonal : {0, 2, -1})
      for (const Input& x : {row, matrix})
        add_with_out(
            cases, "diag", {x}, [=](Tensors& t) { return diag(t[0], diagonal); },
            [=](Tensor& out, Tensors& t) { diag_out(out, t[0], diagonal); });
  }
  add_cats(cases, {input(Dtype::int16, {3, 4}), input(Dtype::float32, {2, 4}, 1)}, 0);
  add_in_place(
      cases, "cat_out",
      {target(Dtype::float64, {5, 4}), input(Dtype::float32, {3, 4}), input(Dtype::int8, {2, 4})},
      [](Tensors& t) {
        cat_out(t[0], std::vector<Tensor>{t[1], t[2]});
      });
  // More tensors than one launch takes.
  std::vector<Input> many(1030, input(Dtype::int16, {2}));
  cases.push_back(
      {"cat",
       "1030 of " + text_of({many[0]}) + ", all of them views",
       {many[0]},
       [](Tensors& t, Device) { return Tensors{cat(std::vector<Tensor>(1030, t[0]))}; }});
}

}  // namespace ember::test
