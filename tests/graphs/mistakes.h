// Mistakes with graphs that would stay silent, as programs of a few lines.
#pragma once

#include <optional>
#include <ostream>
#include <span>

#include "tests/graphs/common.h"

namespace ember::test {

/// A program that is run twice: with its mistake, and with what is missing there.
struct Mistake {
  /// What it is called: the name in the error, or text of it where it is an AcceleratorError.
  const char* name;
  bool accelerator_error = false;
  /// A real device may fault where the mistake is not an error.
  bool may_fault = false;
  void (*run)(bool fixed, const std::optional<cuda::GraphCheck>& level);
};
inline void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

std::span<const Mistake> memory_mistakes();
std::span<const Mistake> order_mistakes();

/// The first element.
float first_of(const Tensor& tensor);

}  // namespace ember::test
