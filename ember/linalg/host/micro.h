// The innermost loop of matrix products: a small tile of the result, kept in registers.
#pragma once

#include <cstdint>

namespace ember::inline v0::linalg::host {

/// Adds the product of a packed panel of A (`depth` times `rows` numbers) and one of B (`depth`
/// times `columns`) to a tile, `columns` times `rows` numbers. With two planes each line of the
/// panels and of the tile holds all real parts and then all imaginary ones.
template <class R>
struct Micro {
  int rows;
  int columns;
  void (*run)(std::int64_t depth, const R* a, const R* b, R* tile) noexcept;
};

/// The fastest one that this CPU can run; R is float, double, uint32_t or uint64_t, of one plane or
/// of two (complex numbers, for float and double).
template <class R, int planes>
const Micro<R>& micro() noexcept;

}  // namespace ember::inline v0::linalg::host
