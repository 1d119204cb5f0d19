// What the kernels of arange get. Arguments have headers of their own, which both implementations
// include.
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"

namespace ember::inline v0::ops {

struct RampArgs {
  void* out;  ///< contiguous
  std::int64_t count;
  std::int64_t first, step;      ///< for integers
  double real_first, real_step;  ///< for everything else: computed in double, then rounded once
  std::int64_t turn;             ///< from this element on, counted backwards from the last
  double real_last;
};
EMBER_ARGUMENTS(RampArgs, EMBER_FIELD(out), EMBER_FIELD(count), EMBER_FIELD(first),
                EMBER_FIELD(step), EMBER_FIELD(real_first), EMBER_FIELD(real_step),
                EMBER_FIELD(turn), EMBER_FIELD(real_last))

}  // namespace ember::inline v0::ops
