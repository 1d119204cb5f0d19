// Putting a kernel where its tensors are: on the CPU it runs at once, on a CUDA device it is
// enqueued on the current stream.
#pragma once

#include <initializer_list>
#include <span>

#include "ember/runtime/device.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/work.h"
#include "ember/tensor/tensor.h"

namespace ember::ops {

/// Runs a kernel on the CPU, or enqueues it on the current stream of an existing CUDA device.
/// `accesses` is what observers see. Throws what the kernel reports (CPU), or what enqueueing does.
void run(Device device, const driver::Kernel& kernel, const driver::Params& params,
         std::span<const cuda::Access> accesses = {});

template <class Args>
requires(!std::is_same_v<Args, driver::Params>) void run(
    Device device, const driver::Kernel& kernel, const Args& args,
    std::span<const cuda::Access> accesses = {}) {
  run(device, kernel, driver::Params(args), accesses);
}

/// Runs a kernel's host column on the CPU, and returns what it reports.
Status run_here(const driver::Kernel& kernel, const driver::Params& params);

/// All the memory that a tensor spans, as an access.
cuda::Access reads(const Tensor& tensor);
cuda::Access writes(const Tensor& tensor);

}  // namespace ember::ops
