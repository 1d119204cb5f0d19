// What the kernels get that draw categories with replacement, and what they compute.
//
// Note [Categories by whole numbers]
// Weights become whole numbers: the largest of a row has 2^shift parts, the others their share of
// that, rounded. Sums of whole numbers are the same in any order, so that the CPU, simulated and
// real devices agree in every bit whatever they add first. A category is drawn by a number below
// the sum of all, and belongs to the first sum above it, which is found by halving. All parts of a
// row are less than 2^63: of 1000 categories the largest has 2^52, and what is less than half of
// one part is never drawn.
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/scalar/config.h"
#include "ember/scalar/distributions.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::random {

struct PartsArgs {
  const void* weights;  ///< rows of `count`; float32 or float64
  const void* largest;  ///< of each row
  std::int64_t* parts;
  std::int64_t rows;
  std::int64_t count;
  int shift;
  std::uint8_t unused[4]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(PartsArgs, EMBER_FIELD(weights), EMBER_FIELD(largest), EMBER_FIELD(parts),
                EMBER_FIELD(rows), EMBER_FIELD(count), EMBER_FIELD(shift), EMBER_FIELD(unused))

struct SearchArgs {
  const std::int64_t* sums;  ///< of the parts of each row, up to and with a category
  std::int64_t* drawn;       ///< 64 random bits each; categories afterwards
  std::int64_t rows;
  std::int64_t count;    ///< categories
  std::int64_t samples;  ///< of each row
};
EMBER_ARGUMENTS(SearchArgs, EMBER_FIELD(sums), EMBER_FIELD(drawn), EMBER_FIELD(rows),
                EMBER_FIELD(count), EMBER_FIELD(samples))

EMBER_HD bool is_weight(double weight) { return weight >= 0 && m::isfinite(weight); }

EMBER_HD std::int64_t parts_of(double weight, double largest, double whole) {
  return static_cast<std::int64_t>(m::rint(weight / largest * whole));
}

EMBER_HD std::int64_t category_of(const std::int64_t* sums, std::int64_t count, std::int64_t bits) {
  const auto all = static_cast<std::uint64_t>(sums[count - 1]);
  const auto at = static_cast<std::int64_t>(draw::mul_high(static_cast<std::uint64_t>(bits), all));
  std::int64_t first = 0;
  std::int64_t last = count - 1;
  while (first < last) {
    const std::int64_t middle = first + (last - first) / 2;
    if (sums[middle] > at)
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

}  // namespace ember::inline v0::random
