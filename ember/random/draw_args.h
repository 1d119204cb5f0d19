// What the kernels of distributions get, which of them there are, and which numbers an element
// takes.
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/random/philox_args.h"
#include "ember/scalar/distributions.h"

namespace ember::inline v0 {
EMBER_ARGUMENTS(DrawParams, EMBER_FIELD(a), EMBER_FIELD(b), EMBER_FIELD(u), EMBER_FIELD(low))
}  // namespace ember::inline v0

namespace ember::inline v0::random {

struct DrawArgs {
  void* out;                   ///< contiguous
  const float* probabilities;  ///< of every element, for draws that have them
  std::int64_t count;
  PhiloxSource source;
  DrawParams params;
};
EMBER_ARGUMENTS(DrawArgs, EMBER_FIELD(out), EMBER_FIELD(probabilities), EMBER_FIELD(count),
                EMBER_FIELD(source), EMBER_FIELD(params))

/// Note [Which numbers an element takes]
/// The documents let a grid of threads draw, thread i from subsequence i: 256 threads per block, as
/// many blocks as elements need and the GPU can hold at once, four numbers per thread and step. So
/// there the numbers depend on the GPU. Here they don't: the grid is always that of one GPU, 132
/// multiprocessors of 2048 threads (which is what an H100 or H200 holds), whatever runs it.
/// Element i takes, with T threads and k numbers per call (k = 4, or 2 and 1 for wider draws),
///
///     subsequence   i mod T
///     step          offset / 4 + i div (k T)
///     number        (i div T) mod k
///
/// so neighbours lie in neighbouring threads, and the first T elements take the first number of
/// their threads' call.
inline constexpr std::int64_t kThreadsPerBlock = 256;
inline constexpr std::int64_t kMostBlocks = 132 * (2048 / kThreadsPerBlock);

EMBER_HD constexpr std::int64_t blocks_for(std::int64_t count) {
  const std::int64_t blocks = (count + kThreadsPerBlock - 1) / kThreadsPerBlock;
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}
/// By how much a draw of `count` elements moves the generator's offset.
constexpr std::uint64_t offset_increment(std::int64_t count, int numbers_per_call) {
  if (count == 0) return 0;
  const std::int64_t per_step = blocks_for(count) * kThreadsPerBlock * numbers_per_call;
  return (static_cast<std::uint64_t>((count - 1) / per_step) + 1) * 4;
}

// Every kernel: EMBER_DRAW(name, dtype, C++ type, functor in ember::draw). Types with the same bits
// share the kernels of whole numbers and of bernoulli.
// clang-format off
#define EMBER_DRAW_FLOATING(EMBER_DRAW, name, functor)     \
  EMBER_DRAW(name, float16, ::ember::Half, functor)        \
  EMBER_DRAW(name, bfloat16, ::ember::BFloat16, functor)   \
  EMBER_DRAW(name, float32, float, functor)                \
  EMBER_DRAW(name, float64, double, functor)
#define EMBER_DRAW_ANY(EMBER_DRAW, name, functor)  \
  EMBER_DRAW(name, uint8, std::uint8_t, functor)   \
  EMBER_DRAW(name, int16, std::int16_t, functor)   \
  EMBER_DRAW(name, int32, std::int32_t, functor)   \
  EMBER_DRAW(name, int64, std::int64_t, functor)   \
  EMBER_DRAW_FLOATING(EMBER_DRAW, name, functor)
#define EMBER_FOR_EACH_DRAW(EMBER_DRAW)                         \
  EMBER_DRAW_FLOATING(EMBER_DRAW, uniform, Uniform)             \
  EMBER_DRAW_FLOATING(EMBER_DRAW, normal, Normal)               \
  EMBER_DRAW_FLOATING(EMBER_DRAW, exponential, Exponential)     \
  EMBER_DRAW_ANY(EMBER_DRAW, bernoulli, Bernoulli)              \
  EMBER_DRAW_ANY(EMBER_DRAW, bernoulli_each, BernoulliEach)     \
  EMBER_DRAW_ANY(EMBER_DRAW, integers_32, Integers32)           \
  EMBER_DRAW_ANY(EMBER_DRAW, integers_64, Integers64)           \
  EMBER_DRAW_ANY(EMBER_DRAW, integers_128, Integers128)
// clang-format on

}  // namespace ember::inline v0::random
