// Mathematics by the same names on every kind of device, for every type that is computed in:
// integers (they wrap around, and dividing by zero gives zero), float, double and complex.
#pragma once

#include "ember/scalar/complex_math.h"

namespace ember::inline v0::m {

// Integers are round already.
template <class T>
requires std::is_integral_v<T> EMBER_HD T ceil(T x) { return x; }
template <class T>
requires std::is_integral_v<T> EMBER_HD T floor(T x) { return x; }
template <class T>
requires std::is_integral_v<T> EMBER_HD T trunc(T x) { return x; }
template <class T>
requires std::is_integral_v<T> EMBER_HD T rint(T x) { return x; }

/// Unsigned types have nothing below zero, and compilers object to the question.
template <class T>
EMBER_HD bool negative(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return x < T(0);
}
template <class T>
EMBER_HD bool signbit(T x) {
  if constexpr (is_floating<T>)
    return copysign(T(1), x) < 0;
  else
    return negative(x);
}
template <class T>
EMBER_HD T bits_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return !x;
  else
    return static_cast<T>(~x);
}

// Arithmetic. Signed integers wrap around: through the unsigned type, where that is defined.
namespace detail {
template <class T>
EMBER_HD auto wide(T x) {
  if constexpr (sizeof(T) < 4)
    return static_cast<std::uint32_t>(x);
  else
    return static_cast<std::make_unsigned_t<T>>(x);
}
}  // namespace detail

template <class T>
EMBER_HD T add(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x || y;
  else if constexpr (is_integer<T>)
    return static_cast<T>(detail::wide(x) + detail::wide(y));
  else
    return x + y;
}
template <class T>
EMBER_HD T sub(T x, T y) {
  if constexpr (is_integer<T>)
    return static_cast<T>(detail::wide(x) - detail::wide(y));
  else
    return x - y;
}
template <class T>
EMBER_HD T mul(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x && y;
  else if constexpr (is_integer<T>)
    return static_cast<T>(detail::wide(x) * detail::wide(y));
  else
    return x * y;
}
template <class T>
EMBER_HD T neg(T x) {
  if constexpr (is_integer<T>)
    return static_cast<T>(0U - detail::wide(x));
  else
    return -x;
}

template <class T>
EMBER_HD Real<T> abs(T x) {
  if constexpr (is_complex<T>)
    return hypot(x.re, x.im);
  else if constexpr (is_floating<T>)
    return fabs(x);
  else if constexpr (std::is_signed_v<T>)
    return x < 0 ? neg(x) : x;
  else
    return x;
}
template <class T>
EMBER_HD T sign(T x) {
  if constexpr (is_complex<T>) {
    const Real<T> length = abs(x);
    return length == 0 ? T(0, 0) : T(x.re / length, x.im / length);
  } else if constexpr (std::is_same_v<T, bool>) {
    return x;
  } else {
    return static_cast<T>((T(0) < x) - negative(x));
  }
}

