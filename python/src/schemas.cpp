#include "schemas.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <span>
#include <string_view>

#include "signatures.h"

namespace ember::python {
namespace {

// ---- torch's names of overloads
//
// What an overload takes is in the signatures; what torch calls it is nowhere else. An entry is
// `key=overload/overload with out`. The key says which signature, counted from 0 (0 need not be
// said), and which type each parameter has that may have several: T a tensor, S a number, I an int,
// L several ints, O left out. `self` counts only as a number. Without `/` the overload with `out`
// is `overload_out`, or `out` for the default one. Operations that are not here have one overload
// for each signature that differs, with the first type of each parameter: `default`, and `out`.
struct OverloadNames {
  std::string_view operations;
  std::string_view overloads;
};

constexpr std::string_view kComparison = "T=Tensor S=Scalar";
constexpr std::array kOverloadNames{
    OverloadNames{"add sub subtract mul multiply copysign true_divide", "T=Tensor/out S=Scalar"},
    OverloadNames{"div divide", "T=Tensor/out S=Scalar 1T=Tensor_mode/out_mode 1S=Scalar_mode"},
    OverloadNames{"floor_divide", "T=default S=Scalar"},
    OverloadNames{"floor_divide_ pow_", kComparison},
    OverloadNames{"eq ne lt le gt ge greater greater_equal less less_equal not_equal fmod",
                  kComparison},
    OverloadNames{"bitwise_and bitwise_or bitwise_xor remainder",
                  "T=Tensor S=Scalar ST=Scalar_Tensor"},
    OverloadNames{"bitwise_left_shift bitwise_right_shift",
                  "T=Tensor S=Tensor_Scalar ST=Scalar_Tensor"},
    OverloadNames{"pow", "T=Tensor_Tensor S=Tensor_Scalar ST=Scalar"},
    OverloadNames{"lerp", "TT=Tensor TS=Scalar"},
    OverloadNames{"clamp clip", "SS=default TT=Tensor"},
    OverloadNames{"clamp_min clamp_max", "S=default T=Tensor"},
    OverloadNames{"round", "=default 1=decimals"},
    OverloadNames{"where", "T=self S=ScalarOther ST=ScalarSelf SS=Scalar 1=default"},
    OverloadNames{"fill_ masked_fill", "S=Scalar T=Tensor"},
    OverloadNames{"index_fill", "S=int_Scalar T=int_Tensor"},
    OverloadNames{"scatter", "T=src 1T=reduce 2S=value 3S=value_reduce"},
    OverloadNames{"sum", "O=default L=dim_IntList/IntList_out"},
    OverloadNames{"mean", "O=default/dtype_out L=dim/out"},
    OverloadNames{"prod", "O=default I=dim_int/int_out"},
    OverloadNames{"all any", "O=default/all_out I=dim/out L=dims"},
    OverloadNames{"var std", "L=correction 1=default 2L=dim/out"},
    OverloadNames{"max", "=default/unary_out 1=dim/dim_max 2=other/out"},
    OverloadNames{"min", "=default/unary_out 1=dim/dim_min 2=other/out"},
    OverloadNames{"count_nonzero", "I=default L=dim_IntList"},
    OverloadNames{"sort topk", "=default/values"},
    OverloadNames{"softmax log_softmax transpose select unbind", "=int"},
    OverloadNames{"flatten", "=using_ints"},
    OverloadNames{"squeeze", "O=default I=dim 1L=dims"},
    OverloadNames{"split", "I=Tensor L=sizes"},
    OverloadNames{"view", "L=default 1=dtype"},
    OverloadNames{"set_", "=source_Tensor 1=default"},
    OverloadNames{"size stride", "=default 1=int"},
    OverloadNames{"to", "=dtype 1=other 2=device"},
    OverloadNames{"empty", "L=memory_format/out"},
    OverloadNames{"full", "LS=default"},
    OverloadNames{"new_full", "LS=default"},
    OverloadNames{"full_like scalar_tensor", "S=default"},
    OverloadNames{"arange", "S=default 1SSS=start_step/start_out"},
    OverloadNames{"linspace", "SS=default TT=Tensor_Tensor TS=Tensor_Scalar ST=Scalar_Tensor"},
    OverloadNames{"randint", "L=default 1L=low"},
    OverloadNames{"bernoulli", "=default 1=p"},
    OverloadNames{"bernoulli_", "=float 1=Tensor"},
    OverloadNames{"normal", "L=float_float 1=Tensor_Tensor 2=float_Tensor 3=Tensor_float"},
    OverloadNames{"normal_", "=default"},
    OverloadNames{"random_", "=default 1=to 2=from"},
    OverloadNames{"result_type", "=Tensor 1S=Scalar 2S=Scalar_Tensor 3SS=Scalar_Scalar"},
    OverloadNames{"stft", "=center"},
};

/// Operations beside those of note_views that give back their input where they can.
constexpr std::string_view kSometimesViews[] = {"contiguous",  "conj",     "cpu", "cuda",
                                                "pin_memory",  "positive", "to",  "view_as_complex",
                                                "view_as_real"};

std::set<std::string, std::less<>>& views() {
  static auto* const made = new std::set<std::string, std::less<>>;
  return *made;
}

bool is_among(std::string_view name, std::string_view names) {
  const std::vector<std::string> all = split_outside(names, " ");
  return std::find(all.begin(), all.end(), name) != all.end();
}

/// "" where there is nothing to say. An operation in place has the names of the other one.
std::string_view overload_names(std::string_view operation) {
  for (const OverloadNames& row : kOverloadNames)
    if (is_among(operation, row.operations)) return row.overloads;
  if (operation.ends_with('_')) return overload_names(operation.substr(0, operation.size() - 1));
  return "";
}

// ---- Types

/// One of the types that a parameter may have, and its letter in keys.
struct Type {
  char letter;
  std::string name;
};

bool has(const std::vector<std::string>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// The types in the words of schemas; none for what an operation does not take.
std::vector<Type> types_of(const Parameter& parameter) {
  if (parameter.type.empty() && parameter.name == "self") return {{'T', "Tensor"}};
  const std::vector<std::string> said = split_outside(parameter.type, " | ");
  const std::string optional = has(said, "None") ? "?" : "";
  const auto one = [&](const char* name) { return std::vector<Type>{{' ', name + optional}}; };
  if (has(said, "device")) return one("Device");
  if (has(said, "dtype")) return has(said, "str") ? std::vector<Type>() : one("ScalarType");
  if (has(said, "Generator")) return one("Generator");
  if (has(said, "Tensor") && has(said, "complex")) {
    if (parameter.keyword_only) return one("Scalar");
    return {{'T', "Tensor" + optional}, {'S', "Scalar" + optional}};
  }
  if (has(said, "Tensor")) return one("Tensor");
  if (has(said, "Sequence[Tensor]") || has(said, "Iterable[Tensor]")) return one("Tensor[]");
  if (has(said, "Sequence[int]")) {
    if (!has(said, "int")) return one("int[]");
    return {{'L', "int[]" + optional}, {'I', "int" + optional}};
  }
  if (has(said, "complex") || (has(said, "float") && has(said, "str"))) return one("Scalar");
  if (has(said, "int")) return {{'I', "int" + optional}};
  for (const char* plain : {"float", "bool", "str"})
    if (has(said, plain)) return one(plain);
  if (said[0].starts_with("typing.Literal['")) return one("str");
  return {};
}

std::vector<SchemaArgument> results_of(const std::string& result) {
  if (result == "_ValuesAndIndices") return {{"values", "Tensor"}, {"indices", "Tensor"}};
  // nonzero(), which gives a tensor unless it is asked for a tuple.
  const std::string first = split_outside(result, " | ")[0];
  if (first == "Tensor") return {{"", "Tensor"}};
  if (first == "tuple[Tensor, ...]") return {{"", "Tensor[]"}};
  if (first == "bool" || first == "int") return {{"", first}};
  if (first == "Size" || first == "tuple") return {{"", "int[]"}};
  if (first == "complex") return {{"", "Scalar"}};
  if (first == "dtype") return {{"", "ScalarType"}};
  return {};
}

/// Python's text of a default in the words of schemas: "fro" has double quotes, 1.0 is `1.`, and
/// other numbers have all of their 17 digits.
std::string schema_default(std::string text, const std::string& type) {
  if (text.starts_with('\'')) {
    std::replace(text.begin(), text.end(), '\'', '"');
  } else if (type == "float") {
    // Python's functions, which have a point for a point whatever the locale says.
    char* const digits = PyOS_double_to_string(
        PyOS_string_to_double(text.c_str(), nullptr, nullptr), 'g', 17, 0, nullptr);
    if (digits == nullptr) throw nb::python_error();
    text = digits;
    PyMem_Free(digits);
    if (text.find_first_of(".e") == std::string::npos) text += '.';
  }
  return text;
}

// ---- From signatures to schemas

/// A parameter, and the types that it may have.
struct Slot {
  SchemaArgument argument;
  std::vector<Type> types;
};

struct Form {
  std::vector<Slot> slots;
  std::vector<SchemaArgument> results;
  bool has_out = false;
};

std::optional<Form> form_of(const Signature& signature) {
  Form form;
  form.results = results_of(signature.result);
  if (form.results.empty()) return std::nullopt;
  for (const Parameter& parameter : signature.parameters) {
    if (parameter.name == "out") {
      form.has_out = true;
      continue;
    }
    if (parameter.name == "as_tuple") continue;  // the result would be another one
    Slot slot;
    slot.types = types_of(parameter);
    if (slot.types.empty()) return std::nullopt;
    slot.argument.python_name = parameter.name;
    slot.argument.name = parameter.name == "input"   ? "self"
                         : parameter.name == "from_" ? "from"
                                                     : parameter.name;
    slot.argument.kwarg_only = parameter.keyword_only;
    if (parameter.default_value)
      slot.argument.default_value =
          schema_default(*parameter.default_value, slot.types.front().name);
    form.slots.push_back(std::move(slot));
  }
  return form;
}

bool are_same(const Slot& x, const Slot& y) { return x.argument.name == y.argument.name; }

/// A factor that must be given by name belongs to an overload of its own, which keeps the calls
/// without one quick. To torch the two are one, where the factor is 1.
void merge_factors(std::vector<Form>& forms) {
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const auto factor =
        std::find_if(forms[i].slots.begin(), forms[i].slots.end(), [](const Slot& slot) {
          return slot.argument.kwarg_only && slot.types[0].name == "Scalar" &&
                 !slot.argument.default_value;
        });
    if (factor == forms[i].slots.end()) continue;
    factor->argument.default_value = "1";
    std::vector<Slot> others = forms[i].slots;
    others.erase(others.begin() + (factor - forms[i].slots.begin()));
    const auto plain = std::find_if(forms.begin(), forms.end(), [&](const Form& form) {
      return std::equal(form.slots.begin(), form.slots.end(), others.begin(), others.end(),
                        are_same);
    });
    if (plain == forms.end()) continue;
    *plain = forms[i];
    forms.erase(forms.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

/// An entry of kOverloadNames.
struct Entry {
  std::size_t form = 0;
  std::string letters;
  std::string overload;
  std::string with_out;
};

std::vector<Entry> entries_of(std::string_view row) {
  std::vector<Entry> entries;
  for (const std::string& text : split_outside(row, " ")) {
    Entry entry;
    std::size_t at = 0;
    if (std::isdigit(static_cast<unsigned char>(text[0])) != 0)
      entry.form = static_cast<std::size_t>(text[at++] - '0');
    const std::size_t equals = text.find('=');
    entry.letters = text.substr(at, equals - at);
    const std::size_t slash = std::min(text.find('/'), text.size());
    entry.overload = text.substr(equals + 1, slash - equals - 1);
    entry.with_out = slash < text.size()           ? text.substr(slash + 1)
                     : entry.overload == "default" ? "out"
                                                   : entry.overload + "_out";
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// The type that a letter chooses, or the first one where the parameter has no letter. Takes the
/// letter from `letters`. Null if it chooses none of the parameter's types: it is left out.
const Type* choose(const Slot& slot, std::string_view& letters, bool may_be_left_out) {
  const bool is_self = slot.argument.name == "self";
  const bool left_out = may_be_left_out && slot.argument.default_value == "None";
  if (slot.argument.kwarg_only || (slot.types.size() == 1 && !left_out) || letters.empty())
    return &slot.types.front();
  // A tensor as self has no letter.
  if (is_self && letters.size() < 2) return &slot.types.front();
  for (const Type& type : slot.types)
    if (type.letter == letters.front() && !(is_self && type.letter == 'T')) {
      letters.remove_prefix(1);
      return &type;
    }
  if (letters.front() == 'O' && left_out) return nullptr;
  return &slot.types.front();
}

/// What `name` takes and gives in one form with the types that `letters` choose. Nothing if the
/// form has no use for them: in place, self is no number.
std::optional<FunctionSchema> schema_of(const std::string& name, const Form& form,
                                        std::string_view letters, bool may_be_left_out) {
  FunctionSchema schema{"aten::" + name, "", {}, form.results};
  bool stop = false;  // what follows an argument that is left out is, too
  for (const Slot& slot : form.slots) {
    if (stop && !slot.argument.kwarg_only) continue;
    const Type* type = choose(slot, letters, may_be_left_out);
    if (type == nullptr) {
      stop = true;
      continue;
    }
    SchemaArgument argument = slot.argument;
    argument.type = type->name;
    if (may_be_left_out && type->letter == 'I' && argument.type == "int?") {
      argument.type = "int";  // without it there is another overload
      argument.default_value.reset();
    }
    schema.arguments.push_back(std::move(argument));
  }
  if (may_be_left_out || letters.empty()) return schema;
  return std::nullopt;
}

void set_aliases(FunctionSchema& schema, const std::string& name) {
  if (schema.arguments.empty() || schema.arguments[0].name != "self") return;
  const bool in_place = name.ends_with('_');
  if (!in_place && !views().contains(name)) return;
  if (!schema.returns[0].type.starts_with("Tensor")) return;
  const bool in_list = schema.returns[0].type == "Tensor[]";
  schema.arguments[0].alias_info = AliasInfo{"a", in_place, in_list};
  schema.returns[0].alias_info = AliasInfo{"a", in_place, false};
}

/// The same, but written into outputs that are given.
FunctionSchema with_out(FunctionSchema schema) {
  char set = 'a';
  for (SchemaArgument& result : schema.returns) {
    const AliasInfo alias{std::string(1, set++), true, false};
    result.alias_info = alias;
    SchemaArgument out = result;
    if (out.name.empty()) out.name = "out";
    out.kwarg_only = out.is_out = true;
    schema.arguments.push_back(std::move(out));
  }
  return schema;
}

std::vector<FunctionSchema> schemas_of(const std::string& name, const std::vector<Form>& forms) {
  std::vector<FunctionSchema> made;
  const std::string_view row = overload_names(name);
  const bool may_be_left_out = row.find('O') != std::string_view::npos;
  std::vector<Entry> entries;
  if (row.empty())
    entries = {{0, "", "default", "out"}};
  else
    entries = entries_of(row);
  for (const Entry& entry : entries) {
    if (entry.form >= forms.size()) continue;
    const Form& form = forms[entry.form];
    std::optional<FunctionSchema> schema = schema_of(name, form, entry.letters, may_be_left_out);
    if (!schema) continue;
    FunctionSchema plain = *schema;
    set_aliases(plain, name);
    if (entry.overload != "default") plain.overload_name = entry.overload;
    made.push_back(std::move(plain));
    if (!form.has_out) continue;
    made.push_back(with_out(std::move(*schema)));
    made.back().overload_name = entry.with_out;
  }
  return made;
}

std::vector<Form> forms_of(nb::handle function) {
  std::vector<Form> forms;
  for (const Signature& signature : signatures_of(function))
    if (std::optional<Form> form = form_of(signature)) forms.push_back(std::move(*form));
  merge_factors(forms);
  return forms;
}

/// Whether it takes a tensor, or makes one of a dtype.
bool is_operation(const FunctionSchema& schema) {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [](const SchemaArgument& argument) {
                       return argument.type.starts_with("Tensor") || argument.type == "ScalarType?";
                     });
}

std::string listed(const std::vector<SchemaArgument>& arguments) {
  std::string text;
  bool keywords = false;
  for (const SchemaArgument& argument : arguments) {
    if (!text.empty()) text += ", ";
    if (argument.kwarg_only && !std::exchange(keywords, true)) text += "*, ";
    text += argument.str();
  }
  return text;
}

}  // namespace

std::string SchemaArgument::str() const {
  std::string text = type;
  if (alias_info) {
    const std::string mark = "(" + alias_info->set + (alias_info->is_write ? "!" : "") +
                             (alias_info->in_list ? " -> *" : "") + ")";
    text.insert(std::string_view("Tensor").size(), mark);
  }
  if (!name.empty()) text += " " + name;
  if (default_value) text += "=" + *default_value;
  return text;
}

bool FunctionSchema::is_mutable() const {
  return std::any_of(arguments.begin(), arguments.end(), [](const SchemaArgument& argument) {
    return argument.alias_info && argument.alias_info->is_write;
  });
}

std::string FunctionSchema::str() const {
  const std::string results = listed(returns);
  return name + (overload_name.empty() ? "" : "." + overload_name) + "(" + listed(arguments) +
         ") -> " + (returns.size() == 1 ? results : "(" + results + ")");
}

std::optional<Operation> find_operation(const std::string& name) {
  if (name.starts_with('_')) return std::nullopt;
  const nb::module_ module = nb::module_::import_("ember._C");
  const nb::object tensor = module.attr("Tensor");
  const auto of = [&](const nb::object& place) {
    return nb::getattr(place, name.c_str(), nb::none());
  };
  // The method says the names that torch has, but not always the output.
  const nb::object function = of(module);
  const nb::object method = of(tensor);
  const std::vector<Form> of_function = forms_of(function);
  const std::vector<Form> of_method = forms_of(method);
  const bool takes_out = std::any_of(of_function.begin(), of_function.end(),
                                     [](const Form& form) { return form.has_out; });
  Operation made{name, function, false, {}};
  if (of_function.empty() || (!takes_out && !of_method.empty())) {
    made.function = method;
    made.is_method = true;
  }
  made.overloads = schemas_of(name, made.is_method ? of_method : of_function);
  if (made.overloads.empty() || !is_operation(made.overloads.front())) return std::nullopt;
  return made;
}

void note_views(nb::handle tensor) {
  views().insert(std::begin(kSometimesViews), std::end(kSometimesViews));
  const nb::object members = tensor.attr("__dict__");
  for (const nb::handle name : members) {
    const auto text = nb::cast<std::string>(name);
    if (!text.starts_with('_') && !text.ends_with('_')) views().insert(text);
  }
}

}  // namespace ember::python
