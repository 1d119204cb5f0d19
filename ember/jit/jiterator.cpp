#include "ember/jit/jiterator.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "ember/base/mutex.h"
#include "ember/base/short_vector.h"
#include "ember/jit/compiled_kernel.h"
#include "ember/jit/launcher.h"
#include "ember/jit/signature.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/output_strides.h"
#include "ember/ops/run.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda::jiterator {
namespace {

using jit::CompiledKernel;
using jit::Instance;

constexpr std::size_t kStrictInputs = 8;

using Numbers = ShortVector<Scalar, 8>;

std::size_t position_of(const Keywords& keywords, const std::string& name) {
  std::size_t i = 0;
  while (i < keywords.size() && keywords[i].name != name) ++i;
  return i;
}

/// Whether all inputs have their elements in one row, of one type and one shape: nearly always. Not
/// where they are yet to be computed.
bool are_alike(std::span<const Tensor> inputs) {
  const TensorState& first = inputs[0].state();
  return std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& each) {
    const TensorState& state = each.state();
    return state.contiguous && (state.data != nullptr || state.count == 0) &&
           state.dtype == first.dtype && (&state == &first || state.sizes == first.sizes);
  });
}

/// The memory of a tensor that has some, whose epoch is asked for elsewhere.
ops::PlanOperand row_of(const Tensor& tensor) {
  const TensorState& state = tensor.state();
  return {state.data, &state.sizes, &state.strides, item_size(state.dtype), state.storage->epoch(),
          nullptr};
}

}  // namespace

/// A kernel that a function has used, as launches want it.
struct Used {
  Ref<const CompiledKernel> compiled;
  driver::Kernel kernel;
  int target = 0;
};

/// Lets tables of strings be asked without making one.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};

struct Definition {
  std::string code;
  jit::Signature signature;
  driver::Name kernel_name;
  Keywords defaults;
  JitOptions options;
  bool devices = false;  ///< whether there were any when it was created
  Mutex mutex;
  /// What this function has used, which stays; the process's cache has the texts in its keys.
  std::unordered_map<std::string, Used, TextHash, std::equal_to<>> known EMBER_GUARDED_BY(mutex);
  std::atomic<const Used*> last{nullptr};  ///< among these; most calls want it again

  void put_numbers(Numbers& numbers, const Keywords& keywords) const;
  void require_own_text() const;
  void require_no_recursion() const;
  void require_parameters(std::size_t inputs) const;
  void require_inputs(std::span<const Tensor> inputs) const;
  static Dtype decide(std::span<const Tensor> inputs, Shape& sizes, Shape& strides);
  const Used& kernel(const Instance& instance, Device device);
};

void Definition::put_numbers(Numbers& numbers, const Keywords& keywords) const {
  for (const Keyword& keyword : defaults) numbers.push_back(keyword.value);
  for (const Keyword& keyword : keywords) {
    const std::size_t i = position_of(defaults, keyword.name);
    if (i == defaults.size())
      throw KeywordError(keyword.name + " is not declared in function definition");
    numbers[i] = keyword.value;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i].beyond_int64())
      throw ValueError(defaults[i].name + ": expected an integer of 64 bits with a sign, got " +
                       std::to_string(numbers[i].to<std::uint64_t>()));
}

/// What is compiled is kept by the text: that of another file could change unseen.
void Definition::require_own_text() const {
  if (signature.includes_at == jit::kNone) return;
  const auto end = code.begin() + static_cast<std::ptrdiff_t>(signature.includes_at);
  throw Error("jiterator: the text names another file (code_string:" +
              std::to_string(1 + std::count(code.begin(), end, '\n')) +
              "), expected one that includes nothing");
}

/// Asked before compilers are: some of them compile it, and then the stack ends, and with it the
/// process or the use of the device.
void Definition::require_no_recursion() const {
  if (signature.recursive.empty()) return;
  const auto end = code.begin() + static_cast<std::ptrdiff_t>(signature.recursive_at);
  throw Error("jiterator: '" + signature.recursive + "' calls itself (code_string:" +
              std::to_string(1 + std::count(code.begin(), end, '\n')) +
              "), expected functions that do not");
}

