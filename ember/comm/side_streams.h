// What the functions of comm share: side streams, layouts, many tensors as one.
#pragma once

#include <span>

#include "ember/comm/comm.h"
#include "ember/runtime/order.h"

namespace ember::inline v0::cuda::comm {

/// A stream of the device for copies beside the current one: an idle one if there is one. The
/// caller joins it to the current streams before it returns.
Stream side_stream(int device);

/// Whether the bytes of one are the bytes of the other, without gaps.
bool same_bytes(const Tensor& a, const Tensor& b);

/// Strides of a new tensor: the given one's if it is channels-last, else contiguous ones.
bool is_channels_last(const Tensor& tensor);
Shape channels_last_strides(const Shape& sizes);
Shape kept_strides(const Tensor& tensor);
Tensor new_tensor(const Shape& sizes, const Shape& strides, Dtype dtype, Device device);

/// target = left + right, by one kernel on the target's device and its current stream; all have the
/// same bytes, and the right one may lie on a peer. Orders nothing.
void add_by_kernel(const Tensor& target, const Tensor& left, const Tensor& right);

/// A piece of a dense tensor's memory as a vector.
Tensor flat_piece(const Tensor& tensor, std::int64_t first, std::int64_t count);

/// Consecutive tensors of one dtype that together have at most `limit` bytes, or are alone; each is
/// a list of positions.
std::vector<std::vector<std::size_t>> bundles(const std::vector<Tensor>& tensors,
                                              std::size_t limit);
/// The elements of the tensors of a bundle as one vector; what is one contiguous tensor is not
/// copied.
Tensor flatten(const std::vector<Tensor>& tensors, const std::vector<std::size_t>& bundle);
/// Views of a vector with the sizes of the bundle's tensors, put into `out` at their positions.
void unflatten(const Tensor& flat, const std::vector<Tensor>& like,
               const std::vector<std::size_t>& bundle, std::vector<Tensor>& out);

}  // namespace ember::inline v0::cuda::comm
