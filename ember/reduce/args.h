// What the kernels of reductions get: which dimensions stay and which go, in the order in which
// they are walked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::reduce {

inline constexpr int kReduceDims = 4;  ///< kept ones, and again as many reduced ones

/// What is stored of what a kernel computed.
enum class ReduceMode : std::uint8_t {
  plain,      ///< the sum, the product, the variance, how many are not zero
  divided,    ///< divided by `number`
  root,       ///< the variance's square root
  any,        ///< whether a count is not zero
  all,        ///< whether a count is everything
  real,       ///< a count as a floating-point number (the norm for p = 0)
  all_int64,  ///< whether a count is everything, as an integer (the product of bools)
  absolute,   ///< the norm for p = 1
  largest,    ///< for p = infinity
  smallest,   ///< for p = -infinity
  power,      ///< for any other p, which is `number`
};

/// One reduction. Dimensions are in the order of the input's strides, fastest first; the offsets of
/// the output are those of a contiguous tensor, in another order of dimensions perhaps.
struct ReduceArgs {
  const void* in;
  void* out;              ///< null if only indices are wanted
  std::int64_t* indices;  ///< positions of extremes; null if they are not wanted
  void* scratch;          ///< what the implementation asked for
  std::int64_t outputs;   ///< elements of the output
  std::int64_t reduced;   ///< elements of the input for each of them
  double number;          ///< divisor, correction, or p
  std::int64_t kept_size[kReduceDims];
  std::int64_t kept_stride[kReduceDims];  ///< of the input, in elements
  std::int64_t kept_out[kReduceDims];     ///< of the output
  std::int64_t size[kReduceDims];         ///< of the reduced dimensions
  std::int64_t stride[kReduceDims];
  std::int8_t kept_dims;
  std::int8_t reduced_dims;
  std::uint8_t out_item;  ///< bytes of an element of `out`
  ReduceMode mode;
  std::uint8_t unused[4]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(ReduceArgs, EMBER_FIELD(in), EMBER_FIELD(out), EMBER_FIELD(indices),
                EMBER_FIELD(scratch), EMBER_FIELD(outputs), EMBER_FIELD(reduced),
                EMBER_FIELD(number), EMBER_FIELD(kept_size), EMBER_FIELD(kept_stride),
                EMBER_FIELD(kept_out), EMBER_FIELD(size), EMBER_FIELD(stride),
                EMBER_FIELD(kept_dims), EMBER_FIELD(reduced_dims), EMBER_FIELD(out_item),
                EMBER_FIELD(mode), EMBER_FIELD(unused))
static_assert(driver::KernelArguments<ReduceArgs>);

}  // namespace ember::inline v0::reduce
