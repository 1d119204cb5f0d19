// Which memory a tensor's elements are, as observers are told: by launches (runtime/observer.h),
// and by the host, which may touch memory that work of devices uses.
#pragma once

#include <span>

#include "ember/runtime/observer.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// The elements of a tensor, as an access that is good as long as the tensor is. `argument` is a
/// literal: the name that the operation's schema has for it, or cuda::kOutputArgument.
cuda::Access reads(const Tensor& tensor, const char* argument = nullptr);
cuda::Access writes(const Tensor& tensor, const char* argument = nullptr);
/// A result.
inline cuda::Access writes_output(const Tensor& tensor) {
  return writes(tensor, cuda::kOutputArgument);
}

/// Tells observers that the host touches memory, and throws what they have to say of it. `name` is
/// a literal.
void tell_host_access(const char* name, std::span<const cuda::Access> accesses);
/// That the host reads a tensor on the CPU by other means than a kernel, or a whole storage of it.
/// Does first what a signal's handler left to be done.
EMBER_API void host_reads(const char* name, const Tensor& tensor);
void host_reads(const char* name, const Storage& storage);
/// That the program got a pointer to a tensor's memory, whose use nobody sees. `name` is a literal:
/// of what gave it. AcceleratorError if the tensor's device was reset since it was made.
EMBER_API void tell_exposed(const char* name, const Tensor& tensor);

}  // namespace ember::inline v0::ops
