#include "ember/jit/jiterator.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ember/base/mutex.h"
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

std::size_t position_of(const Keywords& keywords, const std::string& name) {
  std::size_t i = 0;
  while (i < keywords.size() && keywords[i].name != name) ++i;
  return i;
}

}  // namespace

struct Definition {
  std::string code;
  jit::Signature signature;
  driver::Name kernel_name;
  Keywords defaults;
  JitOptions options;
  bool devices = false;  ///< whether there were any when it was created
  Mutex mutex;
  /// What this function has used; the process's cache has the texts in its keys.
  std::unordered_map<std::string, Ref<const CompiledKernel>> known EMBER_GUARDED_BY(mutex);

  std::vector<Scalar> numbers_of(const Keywords& keywords) const;
  void require_no_recursion() const;
  void require_parameters(std::size_t inputs) const;
  void require_inputs(std::span<const Tensor> inputs) const;
  Ref<const CompiledKernel> kernel(const Instance& instance, Device device);
};

std::vector<Scalar> Definition::numbers_of(const Keywords& keywords) const {
  std::vector<Scalar> numbers;
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
  return numbers;
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

Ref<const CompiledKernel> Definition::kernel(const Instance& instance, Device device) {
  const int target = jit::target_of(device);
  const std::string key = jit::key_of(instance, target);
  {
    const MutexLock lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const jit::ArgumentPlaces places(instance);
  if (places.end > driver::Params::kCapacity)
    throw Error("jiterator: " + std::to_string(instance.inputs.size()) + " inputs, " +
                std::to_string(instance.outputs) + " outputs and " +
                std::to_string(instance.numbers.size()) + " keyword arguments take " +
                std::to_string(places.end) + " bytes of arguments, expected at most " +
                std::to_string(driver::Params::kCapacity));
  Ref<const CompiledKernel> made = jit::compiled(code, signature, instance, target);
  const MutexLock lock(mutex);
  known.emplace(key, made);
  return made;
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
  const std::vector<Scalar> numbers = self.numbers_of(keywords);
  self.require_inputs(inputs);
  self.require_no_recursion();
  self.require_parameters(inputs.size());

  std::vector<Operand> given(inputs.begin(), inputs.end());
  std::vector<const Operand*> list;
  list.reserve(given.size());
  Shape sizes = inputs[0].sizes();
  for (const Operand& operand : given) list.push_back(&operand);
  for (const Tensor& input : inputs.subspan(1)) sizes = broadcast_shapes(sizes, input.sizes());
  Instance instance;
  for (const Tensor& input : inputs) instance.inputs.push_back(input.dtype());
  for (const Dtype input : instance.inputs)
    if (contains(dtypes::unsigned_wide, input))
      ops::throw_not_implemented(self.signature.name.c_str(), input);
  instance.dtype = result_type(list);
  instance.by_reference = self.options.return_by_reference;
  instance.outputs = static_cast<std::size_t>(self.options.num_outputs);
  for (const Scalar& number : numbers) instance.numbers.push_back(number.dtype());

  const Device device = inputs[0].device();
  const Shape strides = ops::output_strides(sizes, list);
  std::vector<Tensor> outputs;
  for (std::size_t k = 0; k < instance.outputs; ++k)
    outputs.push_back(Tensor::make(device, instance.dtype, sizes, &strides));
  if (outputs[0].numel() == 0) return outputs;

  std::vector<ops::PlanOperand> operands;
  operands.reserve(instance.operands());
  for (const Tensor& output : outputs) operands.push_back(ops::memory_of(output));
  for (const Tensor& input : inputs) operands.push_back(ops::memory_of(input));
  const jit::Plan planned = jit::plan(sizes, operands);
  instance.layout = planned.layout;
  const ops::Site site = ops::at(outputs[0]);
  for (const Tensor& output : outputs) ops::require_same_epoch(site, output);
  for (const Tensor& input : inputs) ops::require_same_epoch(site, input);
  const Ref<const CompiledKernel> compiled = self.kernel(instance, device);
  const driver::Kernel kernel{self.kernel_name, &jit::run_on_host, jit::run_on_device(), compiled};
  std::vector<jit::NumberBytes> bytes;
  bytes.reserve(numbers.size());
  for (const Scalar& number : numbers) bytes.push_back(jit::bytes_of(number));
  jit::Launcher(site, kernel, *compiled, operands, bytes).launch(planned.dims);
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
