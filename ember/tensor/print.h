// Tensors, sizes and dtypes in streams of text.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
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
/// As the stream writes a bool, an integer, a floating-point or a complex number. A template of the
/// number, too: what only converts to one is left alone.
template <class Traits, std::same_as<Scalar> Number>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream,
                                             const Number& number) {
  if (number.beyond_int64()) return stream << number.template to<std::uint64_t>();
  switch (number.dtype()) {
    case Dtype::bool_: return stream << number.template to<bool>();
    case Dtype::int64: return stream << number.template to<std::int64_t>();
    case Dtype::complex128: return stream << number.template to<std::complex<double>>();
    default: return stream << number.template to<double>();
  }
}

}  // namespace ember::inline v0
