// What the kernels of the programs get, and their CUDA implementations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/kernel.h"

namespace ember::races {

using Number = std::uint32_t;

/// Each becomes `value`.
struct ProduceArgs {
  Number* to;
  std::size_t count;
  Number value;
};
/// Only reads.
struct ConsumeArgs {
  const Number* from;
  std::size_t count;
};
/// to[i] = from[i] + 1.
struct TransformArgs {
  Number* to;
  const Number* from;
  std::size_t count;
};
/// Adds the mean as the next digit of *seen.
struct NoteArgs {
  double* seen;
  const Number* from;
  std::size_t count;
};

Status produce_cuda(const driver::Params& params, const driver::CudaLaunch& on);
Status consume_cuda(const driver::Params& params, const driver::CudaLaunch& on);
Status transform_cuda(const driver::Params& params, const driver::CudaLaunch& on);
Status note_cuda(const driver::Params& params, const driver::CudaLaunch& on);

}  // namespace ember::races
