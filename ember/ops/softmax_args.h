// What the kernels of softmax get.
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"

namespace ember::inline v0::ops {

/// Tensors of [outer, count, inner] elements without gaps; along the middle one it goes.
struct SoftmaxArgs {
  const void* in;
  void* out;      ///< may be `in`
  void* scratch;  ///< what the implementation asked for
  std::int64_t outer;
  std::int64_t count;
  std::int64_t inner;
  bool logarithm;
  std::uint8_t unused[7]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(SoftmaxArgs, EMBER_FIELD(in), EMBER_FIELD(out), EMBER_FIELD(scratch),
                EMBER_FIELD(outer), EMBER_FIELD(count), EMBER_FIELD(inner), EMBER_FIELD(logarithm),
                EMBER_FIELD(unused))

}  // namespace ember::inline v0::ops
