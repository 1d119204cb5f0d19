// The element types, what they are computed in, and how one becomes another.
#pragma once

#include "ember/scalar/complex.h"
#include "ember/scalar/half.h"

namespace ember::inline v0 {

/// Every element type, in the order of promotion within a category; at the end the wide unsigned
/// ones, which are stored, copied and converted, but hardly computed with. complex32 has
/// arithmetic, and few functions. The list is the one place where an element type is added:
/// EMBER_DTYPE(enumerator, C++ type, name, torch's class name).
// clang-format off
#define EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)                     \
  EMBER_DTYPE(bool_, bool, "bool", "Bool")                    \
  EMBER_DTYPE(uint8, std::uint8_t, "uint8", "Byte")           \
  EMBER_DTYPE(int8, std::int8_t, "int8", "Char")              \
  EMBER_DTYPE(int16, std::int16_t, "int16", "Short")          \
  EMBER_DTYPE(int32, std::int32_t, "int32", "Int")            \
  EMBER_DTYPE(int64, std::int64_t, "int64", "Long")           \
  EMBER_DTYPE(float16, ::ember::Half, "float16", "Half")      \
  EMBER_DTYPE(bfloat16, ::ember::BFloat16, "bfloat16", "BFloat16") \
  EMBER_DTYPE(float32, float, "float32", "Float")             \
  EMBER_DTYPE(float64, double, "float64", "Double")           \
  EMBER_DTYPE(complex32, ::ember::Complex<::ember::Half>, "complex32", "ComplexHalf") \
  EMBER_DTYPE(complex64, ::ember::Complex<float>, "complex64", "ComplexFloat") \
  EMBER_DTYPE(complex128, ::ember::Complex<double>, "complex128", "ComplexDouble") \
  EMBER_DTYPE(uint16, std::uint16_t, "uint16", "UInt16")      \
  EMBER_DTYPE(uint32, std::uint32_t, "uint32", "UInt32")      \
  EMBER_DTYPE(uint64, std::uint64_t, "uint64", "UInt64")
// clang-format on

enum class Dtype : std::uint8_t {
#define EMBER_DTYPE(enumerator, type, name, legacy) enumerator,
  EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
inline constexpr int kDtypes = 16;

namespace detail {
template <class T>
struct DtypeOf;
#define EMBER_DTYPE(enumerator, type, name, legacy)   \
  template <>                                         \
  struct DtypeOf<type> {                              \
    static constexpr Dtype value = Dtype::enumerator; \
    static constexpr const char* text = name;         \
  };
EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE

template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <>
struct ComputeOf<Complex<Half>> {
  using type = Complex<float>;
};

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<Complex<T>> {
  using type = T;
};
}  // namespace detail

template <class T>
inline constexpr Dtype dtype_of = detail::DtypeOf<T>::value;

/// What T is computed in: float for the 16-bit types, complex64 for complex32, T itself otherwise.
template <class T>
using Compute = typename detail::ComputeOf<T>::type;
/// The type of a complex type's components; T itself otherwise.
template <class T>
using Real = typename detail::RealOf<T>::type;

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<Complex<T>> = true;
template <class T>
inline constexpr bool is_floating = std::is_floating_point_v<Compute<T>>;
template <class T>
inline constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// One element type as another. To bool: whether it is not zero. Complex to real drops the
/// imaginary part. Floating point to integers drops the fraction, and integers of 8 and 16 bits and
/// unsigned ones keep the low bits of the 64-bit integer; what does not fit into that, or into the
/// wider target, gives an unspecified number, as NaN does.
template <class To, class From>
EMBER_HD To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (is_complex<From>)
      return convert<bool>(value.re) || convert<bool>(value.im);
    else
      return value != From(0);
  } else if constexpr (is_complex<To>) {
    if constexpr (is_complex<From>)
      return To(convert<Real<To>>(value.re), convert<Real<To>>(value.im));
    else
      return To(convert<Real<To>>(value));
  } else if constexpr (is_complex<From>) {
    return convert<To>(value.re);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(convert<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && is_integer<To> &&
                       (sizeof(To) < 4 || std::is_unsigned_v<To>)) {
    if constexpr (sizeof(To) == 8)
      if (value >= From(0x1p63)) return static_cast<To>(value);
    return static_cast<To>(static_cast<std::int64_t>(value));
#if defined(EMBER_ZERO_HAS_NO_SIGN)
  } else if constexpr (is_integer<From> && std::is_floating_point_v<To>) {
    // g++ until 14 makes one rounding of this and the conversion before it, which keeps the sign of
    // a zero. The sum has none.
    const To number = static_cast<To>(value);
    return number + To(0);
#endif
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ember::inline v0
