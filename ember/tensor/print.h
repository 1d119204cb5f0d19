// Tensors, sizes and dtypes in streams of text.
#pragma once

#include <iosfwd>

#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// Writes what Tensor::str() returns; like it, blocks until the elements are there. Errors are
/// those of reading the elements (asynchronous faults among them). A template, so that it is
/// compiled by the program that has the stream: the library uses none (base/number_text.h says
/// why).
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream,
                                             const Tensor& tensor) {
  return stream << tensor.str();
}

/// "[2, 3]" and "float32".
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream,
                                             const Shape& sizes) {
  return stream << sizes.str();
}
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream,
                                             Dtype dtype) {
  return stream << dtype_name(dtype);
}

}  // namespace ember::inline v0
