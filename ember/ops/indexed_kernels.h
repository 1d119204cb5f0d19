// The kernels that look places up in an index, by operation. See indexed_args.h.
#pragma once

#include <cstddef>

#include "ember/driver/kernel.h"
#include "ember/ops/indexed_args.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::ops {

// clang-format off
#define EMBER_KERNEL(name) name,
enum class Reads : int { EMBER_FOR_EACH_READ(EMBER_KERNEL) };
enum class Writes : int { EMBER_FOR_EACH_WRITE(EMBER_KERNEL) };
#undef EMBER_KERNEL
#define EMBER_KERNEL(name, how) name,
enum class Combines : int { EMBER_FOR_EACH_COMBINATION(EMBER_KERNEL) };
#undef EMBER_KERNEL
// clang-format on

/// Moves units of 1, 2, 4, 8 or 16 bytes.
const driver::Kernel& indexed_kernel(Reads op, std::size_t unit) noexcept;
const driver::Kernel& indexed_kernel(Writes op, std::size_t unit) noexcept;
/// Adds or multiplies elements; null for the types that there are none for: uint16 and wider.
const driver::Kernel* indexed_kernel(Combines op, Dtype dtype) noexcept;
/// See OffsetArgs.
const driver::Kernel& offsets_kernel() noexcept;

}  // namespace ember::inline v0::ops
