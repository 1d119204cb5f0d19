// Reductions in a recording, and kernels that have some.
#include <algorithm>

#include "ember/fuse/divide.h"
#include "ember/fuse/kernels.h"
#include "ember/fuse/recording.h"
#include "ember/fuse/rows.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"

namespace ember::inline v0::fusion {
namespace {

/// Rows longer than this are cut into parts, so that several blocks, or threads of a host, share
/// them, unless there are many.
constexpr std::int64_t kLongRow = 1 << 16;
constexpr std::int64_t kManyRows = 256;
/// Parts of all rows together, and the least length of one.
constexpr std::int64_t kParts = 2048;
constexpr std::int64_t kLeastPart = 1 << 13;
/// Of an element, by a kernel of hosts that keeps what it needs again: on the stack.
constexpr std::size_t kMostKeptByHost = 24;

Shape first(const Shape& of, int count) {
  return Shape(std::span(of.begin(), static_cast<std::size_t>(count)));
}

/// The number of elements in the last `dims` dimensions.
std::int64_t row_length(const Shape& sizes, int dims) {
  std::int64_t count = 1;
  for (int i = sizes.size() - dims; i < sizes.size(); ++i) count *= sizes[i];
  return count;
}

/// The strides of a tensor that is broadcast to a shape of `dims` dimensions.
Shape broadcast_strides(const Tensor& tensor, int dims) {
  Shape strides;
  for (int i = 0; i < dims; ++i) {
    const int own = i - (dims - tensor.dim());
    strides.push_back(own < 0 || tensor.sizes()[own] == 1 ? 0 : tensor.strides()[own]);
  }
  return strides;
}

/// How the elements of a row lie: it is one, they are side by side, or neither.
enum class Along : std::uint8_t { one, side_by_side, scattered };

Along along_row(const Shape& sizes, const Shape& strides, int reduced) {
  bool one = true;
  bool side_by_side = true;
  std::int64_t next = 1;
  for (int i = sizes.size() - 1; i >= sizes.size() - reduced; --i) {
    if (sizes[i] == 1) continue;
    one &= strides[i] == 0;
    side_by_side &= strides[i] == next;
    next *= sizes[i];
  }
  return side_by_side ? Along::side_by_side : one ? Along::one : Along::scattered;
}

/// The same elements with rows that lie side by side. What is there once for several rows stays so.
Tensor with_rows(const Tensor& tensor, const Shape& sizes, int reduced) {
  Shape wanted = sizes;
  for (int i = 0; i < sizes.size() - reduced; ++i) {
    const int own = i - (sizes.size() - tensor.dim());
    wanted[i] = own < 0 ? 1 : tensor.sizes()[own];
  }
  return tensor.broadcast_to(wanted).contiguous();
}

/// The most elements that a thread can load at once from all operands.
int pack_of(std::span<const RowOperand> operands, std::int64_t length) {
  std::size_t widest = 1;
  for (const RowOperand& each : operands)
    if (!each.once) widest = std::max(widest, each.tensor.element_size());
  int pack = static_cast<int>(std::min<std::size_t>(16 / widest, 8));
  const auto fits = [&](const RowOperand& each) {
    if (each.once) return true;
    const auto address = reinterpret_cast<std::uintptr_t>(each.address());
    bool aligned = address % (each.tensor.element_size() * static_cast<std::size_t>(pack)) == 0;
    for (int i = 0; i < each.strides.size(); ++i) aligned &= each.strides[i] % pack == 0;
    return aligned;
  };
  while (pack > 1 && (length % pack != 0 || !std::all_of(operands.begin(), operands.end(), fits)))
    pack /= 2;
  return pack;
}

/// The length of one of `count` parts of a row: such that all are alike, if it can be.
std::int64_t part_length(std::int64_t length, std::int64_t count) {
  constexpr std::int64_t kAligned = 64;
  if (length % kAligned == 0)
    for (std::int64_t parts = count; parts < 2 * count; ++parts)
      if (length / kAligned % parts == 0) return length / parts;
  return (length / count + kAligned - 1) / kAligned * kAligned;
}

}  // namespace

bool Recording::reduces(const Tensor& x, int dims) {
  if (dims == 0 || x.numel() == 0) return false;
  const std::int64_t length = row_length(x.sizes(), dims);
  return length <= kLongRow || x.numel() / length >= kManyRows;
}

bool Recording::reduce(const ops::ReductionCall& call, Tensor& made) {
  const Tensor& x = call.x;
  if (call.dims == 0 || x.numel() == 0) return false;
  if (!graph_.steps.empty() && (x.sizes() != sizes_ || (reduced_ != 0 && reduced_ != call.dims)))
    settle();
  const Tensor* const input = &x;
  if (!prepare(x.device(), x.sizes(), {&input, 1}, {})) return false;
  if (reduced_ == 0) {
    reduced_ = call.dims;
    divided_ = !reduces(x, call.dims);
    rows_gone_ = first(x.sizes(), x.dim() - call.dims);
    rows_kept_ = rows_gone_;
    for (int i = 0; i < call.dims; ++i) rows_kept_.push_back(1);
  }
  ++reductions_;
  Step step;
  step.kind = Step::Kind::reduction;
  step.reduction = call.reduction;
  step.computed = x.dtype();
  step.result = call.result;
  step.of_row = true;
  add_tensor(step, x, x.dim());
  const Shape& sizes = call.keepdim ? rows_kept_ : rows_gone_;
  add_step(step, sizes, contiguous_strides(sizes), made);
  return true;
}

void Recording::launch_rows(Selection part, std::span<const Tensor> outputs) const {
  const int outer = sizes_.size() - reduced_;
  RowWork work;
  work.rows = first(sizes_, outer);
  work.length = work.count = row_length(sizes_, reduced_);
  work.numbers = numbers_of(part);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    Tensor output = outputs[k];
    const bool once = part.graph.steps[part.graph.outputs[k]].of_row;
    // What does not lie in rows is copied afterwards.
    if (!once && along_row(sizes_, output.strides(), reduced_) != Along::side_by_side)
      output = empty(sizes_, {output.dtype(), device_});
    work.operands.push_back({output, first(output.strides(), outer), once});
  }
  for (std::size_t k = 0; k < part.inputs.size(); ++k) {
    const Input& input = inputs_[part.inputs[k]];
    Tensor tensor = input.tensor;
    Shape strides = broadcast_strides(tensor, input.dims);
    const Along along = input.of_row ? Along::one : along_row(sizes_, strides, reduced_);
    if (along == Along::scattered) {
      tensor = with_rows(tensor, sizes_, reduced_);
      strides = broadcast_strides(tensor, sizes_.size());
    }
    if (along == Along::one) part.graph.row_inputs |= std::uint32_t{1} << k;
    work.operands.push_back({tensor, first(strides, outer), along == Along::one});
  }
  work.graph = std::move(part.graph);
  if (divided_ && work.graph.has_reductions()) {
    launch_divided(work);
  } else {
    const Launch made = prepared(work);
    launch({&made, 1});
  }
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (!work.operands[k].tensor.is(outputs[k])) Tensor(outputs[k]).copy_(work.operands[k].tensor);
}

