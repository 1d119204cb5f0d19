// The kernels of distributions, by distribution and element type.
#pragma once

#include "ember/driver/kernel.h"
#include "ember/random/draw_args.h"

namespace ember::inline v0::random {

enum class DrawId : int {
  uniform,
  normal,
  exponential,
  bernoulli,
  bernoulli_each,
  integers_32,
  integers_64,
  integers_128,
};

/// Null where the distribution does not exist for the type.
const driver::Kernel* draw_kernel(DrawId draw, Dtype dtype) noexcept;
/// How many numbers of a type one Philox call gives.
int numbers_per_call(DrawId draw, Dtype dtype) noexcept;

}  // namespace ember::inline v0::random
