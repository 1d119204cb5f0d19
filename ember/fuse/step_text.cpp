#include "ember/fuse/step_text.h"

#include <algorithm>

#include "ember/jit/texts.h"
#include "ember/jit/writer.h"

namespace ember::inline v0::fusion {
namespace {

using jit::type_name;

/// An operation's name in the list of operations (scalar/elementwise.inc).
const char* functor_name(ops::OpId op) {
  switch (op) {
#define EMBER_UNARY(name, ...) \
  case ops::OpId::name:        \
    return #name;
#define EMBER_BINARY EMBER_UNARY
#define EMBER_TERNARY EMBER_UNARY
#include "ember/scalar/elementwise.inc"
#undef EMBER_BINARY
#undef EMBER_TERNARY
    EMBER_UNARY(scaled_addcmul)
    EMBER_UNARY(scaled_addcdiv)
#undef EMBER_UNARY
    case ops::OpId::where: break;
  }
  return "where";
}

/// A step with the types that its kernel computes it with.
struct Typed {
  std::string functor;
  Dtype computed, result;
  bool rounded;  ///< one sum or product, which no compiler contracts with what is beside it
};

Typed typed(const Step& step, bool precise) {
  Typed made{"", step.computed, step.result, false};
  // The number after x is one of x's own type.
  const bool wide = !precise && is_half(step.computed) && step.kind != Step::Kind::cast &&
                    step.op != ops::OpId::nextafter;
  if (wide) {
    made.computed = Dtype::float32;
    if (step.result == step.computed) made.result = Dtype::float32;
  }
  made.rounded = step.kind == Step::Kind::operation &&
                 (step.op == ops::OpId::add || step.op == ops::OpId::sub ||
                  step.op == ops::OpId::mul || step.op == ops::OpId::square) &&
                 (made.computed == Dtype::float32 || made.computed == Dtype::float64);
  const std::string type = type_name(made.computed);
  if (step.kind == Step::Kind::cube)
    made.functor = "Cube<" + type + ">";
  else if (step.op == ops::OpId::where)
    made.functor = "::ember::ops::Where<" + type + ">";
  else
    made.functor = std::string(made.rounded ? "Rounded" : "::ember::ops::Apply") +
                   "<::ember::elementwise::" + functor_name(step.op) + ", " + type + ">";
  return made;
}

/// Whether a step's last instruction on a device is one that nothing contracts: no product, which a
/// sum behind it could take in.
bool ends_apart(const Step& step) {
  if (step.kind != Step::Kind::operation) return false;
  switch (step.op) {
    using ops::OpId;
    case OpId::div:
    case OpId::sqrt:
    case OpId::neg:
    case OpId::floor:
    case OpId::ceil:
    case OpId::trunc:
    case OpId::maximum:
    case OpId::minimum: return is_floating_point(step.computed);
    default: return false;
  }
}

/// Whether a step may contract a product of its operands with a sum, inside. A compiler that found
/// the same product in another step would compute it once, and contract it in neither.
bool has_products(const Step& step, const Typed& types) {
  return step.kind != Step::Kind::cast && step.op != ops::OpId::where &&
         step.result != Dtype::bool_ && !is_integral(step.computed) && !types.rounded &&
         !ends_apart(step);
}

/// The name of an operand. Between two steps that are more than a sum or a product a compiler finds
/// what it may contract.
std::string named(const std::vector<Step>& steps, std::size_t at, std::size_t k, bool precise,
                  const Names& names) {
  const Value& value = steps[at].operands[k];
  const bool apart = value.kind != Value::Kind::step || typed(steps[at], precise).rounded ||
                     typed(steps[value.index], precise).rounded || ends_apart(steps[value.index]);
  const std::string name = names(value);
  return apart ? name : "settled<" + std::to_string(at) + ">(" + name + ")";
}

/// An operand as a step's operation is given it.
std::string given(const std::vector<Step>& steps, std::size_t at, std::size_t k, bool precise,
                  const Names& names, bool settles = true) {
  const Step& step = steps[at];
  const Typed types = typed(step, precise);
  const bool is_number = step.operands[k].kind == Value::Kind::number;
  const std::string name = settles ? named(steps, at, k, precise, names) : names(step.operands[k]);
  std::string text =
      (is_number ? "given_number<" : "given<") + types.functor + ", " + std::to_string(k);
  if (!is_number) {
    const bool condition =
        step.op == ops::OpId::where && step.kind == Step::Kind::operation && k == 0;
    text += std::string(", ") + type_name(condition ? Dtype::bool_ : types.computed);
  }
  text += ">(" + name + ")";
  return has_products(step, types) ? "own(" + text + ")" : text;
}

bool same(const Step& a, const Step& b) {
  return a.kind == b.kind && a.op == b.op && a.reduction == b.reduction && a.of_row == b.of_row &&
         a.computed == b.computed && a.result == b.result && a.count == b.count &&
         std::equal(a.operands.begin(), a.operands.begin() + a.count, b.operands.begin());
}

}  // namespace

std::string name_of(const Value& value) {
  static constexpr char kLetters[] = {'s', 'x', 'n'};
  return kLetters[static_cast<int>(value.kind)] + std::to_string(value.index);
}

Dtype computed_of(const Step& step, bool precise) { return typed(step, precise).computed; }
Dtype result_of(const Step& step, bool precise) { return typed(step, precise).result; }

bool divides(const Step& step) {
  return step.kind == Step::Kind::operation && step.op == ops::OpId::div &&
         is_floating_point(step.computed);
}

std::string expression(const std::vector<Step>& steps, std::size_t at, bool precise,
                       const Names& names) {
  const Step& step = steps[at];
  const Typed types = typed(step, precise);
  if (step.kind == Step::Kind::cast)
    return std::string("::ember::convert<") + type_name(step.result) + ">(" +
           named(steps, at, 0, precise, names) + ")";
  std::string text = std::string("step<") + type_name(types.result) + ", " + types.functor + ">(";
  for (std::size_t k = 0; k < step.count; ++k)
    text += (k > 0 ? ", " : "") + given(steps, at, k, precise, names);
  return text + ")";
}

// What is divided is a factor there, or is added with a rounding that is asked for: nothing to
// contract.
std::string division(const std::vector<Step>& steps, std::size_t at, bool precise,
                     const Names& names) {
  return jit::filled(
      "    w.template divide<$0>(at, s$1, [&](auto at) { return $2; }, $3);\n",
      {type_name(typed(steps[at], precise).result), std::to_string(at),
       given(steps, at, 0, precise, names, false), given(steps, at, 1, precise, names)});
}

std::vector<std::uint8_t> merge_equal(std::vector<Step>& steps) {
  std::vector<std::uint8_t> first;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (Value& value : steps[i].operands)
      if (value.kind == Value::Kind::step && value.index < i) value.index = first[value.index];
    std::size_t there = 0;
    while (!same(steps[there], steps[i])) ++there;
    first.push_back(static_cast<std::uint8_t>(there));
  }
  return first;
}

}  // namespace ember::inline v0::fusion
