// What numbers of a dtype can be.
#pragma once

#include <cstdint>

#include "ember/base/export.h"
#include "ember/tensor/dtype.h"

namespace ember::inline v0 {

/// Of a floating-point dtype.
struct FloatLimits {
  Dtype dtype;
  int bits;
  double max, min;         ///< the largest number, and its opposite
  double eps;              ///< from 1 to the next number
  double smallest_normal;  ///< the least above zero with all digits
  double resolution;       ///< the same as eps, as a power of ten
};
/// Of an integer dtype.
struct IntegerLimits {
  Dtype dtype;
  int bits;
  std::uint64_t max;
  std::int64_t min;
};

/// Of complex dtypes those of the parts. TypeError for other than floating and complex dtypes.
EMBER_API FloatLimits finfo(Dtype dtype = default_dtype());
/// TypeError for other than integer dtypes, also for bool.
EMBER_API IntegerLimits iinfo(Dtype dtype);

}  // namespace ember::inline v0
