#include "ember/fuse/recording.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/fuse/kernels.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/reduce/reduce.h"
#include "ember/runtime/guard.h"

namespace ember::inline v0::fusion {
namespace {

using Kind = Value::Kind;

/// Stands for the memory of a result that is yet to be computed.
class Placeholder final : public ForeignMemory {
 public:
  void require_alive() const override {
    if (done_) return;
    cuda::settle_deferred();
    if (!done_)
      throw Error(
          "fuse: the tensor is a result of a fused function that has not returned, expected it to "
          "be used by the function's own thread until then");
  }
  void set_done() noexcept { done_ = true; }

 private:
  std::atomic<bool> done_{false};
};

Placeholder& placeholder_of(const Storage& storage) {
  return static_cast<Placeholder&>(*storage.foreign());
}

/// A tensor without memory.
Tensor make_placeholder(Device device, Dtype dtype, const Shape& sizes, const Shape& strides) {
  Tensor made(Storage::adopt_foreign(device, nullptr, 0, std::make_unique<Placeholder>()), dtype,
              {0}, {1});
  auto& state = const_cast<TensorState&>(made.state());
  state.count = element_count(sizes);
  state.sizes = sizes;
  state.strides = strides;
  state.contiguous = is_contiguous(sizes, strides);
  return made;
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.state().storage == b.state().storage;
}
bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.is(b)) return true;
  return same_memory(a, b) && a.state().data == b.state().data && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

/// The innermost call of a stack as Python writes it, which is the last one.
std::string innermost(const std::string& stack) {
  const std::size_t at = stack.rfind("  File \"");
  return at == std::string::npos ? "" : ":\n" + stack.substr(at);
}

/// A reduction over the last `count` dimensions by the library's own kernels.
void reduce_alone(ops::RowReduction reduction, const Tensor& x, int count, Tensor& out) {
  Shape dims;
  for (int i = x.dim() - count; i < x.dim(); ++i) dims.push_back(i);
  const bool keepdim = out.dim() == x.dim();
  switch (reduction) {
    using ops::RowReduction;
    case RowReduction::sum: sum_out(out, x, dims, keepdim); return;
    case RowReduction::mean: mean_out(out, x, dims, keepdim); return;
    case RowReduction::prod: prod_out(out, x, dims, keepdim); return;
    case RowReduction::largest: amax_out(out, x, dims, keepdim); return;
    case RowReduction::smallest: amin_out(out, x, dims, keepdim); return;
    case RowReduction::any: any_out(out, x, dims, keepdim); return;
    case RowReduction::all: all_out(out, x, dims, keepdim); return;
  }
}

/// What a power is where its exponent is one of the numbers that operations have loops of their own
/// for.
void simplify_power(Step& step, const ops::ElementwiseCall& call) {
  if (call.op != ops::OpId::pow || call.inputs[1]->tensor() != nullptr ||
      !is_floating_point(call.computed))
    return;
  double exponent = 0;
  if (call.numbers[1].type == Dtype::float64) {
    std::memcpy(&exponent, call.numbers[1].bytes, sizeof exponent);
  } else {
    float value = 0;
    std::memcpy(&value, call.numbers[1].bytes, sizeof value);
    exponent = static_cast<double>(value);
  }
  if (exponent == 2)
    step.op = ops::OpId::square;
  else if (exponent == -1)
    step.op = ops::OpId::reciprocal;
  else if (exponent == 3)
    step.kind = Step::Kind::cube;
  else
    return;
  step.count = 1;
}

}  // namespace

Recording::Recording(std::string name, bool precise) : name_(std::move(name)), precise_(precise) {}

Recording::~Recording() = default;

// ---- Recording

/// Results that nobody has. Observers are told of memory that goes, and may call operations: by
/// then the list is as it is to be.
void Recording::let_dropped_go() {
  if (std::none_of(results_.begin(), results_.end(), std::mem_fn(&Result::is_dropped))) return;
  std::vector<Result> all, dropped;
  all.swap(results_);
  for (Result& each : all) (each.is_dropped() ? dropped : results_).push_back(std::move(each));
}

