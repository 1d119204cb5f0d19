// What an operation reads and writes, in the words of torch's schemas:
// `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "python.h"

namespace ember::python {

/// Memory that an argument shares with a result: `a`, or `a!` where it is written.
struct AliasInfo {
  std::string set;  ///< "a"
  bool is_write = false;
  bool in_list = false;  ///< the results are a list of views
};

struct SchemaArgument {
  std::string name;  ///< "" for results without one
  std::string type;  ///< "Tensor", "Scalar", "int[]?" and the like
  std::optional<AliasInfo> alias_info{};
  std::optional<std::string> default_value{};  ///< as the text of the schema has it
  bool kwarg_only = false;
  bool is_out = false;
  std::string python_name{};  ///< what the function of Python's calls it

  std::string str() const;
};

struct FunctionSchema {
  std::string name;           ///< "aten::add"
  std::string overload_name;  ///< "Tensor"; "" where torch says `default`
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;

  bool is_mutable() const;
  std::string str() const;
};

/// An operation under its name, with all its overloads. They are made from the signatures of its
/// function in the module, or of its method.
struct Operation {
  std::string name;
  nb::object function;
  bool is_method = false;
  std::vector<FunctionSchema> overloads;
};

/// Nothing for names that are no operations. Needs the lock.
std::optional<Operation> find_operation(const std::string& name);

/// Takes all methods of Tensor that exist now, and return tensors, for views.
void note_views(nb::handle tensor);

}  // namespace ember::python
