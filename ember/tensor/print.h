// Tensors in streams of text.
#pragma once

#include <iosfwd>

#include "ember/tensor/tensor.h"

namespace ember {

/// Writes what Tensor::str() returns; like it, blocks until the elements are there. Errors are
/// those of reading the elements (asynchronous faults among them).
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace ember