namespace detail {
#if defined(__CUDA_ARCH__)
/// Below it |x| / `by` is small; zero if `by` is tiny or huge.
EMBER_HD float small_quotient_limit(float by) {
  return by > 0x1p-100F && by < 0x1p100F ? by * 0x1p19F : 0;
}
/// |x| / |y| rounded down and what that leaves, both exact: where the quotient is small, and y is
/// neither tiny nor huge.
struct SmallQuotient {
  float whole;
  float rest;
  bool exists;
};
EMBER_HD SmallQuotient small_quotient(float x, float y) {
  const float size = ::fabsf(x);
  const float by = ::fabsf(y);
  // An approximation that is never too small, and too large by less than one: so the rest is not
  // below -|y|, and has no more digits than a float.
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(by));
  float whole = ::truncf(size * (inverse * (1 + 0x1p-21F)));
  float rest = ::fmaf(-whole, by, size);
  if (rest < 0) {
    whole -= 1;
    rest += by;
  }
  return {whole, rest, size < small_quotient_limit(by)};
}
/// What x has beyond a multiple of y > 0, of all multiples the largest that is not above x. Of x =
/// 0 the sign is kept.
struct FlooredRest {
  float rest;
  bool exists;
};
EMBER_HD FlooredRest floored_rest(float x, float y) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
  // As above: never too small, and what is left below zero is exact.
  const float quotient = x * inverse;
  float rest = ::fmaf(-::floorf(::fmaf(::fabsf(quotient), 0x1p-21F, quotient)), y, x);
  if (rest < 0) rest += y;
  return {rest == 0 ? ::copysignf(0, x) : rest, ::fabsf(x) < small_quotient_limit(y)};
}
/// Rare and long: no part of every loop.
template <class T>
__device__ __noinline__ T fmod_of_any(T x, T y) {
  return ::fmodf(x, y);
}
#endif
/// `ordinary`: the arguments are known to be, and no call of the C library is wanted.
template <bool ordinary = false, class T>
EMBER_HD T fmod_of(T x, T y) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) {
    const SmallQuotient found = small_quotient(x, y);
    return found.exists ? copysign(found.rest, x) : fmod_of_any(x, y);
  }
#endif
  if constexpr (ordinary)
    return fmod_float(x, y);
  else
    return fmod(x, y);
}
/// x / y of floats, rounded down.
template <bool ordinary = false, class T>
EMBER_HD T rounded_down(T x, T y) {
  if (y == 0) return x / y;
  // Through the exact remainder: rounding x / y first can give one too many.
  const T rest = fmod_of<ordinary>(x, y);
  T quotient = (x - rest) / y;
  if (rest != 0 && ((y < 0) != (rest < 0))) quotient -= 1;
  if (quotient == 0) return copysign(T(0), x / y);
  const T down = floor(quotient);
  return quotient - down > T(0.5) ? down + 1 : down;
}
#if defined(__CUDA_ARCH__)
template <class T>
__device__ __noinline__ T any_rounded_down(T x, T y) {
  return rounded_down(x, y);
}
#endif
/// The rest of x / y with the sign of y.
template <bool ordinary = false, class T>
EMBER_HD T rest_of_any(T x, T y) {
  const T rest = fmod_of<ordinary>(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest;
}
#if defined(__CUDA_ARCH__)
template <class T>
__device__ __noinline__ T any_remainder(T x, T y) {
  return rest_of_any(x, y);
}
#endif
/// x / y of integers, if y is neither zero nor -1.
template <class T>
EMBER_HD T integer_quotient(T x, T y) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 8)  // a third of the instructions
    if (x == static_cast<std::int32_t>(x) && y == static_cast<std::int32_t>(y))
      return static_cast<std::int32_t>(x) / static_cast<std::int32_t>(y);
#endif
  return static_cast<T>(x / y);
}
template <class T>
EMBER_HD T integer_rest(T x, T y) {
  return static_cast<T>(x - integer_quotient(x, y) * y);
}
template <bool ordinary, class T>
EMBER_HD T general_power(T x, T y) {
#if !defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4)
    if (ordinary || is_ordinary_power(x, y)) return pow_float(x, y);
#endif
  if constexpr (sizeof(T) == 4)
    return ::powf(x, y);
  else
    return ::pow(x, y);
}
}  // namespace detail

/// The quotient rounded down. Integers: zero when y is zero.
template <bool ordinary = false, class T>
EMBER_HD T floor_divide(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (y == -1) return neg(x);  // the one quotient that does not fit
      const T quotient = detail::integer_quotient(x, y);
      return static_cast<T>(quotient - ((quotient * y != x) && ((x < 0) != (y < 0))));
    } else {
      return static_cast<T>(x / y);
    }
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      const detail::SmallQuotient found = detail::small_quotient(x, y);
      if (!found.exists) return detail::any_rounded_down(x, y);
      return signbit(x) != signbit(y) ? -(found.whole + T(found.rest != 0)) : found.whole;
    }
