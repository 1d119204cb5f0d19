// The element-wise operations as types, made from elementwise.inc: for each one a struct
// `elementwise::<name>` with its OpInfo and `apply`, which computes one element of type E in T.
#pragma once

#include "ember/scalar/math.h"

namespace ember::inline v0 {

/// A set of element types, one bit each.
using DtypeSet = std::uint16_t;

constexpr DtypeSet only(Dtype dtype) {
  return static_cast<DtypeSet>(1U << static_cast<unsigned>(dtype));
}
constexpr bool contains(DtypeSet set, Dtype dtype) { return (set & only(dtype)) != 0; }

namespace dtypes {
inline constexpr DtypeSet boolean = only(Dtype::bool_);
inline constexpr DtypeSet integer = only(Dtype::uint8) | only(Dtype::int8) | only(Dtype::int16) |
                                    only(Dtype::int32) | only(Dtype::int64);
inline constexpr DtypeSet floating_wide = only(Dtype::float32) | only(Dtype::float64);
inline constexpr DtypeSet floating = floating_wide | only(Dtype::float16) | only(Dtype::bfloat16);
inline constexpr DtypeSet complex_half = only(Dtype::complex32);
inline constexpr DtypeSet complex_wide = only(Dtype::complex64) | only(Dtype::complex128);
inline constexpr DtypeSet complex = complex_half | complex_wide;
inline constexpr DtypeSet integer_or_bool = integer | boolean;
inline constexpr DtypeSet real_number = integer | floating;
inline constexpr DtypeSet real_or_bool = real_number | boolean;
inline constexpr DtypeSet floating_complex = floating | complex_wide;
inline constexpr DtypeSet any_number = real_number | complex_wide;
inline constexpr DtypeSet any = any_number | boolean;
/// complex32 is what transforms of float16 give: arithmetic has it, functions do not.
inline constexpr DtypeSet floating_every_complex = floating | complex;
inline constexpr DtypeSet every_number = real_number | complex;
inline constexpr DtypeSet every_number_or_bool = every_number | boolean;
/// What is stored, copied and converted, and compared for equality; nothing else computes with
/// them.
inline constexpr DtypeSet unsigned_wide =
    only(Dtype::uint16) | only(Dtype::uint32) | only(Dtype::uint64);
inline constexpr DtypeSet all = every_number_or_bool | unsigned_wide;
}  // namespace dtypes

/// What an element-wise operation stores, seen from what it computes in.
enum class Result : std::uint8_t { same, boolean, real };

struct OpInfo {
  const char* name;
  int operands;  ///< inputs
  DtypeSet dtypes;
  Result result;
  double ulp;
  const char* doc;
};

namespace elementwise {

#define EMBER_ELEMENTWISE(name_, operands, dtypes_, result_, ulp_, doc_, parameters, ...)         \
  struct name_ {                                                                                  \
    static constexpr OpInfo info{#name_, operands, dtypes::dtypes_, Result::result_, ulp_, doc_}; \
    template <class T, class E>                                                                   \
    static EMBER_HD auto apply parameters {                                                       \
      return __VA_ARGS__;                                                                         \
    }                                                                                             \
  };
#define EMBER_UNARY(name, dtypes, result, ulp, doc, ...) \
  EMBER_ELEMENTWISE(name, 1, dtypes, result, ulp, doc, (T x), __VA_ARGS__)
#define EMBER_BINARY(name, dtypes, result, ulp, doc, ...) \
  EMBER_ELEMENTWISE(name, 2, dtypes, result, ulp, doc, (T x, T y), __VA_ARGS__)
#define EMBER_TERNARY(name, dtypes, result, ulp, doc, ...) \
  EMBER_ELEMENTWISE(name, 3, dtypes, result, ulp, doc, (T x, T y, T z), __VA_ARGS__)
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
#undef EMBER_ELEMENTWISE

}  // namespace elementwise
}  // namespace ember::inline v0
