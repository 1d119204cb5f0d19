#include "ember/tensor/number.h"

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "ember/base/error.h"
#include "ember/base/number_text.h"

namespace ember::inline v0 {
namespace {

template <class T>
constexpr double kLargest = static_cast<double>(std::numeric_limits<T>::max());
template <>
constexpr double kLargest<Half> = 65504;
template <>
constexpr double kLargest<BFloat16> = 0x1.fep127;

template <class T>
bool holds(std::int64_t value) noexcept {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return true;  // negative ones wrap around
  } else if constexpr (std::is_unsigned_v<T>) {
    constexpr auto kMost = static_cast<std::int64_t>(std::numeric_limits<T>::max());
    return value <= kMost && value >= -kMost;
  } else if constexpr (std::is_integral_v<T>) {
    return value <= std::numeric_limits<T>::max() && value >= std::numeric_limits<T>::lowest();
  } else {
    return std::fabs(static_cast<double>(value)) <= kLargest<T>;
  }
}

template <class T>
bool holds(double value) noexcept {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return value >= -0x1p63 && value < 0x1p63;  // the largest integer is no double
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return value >= 0 && value < 0x1p64;
  else if constexpr (std::is_integral_v<T>)
    return value >= static_cast<double>(std::numeric_limits<T>::lowest()) && value <= kLargest<T>;
  else
    return !std::isfinite(value) || std::fabs(value) <= kLargest<T>;
}

std::string text_of(const Scalar& number) {
  if (number.beyond_int64()) return std::to_string(number.to<std::uint64_t>());
  if (is_integral(number.dtype())) return std::to_string(number.to<std::int64_t>());
  const auto value = number.to<Complex<double>>();
  if (!is_complex_dtype(number.dtype())) return number_text(value.re);
  return number_text(value.re) + (std::signbit(value.im) ? "" : "+") + number_text(value.im) + "j";
}

}  // namespace

bool fits(const Scalar& number, Dtype dtype) noexcept {
  if (dtype == Dtype::bool_) return true;
  return with_type(dtype, [&]<class T>() {
    if (number.beyond_int64())
      return std::is_same_v<T, std::uint64_t> ||
             (!std::is_integral_v<T> && holds<Real<T>>(number.to<double>()));
    if (is_integral(number.dtype())) return holds<Real<T>>(number.to<std::int64_t>());
    const auto value = number.to<Complex<double>>();
    return holds<Real<T>>(value.re) && (is_complex<T> ? holds<Real<T>>(value.im) : value.im == 0);
  });
}

void refuse_number(const Scalar& number, Dtype dtype) {
  throw Error(std::string("value cannot be converted to type ") + dtype_name(dtype) +
              " without overflow: " + text_of(number));
}

}  // namespace ember::inline v0