/// Readies the graph for a step on elements of `sizes` on a device.
void Recording::begin(Device device, const Shape& sizes, std::size_t operands) {
  let_dropped_go();
  if (!graph_.steps.empty()) {
    const bool fits =
        graph_.steps.size() < Graph::kMostSteps &&
        inputs_.size() + results_.size() + reductions_ + operands + 1 <= Graph::kMostOperands &&
        numbers_.size() + operands <= Graph::kMostNumbers;
    if (!fits || device != device_ || (sizes != sizes_ && !is_of_rows(sizes)) ||
        (device.is_cuda() && cuda::current_stream(device) != *stream_))
      settle();
  }
  if (!graph_.steps.empty()) return;
  device_ = device;
  sizes_ = sizes;
  stream_.reset();
  if (device.is_cuda()) stream_ = cuda::current_stream(device);
}

/// The step whose result a tensor has; `settle` if it has something of one.
Recording::Found Recording::find(const Tensor& tensor, std::uint8_t& step) const {
  bool parts = tensor.state().data == nullptr;  // or it is another thread's
  for (const Result& each : results_) {
    if (each.made ? &*each.made == &tensor.state() : same_elements(each.written, tensor)) {
      step = each.step;
      return Found::yes;
    }
    parts |= !each.made && same_memory(each.written, tensor);
  }
  return parts ? Found::settle : Found::no;
}

/// Whether elements of a tensor that a step on elements of `sizes` is to write were read, but not
/// all of them in its order: along rows, for example, of which each is to write one.
bool Recording::is_read_otherwise(const Tensor& out, const Shape& sizes) const {
  const bool of_rows = is_of_rows(sizes) && out.sizes() != rows_kept_ && out.numel() != 1;
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) {
    return same_memory(input.tensor, out) &&
           (!same_elements(input.tensor, out) || (of_rows && !input.of_row));
  });
}

/// Whether elements of `sizes` are there once for each row of those that reductions are of.
bool Recording::is_of_rows(const Shape& sizes) const {
  return reduced_ > 0 && sizes != sizes_ && (sizes == rows_kept_ || sizes == rows_gone_);
}

/// Whether a row's result, in a step on elements of `sizes`, is to be had from memory: since it
/// meets elements of other rows, or since the rows are cut into parts.
bool Recording::comes_from_memory(const Tensor& tensor, std::uint8_t step,
                                  const Shape& sizes) const {
  return graph_.steps[step].of_row && sizes == sizes_ &&
         (divided_ || (tensor.sizes() != rows_kept_ && tensor.numel() != 1));
}

/// Readies for a step that reads `inputs` and writes `out`, if that is defined. False if it is not
/// to be recorded.
bool Recording::prepare(Device device, const Shape& sizes, std::span<const Tensor* const> inputs,
                        const Tensor& out) {
  begin(device, sizes, Step::kMostOperands);
  std::uint8_t step = 0;
  const auto must_settle = [&] {
    if (out.defined() && (find(out, step) == Found::settle || is_read_otherwise(out, sizes)))
      return true;
    return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor* input) {
      const Found found = find(*input, step);
      return found == Found::settle ||
             (found == Found::yes && comes_from_memory(*input, step, sizes));
    });
  };
  if (must_settle()) {
    settle();
    begin(device, sizes, Step::kMostOperands);
    if (must_settle()) return false;
  }
  if (!out.defined()) return true;
  ops::require_no_internal_overlap(out);
  // If they overlap in part there is an error to be raised.
  return std::all_of(inputs.begin(), inputs.end(), [&](const Tensor* input) {
    return !same_memory(*input, out) || same_elements(*input, out);
  });
}

/// `dims`: of the shape that the tensor is broadcast to.
void Recording::add_tensor(Step& step, const Tensor& tensor, int dims) {
  Value& value = step.operands[step.count++];
  if (find(tensor, value.index) == Found::yes) {
    value.kind = Kind::step;
    return;
  }
  value.kind = Kind::input;
  const bool of_row = step.of_row && step.kind != Step::Kind::reduction;
  const auto known = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& input) {
    return input.of_row == of_row && input.dims == dims && same_elements(input.tensor, tensor);
  });
  value.index = static_cast<std::uint8_t>(known - inputs_.begin());
  if (known != inputs_.end()) return;
  inputs_.push_back({tensor, of_row, dims});
  graph_.row_inputs |= std::uint32_t{of_row} << graph_.inputs.size();
  graph_.inputs.push_back(tensor.dtype());
}

void Recording::add_number(Step& step, const ops::RecordedNumber& number) {
  Value& value = step.operands[step.count++];
  value = {Kind::number, static_cast<std::uint8_t>(numbers_.size())};
  numbers_.push_back(number);
  graph_.numbers.push_back(number.type);
}

