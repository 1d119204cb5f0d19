// Random chains of element-wise operations, run one by one and as one kernel: the bits are the
// same. EMBER_TEST_CHAINS says how many (100), EMBER_TEST_SEED which, EMBER_TEST_FIRST from where.
#include <functional>
#include <random>

#include "tests/fuse/support.h"

namespace ember::test {
namespace {

using ops::OpId;

/// Several chains share a kernel, since compilers take longest.
constexpr int kChainsPerFunction = 10;
constexpr int kStepsPerChain = 6;

/// An input of a step: a number, or a value that there is already.
struct Argument {
  int value = -1;
  Scalar number = 0;
};
struct Instruction {
  enum class Kind { operation, in_place, cast } kind;
  OpId op;
  Dtype dtype;  ///< of a cast
  std::vector<Argument> arguments;
};
struct Program {
  std::vector<Instruction> instructions;
  std::vector<int> kept;  ///< values that it returns
};

/// Does the last instruction on `values`, and puts the result behind them.
void step(const Instruction& made, std::vector<Tensor>& values) {
  if (made.kind == Instruction::Kind::cast) {
    const Tensor& from = values[static_cast<std::size_t>(made.arguments[0].value)];
    values.push_back(from.to(made.dtype));
    return;
  }
  std::vector<Operand> operands;
  for (const Argument& each : made.arguments)
    if (each.value >= 0)
      operands.emplace_back(values[static_cast<std::size_t>(each.value)]);
    else
      operands.emplace_back(each.number);
  std::vector<const Operand*> list;
  for (const Operand& operand : operands) list.push_back(&operand);
  if (made.kind == Instruction::Kind::operation) {
    Tensor result = ops::elementwise(made.op, list);
    values.push_back(std::move(result));
  } else {
    Tensor out = values[static_cast<std::size_t>(made.arguments[0].value)];
    ops::require_in_place(made.op, out);
    ops::elementwise_into(out, made.op, list);
    values.push_back(out);
  }
}

std::vector<Tensor> run(const Program& program, std::vector<Tensor> values) {
  for (const Instruction& each : program.instructions) step(each, values);
  std::vector<Tensor> kept;
  for (const int value : program.kept) kept.push_back(values[static_cast<std::size_t>(value)]);
  return kept;
}

/// Of the steps that a value is made by, one each line: "v16 = add(v3, 2.5)".
std::string text(const Program& program, int value, int inputs) {
  std::string made;
  if (value < inputs) return made;
  const Instruction& step = program.instructions[static_cast<std::size_t>(value - inputs)];
  std::string call = "v" + std::to_string(value) + " = ";
  call += step.kind == Instruction::Kind::cast ? std::string("to ") + dtype_name(step.dtype)
                                               : ops::op_info(step.op).name;
  if (step.kind == Instruction::Kind::in_place) call += "_";
  for (const Argument& each : step.arguments) {
    call += each.value >= 0 ? " v" + std::to_string(each.value)
                            : " " + std::to_string(each.number.to<double>());
    made += text(program, each.value, inputs);
  }
  return made + call + "\n";
}

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return random_() % count; }

  Tensor input(Dtype dtype, const Shape& sizes) {
    static constexpr double kSpecial[] = {
        0.0,  -0.0,  1.0,   -1.0,   0.5,   2.0,    3.0,  kInf,  -kInf,   kNaN,     1e-45,   -1e-40,
        6e-8, 1e-38, 65504, 3.3e38, -7.25, 1e-310, 1e30, 100.5, 0x1p-14, -0x1p-24, 0x1p127, -3.0};
    const auto count = static_cast<std::size_t>(element_count(sizes));
    std::vector<double> numbers(count);
    for (double& number : numbers) {
      number = std::normal_distribution<double>(0, 3)(random_);
      if (is_integral(dtype)) number = std::trunc(number * 20);
      if (dtype == Dtype::bool_ || dtype == Dtype::uint8) number = std::abs(number);
      if (!is_integral(dtype) && below(4) == 0) number = kSpecial[below(std::size(kSpecial))];
    }
    const Tensor made = tensor(numbers);
    return made.to(dtype).view(sizes);
  }

  std::vector<Tensor> inputs() {
    static constexpr Dtype kDtypes[] = {Dtype::float32, Dtype::float32,  Dtype::float16,
                                        Dtype::float64, Dtype::bfloat16, Dtype::int32,
                                        Dtype::int64,   Dtype::bool_,    Dtype::uint8,
                                        Dtype::int16,   Dtype::complex64};
    std::vector<Tensor> made;
    for (const Dtype dtype : kDtypes) made.push_back(input(dtype, {4, 33}));
    made.push_back(input(Dtype::float32, {33}));
    made.push_back(input(Dtype::float32, {4, 1}));
    made.push_back(input(Dtype::float32, {}));
    made.push_back(input(Dtype::float32, {33, 4}).t());
    made.push_back(input(Dtype::float16, {4, 66}).slice(1, 0, 66, 2));
    return made;
  }