#endif
    return detail::rounded_down<ordinary>(x, y);
  }
}
/// What is left of x, with the sign of y.
template <bool ordinary = false, class T>
EMBER_HD T remainder(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (y == -1) return 0;
      const T rest = detail::integer_rest(x, y);
      return static_cast<T>(rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest);
    } else {
      return static_cast<T>(x % y);
    }
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      const bool flips = signbit(y);
      const detail::FlooredRest found = detail::floored_rest(flips ? -x : x, ::fabsf(y));
      return found.exists ? (flips ? -found.rest : found.rest) : detail::any_remainder(x, y);
    }
#endif
    return detail::rest_of_any<ordinary>(x, y);
  }
}
/// The quotient rounded towards zero. Integers: zero when y is zero.
template <class T>
EMBER_HD T truncated_quotient(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return neg(x);  // the one quotient that does not fit
    return detail::integer_quotient(x, y);
  } else {
    return trunc(x / y);
  }
}
/// What is left of x, with the sign of x.
template <class T>
EMBER_HD T truncated_remainder(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return 0;
    return detail::integer_rest(x, y);
  } else {
    return detail::fmod_of(x, y);
  }
}

// NaN wins in maximum and minimum, and loses in fmax and fmin. One choice after the other:
// compilers make vectors of choices, not of conditions with an "or".
template <class T>
EMBER_HD T maximum(T x, T y) {
  const T larger = x > y ? x : y;
  if constexpr (is_floating<T>)
    return isnan(x) ? x : larger;
  else
    return larger;
}
template <class T>
EMBER_HD T minimum(T x, T y) {
  const T smaller = x < y ? x : y;
  if constexpr (is_floating<T>)
    return isnan(x) ? x : smaller;
  else
    return smaller;
}
template <class T>
EMBER_HD T fmax(T x, T y) {
  return isnan(x) || y > x ? y : x;
}
template <class T>
EMBER_HD T fmin(T x, T y) {
  return isnan(x) || y < x ? y : x;
}

/// Integers: by squaring; a negative exponent gives zero unless x is 1 or -1. Of the others,
/// squares, cubes and reciprocals are what they are called: where y is the same for a whole loop,
/// the compiler takes the question out of it, and the loop runs as one of multiplications.
template <bool ordinary = false, class T>
EMBER_HD T pow(T x, T y) {
#if defined(__CUDA_ARCH__)
  // Exponents that are numbers, and worth something of their own, were seen before the launch.
  if constexpr (is_floating<T>) return detail::general_power<ordinary>(x, y);
#endif
  if (y == T(2)) return mul(x, x);
  if (y == T(3)) return mul(mul(x, x), x);
  if constexpr (!is_integer<T>) {
    if (y == T(-1)) return T(1) / x;
  }
  if constexpr (is_complex<T>) {
    if (y.re == 0 && y.im == 0) return {1, 0};
    if (x.re == 0 && x.im == 0 && y.re > 0) return {0, 0};
    return exp(y * log(x));
  } else if constexpr (is_integer<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (y < 0) return static_cast<T>(x == 1 ? 1 : x == -1 ? ((y & 1) != 0 ? -1 : 1) : 0);
    }
    T result = 1;
    T square = x;
    for (auto left = detail::wide(y); left != 0; left >>= 1) {
      if ((left & 1U) != 0) result = mul(result, square);
      square = mul(square, square);
    }
    return result;
  } else {
    return detail::general_power<ordinary>(x, y);
  }
}

template <class T>
EMBER_HD T reciprocal(T x) {
  return T(1) / x;
}
template <class T>
EMBER_HD T rsqrt(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4)
    return ::rsqrtf(x);
  else if constexpr (!is_complex<T>)
    return ::rsqrt(x);
