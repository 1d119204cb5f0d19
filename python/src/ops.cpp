// ember.ops: operations by the names that torch gives their overloads, with their schemas.
#include <algorithm>
#include <utility>
#include <vector>

#include "schemas.h"

namespace ember::python {
namespace {

// ---- Calling

/// Whether a keyword's name is an output of the overload.
bool is_output(const FunctionSchema& schema, const std::string& name) {
  return std::any_of(
      schema.arguments.begin(), schema.arguments.end(),
      [&](const SchemaArgument& argument) { return argument.is_out && argument.name == name; });
}

/// What the function calls the argument that the schema calls `name`.
const std::string& python_name(const FunctionSchema& schema, const std::string& name) {
  for (const SchemaArgument& argument : schema.arguments)
    if (argument.name == name && !argument.is_out) return argument.python_name;
  return name;
}

/// The overload of an operation.
struct OpOverload {
  nb::object packet;
  nb::object function;
  bool is_method = false;
  FunctionSchema schema;

  std::string overload() const {
    return schema.overload_name.empty() ? "default" : schema.overload_name;
  }
};

nb::object call_overload(const OpOverload& op, const nb::args& args, const nb::kwargs& kwargs) {
  nb::list positional;
  nb::dict named;
  nb::list outputs;
  for (const auto& [key, value] : kwargs) {
    const auto name = nb::cast<std::string>(key);
    if (is_output(op.schema, name))
      outputs.append(value);
    else if (op.is_method && name == "self")
      positional.append(value);
    else
      named[python_name(op.schema, name).c_str()] = value;
  }
  for (const nb::handle value : args) positional.append(value);
  if (nb::len(outputs) == 1) named["out"] = outputs[0];
  if (nb::len(outputs) > 1) named["out"] = nb::tuple(outputs);
  nb::object result = op.function(*nb::tuple(positional), **named);
  // torch's operations return lists where its functions return tuples.
  return op.schema.returns[0].type == "Tensor[]" ? nb::object(nb::list(result)) : result;
}

// ---- Looking up

/// All overloads of an operation.
struct OpOverloadPacket {
  Operation operation;
};

/// `ember.ops.aten`.
struct OpNamespace {};

/// The names of an operation's forms.
nb::list names_of(const OpOverloadPacket& packet) {
  nb::list names;
  for (const FunctionSchema& schema : packet.operation.overloads)
    names.append(schema.overload_name.empty() ? std::string("default") : schema.overload_name);
  return names;
}

[[noreturn]] void refuse(const std::string& text) { throw nb::attribute_error(text.c_str()); }

/// Kept as an attribute of `self`, so that it is looked up once. A property could not be called
/// __name__, which types have themselves.
nb::object kept(nb::handle self, const std::string& name, nb::object found,
                const std::string& full_name) {
  nb::setattr(found, "__name__", nb::str(full_name.c_str()));
  nb::setattr(self, name.c_str(), found);
  return found;
}

nb::object find_packet(nb::handle self, const std::string& name) {
  std::optional<Operation> operation = find_operation(name);
  if (!operation)
    refuse("'_OpNamespace' 'aten' object has no attribute '" + name +
           (name.starts_with("_") ? "'" : "'. docs/operations.md lists the operations of ember"));
  return kept(self, name, nb::cast(OpOverloadPacket{std::move(*operation)}), name);
}

nb::object find_overload(nb::handle self, const std::string& name) {
  const Operation& operation = nb::cast<const OpOverloadPacket&>(self).operation;
  for (const FunctionSchema& schema : operation.overloads) {
    OpOverload found{nb::borrow(self), operation.function, operation.is_method, schema};
    if (found.overload() == name)
      return kept(self, name, nb::cast(std::move(found)), operation.name + "." + name);
  }
  const nb::str names = nb::cast<nb::str>(nb::str(", ").attr("join")(self.attr("overloads")()));
  refuse("The underlying op of 'aten." + operation.name + "' has no overload name '" + name +
         "', expected one of " + names.c_str());
}

// ---- Schemas

nb::object alias_info_of(const SchemaArgument& argument) {
  return argument.alias_info ? nb::cast(*argument.alias_info) : nb::none();
}

/// What the default is as an object.
nb::object default_of(const SchemaArgument& argument) {
  if (!argument.default_value) return nb::none();
  return nb::module_::import_("ast").attr("literal_eval")(*argument.default_value);
}

void bind_schemas(nb::module_& m) {
  const auto sets = [](const AliasInfo& self) {
    nb::set made;
    made.add(nb::str(("alias::" + self.set).c_str()));
    return made;
  };
  nb::class_<AliasInfo>(m, "AliasInfo", "Memory that an argument shares with a result.")
      .def_ro("is_write", &AliasInfo::is_write, "Whether the operation writes to it.")
      .def_prop_ro("before_set", sets, "The names of the memory before the operation.",
                   nb::sig("def before_set(self) -> set[str]"))
      .def_prop_ro("after_set", sets, "And behind it.", nb::sig("def after_set(self) -> set[str]"));
  nb::class_<SchemaArgument>(m, "Argument", "What an operation takes or returns.")
      .def_ro("name", &SchemaArgument::name, "Empty for results without a name.")
      .def_ro("type", &SchemaArgument::type, "Such as 'Tensor', 'Scalar' and 'int[]?'.")
      .def_prop_ro("alias_info", &alias_info_of,
                   "None, or the memory that the argument shares with a result.",
                   nb::sig("def alias_info(self) -> AliasInfo | None"))
      .def_prop_ro("default_value", &default_of, "None without one, too.",
                   nb::sig("def default_value(self) -> object"))
      .def(
          "has_default_value",
          [](const SchemaArgument& self) { return self.default_value.has_value(); },
          "Whether it may be left out.")
      .def_ro("kwarg_only", &SchemaArgument::kwarg_only, "Whether it is given by name alone.")
      .def_ro("is_out", &SchemaArgument::is_out, "Whether it is an output that is given.")
      .def("__str__", &SchemaArgument::str)
      .def("__repr__", &SchemaArgument::str);
  nb::class_<FunctionSchema>(m, "FunctionSchema",
                             "What an overload of an operation takes and returns, and what it "
                             "reads and writes.")
      .def_ro("name", &FunctionSchema::name, "Such as 'aten::add'.")
      .def_ro("overload_name", &FunctionSchema::overload_name, "Empty for the default one.")
      .def_ro("arguments", &FunctionSchema::arguments, "In order.")
      .def_ro("returns", &FunctionSchema::returns, "One, or several of a tuple.")
      .def_prop_ro("is_mutable", &FunctionSchema::is_mutable, "Whether an argument is written to.")
      .def("__str__", &FunctionSchema::str)
      .def("__repr__", &FunctionSchema::str)
      .def("__hash__",
           [](const FunctionSchema& self) { return std::hash<std::string>()(self.str()); })
      .def("__eq__", [](const FunctionSchema& self, nb::handle other) {
        const FunctionSchema* right = nullptr;
        return nb::try_cast(other, right) && right != nullptr && self.str() == right->str();
      });
}

void bind_overloads(nb::module_& m) {
  nb::class_<OpOverload> overload(m, "OpOverload", "An operation in one of its forms.",
                                  nb::dynamic_attr());
  nb::class_<OpOverloadPacket> packet(
      m, "OpOverloadPacket", "An operation; its forms are attributes.", nb::dynamic_attr());
  overload.def_ro("_schema", &OpOverload::schema, "What it takes, returns, reads and writes.")
      .def_ro("overloadpacket", &OpOverload::packet, "The operation in all its forms.",
              nb::sig("def overloadpacket(self) -> OpOverloadPacket"))
      .def_prop_ro("_overloadname", &OpOverload::overload, "Such as 'Tensor' and 'default'.")
      .def(
          "name",
          [](const OpOverload& self) {
            const std::string& name = self.schema.overload_name;
            return self.schema.name + (name.empty() ? "" : "." + name);
          },
          "Such as 'aten::add.Tensor', and 'aten::cat' for the default form.")
      .def("__call__", &call_overload, "Runs the operation.",
           nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def("__str__",
           [](const OpOverload& self) {
             return "aten." + self.schema.name.substr(self.schema.name.rfind(':') + 1) + "." +
                    self.overload();
           })
      .def("__repr__", [](const OpOverload& self) {
        return "<OpOverload(op='" + self.schema.name + "', overload='" + self.overload() + "')>";
      });
  packet
      .def("overloads", &names_of, "The names of its forms.",
           nb::sig("def overloads(self) -> list[str]"))
      .def_prop_ro(
          "_qualified_op_name",
          [](const OpOverloadPacket& self) { return "aten::" + self.operation.name; },
          "Such as 'aten::add'.")
      .def(
          "__call__",
          [](const OpOverloadPacket& self, const nb::args& args, const nb::kwargs& kwargs) {
            return nb::object(self.operation.function(*args, **kwargs));
          },
          "Runs the operation in the form that the arguments ask for.",
          nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def("__dir__", &names_of, nb::sig("def __dir__(self) -> list[str]"))
      .def("__str__", [](const OpOverloadPacket& self) { return "aten." + self.operation.name; })
      .def("__repr__",
           [](const OpOverloadPacket& self) {
             return "<OpOverloadPacket(op='aten." + self.operation.name + "')>";
           })
      .def("__getattr__", &find_overload, nb::arg("name"),
           nb::sig("def __getattr__(self, name: str, /) -> OpOverload"));
}

}  // namespace

void bind_ops(nb::module_& m) {
  nb::module_ ops = m.def_submodule("_ops", "Operations by the names of their overloads.");
  bind_schemas(ops);
  bind_overloads(ops);
  nb::class_<OpNamespace>(ops, "OpNamespace", "Operations as attributes.", nb::dynamic_attr())
      .def("__getattr__", &find_packet, nb::arg("name"),
           nb::sig("def __getattr__(self, name: str, /) -> OpOverloadPacket"))
      .def("__repr__", [](const OpNamespace&) { return "<ember.ops.aten>"; });
  ops.attr("aten") = nb::cast(OpNamespace());
}

}  // namespace ember::python
