// Products of matrices and vectors. The numbers are such that sums in any order are exact.
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

void add_products(Cases& cases, Dtype dtype, std::int64_t n, std::int64_t k, std::int64_t m) {
  const Traits traits{.ulp = item_size(dtype) == 2 ? 1.0 : 0.0};
  const auto both = [&](const std::string& op, const std::vector<Input>& inputs,
                        Tensor (*call)(const Tensor&, const Tensor&),
                        Tensor& (*call_out)(Tensor&, const Tensor&, const Tensor&)) {
    add_with_out(
        cases, op, inputs, [=](Tensors& t) { return call(t[0], t[1]); },
        [=](Tensor& out, Tensors& t) { call_out(out, t[0], t[1]); }, traits);
  };
  const Input a = input(dtype, {n, k});
  const Input b = input(dtype, {k, m}, 1);
  const Input batch_a = input(dtype, {2, n, k});
  const Input batch_b = input(dtype, {2, k, m}, 1);
  const Input vector = input(dtype, {k}, 2);
  both("mm", {a, b}, mm, mm_out);
  both("bmm", {batch_a, batch_b}, bmm, bmm_out);
  both("mv", {a, vector}, mv, mv_out);
  both("dot", {input(dtype, {k}), vector}, dot, dot_out);
  both("outer", {input(dtype, {k}), vector}, outer, outer_out);
  for (const auto& [x, y] : std::vector<std::pair<Input, Input>>{{a, b},
                                                                 {a, vector},
                                                                 {vector, b},
                                                                 {vector, vector},
                                                                 {batch_a, batch_b},
                                                                 {batch_a, b},
                                                                 {a, batch_b},
                                                                 {batch_a, vector}})
    both("matmul", {x, y}, matmul, matmul_out);

  for (const Shape& sizes : {Shape{n, m}, Shape{m}, Shape{n, 1}}) {
    const std::vector<Input> inputs{input(dtype, sizes, 3), a, b};
    add_with_out(
        cases, "addmm", inputs, [](Tensors& t) { return addmm(t[0], t[1], t[2], 2, 3); },
        [](Tensor& out, Tensors& t) { addmm_out(out, t[0], t[1], t[2], 2, 3); }, traits);
  }
  for (const int beta : {0, 2})
    add_in_place(
        cases, "addmm_", {target(dtype, {n, m}), a, b},
        [=](Tensors& t) { t[0].addmm_(t[1], t[2], beta, 3); }, traits,
        "beta " + std::to_string(beta));
  for (const Shape& sizes : {Shape{2, n, m}, Shape{n, m}, Shape{2, 1, m}}) {
    const std::vector<Input> inputs{input(dtype, sizes, 3), batch_a, batch_b};
    add_with_out(
        cases, "baddbmm", inputs, [](Tensors& t) { return baddbmm(t[0], t[1], t[2], 2, 3); },
        [](Tensor& out, Tensors& t) { baddbmm_out(out, t[0], t[1], t[2], 2, 3); }, traits);
  }
  add_in_place(
      cases, "baddbmm_", {target(dtype, {2, n, m}), batch_a, batch_b},
      [](Tensors& t) { t[0].baddbmm_(t[1], t[2], 2, 3); }, traits);

  const Input column = input(dtype, {n}, 4);
  const Input row = input(dtype, {m}, 5);
  add_with_out(
      cases, "addr", {input(dtype, {n, m}, 3), column, row},
      [](Tensors& t) { return addr(t[0], t[1], t[2], 2, 3); },
      [](Tensor& out, Tensors& t) { addr_out(out, t[0], t[1], t[2], 2, 3); }, traits);
  add_in_place(
      cases, "addr_", {target(dtype, {n, m}), column, row},
      [](Tensors& t) { t[0].addr_(t[1], t[2], 2, 3); }, traits);
}

}  // namespace

void add_product_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::int32}) {
    add_products(cases, dtype, 3, 4, 5);
    add_products(cases, dtype, 1, 4, 1);
    add_products(cases, dtype, 4, 1, 3);
    add_products(cases, dtype, 3, 0, 2);
  }
  add_products(cases, Dtype::float16, 3, 4, 5);
  add_products(cases, Dtype::float32, 17, 33, 20);
}

}  // namespace ember::test