  Scalar number() {
    static constexpr double kNumbers[] = {0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-3, 0.1, 7.0};
    if (below(3) == 0) return static_cast<int>(below(5)) - 1;
    return kNumbers[below(std::size(kNumbers))];
  }

  /// A program of steps that do not throw; `values` are the inputs.
  Program program(std::vector<Tensor> values, int chains) {
    Program made;
    const std::size_t inputs = values.size();
    const auto all = ops::all_ops();
    for (int chain = 0; chain < chains; ++chain) {
      int last = static_cast<int>(below(inputs));
      for (int steps = 0; steps < kStepsPerChain;) {
        Instruction next{
            Instruction::Kind::operation, static_cast<OpId>(below(all.size())), Dtype::float32, {}};
        const std::size_t kind = below(12);
        if (kind == 0) next.kind = Instruction::Kind::in_place;
        if (kind == 1) {
          next.kind = Instruction::Kind::cast;
          next.dtype = static_cast<Dtype>(below(kDtypes));
          next.arguments = {{last, 0}};
          // What does not fit into an integer is unspecified.
          if (is_integral(next.dtype) && !is_integral(at(values, last).dtype())) continue;
        } else {
          for (int k = 0; k < ops::op_info(next.op).operands; ++k)
            next.arguments.push_back(argument(values, last, k));
        }
        if (asks_for_the_sign_of_nan(next, values)) continue;
        try {
          step(next, values);
        } catch (const Error&) {
          continue;
        }
        made.instructions.push_back(next);
        last = static_cast<int>(values.size()) - 1;
        ++steps;
        if (below(8) == 0) made.kept.push_back(last);
      }
      made.kept.push_back(last);
    }
    return made;
  }

 private:
  static const Tensor& at(const std::vector<Tensor>& values, int i) {
    return values[static_cast<std::size_t>(i)];
  }
  /// NaN has a sign, which depends on the order in which a compiler takes the operands of a sum.
  /// Some functions of complex numbers make that of a zero of it.
  static bool asks_for_the_sign_of_nan(const Instruction& next, const std::vector<Tensor>& values) {
    if (next.kind == Instruction::Kind::cast) return false;
    const bool always = next.op == OpId::signbit || next.op == OpId::copysign;
    return std::any_of(next.arguments.begin(), next.arguments.end(), [&](const Argument& each) {
      if (each.value < 0) return false;
      const Tensor& x = at(values, each.value);
      if (always) return x.isnan().any().item<bool>();
      return ops::op_info(next.op).ulp > 0 && x.is_complex() && !x.isfinite().all().item<bool>();
    });
  }
  Argument argument(const std::vector<Tensor>& values, int last, int k) {
    if (k == 0) return {last, 0};
    if (below(4) == 0) return {-1, number()};
    return {static_cast<int>(below(values.size())), 0};
  }

  std::mt19937 random_;
};

int setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::vector<Tensor> copies(const std::vector<Tensor>& tensors, Device device) {
  std::vector<Tensor> made;
  for (const Tensor& each : tensors) {
    // With the same strides, also where there are gaps.
    Tensor copy = empty_strided(each.sizes(), each.strides(), {each.dtype(), device});
    copy.copy_(each);
    made.push_back(copy);
  }
  return made;
}

TEST(FusedChains, HaveTheBitsOfTheOperationsOneByOne) {
  const int chains = setting("EMBER_TEST_CHAINS", 100);
  const int seed = setting("EMBER_TEST_SEED", 1);
  for (int first = setting("EMBER_TEST_FIRST", 0); first < chains; first += kChainsPerFunction) {
    Maker maker(static_cast<unsigned>(seed * 100003 + first));
    const std::vector<Tensor> inputs = maker.inputs();
    const Program program =
        maker.program(copies(inputs, "cpu"), std::min(kChainsPerFunction, chains - first));
    const auto function = fuse([&](const std::vector<Tensor>& x) { return run(program, x); });
    for (const Tensor& place : places(zeros({1}))) {
      const std::vector<Tensor> one_by_one = copies(inputs, place.device());
      const std::vector<Tensor> at_once = copies(inputs, place.device());
      const std::vector<Tensor> expected = run(program, one_by_one);
      const std::vector<Tensor> found = function(at_once);
      ASSERT_EQ(found.size(), expected.size());
      const std::string which = "chains from " + std::to_string(first) + " of seed " +
                                std::to_string(seed) + " on " + place.device().str();
      for (std::size_t k = 0; k < found.size(); ++k)
        expect_same_bits(found[k], expected[k],
                         which + ", result " + std::to_string(k) + ":\n" +
                             text(program, program.kept[k], static_cast<int>(inputs.size())));
      for (std::size_t k = 0; k < inputs.size(); ++k)
        expect_same_bits(at_once[k], one_by_one[k], which + ", input " + std::to_string(k));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ember::test
