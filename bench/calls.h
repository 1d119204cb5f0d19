// Calls of operations that ember's and PyTorch's C++ APIs both take as they stand here, so that one
// list is measured on both sides. Before it is included, `t` has to be the namespace of one of
// them: `namespace t = ember;`. Includes nothing of either.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/timing.h"

namespace ember::bench::calls {

// CALL(name, expression). Tensors of 4096 elements: x, y, z (not negative), p (positive), u (within
// -1 and 1), mask (bool), index (int64, zeros, of x's shape), few (int64, zeros, as many as x is
// long along dimension 0).
// clang-format off

/// For every type, of tensors of any shape.
#define EMBER_BENCH_CALLS(CALL)                                                                   \
  CALL("abs", x.abs()) CALL("neg", x.neg()) CALL("sign", x.sign()) CALL("square", x.square())     \
  CALL("ceil", x.ceil()) CALL("floor", x.floor()) CALL("trunc", x.trunc())                        \
  CALL("round", x.round()) CALL("relu", x.relu()) CALL("isnan", x.isnan())                        \
  CALL("isfinite", x.isfinite()) CALL("signbit", x.signbit())                                     \
  CALL("logical_not", x.logical_not()) CALL("reciprocal", x.reciprocal()) CALL("exp", x.exp())    \
  CALL("exp2", x.exp2()) CALL("expm1", x.expm1()) CALL("sin", x.sin()) CALL("cos", x.cos())       \
  CALL("tan", x.tan()) CALL("sinh", x.sinh()) CALL("cosh", x.cosh()) CALL("tanh", x.tanh())       \
  CALL("asinh", x.asinh()) CALL("atan", x.atan()) CALL("erf", x.erf()) CALL("erfc", x.erfc())     \
  CALL("sigmoid", x.sigmoid()) CALL("deg2rad", x.deg2rad()) CALL("sqrt", p.sqrt())                \
  CALL("rsqrt", p.rsqrt()) CALL("log", p.log()) CALL("log2", p.log2()) CALL("log10", p.log10())   \
  CALL("log1p", p.log1p()) CALL("lgamma", p.lgamma()) CALL("asin", u.asin())                      \
  CALL("acos", u.acos()) CALL("atanh", u.atanh()) CALL("acosh", p.acosh())                        \
  CALL("x + y", x + y) CALL("x - y", x - y) CALL("x * y", x * y) CALL("x / y", x / y)             \
  CALL("maximum", t::maximum(x, y)) CALL("minimum", t::minimum(x, y))                             \
  CALL("fmax", t::fmax(x, y)) CALL("eq", x.eq(y)) CALL("ne", x.ne(y)) CALL("lt", x.lt(y))         \
  CALL("ge", x.ge(y)) CALL("logical_and", x.logical_and(y))                                       \
  CALL("logical_xor", x.logical_xor(y)) CALL("floor_divide", t::floor_divide(x, y))               \
  CALL("remainder", x.remainder(y)) CALL("fmod", x.fmod(y)) CALL("pow", p.pow(z))                 \
  CALL("x + 2", x + 2) CALL("x * 2.5", x * 2.5) CALL("x / 3", x / 3)                              \
  CALL("x % 3", x.remainder(3)) CALL("x ** 2", x.pow(2)) CALL("x ** 3", x.pow(3))                 \
  CALL("x < 1", x.lt(1)) CALL("clamp, numbers", t::clamp(x, -1, 1))                               \
  CALL("addcmul", t::addcmul(x, y, z, 2)) CALL("where", t::where(mask, x, y))                     \
  CALL("x += y", x.add_(y)) CALL("x.zero_()", x.zero_()) CALL("masked_fill", x.masked_fill(mask, 1)) \
  CALL("clone", x.clone()) CALL("copy_", x.copy_(y)) CALL("cat of 2", t::cat({x, y}))             \
  CALL("stack of 2", t::stack({x, y})) CALL("flip", t::flip(x, {0})) CALL("roll", t::roll(x, 5, 0)) \
  CALL("sum of all", x.sum()) CALL("prod of all", x.prod()) CALL("amax of all", t::amax(x, {}))   \
  CALL("argmax of all", x.argmax()) CALL("all of all", x.all()) CALL("any of all", x.any())       \
  CALL("count_nonzero", t::count_nonzero(x)) CALL("gather", x.gather(-1, index))                  \
  CALL("scatter", x.scatter(-1, index, y)) CALL("scatter_add", x.scatter_add(-1, index, y))       \
  CALL("index_select", x.index_select(0, few)) CALL("index_add", t::index_add(x, 0, few, y))      \
  CALL("cumsum", t::cumsum(x, 0)) CALL("cumprod", t::cumprod(x, 0))                               \
  CALL("a view", x.select(0, 0)) CALL("empty_like", t::empty_like(x))                             \
  CALL("zeros_like", t::zeros_like(x)) CALL("full_like", t::full_like(x, 3))

/// For floating-point types.
#define EMBER_BENCH_FLOAT_CALLS(CALL)                                                             \
  CALL("frac", x.frac()) CALL("atan2", t::atan2(x, y)) CALL("hypot", t::hypot(x, y))              \
  CALL("copysign", t::copysign(x, y)) CALL("addcdiv", t::addcdiv(x, y, p, 2))                     \
  CALL("lerp", t::lerp(x, y, 0.3)) CALL("x ** 0.5", p.pow(0.5)) CALL("mean of all", x.mean())     \
  CALL("std of all", x.std()) CALL("norm of all", x.norm())                                       \
  CALL("softmax", t::softmax(x, 0)) CALL("log_softmax", t::log_softmax(x, 0))

/// For integers.
#define EMBER_BENCH_WHOLE_CALLS(CALL)                                                             \
  CALL("bitwise_not", x.bitwise_not()) CALL("bitwise_and", t::bitwise_and(x, y))                  \
  CALL("bitwise_xor", t::bitwise_xor(x, y)) CALL("gcd", t::gcd(x, y))                             \
  CALL("bitwise_left_shift", t::bitwise_left_shift(x, z))

/// Of tensors of 64 rows of 64.
#define EMBER_BENCH_ROW_CALLS(CALL)                                                               \
  CALL("rows + a row", x + y.select(0, 0)) CALL("rows + a column", x + y.narrow(1, 0, 1))         \
  CALL("rows transposed, contiguous", x.t().contiguous()) CALL("sum of rows", t::sum(x, 1))       \
  CALL("sum of columns", t::sum(x, 0)) CALL("argmax of rows", t::argmax(x, 1))                    \
  CALL("max of rows, with indices", t::max(x, 1)) CALL("sort of rows", t::sort(x, 1))             \
  CALL("topk of 16", t::topk(x, 16)) CALL("flip of rows", t::flip(x, {1}))                        \
  CALL("cat of rows", t::cat({x, y}, 1)) CALL("tril", t::tril(x)) CALL("x.t()", x.t())            \
  CALL("reshape", x.reshape({-1})) CALL("cumsum of rows", t::cumsum(x, 1))

// clang-format on

/// The types as their library names them.
template <class Dtype>
struct Types {
  Dtype float32, bfloat16, int64;
};

/// Calls `row(name, work)` for every call, type and layout: "x + y, float32, strided".
/// `ones(sizes, dtype)`: a tensor on the device that is measured.
template <class Dtype, class Ones, class Row>
void each(const Types<Dtype>& types, const Ones& ones, const Row& row) {
  struct Layout {
    const char* name;
    std::vector<std::int64_t> sizes;
  };
  struct Type {
    const char* name;
    Dtype dtype;
  };
  for (const Layout& layout : {Layout{"large", {4096}}, {"strided", {64, 128}}, {"rows", {64, 64}}})
    for (const Type& type :
         {Type{"float32", types.float32}, {"bfloat16", types.bfloat16}, {"int64", types.int64}}) {
      const std::string kind = layout.name;
      const auto make = [&](Dtype dtype) {
        t::Tensor made = ones(layout.sizes, dtype);
        return kind == "strided" ? made.slice(1, 0, 128, 2) : made;
      };
      t::Tensor x = make(type.dtype);
      const t::Tensor y = make(type.dtype);
      const t::Tensor z = make(type.dtype);
      const t::Tensor p = make(type.dtype);
      const t::Tensor u = make(type.dtype);
      const t::Tensor mask = x.ne(0);
      const t::Tensor index = make(types.int64).mul(0);
      const t::Tensor few = ones({x.size(0)}, types.int64).mul(0);
      const auto measure = [&](const char* name, const auto& work) {
        row(std::string(name) + ", " + type.name + ", " + layout.name, work);
      };
#define EMBER_BENCH_MEASURE(name, expression) \
  measure(name, [&] { [[maybe_unused]] const auto made = expression; });
      if (kind == "rows") {
        EMBER_BENCH_ROW_CALLS(EMBER_BENCH_MEASURE)
        continue;
      }
      EMBER_BENCH_CALLS(EMBER_BENCH_MEASURE)
      if (type.dtype == types.int64) {
        EMBER_BENCH_WHOLE_CALLS(EMBER_BENCH_MEASURE)
      } else {
        EMBER_BENCH_FLOAT_CALLS(EMBER_BENCH_MEASURE)
      }
#undef EMBER_BENCH_MEASURE
    }
}

/// Short enough that no launch queue fills.
inline constexpr Bursts kBursts{.calls = 100, .rounds = 15, .warm_up = 20};
inline constexpr const char* kGroup = "Calls on 4096 elements, until they return";

}  // namespace ember::bench::calls
