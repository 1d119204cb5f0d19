// The order of sort and topk. The bits of elements become unsigned numbers of the same width, so
// that both need one kernel per width and not one per element type.
#pragma once

#include "ember/driver/arguments.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::ops {

/// What key() needs to know of an element type and a direction, prepared on the host.
struct KeyOrder {
  std::uint64_t flip = 0;       ///< turned over in every element
  std::uint64_t negative = 0;   ///< turned over as well where the sign bit is set
  std::uint64_t magnitude = 0;  ///< all but the sign; zero for types without NaN
  std::uint64_t infinity = 0;   ///< what lies above it is NaN
  std::uint64_t nan_key = 0;    ///< one for all of them
  std::uint64_t zero = 0;       ///< the bits of -0.0
  std::uint64_t zero_key = 0;   ///< which are those of 0.0, too

  /// Smaller for elements that come earlier; equal for elements that are equal.
  template <class U>
  EMBER_HD U key(U bits) const {
    using Signed = std::make_signed_t<U>;
    const U turned = static_cast<Signed>(bits) < 0 ? static_cast<U>(negative) : U(0);
    U out = static_cast<U>(bits ^ turned ^ static_cast<U>(flip));
    if (static_cast<U>(bits & static_cast<U>(magnitude)) > static_cast<U>(infinity))
      out = static_cast<U>(nan_key);
    if (bits == static_cast<U>(zero)) out = static_cast<U>(zero_key);
    return out;
  }
};
EMBER_ARGUMENTS(KeyOrder, EMBER_FIELD(flip), EMBER_FIELD(negative), EMBER_FIELD(magnitude),
                EMBER_FIELD(infinity), EMBER_FIELD(nan_key), EMBER_FIELD(zero),
                EMBER_FIELD(zero_key))

/// NaN is larger than every number, and all NaNs are equal.
inline KeyOrder key_order(Dtype dtype, std::size_t width, bool descending) noexcept {
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * width);
  const std::uint64_t sign = all ^ (all >> 1);
  KeyOrder order;
  order.flip = descending ? all : 0;
  order.nan_key = ~order.flip & all;
  if (dtype == Dtype::bool_ || dtype == Dtype::uint8) {
    order.zero_key = order.flip;
    return order;
  }
  order.flip ^= sign;
  order.zero_key = order.flip;
  if (dtype == Dtype::int8 || dtype == Dtype::int16 || dtype == Dtype::int32 ||
      dtype == Dtype::int64)
    return order;
  order.negative = order.magnitude = all ^ sign;
  order.zero = sign;
  switch (dtype) {
    case Dtype::float16: order.infinity = 0x7c00; break;
    case Dtype::bfloat16: order.infinity = 0x7f80; break;
    case Dtype::float32: order.infinity = 0x7f800000; break;
    default: order.infinity = 0x7ff0000000000000; break;
  }
  return order;
}

}  // namespace ember::inline v0::ops
