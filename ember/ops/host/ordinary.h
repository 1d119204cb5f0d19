// Operations on floats that have two forms: a short one for ordinary arguments, which compilers
// make vectors of, and the C library's for the rest (scalar/float_math.h). Element by element the
// function chooses; a loop whose arguments are ordinary throughout takes the short one as it is.
#pragma once

#include "ember/ops/functors.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::host {

/// `is(x...)`: whether arguments are ordinary; `call(x...)`: the short form.
template <class F>
struct Ordinary {
  static constexpr bool exists = false;
};

#define EMBER_ORDINARY_1(op, condition, expression)            \
  template <>                                                  \
  struct Ordinary<Apply<elementwise::op, float>> {             \
    static constexpr bool exists = true;                       \
    EMBER_HD static bool is(float x) { return condition; }     \
    EMBER_HD static float call(float x) { return expression; } \
  };
#define EMBER_ORDINARY_2(op, condition, expression)                     \
  template <>                                                           \
  struct Ordinary<Apply<elementwise::op, float>> {                      \
    static constexpr bool exists = true;                                \
    EMBER_HD static bool is(float x, float y) { return condition; }     \
    EMBER_HD static float call(float x, float y) { return expression; } \
  };
EMBER_ORDINARY_1(sin, m::detail::is_ordinary_angle(x), m::detail::sin_float(x))
EMBER_ORDINARY_1(cos, m::detail::is_ordinary_angle(x), m::detail::cos_float(x))
EMBER_ORDINARY_1(tan, m::detail::is_ordinary_angle(x), m::detail::tan_float(x))
EMBER_ORDINARY_2(fmod, m::detail::is_ordinary_quotient(x, y), m::detail::fmod_float(x, y))
EMBER_ORDINARY_2(remainder, m::detail::is_ordinary_quotient(x, y), m::remainder<true>(x, y))
EMBER_ORDINARY_2(floor_divide, m::detail::is_ordinary_quotient(x, y), m::floor_divide<true>(x, y))
EMBER_ORDINARY_2(pow, y == 2 || y == 3 || y == -1 || m::detail::is_ordinary_power(x, y),
                 m::pow<true>(x, y))
#undef EMBER_ORDINARY_1
#undef EMBER_ORDINARY_2

}  // namespace ember::inline v0::ops::host
