// What is computed: how often each byte value occurs, and the CRC-32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace overlap {

struct Digest {
  std::array<std::uint64_t, 256> histogram{};
  std::uint32_t crc = 0;

  /// Adds a part whose CRC has been shifted to its place (crc_shift).
  void merge(const Digest& part) {
    for (std::size_t value = 0; value < histogram.size(); ++value)
      histogram[value] += part.histogram[value];
    crc ^= part.crc;
  }
  friend bool operator==(const Digest&, const Digest&) = default;
};

}  // namespace overlap
