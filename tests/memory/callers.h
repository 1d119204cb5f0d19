// Functions that allocate, in a source that is compiled as programs are: with -O2.
#pragma once

#include <cstddef>

#include "ember/memory/memory.h"

extern "C" {
/// Allocates through callers_middle and callers_inner, without inlining but with whatever else the
/// compiler does.
EMBER_API ember::cuda::DeviceBuffer* callers_outer(std::size_t bytes);
EMBER_API ember::cuda::DeviceBuffer* callers_middle(std::size_t bytes);
EMBER_API ember::cuda::DeviceBuffer* callers_inner(std::size_t bytes);
/// Frees.
EMBER_API void callers_free(ember::cuda::DeviceBuffer* buffer);
}
