// From tensors to loops: dimensions that can be walked as one become one, the fastest comes first,
// and what is too large for one loop is cut.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ember/ops/loop.h"
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
  return {tensor.data_ptr(),     &tensor.sizes(),           &tensor.strides(),
          tensor.element_size(), tensor.storage()->epoch(), argument};
}

/// Runs `kernel` over all elements of `sizes`: operand 0 is written, the others are read. Numbers
/// take their values from `loop`, in order. Nothing happens if there are no elements. `peer`: what
/// lies on another device.
void run_loop(Device device, const driver::Kernel& kernel, const Shape& sizes,
              std::span<const PlanOperand> operands, Loop& loop, driver::PeerMemory peer = {});

/// The dimensions of a plan after merging, fastest first. Exposed for tests (property T4).
struct Dims {
  int count = 0;
  std::array<std::int64_t, kMaxDims> size;
  std::array<std::array<std::int64_t, kMaxDims>, kLoopOperands> stride;  ///< in elements
};
Dims merge_dims(const Shape& sizes, std::span<const PlanOperand> operands);

}  // namespace ember::inline v0::ops