void Recording::add_step(const Step& step, const Shape& sizes, const Shape& strides, Tensor& out) {
  const auto index = static_cast<std::uint8_t>(graph_.steps.size());
  graph_.steps.push_back(step);
  if (!out.defined()) {
    out = make_placeholder(device_, step.result, sizes, strides);
    results_.push_back(
        {Ref<TensorState>(const_cast<TensorState*>(&out.state())), out.state().storage, {}, index});
    return;
  }
  for (Result& each : results_)
    if (each.made ? &*each.made == &out.state() : same_elements(each.written, out)) {
      each.step = index;
      return;
    }
  results_.push_back({{}, {}, out, index});
}

bool Recording::compute(const ops::ElementwiseCall& call, Tensor& out) {
  if (element_count(call.sizes) == 0) return false;
  if (out.defined() && (out.dtype() != call.result || out.sizes() != call.sizes)) return false;
  std::array<const Tensor*, Step::kMostOperands> tensors{};
  std::size_t count = 0;
  for (const Operand* input : call.inputs)
    if (input->tensor() != nullptr) tensors[count++] = input->tensor();
  if (!prepare(call.device, call.sizes, std::span(tensors).first(count), out)) return false;
  Step step;
  step.op = call.op;
  step.computed = call.computed;
  step.result = call.result;
  step.of_row = is_of_rows(call.sizes);
  for (std::size_t k = 0; k < call.inputs.size(); ++k)
    if (const Tensor* tensor = call.inputs[k]->tensor())
      add_tensor(step, *tensor, call.sizes.size());
    else
      add_number(step, call.numbers[k]);
  simplify_power(step, call);
  add_step(step, call.sizes, call.strides, out);
  return true;
}

bool Recording::copy(const Tensor& target, const Tensor& source) {
  if (target.device() != source.device()) return false;
  return record_cast(source, target.dtype(), target.sizes(), {}, target.self());
}

bool Recording::convert(const Tensor& source, Dtype dtype, const Shape& strides, Tensor& made) {
  return record_cast(source, dtype, source.sizes(), strides, made);
}

bool Recording::record_cast(const Tensor& source, Dtype dtype, const Shape& sizes,
                            const Shape& strides, Tensor& out) {
  const Tensor* const input = &source;
  if (!prepare(source.device(), sizes, {&input, 1}, out)) return false;
  Step step;
  step.kind = Step::Kind::cast;
  step.computed = step.result = dtype;
  step.of_row = is_of_rows(sizes);
  add_tensor(step, source, sizes.size());
  add_step(step, sizes, strides, out);
  return true;
}

void Recording::refuse_value(const char* call) {
  throw Error("fuse: '" + name_ + "' asks for the value of a tensor (" + call +
              "), expected a function whose course does not depend on values" +
              innermost(call_stack()));
}

// ---- Running

void Recording::settle() {
  if (graph_.steps.empty()) return;
  // What runs now is not recorded, and waits for nothing that is.
  struct Suspended {
    Suspended() : recorder(ops::exchange_recorder(nullptr)) {}
    ~Suspended() { ops::exchange_recorder(recorder); }
    Suspended(const Suspended&) = delete;
    Suspended& operator=(const Suspended&) = delete;
    ops::Recorder* recorder;
  } const suspended;
  std::vector<Result> results;
  results.swap(results_);
  std::erase_if(results, std::mem_fn(&Result::is_dropped));
  spent_.clear();
  for (const Result& each : results)
    if (each.made) spent_.push_back(each.placeholder);
  try {
    run(results);
  } catch (...) {
    // There is nothing to be had of what was not computed.
    for (const Result& each : results)
      if (each.made && each.made->data == nullptr) {
        each.made->count = 0;
        each.made->sizes = {0};
        each.made->strides = {1};
        each.made->contiguous = true;
      }
    clear();
    throw;
  }
  clear();
}

void Recording::clear() noexcept {
  for (const Ref<Storage>& each : spent_) placeholder_of(*each).set_done();
  graph_ = {};
  inputs_.clear();
  numbers_.clear();
  results_.clear();
  reduced_ = 0;
  reductions_ = 0;
  divided_ = false;
}