Recording::Launch Recording::prepared(const RowWork& work) const {
  const Graph& graph = work.graph;
  Launch made{.graph = &graph, .site = ops::at(work.operands[0].tensor), .numbers = work.numbers};
  jit::Instance& instance = made.instance;
  instance.fused = true;
  instance.outputs = graph.outputs.size();
  instance.dtype = work.operands[0].tensor.dtype();
  instance.inputs.assign(graph.inputs);
  instance.numbers.assign(graph.numbers);
  std::uint64_t once = 0;
  for (std::size_t k = 0; k < work.operands.size(); ++k) {
    const RowOperand& each = work.operands[k];
    if (k < instance.outputs) instance.stored.push_back(each.tensor.dtype());
    ops::require_same_epoch(made.site, each.tensor);
    made.operands.push_back({each.address(), &work.rows, &each.strides, each.tensor.element_size(),
                             each.tensor.storage()->epoch()});
    once |= std::uint64_t{each.once} << k;
  }
  const Sweeps::Needs needs = needs_of(graph, precise_);
  if (jit::target_of(device_) == jit::kHostTarget) {
    instance.rows.used = true;
    // Short rows would have more to do with accumulators than with elements.
    instance.rows.lanes = work.length >= 512   ? 64
                          : work.length >= 128 ? 32
                          : work.length >= 16  ? 8
                                               : 1;
    instance.rows.whole =
        work.length <= jit::kMostKeptByHosts && needs.kept_by_host <= kMostKeptByHost;
  } else {
    instance.rows = share_rows(element_count(work.rows), work.length,
                               pack_of(work.operands, work.length), needs);
  }
  instance.rows.once = once;
  jit::plan_rows(made.planned, work.rows, made.operands, work.length, work.count);
  instance.layout = made.planned.layout;
  return made;
}

