// Element-wise operations: every row of the list of operations (ember/scalar/elementwise.inc)
// becomes a function, a method, a method in place and, for some, an operator. What torch's
// signatures add to the rows stands here as a table.
#include <array>
#include <string>
#include <string_view>

#include "define.h"

namespace ember::python {
namespace {

using ops::OpId;

/// Names of the parameters where they are not input and other.
struct Parameters {
  OpId op;
  std::array<const char*, 3> names;
};
constexpr Parameters kParameters[] = {
    {OpId::pow, {"input", "exponent", nullptr}},
    {OpId::lerp, {"input", "end", "weight"}},
    {OpId::addcmul, {"input", "tensor1", "tensor2"}},
    {OpId::addcdiv, {"input", "tensor1", "tensor2"}},
    {OpId::clamp, {"input", "min", "max"}},
    {OpId::where, {"condition", "input", "other"}},
};

/// Other names of torch's for the same operations.
struct Alias {
  const char* name;
  OpId op;
};
constexpr Alias kAliases[] = {
    {"absolute", OpId::abs},    {"negative", OpId::neg},     {"fix", OpId::trunc},
    {"subtract", OpId::sub},    {"multiply", OpId::mul},     {"divide", OpId::div},
    {"true_divide", OpId::div}, {"arcsin", OpId::asin},      {"arccos", OpId::acos},
    {"arctan", OpId::atan},     {"arctan2", OpId::atan2},    {"arcsinh", OpId::asinh},
    {"arccosh", OpId::acosh},   {"arctanh", OpId::atanh},    {"clip", OpId::clamp},
    {"not_equal", OpId::ne},    {"less", OpId::lt},          {"less_equal", OpId::le},
    {"greater", OpId::gt},      {"greater_equal", OpId::ge}, {"sgn", OpId::sign},

};

/// Operators: forwards, reflected, in place.
struct Operator {
  OpId op;
  const char *forward, *reflected, *in_place;
};
constexpr Operator kOperators[] = {
    {OpId::add, "__add__", "__radd__", "__iadd__"},
    {OpId::sub, "__sub__", "__rsub__", "__isub__"},
    {OpId::mul, "__mul__", "__rmul__", "__imul__"},
    {OpId::div, "__truediv__", "__rtruediv__", "__itruediv__"},
    {OpId::floor_divide, "__floordiv__", "__rfloordiv__", "__ifloordiv__"},
    {OpId::remainder, "__mod__", "__rmod__", "__imod__"},
    {OpId::pow, "__pow__", "__rpow__", "__ipow__"},
    {OpId::bitwise_and, "__and__", "__rand__", "__iand__"},
    {OpId::bitwise_or, "__or__", "__ror__", "__ior__"},
    {OpId::bitwise_xor, "__xor__", "__rxor__", "__ixor__"},
    {OpId::bitwise_left_shift, "__lshift__", "__rlshift__", "__ilshift__"},
    {OpId::bitwise_right_shift, "__rshift__", "__rrshift__", "__irshift__"},
    {OpId::eq, "__eq__", nullptr, nullptr},
    {OpId::ne, "__ne__", nullptr, nullptr},
    {OpId::lt, "__lt__", nullptr, nullptr},
    {OpId::le, "__le__", nullptr, nullptr},
    {OpId::gt, "__gt__", nullptr, nullptr},
    {OpId::ge, "__ge__", nullptr, nullptr},
};

template <class... Inputs>
Tensor compute(OpId op, const Inputs&... inputs) {
  const std::array<const Operand*, sizeof...(Inputs)> list{&inputs...};
  return unlocked([&] { return ops::elementwise(op, list); });
}

template <class... Inputs>
nb::object compute_into(Tensor& out, OpId op, const Inputs&... inputs) {
  const std::array<const Operand*, sizeof...(Inputs)> list{&inputs...};
  WarningsRaised warnings;  // that the output is resized
  unlocked([&] { ops::elementwise_into(out, op, list); });
  warnings.raise();
  return same_object(out);
}

template <class... Inputs>
nb::object compute_maybe_into(Tensor* out, OpId op, const Inputs&... inputs) {
  if (out != nullptr) return compute_into(*out, op, inputs...);
  return nb::cast(compute(op, inputs...));
}

std::array<const char*, 3> parameters_of(OpId op) {
  for (const Parameters& row : kParameters)
    if (row.op == op) return row.names;
  return {"input", "other", "third"};
}

/// "def pow(input: Tensor, exponent: Tensor | complex, *, out: Tensor | None = None) -> Tensor".
std::string signature(const char* name, OpId op, bool method) {
  const auto names = parameters_of(op);
  std::string text = std::string("def ") + name + "(";
  for (int i = 0; i < ops::op_info(op).operands; ++i) {
    if (i > 0) text += ", ";
    if (i == 0 && method) {
      text += "self";
      continue;
    }
    const bool tensor = ops::op_info(op).operands == 1 || (op == OpId::where && i == 0);
    text += std::string(names[static_cast<std::size_t>(i)]) +
            (tensor ? ": Tensor" : ": Tensor | complex");
  }
  if (!method) text += ", *, out: Tensor | None = None";
  return text + ") -> Tensor";
}

/// torch has no functions that compute these in place.
bool has_in_place_function(OpId op) {
  const OpInfo& info = ops::op_info(op);
  return info.result == Result::same
             ? op != OpId::positive && op != OpId::sign && op != OpId::conj && op != OpId::lgamma &&
                   op != OpId::bitwise_not
             : op == OpId::abs;
}

void define_unary(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, OpId op) {
  const char* doc = ops::op_info(op).doc;
  m.def(
      name,
      [op](const Tensor& input, Tensor* out) {
        if (out != nullptr) return compute_into(*out, op, Operand(input));
        return itself_or(input, compute(op, Operand(input)));
      },
      nb::arg("input"), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(signature(name, op, false).c_str()), doc);
  tensor.def(
      name, [op](const Tensor& self) { return itself_or(self, compute(op, Operand(self))); },
      nb::sig(signature(name, op, true).c_str()), doc);
  const std::string in_place = std::string(name) + "_";
  const auto overwrite = [op](Tensor& self) {
    ops::require_in_place(op, self);
    return compute_into(self, op, Operand(self));
  };
  tensor.def(in_place.c_str(), overwrite, nb::sig(signature(in_place.c_str(), op, true).c_str()),
             doc);
  if (has_in_place_function(op))
    m.def(in_place.c_str(), overwrite, nb::arg("input"),
          nb::sig(("def " + in_place + "(input: Tensor) -> Tensor").c_str()), doc);
}

void define_binary(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, OpId op) {
  const char* doc = ops::op_info(op).doc;
  const auto names = parameters_of(op);
  m.def(
      name,
      [op](const Operand& x, const Operand& y, Tensor* out) {
        return compute_maybe_into(out, op, x, y);
      },
      nb::arg(names[0]), nb::arg(names[1]), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(signature(name, op, false).c_str()), doc);
  tensor.def(
      name, [op](const Tensor& self, const Operand& y) { return compute(op, Operand(self), y); },
      nb::arg(names[1]), nb::sig(signature(name, op, true).c_str()), doc);
  const std::string in_place = std::string(name) + "_";
  const auto overwrite = [op](Tensor& self, const Operand& y) {
    return compute_into(self, op, Operand(self), y);
  };
  tensor.def(in_place.c_str(), overwrite, nb::arg(names[1]),
             nb::sig(signature(in_place.c_str(), op, true).c_str()), doc);
  if (op == OpId::gcd)  // of these the only one that torch has as a function
    m.def(in_place.c_str(), overwrite, nb::arg("input"), nb::arg(names[1]),
          nb::sig("def gcd_(input: Tensor, other: Tensor | complex) -> Tensor"), doc);
}

void define_ternary(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, OpId op) {
  const char* doc = ops::op_info(op).doc;
  const auto names = parameters_of(op);
  m.def(
      name,
      [op](const Operand& x, const Operand& y, const Operand& z, Tensor* out) {
        return compute_maybe_into(out, op, x, y, z);
      },
      nb::arg(names[0]), nb::arg(names[1]), nb::arg(names[2]), nb::kw_only(),
      nb::arg("out") = nb::none(), nb::sig(signature(name, op, false).c_str()), doc);
  tensor.def(
      name,
      [op](const Tensor& self, const Operand& y, const Operand& z) {
        return compute(op, Operand(self), y, z);
      },
      nb::arg(names[1]), nb::arg(names[2]), nb::sig(signature(name, op, true).c_str()), doc);
  const std::string in_place = std::string(name) + "_";
  tensor.def(
      in_place.c_str(),
      [op](Tensor& self, const Operand& y, const Operand& z) {
        return compute_into(self, op, Operand(self), y, z);
      },
      nb::arg(names[1]), nb::arg(names[2]), nb::sig(signature(in_place.c_str(), op, true).c_str()),
      doc);
}

/// Overloads of a binary operation that take one keyword more.
template <class Given, class Keyword, class Make, class Into>
void define_keyword(nb::class_<Tensor>& tensor, nb::module_& m, const std::string& name,
                    const Keyword& keyword, const std::string& type, Make make, Into into,
                    const char* doc) {
  const std::string tail = "other: Tensor | complex, *, " + type;
  const std::string in_place = name + "_";
  m.def(
      name.c_str(),
      [make, into](const Operand& input, const Operand& other, const Given& given, Tensor* out) {
        return maybe_into(
            out, [&] { return make(input, other, given); },
            [&](Tensor& result) { into(result, input, other, given); });
      },
      nb::arg("input"), nb::arg("other"), nb::kw_only(), keyword, nb::arg("out") = nb::none(),
      nb::sig(("def " + name + "(input: Tensor | complex, " + tail +
               ", out: Tensor | None = None) -> Tensor")
                  .c_str()),
      doc);
  tensor.def(
      name.c_str(),
      [make](const Tensor& self, const Operand& other, const Given& given) {
        return unlocked([&] { return make(self, other, given); });
      },
      nb::arg("other"), nb::kw_only(), keyword,
      nb::sig(("def " + name + "(self, " + tail + ") -> Tensor").c_str()), doc);
  tensor.def(
      in_place.c_str(),
      [into](Tensor& self, const Operand& other, const Given& given) {
        unlocked([&] { into(self, self, other, given); });
        return same_object(self);
      },
      nb::arg("other"), nb::kw_only(), keyword,
      nb::sig(("def " + in_place + "(self, " + tail + ") -> Tensor").c_str()), doc);
}

Rounding rounding_from(const std::optional<std::string>& mode) {
  if (!mode) return Rounding::none;
  if (*mode == "trunc") return Rounding::trunc;
  if (*mode == "floor") return Rounding::floor;
  throw Error("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" +
              *mode + "'");
}

/// addcmul and addcdiv with a factor.
template <class Make, class Into>
void define_value(nb::class_<Tensor>& tensor, nb::module_& m, const std::string& name, Make make,
                  Into into, const char* doc) {
  const std::string tail =
      "tensor1: Tensor | complex, tensor2: Tensor | complex, *, value: Tensor | complex";
  const nb::arg y("tensor1");
  const nb::arg z("tensor2");
  const nb::arg value("value");
  m.def(
      name.c_str(),
      [make, into](const Operand& input, const Operand& tensor1, const Operand& tensor2,
                   const Operand& factor, Tensor* out) {
        return maybe_into(
            out, [&] { return make(input, tensor1, tensor2, scalar_of(factor, "value")); },
            [&](Tensor& result) {
              (void)into(result, input, tensor1, tensor2, scalar_of(factor, "value"));
            });
      },
      nb::arg("input"), y, z, nb::kw_only(), value, nb::arg("out") = nb::none(),
      nb::sig(("def " + name + "(input: Tensor | complex, " + tail +
               ", out: Tensor | None = None) -> Tensor")
                  .c_str()),
      doc);
  tensor.def(
      name.c_str(),
      [make](const Tensor& self, const Operand& tensor1, const Operand& tensor2,
             const Operand& factor) {
        return unlocked([&] { return make(self, tensor1, tensor2, scalar_of(factor, "value")); });
      },
      y, z, nb::kw_only(), value,
      nb::sig(("def " + name + "(self, " + tail + ") -> Tensor").c_str()), doc);
  const std::string in_place = name + "_";
  tensor.def(
      in_place.c_str(),
      [into](Tensor& self, const Operand& tensor1, const Operand& tensor2, const Operand& factor) {
        unlocked([&] { (void)into(self, self, tensor1, tensor2, scalar_of(factor, "value")); });
        return same_object(self);
      },
      y, z, nb::kw_only(), value,
      nb::sig(("def " + in_place + "(self, " + tail + ") -> Tensor").c_str()), doc);
}

void define_rounding(nb::class_<Tensor>& tensor, nb::module_& m) {
  constexpr const char* kDoc = "Rounded to so many digits behind the point, or zeros before it.";
  m.def(
      "round",
      [](const Tensor& input, int decimals, Tensor* out) {
        return maybe_into(
            out, [&] { return ember::round(input, decimals); },
            [&](Tensor& result) { ember::round_out(result, input, decimals); });
      },
      nb::arg("input"), nb::kw_only(), nb::arg("decimals"), nb::arg("out") = nb::none(), kDoc);
  tensor.def(
      "round",
      [](const Tensor& self, int decimals) {
        return unlocked([&] { return ember::round(self, decimals); });
      },
      nb::kw_only(), nb::arg("decimals"), kDoc);
  const auto in_place = [](Tensor& self, int decimals) {
    unlocked([&] { ember::round_out(self, self, decimals); });
    return same_object(self);
  };
  tensor.def("round_", in_place, nb::kw_only(), nb::arg("decimals"),
             nb::sig("def round_(self, *, decimals: int) -> Tensor"), kDoc);
  m.def("round_", in_place, nb::arg("input"), nb::kw_only(), nb::arg("decimals"),
        nb::sig("def round_(input: Tensor, *, decimals: int) -> Tensor"), kDoc);
}

void define_keywords(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_keyword<Operand>(
      tensor, m, "add", nb::arg("alpha"), "alpha: Tensor | complex",
      [](const auto& x, const auto& y, const Operand& alpha) {
        return ember::add(x, y, scalar_of(alpha, "alpha"));
      },
      [](Tensor& out, const auto& x, const auto& y, const Operand& alpha) {
        ember::add_out(out, x, y, scalar_of(alpha, "alpha"));
      },
      "input + alpha * other.");
  for (const char* name : {"sub", "subtract"})
    define_keyword<Operand>(
        tensor, m, name, nb::arg("alpha"), "alpha: Tensor | complex",
        [](const auto& x, const auto& y, const Operand& alpha) {
          return ember::sub(x, y, scalar_of(alpha, "alpha"));
        },
        [](Tensor& out, const auto& x, const auto& y, const Operand& alpha) {
          ember::sub_out(out, x, y, scalar_of(alpha, "alpha"));
        },
        "input - alpha * other.");
  for (const char* name : {"div", "divide"})
    define_keyword<std::optional<std::string>>(
        tensor, m, name, nb::arg("rounding_mode").none(),
        "rounding_mode: typing.Literal['trunc', 'floor'] | None",
        [](const auto& x, const auto& y, const auto& mode) {
          return ember::div(x, y, rounding_from(mode));
        },
        [](Tensor& out, const auto& x, const auto& y, const auto& mode) {
          ember::div_out(out, x, y, rounding_from(mode));
        },
        "The quotient as it is, rounded towards zero, or rounded down.");
  define_value(tensor, m, "addcmul", EMBER_CALL(addcmul), EMBER_CALL(addcmul_out),
               "input + value * tensor1 * tensor2.");
  define_value(tensor, m, "addcdiv", EMBER_CALL(addcdiv), EMBER_CALL(addcdiv_out),
               "input + value * tensor1 / tensor2.");
  define_rounding(tensor, m);
}

void define_where(nb::class_<Tensor>& tensor, nb::module_& m) {
  const char* doc = ops::op_info(OpId::where).doc;
  m.def(
      "where",
      [](const Tensor& condition, const Operand& x, const Operand& y, Tensor* out) {
        WarningsRaised warnings;  // of a condition that is not bool
        nb::object made = compute_maybe_into(out, OpId::where, Operand(condition), x, y);
        warnings.raise();
        return made;
      },
      nb::arg("condition"), nb::arg("input"), nb::arg("other"), nb::kw_only(),
      nb::arg("out") = nb::none(), nb::sig(signature("where", OpId::where, false).c_str()), doc);
  m.def(
      "where",
      [](const Tensor& condition) { return tuple_of(unlocked([&] { return where(condition); })); },
      nb::arg("condition"), nb::sig("def where(condition: Tensor) -> tuple[Tensor, ...]"),
      "Where the condition is true: the indices along each dimension. Waits for a device.");
  tensor.def(
      "where",
      [](const Tensor& self, const Tensor& condition, const Operand& other) {
        WarningsRaised warnings;  // of a condition that is not bool
        Tensor made = compute(OpId::where, Operand(condition), Operand(self), other);
        warnings.raise();
        return made;
      },
      nb::arg("condition"), nb::arg("other"),
      nb::sig("def where(self, condition: Tensor, other: Tensor | complex) -> Tensor"), doc);
}

void define_clamp(nb::class_<Tensor>& tensor, nb::module_& m, const std::string& name) {
  const char* doc = ops::op_info(OpId::clamp).doc;
  using Bound = std::optional<Operand>;
  const std::string bounds =
      "min: Tensor | complex | None = None, max: Tensor | complex | None = None";
  m.def(
      name.c_str(),
      [](const Operand& input, const Bound& least, const Bound& most, Tensor* out) {
        return maybe_into(
            out, [&] { return ember::clamp(input, least, most); },
            [&](Tensor& result) { ember::clamp_out(result, input, least, most); });
      },
      nb::arg("input"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(), nb::kw_only(),
      nb::arg("out") = nb::none(),
      nb::sig(("def " + name + "(input: Tensor, " + bounds +
               ", *, out: Tensor | None = None) -> Tensor")
                  .c_str()),
      doc);
  tensor.def(
      name.c_str(),
      [](const Tensor& self, const Bound& least, const Bound& most) {
        return unlocked([&] { return self.clamp(least, most); });
      },
      nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
      nb::sig(("def " + name + "(self, " + bounds + ") -> Tensor").c_str()), doc);
  both_as(
      tensor, m, name + "_", std::string(bounds) + ") -> Tensor",
      [](Tensor& self, const Bound& least, const Bound& most) {
        unlocked([&] { self.clamp_(least, most); });
        return same_object(self);
      },
      doc, nb::arg("min") = nb::none(), nb::arg("max") = nb::none());
}

/// clamp with one bound that has to be given, and its forms.
template <class Make, class Into>
void define_bound(nb::class_<Tensor>& tensor, nb::module_& m, const std::string& name,
                  const char* bound, Make make, Into into, const char* doc) {
  const std::string tail = std::string(bound) + ": Tensor | complex";
  m.def(
      name.c_str(),
      [make, into](const Operand& input, const Operand& limit, Tensor* out) {
        return maybe_into(
            out, [&] { return make(input, limit); },
            [&](Tensor& result) { (void)into(result, input, limit); });
      },
      nb::arg("input"), nb::arg(bound), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(
          ("def " + name + "(input: Tensor, " + tail + ", *, out: Tensor | None = None) -> Tensor")
              .c_str()),
      doc);
  tensor.def(
      name.c_str(),
      [make](const Tensor& self, const Operand& limit) {
        return unlocked([&] { return make(self, limit); });
      },
      nb::arg(bound), nb::sig(("def " + name + "(self, " + tail + ") -> Tensor").c_str()), doc);
  both_as(
      tensor, m, name + "_", tail + ") -> Tensor",
      [into](Tensor& self, const Operand& limit) {
        unlocked([&] { (void)into(self, self, limit); });
        return same_object(self);
      },
      doc, nb::arg(bound));
}

void define(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, OpId op) {
  if (op == OpId::where) return define_where(tensor, m);
  if (op == OpId::clamp) return define_clamp(tensor, m, name);
  switch (ops::op_info(op).operands) {
    case 1: return define_unary(tensor, m, name, op);
    case 2: return define_binary(tensor, m, name, op);
    default: return define_ternary(tensor, m, name, op);
  }
}

void define_operator(nb::class_<Tensor>& tensor, const Operator& row) {
  const OpId op = row.op;
  const auto sign = [](const char* name) {
    return std::string("def ") + name + "(self, other: Tensor | complex, /) -> Tensor";
  };
  tensor.def(
      row.forward,
      [op](const Tensor& self, const Operand& other) { return compute(op, Operand(self), other); },
      nb::is_operator(), nb::sig(sign(row.forward).c_str()));
  if (row.reflected != nullptr)
    tensor.def(
        row.reflected,
        [op](const Tensor& self, const Operand& other) {
          return compute(op, other, Operand(self));
        },
        nb::is_operator(), nb::sig(sign(row.reflected).c_str()));
  // An array divided by a tensor, as torch has it; NumPy leaves operators to the tensor.
  if (op == OpId::div)
    tensor.def(
        row.reflected,
        [](const Tensor& self, nb::handle other) -> nb::object {
          if (!array_from(other)) return nb::borrow(Py_NotImplemented);
          return nb::cast(compute(OpId::reciprocal, Operand(self))) * nb::borrow(other);
        },
        nb::is_operator(),
        nb::sig("def __rtruediv__(self, other: numpy.typing.NDArray[typing.Any], /) -> Tensor"));
  if (row.in_place != nullptr)
    tensor.def(
        row.in_place,
        [op](Tensor& self, const Operand& other) {
          return compute_into(self, op, Operand(self), other);
        },
        nb::is_operator(), nb::sig(sign(row.in_place).c_str()));
  if (row.reflected != nullptr) return;
  // Other operators are left to NumPy, which asks for the tensor as an array and gives back a
  // tensor; comparisons it leaves to us.
  tensor.def(
      row.forward,
      [op](const Tensor& self, nb::handle other) -> nb::object {
        const auto array = array_from(other);
        if (!array) return nb::borrow(Py_NotImplemented);
        require_cpu_for_numpy(self);
        return nb::cast(compute(op, Operand(self), Operand(*array)));
      },
      nb::is_operator(),
      nb::sig(
          (std::string("def ") + row.forward + "(self, other: typing.Any, /) -> Tensor").c_str()));
}

}  // namespace

void bind_elementwise(nb::class_<Tensor>& tensor, nb::module_& m) {
  int number = 0;
  for (const OpInfo& info : ops::all_ops())
    define(tensor, m, info.name, static_cast<OpId>(number++));
  for (const Alias& alias : kAliases) define(tensor, m, alias.name, alias.op);
  define_keywords(tensor, m);
  define_bound(tensor, m, "clamp_min", "min", EMBER_CALL(clamp_min), EMBER_CALL(clamp_min_out),
               "x, but at least `min`.");
  define_bound(tensor, m, "clamp_max", "max", EMBER_CALL(clamp_max), EMBER_CALL(clamp_max_out),
               "x, but at most `max`.");
  for (const Operator& row : kOperators) define_operator(tensor, row);
  struct Sign {
    const char* name;
    OpId op;
  };
  for (const Sign& row :
       {Sign{"__neg__", OpId::neg}, Sign{"__pos__", OpId::positive}, Sign{"__abs__", OpId::abs}}) {
    const OpId op = row.op;
    tensor.def(row.name, [op](const Tensor& self) -> TensorObject {
      return itself_or(self, compute(op, Operand(self)));
    });
  }
  tensor.def("__invert__", [](const Tensor& self) {
    if (!is_integral(self.dtype()))
      throw TypeError(
          "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return compute(OpId::bitwise_not, Operand(self));
  });

  // torch names the arguments by what they are.
  constexpr const char* text = "The dtype that an operation on both has.";
  m.def(
      "result_type", [](const Tensor& x, const Tensor& y) { return result_type(x, y); },
      nb::arg("tensor"), nb::arg("other"), text);
  m.def(
      "result_type",
      [](const Tensor& x, const NumberLike& y) { return result_type(x, y.number()); },
      nb::arg("tensor"), nb::arg("other"));
  m.def(
      "result_type",
      [](const NumberLike& x, const Tensor& y) { return result_type(x.number(), y); },
      nb::arg("scalar"), nb::arg("tensor"));
  m.def(
      "result_type",
      [](const NumberLike& x, const NumberLike& y) { return result_type(x.number(), y.number()); },
      nb::arg("scalar1"), nb::arg("scalar2"));

  // The rows themselves, for tests and documents.
  m.def(
      "_elementwise_ops",
      [] {
        nb::list rows;
        for (const OpInfo& info : ops::all_ops()) {
          nb::list dtypes;
          for (int i = 0; i < kDtypes; ++i)
            if (contains(info.dtypes, static_cast<Dtype>(i)))
              dtypes.append(dtype_object(static_cast<Dtype>(i)));
          const char* result = info.result == Result::boolean ? "boolean"
                               : info.result == Result::real  ? "real"
                                                              : "same";
          nb::dict row;
          row["name"] = info.name;
          row["operands"] = info.operands;
          row["dtypes"] = dtypes;
          row["result"] = result;
          row["ulp"] = info.ulp;
          row["doc"] = info.doc;
          rows.append(row);
        }
        return rows;
      },
      "The rows of ember/scalar/elementwise.inc, as dicts.");
}

}  // namespace ember::python
