// Dimensions that can be walked as one become one, for any number of operands.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "ember/driver/handles.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// One operand of an element-wise operation: memory, or a number that a Loop carries.
struct PlanOperand {
  void* data = nullptr;
  const Shape* sizes = nullptr;    ///< as stored; they are broadcast to the plan's. Null: a number
  const Shape* strides = nullptr;  ///< in elements
  std::size_t item = 0;            ///< bytes of an element
  std::uint32_t epoch = driver::kAnyEpoch;  ///< of memory on the device where the kernel runs
  const char* argument = nullptr;           ///< of the operation, as in cuda::Access
};

/// The elements of a tensor, which has to outlive the operand.
inline PlanOperand memory_of(const Tensor& tensor, const char* argument = nullptr) {
  return {tensor.address(),      &tensor.sizes(),           &tensor.strides(),
          tensor.element_size(), tensor.storage()->epoch(), argument};
}

/// The steps of one operand, in elements, by dimension.
using DimStrides = std::array<std::int64_t, kMaxDims>;

/// Dimensions after merging, fastest first. `Rows` has a DimStrides for each operand.
template <class Rows>
struct MergedDims {
  int count = 0;
  std::array<std::int64_t, kMaxDims> size;
  Rows stride;  ///< in elements
};

/// Merges the dimensions of an operation on elements of `sizes`. `dims` has room for the operands,
/// and no dimensions yet.
template <class Rows>
void merge_into(MergedDims<Rows>& dims, const Shape& sizes, std::span<const PlanOperand> operands) {
  // Fastest first: from the last dimension, where contiguous tensors are fastest.
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 1) continue;
    const auto d = static_cast<std::size_t>(dims.count++);
    dims.size[d] = sizes[i];
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const PlanOperand& operand = operands[k];
      const int own = operand.sizes == nullptr ? -1 : i - (sizes.size() - operand.sizes->size());
      dims.stride[k][d] = own < 0 || (*operand.sizes)[own] == 1 ? 0 : (*operand.strides)[own];
    }
  }
  // In the order of the output's strides; the inputs decide where it has none (a sort by insertion:
  // it is stable, and nearly always there is nothing to do).
  const auto slower = [&](std::size_t a, std::size_t b) {
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (dims.stride[k][a] == 0 || dims.stride[k][b] == 0) continue;
      if (dims.stride[k][a] != dims.stride[k][b]) return dims.stride[k][a] > dims.stride[k][b];
    }
    return false;
  };
  const auto exchange = [&](std::size_t a, std::size_t b) {
    std::swap(dims.size[a], dims.size[b]);
    for (std::size_t k = 0; k < operands.size(); ++k)
      std::swap(dims.stride[k][a], dims.stride[k][b]);
  };
  const auto count = static_cast<std::size_t>(dims.count);
  for (std::size_t i = 1; i < count; ++i)
    for (std::size_t j = i; j > 0 && slower(j - 1, j); --j) exchange(j - 1, j);
  // A dimension continues the one before where every operand's steps do.
  std::size_t kept = 0;
  for (std::size_t d = 1; d < count; ++d) {
    bool continues = true;
    for (std::size_t k = 0; k < operands.size(); ++k)
      continues &= dims.stride[k][d] == dims.stride[k][kept] * dims.size[kept];
    if (continues) {
      dims.size[kept] *= dims.size[d];
    } else if (++kept != d) {
      dims.size[kept] = dims.size[d];
      for (std::size_t k = 0; k < operands.size(); ++k) dims.stride[k][kept] = dims.stride[k][d];
    }
  }
  if (count > 0) dims.count = static_cast<int>(kept) + 1;
}

}  // namespace ember::inline v0::ops