/// A kernel for parts of the rows, of which the last may be shorter, and one for what it has made.
void Recording::launch_divided(const RowWork& work) const {
  const std::int64_t rows = element_count(work.rows);
  const std::int64_t wanted = std::max<std::int64_t>(1, kParts / rows);
  const std::int64_t length =
      part_length(work.length, std::min(wanted, (work.length + kLeastPart - 1) / kLeastPart));
  const std::int64_t whole = work.length / length;
  const std::int64_t rest = work.length % length;
  const std::int64_t parts = whole + (rest > 0 ? 1 : 0);
  const Divided divided = divide(work.graph, precise_);
  const std::size_t given = work.graph.outputs.size();
  Shape of_parts = work.rows;
  of_parts.push_back(parts);
  std::vector<RowOperand> partial;
  for (const Dtype dtype : divided.partial) {
    const Tensor made = empty(of_parts, {dtype, device_});
    partial.push_back({made, first(made.strides(), work.rows.size()), false});
  }
  const auto pick = [&](const Graph& graph, RowWork& to) {
    std::vector<std::uint8_t> inputs, numbers;
    to.graph = graph.needed(inputs, numbers);
    for (const std::uint8_t k : inputs)
      to.operands.push_back(k < work.graph.inputs.size() ? work.operands[given + k]
                                                         : partial[k - work.graph.inputs.size()]);
    for (const std::uint8_t k : numbers) to.numbers.push_back(work.numbers[k]);
  };

  RowWork of_part;
  of_part.rows = work.rows;
  of_part.length = of_part.count = length;
  for (const std::uint8_t k : divided.element_outputs) of_part.operands.push_back(work.operands[k]);
  for (RowOperand each : partial) {
    each.once = true;
    of_part.operands.push_back(each);
  }
  pick(divided.of_parts, of_part);
  RowWork of_rest = of_part;
  of_part.rows.push_back(whole);
  const std::size_t stored = divided.element_outputs.size();
  for (std::size_t k = 0; k < of_part.operands.size(); ++k) {
    const bool is_partial = k >= stored && k < stored + partial.size();
    RowOperand& each = of_part.operands[k];
    const std::int64_t step = is_partial ? 1 : each.once ? 0 : length;
    each.strides.push_back(step);
    of_rest.operands[k].offset = whole * step;
  }
  of_rest.length = of_rest.count = rest;

  RowWork of_rows;
  of_rows.rows = work.rows;
  of_rows.length = parts;
  of_rows.count = work.count;
  for (const std::uint8_t k : divided.row_outputs) of_rows.operands.push_back(work.operands[k]);
  pick(divided.of_rows, of_rows);
  std::vector<Launch> all{prepared(of_part)};
  if (rest > 0) all.push_back(prepared(of_rest));
  all.push_back(prepared(of_rows));
  launch(all);
}

}  // namespace ember::inline v0::fusion