/// Asked before compilers are, whose answer names parts of ours.
void Definition::require_parameters(std::size_t inputs) const {
  if (!signature.countable) return;
  const std::size_t outputs =
      options.return_by_reference ? static_cast<std::size_t>(options.num_outputs) : 0;
  const std::size_t given = inputs + defaults.size() + outputs;
  const std::size_t most = signature.parameters.size();
  std::size_t least = most;
  while (least > 0 && signature.parameters[least - 1].has_default) --least;
  if (given >= least && given <= most) return;
  throw Error("jiterator: '" + signature.name + "' has " + std::to_string(most) +
              " parameters, but gets " + std::to_string(inputs) + " tensors, " +
              std::to_string(defaults.size()) + " keyword arguments and " +
              std::to_string(outputs) + " outputs");
}

void Definition::require_inputs(std::span<const Tensor> inputs) const {
  if (options.strict) {
    if (!devices)
      throw AssertionError(
          "Jiterator is only supported on CUDA and ROCm GPUs, none are available.");
    if (inputs.size() > kStrictInputs)
      throw AssertionError("jiterator only supports up to 8 tensor inputs.");
  }
  if (inputs.empty()) throw Error("jiterator: expected at least one tensor, got none");
  for (const Tensor& input : inputs) ops::require_same_device(inputs[0].device(), input.device());
  if (options.strict && !inputs[0].is_cuda())
    throw Error("jiterator: expected CUDA tensors (strict=True), got tensors on " +
                inputs[0].device().str());
}

/// Of inputs that are not alike: the outputs' dtype, sizes and strides.
Dtype Definition::decide(std::span<const Tensor> inputs, Shape& sizes, Shape& strides) {
  ShortVector<const Operand*, jit::kFewOperands> list;
  ShortVector<Operand, jit::kFewOperands> given;
  for (const Tensor& input : inputs) given.push_back(input);
  for (const Operand& operand : given) list.push_back(&operand);
  sizes = inputs[0].sizes();
  for (const Tensor& input : inputs.subspan(1)) sizes = broadcast_shapes(sizes, input.sizes());
  strides = ops::output_strides(sizes, list);
  return result_type(list);
}

const Used& Definition::kernel(const Instance& instance, Device device) {
  const int target = jit::target_of(device);
  if (const Used* const recent = last.load(std::memory_order_acquire);
      recent != nullptr && recent->target == target && recent->compiled->instance == instance)
      [[likely]]
    return *recent;
  const jit::InstanceKey key = jit::key_of(instance, target);
  const auto keep = [&](const Used& used) -> const Used& {
    last.store(&used, std::memory_order_release);
    return used;
  };
  {
    const MutexLock lock(mutex);
    if (const auto found = known.find(jit::text_of(key)); found != known.end())
      return keep(found->second);
  }
  const jit::ArgumentPlaces places(instance);
  if (places.end > driver::Params::kCapacity)
    throw Error("jiterator: " + std::to_string(instance.inputs.size()) + " inputs, " +
                std::to_string(instance.outputs) + " outputs and " +
                std::to_string(instance.numbers.size()) + " keyword arguments take " +
                std::to_string(places.end) + " bytes of arguments, expected at most " +
                std::to_string(driver::Params::kCapacity));
  const Ref<const CompiledKernel> made = jit::compiled(code, signature, instance, target);
  const driver::Kernel launched{kernel_name, &jit::run_on_host, jit::run_on_device(), made};
  const MutexLock lock(mutex);
  return keep(known.try_emplace(std::string(jit::text_of(key)), Used{made, launched, target})
                  .first->second);
}

