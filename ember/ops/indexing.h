// x.index({...}) and x.index_put_({...}, value): what `x[...]` and `x[...] = value` are in Python.
//
//   x.index({0, Slice(1, 5), None, Ellipsis})   a view: integers, slices, new dimensions
//   x.index({rows, columns})                    a copy: tensors of indices, broadcast to one shape
//   x.index({x > 0})                            a copy: masks, which stand for their true places
//
// Integers and slices are applied first. What the tensors select has their common shape, which
// takes the place of the dimensions that they index if those lie beside each other, and comes first
// if they don't (so in `x[0, :, rows]`, as in torch and unlike in NumPy, 0 is no index tensor).
// Errors are IndexErrors: too many indices, an integer out of range, masks and index tensors whose
// shapes don't fit. For indices out of bounds in tensors see ops/index.h; negative ones count from
// the end.
//
// index_put_ wants a tensor of x's dtype. Where the index is a view it converts any, and where it
// has one mask and no index tensors, a tensor of one element. An index of only `false` changes
// nothing.
//
// A mask and an integer tensor without dimensions on a CUDA device block until their values are
// known on the host. Only `x.index_put_({mask}, number)` with a mask of x's shape does not.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// A new dimension of size one; in a Slice an end that is not given.
struct NoneType {
  constexpr operator std::optional<std::int64_t>() const noexcept { return std::nullopt; }
};
inline constexpr NoneType None;

/// All dimensions that the other items leave. A second one in an index stands for none.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;

/// start:stop:step, as in Python: what is missing is the end of the dimension. Steps are positive.
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;

  Slice() noexcept = default;
  Slice(std::optional<std::int64_t> from, std::optional<std::int64_t> to = {},
        std::int64_t by = 1) noexcept
      : start(from), stop(to), step(by) {}
};

/// One item of an index.
class Index {
 public:
  enum class Kind { integer, boolean, slice, none, ellipsis, tensor };

  /// An integer beyond 64 bits with a sign is out of bounds, not negative.
  template <std::integral T>
  Index(T number) noexcept
      : kind_(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer),
        integer_(std::is_unsigned_v<T> && static_cast<std::uint64_t>(number) > INT64_MAX
                     ? INT64_MAX
                     : static_cast<std::int64_t>(number)) {}
  Index(NoneType) noexcept : kind_(Kind::none) {}
  Index(std::nullopt_t) noexcept : kind_(Kind::none) {}
  Index(EllipsisType) noexcept : kind_(Kind::ellipsis) {}
  Index(const Slice& slice) noexcept : kind_(Kind::slice), slice_(slice) {}
  /// Indices (int64, int32; without dimensions any integer but uint8), or a mask (bool; uint8
  /// counts as one, as in torch).
  Index(Tensor tensor) noexcept : kind_(Kind::tensor), tensor_(std::move(tensor)) {}

  Kind kind() const noexcept { return kind_; }
  std::int64_t integer() const noexcept { return integer_; }
  const Slice& slice() const noexcept { return slice_; }
  const Tensor& tensor() const noexcept { return tensor_; }

 private:
  Kind kind_;
  std::int64_t integer_ = 0;
  Slice slice_;
  Tensor tensor_;
};

/// The places of the elements that are not zero: an index vector for each dimension, so that
/// `x.index({places[0], places[1]})` are those elements of a matrix. Blocks as nonzero() does.
EMBER_API std::vector<Tensor> where(const Tensor& condition);

}  // namespace ember::inline v0
