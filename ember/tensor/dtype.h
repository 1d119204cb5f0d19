// Element types at run time: their names, sizes, categories and promotion. The list of them is in
// scalar/types.h. Chapter 24 of the documents.
#pragma once

#include <cstddef>
#include <string>

#include "ember/base/export.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0 {

using enum Dtype;

/// Bytes of one element.
EMBER_API std::size_t item_size(Dtype dtype) noexcept;
/// Bytes of so many elements. ValueError if that is 2^64 or more.
EMBER_API std::size_t byte_count(std::int64_t elements, Dtype dtype);
/// "float32".
EMBER_API const char* dtype_name(Dtype dtype) noexcept;
/// The name in error texts, as torch has it: "Float", "ComplexDouble".
EMBER_API const char* legacy_name(Dtype dtype) noexcept;

constexpr bool is_floating_point(Dtype dtype) noexcept { return contains(dtypes::floating, dtype); }
constexpr bool is_complex_dtype(Dtype dtype) noexcept { return contains(dtypes::complex, dtype); }
constexpr bool is_integral(Dtype dtype, bool with_bool = true) noexcept {
  return contains((with_bool ? dtypes::integer_or_bool : dtypes::integer) | dtypes::unsigned_wide,
                  dtype);
}
/// Whether it is one of the 16-bit floats, which are computed with as float32.
constexpr bool is_half(Dtype dtype) noexcept {
  return dtype == Dtype::float16 || dtype == Dtype::bfloat16;
}
/// Whether it is uint16, uint32 or uint64: such elements are stored, copied, converted and compared
/// for equality, and become floating-point numbers where an operation wants those.
constexpr bool is_unsigned_wide(Dtype dtype) noexcept {
  return contains(dtypes::unsigned_wide, dtype);
}
/// Whether it has negative numbers.
constexpr bool is_signed(Dtype dtype) noexcept {
  return dtype != Dtype::bool_ && dtype != Dtype::uint8 && !is_unsigned_wide(dtype);
}
/// complex32 -> float16, complex64 -> float32, complex128 -> float64; anything else as it is.
EMBER_API Dtype real_dtype(Dtype dtype) noexcept;
/// float16 -> complex32, float64 -> complex128, any other real one -> complex64; complex ones as
/// they are.
EMBER_API Dtype complex_dtype(Dtype dtype) noexcept;

/// The smallest type that holds both, by torch's table: uint8 and int8 give int16, float16 and
/// bfloat16 give float32, an integer and a floating type give the floating type. Error for uint16,
/// uint32 and uint64 beside anything but themselves and real floating types.
EMBER_API Dtype promote_types(Dtype a, Dtype b);
/// Whether a result of type `from` may be stored in a tensor of type `to`: no step down from
/// complex to real, floating to integer, or number to bool.
EMBER_API bool can_cast(Dtype from, Dtype to) noexcept;

/// The floating type that numbers without a type become: float32.
EMBER_API Dtype default_dtype() noexcept;

/// Calls `use.template operator()<T>()` with the C++ type of `dtype`.
template <class Use>
decltype(auto) with_type(Dtype dtype, Use&& use) {
  switch (dtype) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator: return use.template operator()<type>();
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  __builtin_unreachable();
}

}  // namespace ember::inline v0
