// One number without a tensor: the 2 in `x + 2`, the result of item().
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "ember/base/export.h"
#include "ember/tensor/dtype.h"

namespace ember::inline v0 {

/// A bool, an integer, a floating-point or a complex number, remembering which: `x + 2` keeps the
/// type of an integer tensor, `x + 2.0` does not.
class Scalar {
 public:
  Scalar() noexcept = default;  ///< the integer zero
  template <std::integral T>
  Scalar(T value) noexcept
      : dtype_(std::is_same_v<T, bool> ? Dtype::bool_ : Dtype::int64),
        beyond_int64_(!std::is_same_v<T, bool> && value > static_cast<T>(0) &&
                      static_cast<std::uint64_t>(value) > INT64_MAX),
        integer_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T>
  Scalar(T value) noexcept : dtype_(Dtype::float64), complex_(static_cast<double>(value)) {}
  Scalar(Half value) noexcept : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) noexcept : Scalar(static_cast<float>(value)) {}
  template <class T>
  Scalar(Complex<T> value) noexcept
      : dtype_(Dtype::complex128),
        complex_(static_cast<double>(value.re), static_cast<double>(value.im)) {}
  template <class T>
  Scalar(std::complex<T> value) noexcept : Scalar(Complex<T>(value.real(), value.imag())) {}

  /// bool_, int64, float64 or complex128.
  Dtype dtype() const noexcept { return dtype_; }
  /// Whether it is an integer from 2^63 to 2^64 - 1, which no integer dtype but uint64 holds:
  /// operations on others refuse it, those on floating-point numbers take it as it is.
  bool beyond_int64() const noexcept { return beyond_int64_; }

  /// The number as T, by convert(); std::complex like Complex.
  template <class T>
  T to() const noexcept {
    if constexpr (std::is_same_v<T, std::complex<float>> ||
                  std::is_same_v<T, std::complex<double>>) {
      const auto number = to<Complex<typename T::value_type>>();
      return T(number.re, number.im);
    } else {
      if (beyond_int64_) [[unlikely]]
        return convert<T>(static_cast<std::uint64_t>(integer_));
      if (is_integral(dtype_)) return convert<T>(integer_);
      if (is_complex_dtype(dtype_)) return convert<T>(complex_);
      return convert<T>(complex_.re);
    }
  }

 private:
  Dtype dtype_ = Dtype::int64;
  bool beyond_int64_ = false;
  std::int64_t integer_ = 0;  ///< modulo 2^64
  Complex<double> complex_{0.0};
};

/// Whether a number has a place in a dtype, if need be rounded or cut off: 1.5 in int8, but not
/// 300, NaN or 1j. Unsigned types take the opposites of their numbers, too, which wrap around;
/// floating-point types take infinity, but no finite number beyond their largest. Everything fits
/// bool.
EMBER_API bool fits(const Scalar& number, Dtype dtype) noexcept;

/// The dtype that holds what T does.
template <class T>
inline constexpr Dtype dtype_holding = [] {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1: return kSigned ? Dtype::int8 : Dtype::uint8;
      case 2: return kSigned ? Dtype::int16 : Dtype::uint16;
      case 4: return kSigned ? Dtype::int32 : Dtype::uint32;
      default: return kSigned ? Dtype::int64 : Dtype::uint64;
    }
  } else if constexpr (std::is_same_v<T, long double>) {
    return Dtype::float64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return Dtype::complex64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return Dtype::complex128;
  } else {
    return dtype_of<T>;
  }
}();

/// `value cannot be converted to type uint8 without overflow: 300`
[[noreturn]] EMBER_API void refuse_number(const Scalar& number, Dtype dtype);
inline void require_fits(const Scalar& number, Dtype dtype) {
  if (!fits(number, dtype)) [[unlikely]]
    refuse_number(number, dtype);
}

}  // namespace ember::inline v0
