// What the kernels of arange get. Arguments have headers of their own, which both implementations
// include.
#pragma once

#include <cstdint>

namespace ember::inline v0::ops {

struct RampArgs {
  void* out;  ///< contiguous
  std::int64_t count;
  std::int64_t first, step;      ///< for integers
  double real_first, real_step;  ///< for everything else: computed in double, then rounded once
};

}  // namespace ember::inline v0::ops
