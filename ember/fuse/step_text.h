// Steps as C++: the expression that computes one, of names for what it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ember/fuse/graph.h"

namespace ember::inline v0::fusion {

/// What a value is called in the kernel.
using Names = std::function<std::string(const Value&)>;
/// s0 for a step, x0 for an input, n0 for a number.
std::string name_of(const Value& value);

/// The element types that a kernel computes a step in, and that its result has there
/// (Graph::statements() says what `precise` is).
Dtype computed_of(const Step& step, bool precise);
Dtype result_of(const Step& step, bool precise);
/// Of a step that is no reduction.
std::string expression(const std::vector<Step>& steps, std::size_t at, bool precise,
                       const Names& names);

/// Whether a step divides by its second operand, in real numbers.
bool divides(const Step& step);
/// Such a step of elements of a row by what is the same for all of them, as a statement: of a pack
/// of elements `at`, into s0 or the like.
std::string division(const std::vector<Step>& steps, std::size_t at, bool precise,
                     const Names& names);

/// Of steps on the same values only the first is to be computed: afterwards all operands refer to
/// that. Returns which one it is, for each step.
std::vector<std::uint8_t> merge_equal(std::vector<Step>& steps);

}  // namespace ember::inline v0::fusion
