#include "ember/jit/jiterator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ember/base/mutex.h"
#include "ember/jit/compiled_kernel.h"
#include "ember/jit/signature.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/merge.h"
#include "ember/ops/output_strides.h"
#include "ember/ops/run.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda::jiterator {
namespace {

using jit::ArgumentPlaces;
using jit::CompiledKernel;
using jit::Instance;
using jit::Layout;

constexpr std::size_t kStrictInputs = 8;
constexpr std::int64_t kLargestOffset = std::numeric_limits<std::int32_t>::max();

using Dims = ops::MergedDims<std::vector<ops::DimStrides>>;

/// Dimensions of the elements of one call, and what was decided of them.
struct Plan {
  Dims dims;
  Layout layout = Layout::flat;
};

Layout layout_of(const Dims& dims) {
  if (dims.count == 0) return Layout::flat;
  if (dims.count == 1 && std::all_of(dims.stride.begin(), dims.stride.end(),
                                     [](const ops::DimStrides& s) { return s[0] == 1; }))
    return Layout::flat;
  std::int64_t count = 1;
  for (int d = 0; d < dims.count; ++d)
    if (__builtin_mul_overflow(count, dims.size[static_cast<std::size_t>(d)], &count) ||
        count > kLargestOffset)
      return Layout::wide;
  for (const ops::DimStrides& strides : dims.stride) {
    std::int64_t last = 0;
    for (int d = 0; d < dims.count; ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (strides[i] > kLargestOffset) return Layout::wide;
      last += (dims.size[i] - 1) * strides[i];
      if (last > kLargestOffset) return Layout::wide;
    }
  }
  return Layout::narrow;
}

Plan plan(const Shape& sizes, std::span<const ops::PlanOperand> operands) {
  Plan made;
  made.dims.stride.resize(operands.size());
  ops::merge_into(made.dims, sizes, operands);
  made.layout = layout_of(made.dims);
  return made;
}

template <class T>
void put(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

void put_number(std::byte* to, const Scalar& number) {
  switch (number.dtype()) {
    case Dtype::bool_: return put(to, number.to<bool>());
    case Dtype::int64: return put(to, number.to<std::int64_t>());
    case Dtype::float64: return put(to, number.to<double>());
    default: return put(to, number.to<Complex<double>>());
  }
}

/// The launches of one call: several where there are more dimensions than a kernel walks.
class Launcher {
 public:
  Launcher(const ops::Site& site, const driver::Kernel& kernel, const CompiledKernel& compiled,
           std::span<const ops::PlanOperand> operands, std::span<const Scalar> numbers)
      : site_(site), kernel_(kernel), compiled_(compiled), operands_(operands) {
    for (std::size_t k = 0; k < operands.size(); ++k) data_.push_back(operands[k].data);
    for (std::size_t k = 0; k < numbers.size(); ++k)
      put_number(&arguments_[compiled.places.numbers + k * ArgumentPlaces::kNumberBytes],
                 numbers[k]);
  }

  void launch(const Dims& dims, int count) {
    if (count > ops::kLoopDims) {
      // The slowest dimension, one index at a time.
      const auto last = static_cast<std::size_t>(count - 1);
      const std::vector<void*> before = data_;
      for (std::int64_t i = 0; i < dims.size[last]; ++i) {
        for (std::size_t k = 0; k < data_.size(); ++k)
          data_[k] = static_cast<std::byte*>(before[k]) +
                     i * dims.stride[k][last] * static_cast<std::int64_t>(operands_[k].item);
        launch(dims, count - 1);
      }
      data_ = before;
      return;
    }
    write_arguments(dims, count);
    const driver::Params params(arguments_.data(), compiled_.places.end);
    if (!cuda::accesses_wanted()) [[likely]]
      return ops::run(site_, kernel_, params);
    ops::run(site_, kernel_, params, accesses(dims, count));
  }

 private:
  bool flat() const { return compiled_.instance.layout == Layout::flat; }

  void write_arguments(const Dims& dims, int count) {
    const ArgumentPlaces& places = compiled_.places;
    driver::CompiledHeader header;
    header.count = 1;
    for (int d = 0; d < count; ++d) header.count *= dims.size[static_cast<std::size_t>(d)];
    const std::size_t pack = jit::pack_of(compiled_.instance);
    header.per_block = driver::kCompiledThreads * static_cast<unsigned>(pack);
    header.dims = flat() ? 0 : count;
    header.packed = 1;
    for (std::size_t k = 0; k < data_.size(); ++k)
      if (reinterpret_cast<std::uintptr_t>(data_[k]) % (operands_[k].item * pack) != 0)
        header.packed = 0;
    put(&arguments_[0], header);
    std::memcpy(&arguments_[places.data], data_.data(), data_.size() * sizeof(void*));
    if (flat()) return;
    for (int d = 0; d < count; ++d) {
      const auto i = static_cast<std::size_t>(d);
      put_index(places.sizes, i, dims.size[i]);
      for (std::size_t k = 0; k < data_.size(); ++k)
        put_index(places.strides, k * ops::kLoopDims + i, dims.stride[k][i]);
    }
  }
  void put_index(std::size_t at, std::size_t i, std::int64_t value) {
    if (compiled_.instance.layout == Layout::wide)
      put(&arguments_[at + i * sizeof value], value);
    else
      put(&arguments_[at + i * sizeof(std::int32_t)], static_cast<std::int32_t>(value));
  }

  std::span<const cuda::Access> accesses(const Dims& dims, int count) {
    accesses_.clear();
    const auto used = static_cast<std::size_t>(count);
    for (std::size_t k = 0; k < data_.size(); ++k) {
      std::int64_t last = 0;
      for (std::size_t d = 0; d < used; ++d) last += (dims.size[d] - 1) * dims.stride[k][d];
      cuda::Access access{data_[k], (static_cast<std::size_t>(last) + 1) * operands_[k].item,
                          k < compiled_.instance.outputs};
      if (!flat()) {
        access.item = static_cast<std::uint32_t>(operands_[k].item);
        access.sizes = std::span(dims.size).first(used);
        access.strides = std::span(dims.stride[k]).first(used);
      }
      accesses_.push_back(access);
    }
    return accesses_;
  }

  ops::Site site_;
  const driver::Kernel& kernel_;
  const CompiledKernel& compiled_;
  std::span<const ops::PlanOperand> operands_;
  std::vector<void*> data_;
  std::vector<cuda::Access> accesses_;
  alignas(16) std::array<std::byte, driver::Params::kCapacity> arguments_{};
};

std::size_t position_of(const Keywords& keywords, const std::string& name) {
  std::size_t i = 0;
  while (i < keywords.size() && keywords[i].name != name) ++i;
  return i;
}

}  // namespace

struct JitFunction::State {
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
  void require_parameters(std::size_t inputs) const;
  void require_inputs(std::span<const Tensor> inputs) const;
  Ref<const CompiledKernel> kernel(const Instance& instance, Device device);
};

std::vector<Scalar> JitFunction::State::numbers_of(const Keywords& keywords) const {
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

/// Asked before compilers are, whose answer names parts of ours.
void JitFunction::State::require_parameters(std::size_t inputs) const {
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

void JitFunction::State::require_inputs(std::span<const Tensor> inputs) const {
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

Ref<const CompiledKernel> JitFunction::State::kernel(const Instance& instance, Device device) {
  int target = jit::kHostTarget;
  if (device.is_cuda() && !detail::runs_host_implementation()) {
    const auto [major, minor] = get_device_capability(device.index());
    target = major * 10 + minor;
  }
  const std::string key = jit::key_of(instance, target);
  {
    const MutexLock lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const ArgumentPlaces places(instance);
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
    : state_(std::make_shared<State>()) {
  if (options.num_outputs < 1)
    throw ValueError("num_outputs: expected at least 1, got " +
                     std::to_string(options.num_outputs));
  if (!options.return_by_reference && options.num_outputs != 1)
    throw AssertionError("Return by value only works for single output. ");
  if (!jit::parse_signature(code, state_->signature))
    throw CodeError("Couldn't parse code, please check correctness:\n" + code);
  for (std::size_t i = 0; i < defaults.size(); ++i)
    if (position_of(defaults, defaults[i].name) != i)
      throw ValueError("the keyword argument '" + defaults[i].name + "' comes twice");
  state_->kernel_name = driver::Name::intern(state_->signature.name);
  state_->code = std::move(code);
  state_->defaults = std::move(defaults);
  state_->options = options;
  state_->devices = options.strict && is_available();
}

std::vector<Tensor> JitFunction::operator()(std::span<const Tensor> inputs,
                                            const Keywords& keywords) const {
  State& state = *state_;
  const std::vector<Scalar> numbers = state.numbers_of(keywords);
  state.require_inputs(inputs);
  state.require_parameters(inputs.size());

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
      ops::throw_not_implemented(state.signature.name.c_str(), input);
  instance.dtype = result_type(list);
  instance.by_reference = state.options.return_by_reference;
  instance.outputs = static_cast<std::size_t>(state.options.num_outputs);
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
  const Plan planned = plan(sizes, operands);
  instance.layout = planned.layout;
  const ops::Site site = ops::at(outputs[0]);
  for (const Tensor& output : outputs) ops::require_same_epoch(site, output);
  for (const Tensor& input : inputs) ops::require_same_epoch(site, input);
  const Ref<const CompiledKernel> compiled = state.kernel(instance, device);
  const driver::Kernel kernel{state.kernel_name, &jit::run_on_host, jit::run_on_device(), compiled};
  Launcher(site, kernel, *compiled, operands, numbers).launch(planned.dims, planned.dims.count);
  return outputs;
}

const std::string& JitFunction::name() const noexcept { return state_->signature.name; }
const std::string& JitFunction::code() const noexcept { return state_->code; }
int JitFunction::num_outputs() const noexcept { return state_->options.num_outputs; }

JitFunction create_jit_fn(std::string code, Keywords defaults, bool strict) {
  return JitFunction(std::move(code), std::move(defaults), {.strict = strict});
}
JitFunction create_multi_output_jit_fn(std::string code, int num_outputs, Keywords defaults,
                                       bool strict) {
  return JitFunction(std::move(code), std::move(defaults),
                     {.return_by_reference = true, .num_outputs = num_outputs, .strict = strict});
}

}  // namespace ember::inline v0::cuda::jiterator
