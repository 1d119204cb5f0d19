// The same elements in another order, several times, or only some of them: always new tensors, on
// the device of the given one. Nothing blocks on CUDA devices.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The order reversed along these dimensions; strides stay if there are no gaps. Error if one is
/// named twice.
EMBER_API Tensor flip(const Tensor& x, const Shape& dims);
/// The columns (dimension 1), or the rows (dimension 0), in the reverse order. Error without them.
EMBER_API Tensor fliplr(const Tensor& x);
EMBER_API Tensor flipud(const Tensor& x);
/// Moved along dimensions by as many places as `shifts` says, what falls off one end coming in at
/// the other. Without dimensions the tensor is one row, and there is one shift.
EMBER_API Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {});
/// Side by side as often as the numbers say, which are aligned at the last dimension. Error for
/// fewer numbers than dimensions.
EMBER_API Tensor repeat(const Tensor& x, const Shape& repeats);
/// Of the last two dimensions what is not above (tril) or below (triu) a diagonal, the others zero;
/// diagonals count upwards from the main one.
EMBER_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
EMBER_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// In an output of x's dtype, which may be x. One of other sizes is resized, with a
/// warning unless it has no elements. Error for another dtype; the output is then as it was.
EMBER_API Tensor& tril_out(Tensor& out, const Tensor& x, std::int64_t diagonal = 0);
EMBER_API Tensor& triu_out(Tensor& out, const Tensor& x, std::int64_t diagonal = 0);
/// A matrix with a vector on a diagonal, or the diagonal of a matrix.
EMBER_API Tensor diag(const Tensor& x, std::int64_t diagonal = 0);
/// As tril_out.
EMBER_API Tensor& diag_out(Tensor& out, const Tensor& x, std::int64_t diagonal = 0);

/// repeat() for any count of numbers: missing ones are 1.
EMBER_API Tensor tile(const Tensor& x, const Shape& repeats);

/// Vectors (and numbers) as the coordinates of a grid: for each of them a view with the sizes of
/// all, in which it runs along its own dimension. "xy" exchanges the first two dimensions of the
/// results. Error for tensors of more dimensions, for several dtypes or devices, and for none.
[[nodiscard]] EMBER_API std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                                                     std::string_view indexing = "ij");
[[nodiscard]] inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors,
                                                  std::string_view indexing = "ij") {
  return meshgrid(std::span(tensors.begin(), tensors.size()), indexing);
}
[[nodiscard]] inline std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors,
                                                  std::string_view indexing = "ij") {
  return meshgrid(std::span<const Tensor>(tensors), indexing);
}

/// Each element less the one before, along a dimension; n times. Of bools: whether they differ. x
/// itself if it has no elements there. `prepend` and `append` are set before and behind x first, as
/// cat does; their sizes are those of x but along `dim`. Error for negative n, without dimensions
/// and for other sizes.
EMBER_API Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1,
                      const std::optional<Tensor>& prepend = std::nullopt,
                      const std::optional<Tensor>& append = std::nullopt);
/// The same into a tensor, whose dtype can hold the result's; it gets the right shape.
EMBER_API Tensor& diff_out(Tensor& out, const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1,
                           const std::optional<Tensor>& prepend = std::nullopt,
                           const std::optional<Tensor>& append = std::nullopt);

}  // namespace ember::inline v0