void Recording::run(std::span<const Result> results) {
  if (results.empty()) return;
  std::optional<cuda::StreamGuard> guard;
  if (stream_ && cuda::current_stream(device_) != *stream_) guard.emplace(*stream_);
  std::vector<Tensor> outputs;
  for (const Result& each : results) {
    graph_.outputs.push_back(each.step);
    outputs.push_back(
        each.made ? Tensor::make(device_, each.made->dtype, each.made->sizes, &each.made->strides)
                  : each.written);
  }
  Selection part;
  part.graph = graph_.needed(part.inputs, part.numbers);
  if (!run_alone(part, outputs))
    part.graph.has_rows() ? launch_rows(std::move(part), outputs) : launch(part, outputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!results[k].made) continue;
    TensorState& state = *results[k].made;
    state.data = outputs[k].state().data;
    state.storage = outputs[k].state().storage;
  }
}

/// A single step is done by the operation's own kernel, which is there already, if that computes in
/// the same type: a number of the CPU's may have been a tensor.
bool Recording::run_alone(const Selection& part, std::span<Tensor> outputs) const {
  if (part.graph.steps.size() != 1) return false;
  const Step& step = part.graph.steps[0];
  std::vector<Operand> operands;
  for (std::size_t k = 0; k < step.count; ++k) {
    const Value& value = step.operands[k];
    if (value.kind == Kind::input)
      operands.emplace_back(inputs_[part.inputs[value.index]].tensor);
    else
      operands.emplace_back(numbers_[part.numbers[value.index]].given);
  }
  if (step.kind == Step::Kind::cast) {
    outputs[0].copy_(*operands[0].tensor());
    return true;
  }
  if (step.kind == Step::Kind::reduction) {
    reduce_alone(step.reduction, *operands[0].tensor(), reduced_, outputs[0]);
    return true;
  }
  ops::OpId op = step.op;
  if (step.kind == Step::Kind::cube) {
    op = ops::OpId::pow;
    operands.emplace_back(3);
  }
  std::vector<const Operand*> list;
  list.reserve(operands.size());
  for (const Operand& operand : operands) list.push_back(&operand);
  const std::span<const Operand* const> all = list;
  const bool factor = op == ops::OpId::scaled_addcmul || op == ops::OpId::scaled_addcdiv;
  const auto deciding = op == ops::OpId::where ? all.subspan(1) : factor ? all.first(3) : all;
  if (result_type(deciding) != step.computed) return false;
  ops::elementwise_into(outputs[0], op, all);
  return true;
}

void Recording::launch(const Selection& part, std::span<const Tensor> outputs) const {
  const std::vector<jit::NumberBytes> numbers = numbers_of(part);
  Launch made{.graph = &part.graph, .site = ops::at(outputs[0]), .numbers = numbers};
  jit::Instance& instance = made.instance;
  instance.fused = true;
  instance.outputs = outputs.size();
  instance.dtype = outputs[0].dtype();
  instance.inputs.assign(part.graph.inputs);
  instance.numbers.assign(part.graph.numbers);
  const auto add = [&](const Tensor& tensor) {
    ops::require_same_epoch(made.site, tensor);
    made.operands.push_back(ops::memory_of(tensor));
  };
  for (const Tensor& output : outputs) {
    instance.stored.push_back(output.dtype());
    add(output);
  }
  for (const std::uint8_t input : part.inputs) add(inputs_[input].tensor);
  jit::plan(made.planned, sizes_, made.operands);
  instance.layout = made.planned.layout;
  launch({&made, 1});
}

std::vector<jit::NumberBytes> Recording::numbers_of(const Selection& part) const {
  std::vector<jit::NumberBytes> numbers(part.numbers.size());
  for (std::size_t k = 0; k < numbers.size(); ++k)
    std::memcpy(numbers[k].bytes, numbers_[part.numbers[k]].bytes, sizeof numbers[k].bytes);
  return numbers;
}

void Recording::launch(std::span<const Launch> all) const {
  const auto run = [&](const Launch& each, const Ref<const jit::CompiledKernel>& compiled) {
    const driver::Kernel kernel{driver::Name::intern(name_), &jit::run_on_host,
                                jit::run_on_device(), compiled};
    jit::Launcher(each.site, kernel, *compiled, each.operands, each.numbers).launch(each.planned);
  };
  if (all.size() == 1)  // nearly always
    return run(all[0], kernel_of(*all[0].graph, all[0].instance, device_, precise_, name_));
  std::vector<WantedKernel> wanted;
  for (const Launch& each : all) wanted.push_back({each.graph, &each.instance});
  const auto kernels = kernels_of(wanted, device_, precise_, name_);
  for (std::size_t i = 0; i < all.size(); ++i) run(all[i], kernels[i]);
}

}  // namespace ember::inline v0::fusion
