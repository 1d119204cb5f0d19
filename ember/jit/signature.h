// The function that a text of CUDA C++ defines: which one is the kernel's entry, and what it takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ember/jit/tokens.h"

namespace ember::inline v0::jit {

struct Parameter {
  std::string name;  ///< empty if it has none
  bool has_default = false;
};

struct Signature {
  std::string name;
  std::string return_type;
  std::vector<Parameter> parameters;
  /// Whether there are as many parameters as it seems: not where there is a pack, or where an
  /// expression leaves open what a comma is.
  bool countable = true;
  /// Where the functions of the text begin, behind `template <...>`; in ascending order.
  std::vector<std::size_t> functions;
  /// A function that leads to itself, by name and where that stands; empty if there is none.
  std::string recursive;
  std::size_t recursive_at = 0;
  std::size_t includes_at = kNone;  ///< where the text names another file
};

/// Reads `template <...> type name(...) { ... }`, as chapter 19 wants it: the text begins with
/// `template`, type and name are words, and of several such functions the last one is the entry.
/// False, and `out` undefined, for anything else; brackets, strings and comments have to end. Takes
/// time in proportion to the text. Thread-safe; does not block.
bool parse_signature(std::string_view code, Signature& out);

}  // namespace ember::inline v0::jit
