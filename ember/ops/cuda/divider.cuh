// Division by a number that the host knows: what index arithmetic is made of.
#pragma once

#include <cstdint>

namespace ember::inline v0::ops::cuda {

/// Division by a number that the host knows, for dividends below 2^31.
struct Divider {
  std::uint32_t divisor = 1;
  std::uint32_t factor = 0;
  std::uint32_t shift = 0;

  Divider() = default;
  explicit Divider(std::uint32_t number) : divisor(number) {
    while (shift < 32 && (1U << shift) < number) ++shift;
    const std::uint64_t one = 1;
    factor = static_cast<std::uint32_t>(((one << 32) * ((one << shift) - number)) / number + 1);
  }
  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t x) const {
    return (__umulhi(x, factor) + x) >> shift;
  }
};

}  // namespace ember::inline v0::ops::cuda
