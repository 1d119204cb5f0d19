// The questions that operations ask about their tensors before they start, and the documented words
// when the answer is no.
#pragma once

#include <span>
#include <string>

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Error `Expected all tensors to be on the same device, but found at least two devices, cuda:0 and
/// cpu!` unless the two are one.
void require_same_device(Device first, Device second);

/// Error unless no two elements of a tensor that is about to be written share memory.
void require_no_internal_overlap(const Tensor& out);

/// Error if `out` and `input` share memory without being the same elements in the same order.
void require_no_partial_overlap(const Tensor& out, const Tensor& input);

/// Whether two tensors share memory, as far as that is easy to tell: views with gaps that may lie
/// between each other count as apart unless they are the same.
bool overlap(const Tensor& a, const Tensor& b);

/// Error if `out` and `input` share memory at all.
void require_no_overlap(const Tensor& out, const Tensor& input);

/// Error if two outputs of one operation are one tensor, or share memory as far as overlap() can
/// tell.
void require_apart(const Tensor& first, const Tensor& second);

/// Error unless an output can be readied: it is on `device`, its dtype can hold `dtype`, and it has
/// these sizes or can be resized, since it shares memory with none of `inputs`, which would be
/// lost.
void require_output(const Tensor& out, Device device, const Shape& sizes, Dtype dtype,
                    std::span<const Tensor* const> inputs = {});

/// Whether a warning says that an output with elements got another shape. Functions that fill new
/// tensors, and those that draw random numbers, resize without one.
enum class Resizing : bool { warns, is_silent };

/// Readies the given output of an operation, after those checks. One of another shape gets the
/// right one, with `strides` if they are given; if it had elements, a warning says so. It stays in
/// its memory where that has room and belongs to no input; else it gets new memory.
void prepare_output(Tensor& out, Device device, const Shape& sizes, Dtype dtype,
                    std::span<const Tensor* const> inputs = {}, const Shape* strides = nullptr,
                    Resizing resizing = Resizing::warns);

/// Error `Expected out tensor to have dtype float32, but got int64 instead` for operations whose
/// outputs take over no other dtype.
void require_dtype(const Tensor& out, Dtype dtype);

/// For operations that make their result apart from the given output, of the same dtype: puts it
/// there. `result` must be nobody else's, as an output without room for it takes it over.
Tensor& put_result(Tensor& out, const Tensor& result, Resizing resizing = Resizing::warns);

/// NotImplementedError `"exp" not implemented for 'Bool'`.
[[noreturn]] void throw_not_implemented(const char* op, Dtype dtype);

/// The dtype of the tensor, or of the number as it is, before any promotion.
inline Dtype operand_dtype(const Operand& x) {
  return x.tensor() != nullptr ? x.tensor()->dtype() : x.number().dtype();
}

/// `device` with the index that "cuda" alone stands for now.
Device resolve(Device device);

}  // namespace ember::inline v0::ops