#endif
  return T(1) / sqrt(x);
}
/// 1 / (1 + exp(-x)), without overflow for real numbers.
template <class T>
EMBER_HD T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <class T>
EMBER_HD T conj(T x) {
  if constexpr (is_complex<T>)
    return {x.re, -x.im};
  else
    return x;
}
template <class T>
EMBER_HD Real<T> angle(T x) {
  if constexpr (is_complex<T>)
    return atan2(x.im, x.re);
  else
    return isnan(x) ? x : x < 0 ? T(3.14159265358979323846) : T(0);
}
template <class T>
EMBER_HD bool truth(T x) {
  return convert<bool>(x);
}

// Shifts by the width of the type or more, or by negative numbers, shift everything out.
template <class T>
EMBER_HD T shift_left(T x, T y) {
  if (negative(y) || static_cast<std::uint64_t>(y) >= 8 * sizeof(T)) return 0;
  return static_cast<T>(detail::wide(x) << static_cast<unsigned>(y));
}
template <class T>
EMBER_HD T shift_right(T x, T y) {
  if (negative(y) || static_cast<std::uint64_t>(y) >= 8 * sizeof(T))
    return negative(x) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(x >> static_cast<unsigned>(y));
}
template <class Size>
EMBER_HD Size common_divisor(Size a, Size b) {
  while (b != 0) {
    if constexpr (sizeof(Size) == 8)  // dividing small numbers takes a fraction of the time
      if (((a | b) >> 32) == 0)
        return common_divisor(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b));
    const auto rest = static_cast<Size>(a % b);
    a = b;
    b = rest;
  }
  return a;
}
template <class T>
EMBER_HD T gcd(T x, T y) {
  // The size of the smallest number fits into the unsigned type only.
  using Size = std::make_unsigned_t<T>;
  return static_cast<T>(common_divisor(static_cast<Size>(negative(x) ? neg(x) : x),
                                       static_cast<Size>(negative(y) ? neg(y) : y)));
}
/// start + weight * (end - start), exact at both ends.
template <class T>
EMBER_HD T lerp(T start, T end, T weight) {
  if constexpr (is_complex<T>)
    return start + weight * (end - start);
  else
    return fabs(weight) < T(0.5) ? start + weight * (end - start)
                                 : end - (end - start) * (T(1) - weight);
}
/// The number of type E after x in the direction of y, which are numbers of that type: by its bits,
/// since these are in the order of the numbers.
template <class E, class T>
EMBER_HD T next_after(T x, T y) {
  using Bits = std::conditional_t<sizeof(E) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(E) == 4, std::uint32_t, std::uint64_t>>;
  const E from(x);
  Bits bits = 0;
  memcpy(&bits, &from, sizeof bits);
  // Away from zero the bits grow; from zero it is the smallest number with the sign of y.
  bits = static_cast<Bits>(bits + ((x < y) == (x > 0) ? Bits(1) : static_cast<Bits>(-1)));
  constexpr auto kSign = static_cast<Bits>(Bits(1) << (8 * sizeof(E) - 1));
  const Bits smallest = static_cast<Bits>(y < 0 ? kSign + 1U : 1U);
  bits = x == 0 ? smallest : bits;
  E next(x);
  memcpy(&next, &bits, sizeof bits);
  if (isnan(x) || isnan(y)) return x + y;
  return x == y ? y : static_cast<T>(next);
}
/// minimum(maximum(x, low), high), but x itself where a limit equals it. The first choices keep x
/// if it is NaN; where limits are numbers, whether these are is not asked in every step.
template <class T>
EMBER_HD T clamp(T x, T low, T high) {
  x = low > x ? low : x;
  if constexpr (is_floating<T>) x = isnan(low) ? low : x;
  x = high < x ? high : x;
  if constexpr (is_floating<T>) x = isnan(high) ? high : x;
  return x;
}

}  // namespace ember::inline v0::m