JitFunction::JitFunction(std::string code, Keywords defaults, const JitOptions& options)
    : definition_(std::make_shared<Definition>()) {
  if (options.num_outputs < 1)
    throw ValueError("num_outputs: expected at least 1, got " +
                     std::to_string(options.num_outputs));
  if (!options.return_by_reference && options.num_outputs != 1)
    throw AssertionError("Return by value only works for single output. ");
  if (!jit::parse_signature(code, definition_->signature))
    throw CodeError("Couldn't parse code, please check correctness:\n" + code);
  for (std::size_t i = 0; i < defaults.size(); ++i)
    if (position_of(defaults, defaults[i].name) != i)
      throw ValueError("the keyword argument '" + defaults[i].name + "' comes twice");
  definition_->kernel_name = driver::Name::intern(definition_->signature.name);
  definition_->code = std::move(code);
  definition_->defaults = std::move(defaults);
  definition_->options = options;
  definition_->devices = options.strict && is_available();
}

std::vector<Tensor> JitFunction::operator()(std::span<const Tensor> inputs,
                                            const Keywords& keywords) const {
  Definition& self = *definition_;
  Numbers numbers;
  self.put_numbers(numbers, keywords);
  self.require_inputs(inputs);
  self.require_own_text();
  self.require_no_recursion();
  self.require_parameters(inputs.size());

  Instance instance;
  for (const Tensor& input : inputs) instance.inputs.push_back(input.dtype());
  for (const Dtype input : instance.inputs)
    if (!contains(dtypes::any, input))
      ops::throw_not_implemented(self.signature.name.c_str(), input);
  instance.by_reference = self.options.return_by_reference;
  instance.outputs = static_cast<std::size_t>(self.options.num_outputs);
  for (const Scalar& number : numbers) instance.numbers.push_back(number.dtype());

  const Device device = inputs[0].device();
  const bool alike = are_alike(inputs);
  instance.dtype = inputs[0].dtype();
  Shape sizes = inputs[0].sizes();
  Shape strides;
  if (!alike) instance.dtype = self.decide(inputs, sizes, strides);
  std::vector<Tensor> outputs;
  outputs.reserve(instance.outputs);
  for (std::size_t k = 0; k < instance.outputs; ++k)
    outputs.push_back(Tensor::make(device, instance.dtype, sizes, alike ? nullptr : &strides));
  if (outputs[0].numel() == 0) return outputs;

  jit::Operands operands;
  operands.resize(instance.operands());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Tensor& operand = k < outputs.size() ? outputs[k] : inputs[k - outputs.size()];
    operands[k] = alike ? row_of(operand) : ops::memory_of(operand);
  }
  jit::Plan planned;
  if (alike)
    jit::plan_row(planned, outputs[0].numel(), operands.size());
  else
    jit::plan(planned, sizes, operands);
  instance.layout = planned.layout;
  const ops::Site site = ops::at(outputs[0]);
  for (const Tensor& output : outputs) ops::require_same_epoch(site, output);
  for (const Tensor& input : inputs) ops::require_same_epoch(site, input);
  const Used& used = self.kernel(instance, device);
  ShortVector<jit::NumberBytes, 8> bytes;
  for (const Scalar& number : numbers) bytes.push_back(jit::bytes_of(number));
  jit::Launcher(site, used.kernel, *used.compiled, operands, bytes).launch(planned);
  return outputs;
}

const std::string& JitFunction::name() const noexcept { return definition_->signature.name; }
const std::string& JitFunction::code() const noexcept { return definition_->code; }
int JitFunction::num_outputs() const noexcept { return definition_->options.num_outputs; }

JitFunction create_jit_fn(std::string code, Keywords defaults, bool strict) {
  return JitFunction(std::move(code), std::move(defaults), {.strict = strict});
}
JitFunction create_multi_output_jit_fn(std::string code, int num_outputs, Keywords defaults,
                                       bool strict) {
  return JitFunction(std::move(code), std::move(defaults),
                     {.return_by_reference = true, .num_outputs = num_outputs, .strict = strict});
}

}  // namespace ember::inline v0::cuda::jiterator
