// Tensors, sizes and dtypes in streams of text.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// How tensors are written as text, with torch's defaults.
struct PrintOptions {
  int precision = 4;              ///< digits behind the point, 0 to 100
  std::int64_t threshold = 1000;  ///< a tensor with more elements is summarised
  std::int64_t edgeitems = 3;     ///< what is shown of each edge of it, at least 1
  int linewidth = 80;             ///< characters, at least 1
  std::optional<bool> sci_mode =
      {};  ///< with an exponent, or without; nothing: as the numbers need it
};

/// How tensors are written from now on, by all threads. ValueError for a value outside of the
/// ranges above: nothing has changed then. Thread-safe; does not block.
EMBER_API void set_print_options(const PrintOptions& options);
/// What was set last. Thread-safe; does not block.
EMBER_API PrintOptions print_options();

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
