// The signatures that the functions of the extension module have: the one place where the arguments
// of every operation are written down for Python.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python.h"

namespace ember::python {

struct Parameter {
  std::string name;
  std::string type;                          ///< "Tensor | complex", as in stubs; "" for self
  std::optional<std::string> default_value;  ///< as Python writes it
  bool keyword_only = false;
};

struct Signature {
  std::vector<Parameter> parameters;
  std::string result;
};

/// Those of all overloads, in order, but for those that take sizes one by one and those that are
/// there for NumPy's names. Nothing for objects that are no function of nanobind's. Needs the lock.
std::vector<Signature> signatures_of(nb::handle function);

/// The parts between a separator, where it is outside of brackets and quotes.
std::vector<std::string> split_outside(std::string_view text, std::string_view separator);

}  // namespace ember::python
