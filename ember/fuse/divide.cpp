#include "ember/fuse/divide.h"

#include "ember/fuse/step_text.h"

namespace ember::inline v0::fusion {
namespace {

/// What is stored of a part: of sums and products what they are added up in.
Dtype partial_type(const Step& step, bool precise) {
  const Dtype computed = computed_of(step, precise);
  switch (step.reduction) {
    using ops::RowReduction;
    case RowReduction::sum:
    case RowReduction::mean:
    case RowReduction::prod:
      return is_integral(computed) ? Dtype::int64 : is_half(computed) ? Dtype::float32 : computed;
    case RowReduction::largest:
    case RowReduction::smallest: return computed;
    case RowReduction::any:
    case RowReduction::all: return Dtype::bool_;
  }
  __builtin_unreachable();
}

}  // namespace

Divided divide(const Graph& graph, bool precise) {
  Divided made;
  made.of_parts = graph;
  made.of_rows = graph;
  made.of_parts.outputs.clear();
  made.of_rows.outputs.clear();
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    const bool of_row = graph.steps[graph.outputs[k]].of_row;
    (of_row ? made.of_rows : made.of_parts).outputs.push_back(graph.outputs[k]);
    (of_row ? made.row_outputs : made.element_outputs).push_back(static_cast<std::uint8_t>(k));
  }
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Step& step = graph.steps[i];
    if (step.kind != Step::Kind::reduction) continue;
    const Dtype partial = partial_type(step, precise);
    Step& of_part = made.of_parts.steps[i];
    if (step.reduction == ops::RowReduction::mean) of_part.reduction = ops::RowReduction::sum;
    of_part.result = partial;
    made.of_parts.outputs.push_back(static_cast<std::uint8_t>(i));
    Step& of_row = made.of_rows.steps[i];
    of_row.computed = partial;
    if (!precise && is_half(of_row.result)) of_row.result = Dtype::float32;  // until it is stored
    of_row.operands[0] = {Value::Kind::input,
                          static_cast<std::uint8_t>(made.of_rows.inputs.size())};
    made.of_rows.inputs.push_back(partial);
    made.partial.push_back(partial);
  }
  return made;
}

}  // namespace ember::inline v0::fusion
