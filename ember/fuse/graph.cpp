#include "ember/fuse/graph.h"

#include <algorithm>

#include "ember/fuse/step_text.h"

namespace ember::inline v0::fusion {
namespace {

constexpr std::uint8_t kNowhere = 255;
static_assert(Graph::kMostSteps <= 200);  // kOfNumbers in ember/jit/prelude_fused.inc
static_assert(Graph::kMostSteps < kNowhere && Graph::kMostNumbers < kNowhere &&
              Graph::kMostOperands < kNowhere && Graph::kMostOperands <= 32);

}  // namespace

Graph Graph::needed(std::vector<std::uint8_t>& inputs_of,
                    std::vector<std::uint8_t>& numbers_of) const {
  std::vector<bool> wanted(steps.size());
  for (const std::uint8_t output : outputs) wanted[output] = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    for (std::size_t k = 0; k < steps[i].count; ++k)
      if (steps[i].operands[k].kind == Value::Kind::step) wanted[steps[i].operands[k].index] = true;
  }
  Graph made;
  std::vector<std::uint8_t> step_at(steps.size(), kNowhere);
  std::vector<std::uint8_t> input_at(inputs.size(), kNowhere);
  std::vector<std::uint8_t> number_at(numbers.size(), kNowhere);
  const auto moved = [](std::uint8_t index, std::vector<std::uint8_t>& places,
                        std::vector<std::uint8_t>& from, std::vector<Dtype>& to,
                        const std::vector<Dtype>& types) {
    if (places[index] == kNowhere) {
      places[index] = static_cast<std::uint8_t>(to.size());
      to.push_back(types[index]);
      from.push_back(index);
    }
    return places[index];
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!wanted[i]) continue;
    Step step = steps[i];
    for (std::size_t k = 0; k < step.count; ++k) {
      Value& value = step.operands[k];
      switch (value.kind) {
        case Value::Kind::step: value.index = step_at[value.index]; break;
        case Value::Kind::input:
          value.index = moved(value.index, input_at, inputs_of, made.inputs, inputs);
          break;
        case Value::Kind::number:
          value.index = moved(value.index, number_at, numbers_of, made.numbers, numbers);
          break;
      }
    }
    step_at[i] = static_cast<std::uint8_t>(made.steps.size());
    made.steps.push_back(step);
  }
  for (const std::uint8_t output : outputs) made.outputs.push_back(step_at[output]);
  for (std::size_t k = 0; k < inputs_of.size(); ++k)
    made.row_inputs |= std::uint32_t{is_row_input(inputs_of[k])} << k;
  return made;
}

std::string Graph::key() const {
  std::string text;
  const auto put = [&](auto value) { text += static_cast<char>(value); };
  put(steps.size());
  for (const Step& step : steps) {
    put(step.kind);
    put(step.op);
    put(step.reduction);
    put(step.of_row);
    put(step.computed);
    put(step.result);
    put(step.count);
    for (std::size_t k = 0; k < step.count; ++k) {
      put(step.operands[k].kind);
      put(step.operands[k].index);
    }
  }
  put(outputs.size());
  for (const std::uint8_t output : outputs) put(output);
  for (std::size_t k = 0; k < inputs.size(); ++k) put(is_row_input(k));
  return text;
}

bool Graph::has_rows() const noexcept {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.of_row; });
}

bool Graph::has_reductions() const noexcept {
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& step) { return step.kind == Step::Kind::reduction; });
}

std::string Graph::statements(bool precise) const {
  std::string text;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const std::string number = std::to_string(k);
    text.append("  const auto x")
        .append(number)
        .append(" = element_at(i")
        .append(number)
        .append(");\n");
  }
  std::vector<Step> once = steps;
  const std::vector<std::uint8_t> first = merge_equal(once);
  for (std::size_t i = 0; i < once.size(); ++i)
    if (first[i] == i)
      text.append("  const auto s")
          .append(std::to_string(i))
          .append(" = ")
          .append(expression(once, i, precise, &name_of))
          .append(";\n");
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::string number = std::to_string(k);
    text.append("  *o").append(number).append(" = ::ember::convert<O").append(number);
    text.append(">(s").append(std::to_string(first[outputs[k]])).append(");\n");
  }
  return text;
}

}  // namespace ember::inline v0::fusion
