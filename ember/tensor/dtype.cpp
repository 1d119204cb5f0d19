#include "ember/tensor/dtype.h"

#include <algorithm>
#include <array>

#include "ember/base/error.h"

namespace ember::inline v0 {

std::size_t item_size(Dtype dtype) noexcept {
  static constexpr std::array<std::size_t, kDtypes> kSizes{
#define EMBER_DTYPE(enumerator, type, name, legacy) sizeof(type),
      EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  };
  return kSizes[static_cast<std::size_t>(dtype)];
}

std::size_t byte_count(std::int64_t elements, Dtype dtype) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(elements), item_size(dtype), &bytes))
      [[unlikely]]
    throw ValueError("a tensor of " + std::to_string(elements) + " elements of " +
                     dtype_name(dtype) + " has more than 2^64 bytes");
  return bytes;
}

const char* dtype_name(Dtype dtype) noexcept {
  static constexpr std::array<const char*, kDtypes> kNames{
#define EMBER_DTYPE(enumerator, type, name, legacy) name,
      EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  };
  return kNames[static_cast<std::size_t>(dtype)];
}

const char* legacy_name(Dtype dtype) noexcept {
  static constexpr std::array<const char*, kDtypes> kNames{
#define EMBER_DTYPE(enumerator, type, name, legacy) legacy,
      EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  };
  return kNames[static_cast<std::size_t>(dtype)];
}

Dtype real_dtype(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::complex32: return Dtype::float16;
    case Dtype::complex64: return Dtype::float32;
    case Dtype::complex128: return Dtype::float64;
    default: return dtype;
  }
}

Dtype complex_dtype(Dtype dtype) noexcept {
  if (is_complex_dtype(dtype)) return dtype;
  if (dtype == Dtype::float16) return Dtype::complex32;
  return dtype == Dtype::float64 ? Dtype::complex128 : Dtype::complex64;
}

Dtype promote_types(Dtype a, Dtype b) {
  if (a == b) return a;
  if (is_unsigned_wide(a) || is_unsigned_wide(b)) {
    if (is_floating_point(a)) return a;
    if (is_floating_point(b)) return b;
    throw Error(
        std::string("Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                    "promote ") +
        legacy_name(a) + " and " + legacy_name(b));
  }
  if (a > b) std::swap(a, b);
  if (is_complex_dtype(b))
    return is_floating_point(a) ? std::max(complex_dtype(a), b) : b;  // in order of width
  if (a == Dtype::float16 && b == Dtype::bfloat16) return Dtype::float32;
  if (is_floating_point(b)) return b;  // the list is in order of width
  if (a == Dtype::uint8 && b == Dtype::int8) return Dtype::int16;
  return b;
}

bool can_cast(Dtype from, Dtype to) noexcept {
  const auto category = [](Dtype dtype) {
    if (dtype == Dtype::bool_) return 0;
    if (is_integral(dtype)) return 1;
    return is_floating_point(dtype) ? 2 : 3;
  };
  return category(from) <= category(to);
}

Dtype default_dtype() noexcept { return Dtype::float32; }

}  // namespace ember::inline v0
