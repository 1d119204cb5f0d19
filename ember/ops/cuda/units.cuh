// What kernels move that do not look at elements: 1 to 16 bytes at once.
#pragma once

#include <cstdint>

#include "ember/driver/cuda/launch.h"

namespace ember::inline v0::ops::cuda {

namespace detail {
template <int bytes>
struct UnitOf;
template <>
struct UnitOf<1> {
  using type = std::uint8_t;
};
template <>
struct UnitOf<2> {
  using type = std::uint16_t;
};
template <>
struct UnitOf<4> {
  using type = std::uint32_t;
};
template <>
struct UnitOf<8> {
  using type = uint2;
};
template <>
struct UnitOf<16> {
  using type = uint4;
};
}  // namespace detail

template <int bytes>
using Unit = typename detail::UnitOf<bytes>::type;

}  // namespace ember::inline v0::ops::cuda
