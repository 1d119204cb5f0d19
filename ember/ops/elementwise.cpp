#include "ember/ops/elementwise.h"

#include <string>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/functors.h"
#include "ember/ops/output_strides.h"
#include "ember/ops/plan.h"
#include "ember/ops/promotion.h"
#include "ember/ops/recorder.h"
#include "ember/ops/run.h"

namespace ember::inline v0 {
namespace {

using ops::kind;
using ops::OpId;

using Inputs = std::span<const Operand* const>;

constexpr std::size_t kMaxInputs = ops::kLoopOperands - 1;
constexpr std::size_t kLoopNumbers = std::extent_v<decltype(ops::Loop::numbers)>;

constexpr OpInfo kInfos[] = {
#define EMBER_UNARY(name, ...) elementwise::name::info,
#define EMBER_BINARY(name, ...) elementwise::name::info,
#define EMBER_TERNARY(name, ...) elementwise::name::info,
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
    {"where", 3, dtypes::all, Result::same, 0, "x where the condition is true, y elsewhere."},
    elementwise::scaled_addcmul::info,
    elementwise::scaled_addcdiv::info,
};

/// Whether an input is the condition of `where`, which stays out of the promotion.
bool is_condition(OpId op, std::size_t k) { return op == OpId::where && k == 0; }
/// The inputs without a factor (scaled_addcmul), which decides nothing.
Inputs without_factor(OpId op, Inputs inputs) {
  return op == OpId::scaled_addcmul || op == OpId::scaled_addcdiv ? inputs.first(3) : inputs;
}
Dtype input_dtype(OpId op, std::size_t k, Dtype computed) {
  return is_condition(op, k) ? Dtype::bool_ : computed;
}

Dtype output_dtype(const OpInfo& info, Dtype computed) {
  if (info.result == Result::same) return computed;
  return info.result == Result::boolean ? Dtype::bool_ : real_dtype(computed);
}

/// The strides of a new output of an operation.
Shape output_strides(OpId op, const Shape& sizes, Inputs inputs) {
  if (op == OpId::pow && inputs[0]->tensor() == nullptr) return contiguous_strides(sizes);
  return ops::output_strides(sizes, inputs);
}

/// Numbers that stand for elements have to be some; those that are only computed with need not: an
/// integer wraps around then, a 16-bit float becomes what the wider one is rounded to. Of `where`,
/// 16-bit floats are infinite where a number is too large, as in torch, but not exponents of them.
bool takes_element(OpId op, std::size_t place, Dtype computed) {
  const bool half = is_floating_point(computed) && item_size(computed) == 2;
  switch (op) {
    case OpId::where: return !half;
    case OpId::clamp:
    case OpId::maximum:
    case OpId::minimum:
    case OpId::lerp:
    case OpId::addcmul:
    case OpId::addcdiv:
    case OpId::scaled_addcmul:
    case OpId::scaled_addcdiv: return true;
    case OpId::pow: return is_integral(computed) || (place == 1 && half);
    default: return false;
  }
}

/// Numbers beyond 64 bits with a sign wrap around nowhere.
void require_numbers_fit(OpId op, Inputs inputs, Dtype computed) {
  const Inputs operands = without_factor(op, inputs);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i]->tensor() == nullptr &&
        (takes_element(op, i, computed) ||
         (operands[i]->number().beyond_int64() && is_integral(computed))))
      require_fits(operands[i]->number(), computed);
}

/// A number as T is computed with. Beside elements it is compared as an element would be: 0.1
/// equals the 16-bit float nearest to it.
template <class T>
Compute<T> computed_number(const OpInfo& info, const Scalar& number) {
  if constexpr (!std::is_same_v<T, Compute<T>>)
    if (info.result == Result::boolean) return convert<Compute<T>>(number.to<T>());
  return number.to<Compute<T>>();
}

/// `number` into the place that a loop has for it, as operation and element type want it.
inline void put_number(std::byte* to, OpId op, const OpInfo& info, const Scalar& number,
                       Dtype dtype) {
  with_type(dtype, [&]<class T>() {
    const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
    if (op == OpId::where)
      put(number.to<T>());
    else
      put(computed_number<T>(info, number));
  });
}

/// The fast path is for most calls, which raise no question: tensors of one shape without gaps, of
/// one type and on one device, with numbers that change nothing, into a new tensor or one of that
/// kind.
struct FastPath {
  const TensorState* like = nullptr;  ///< what all tensors are like; null for all other calls
  std::size_t numbers = 0;
};

/// Whether a call may take the fast path. It changes nothing and throws nothing.
FastPath fast_path(const OpInfo& info, Inputs inputs, const TensorState* out) {
  const TensorState* first = nullptr;
  std::size_t numbers = 0;
  Dtype number = Dtype::bool_;
  bool in_place = false;
  for (const Operand* input : inputs) {
    const Tensor* tensor = input->tensor();
    if (tensor == nullptr) {
      ++numbers;
      number = std::max(number, input->number().dtype());
      continue;
    }
    const TensorState& state = tensor->state();
    // Nor where the elements are yet to be computed, by another thread.
    if (!state.contiguous || (state.data == nullptr && state.count > 0)) return {};
    if (first == nullptr)
      first = &state;
    else if (state.dtype != first->dtype || state.storage->device() != first->storage->device() ||
             state.sizes != first->sizes)
      return {};
    if (out != nullptr && state.storage == out->storage) {
      // The same elements are no conflict, other parts of the same memory may be.
      if (state.data != out->data) return {};
      in_place = true;
    }
  }
  if (first == nullptr || numbers > kLoopNumbers || kind(number) > kind(first->dtype) ||
      !contains(info.dtypes, first->dtype))
    return {};
  if (out != nullptr) {
    const Dtype result = output_dtype(info, first->dtype);
    if (out->dtype != result || !out->contiguous ||
        out->storage->device() != first->storage->device() || out->sizes != first->sizes ||
        (in_place && result != first->dtype))
      return {};
  }
  return {first, numbers};
}

/// Where a call runs, and the shape of what comes out.
struct Place {
  Device device;
  Shape sizes;
};

Place place_of(OpId op, Inputs inputs, const Tensor& out) {
  std::optional<Device> device;
  bool decided = false;
  Shape sizes;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor* tensor = inputs[k]->tensor();
    if (tensor == nullptr) continue;
    if (is_condition(op, k) && tensor->dtype() != Dtype::bool_ && tensor->dtype() != Dtype::uint8)
      throw Error(std::string("where expected condition to be a boolean tensor, but got a tensor "
                              "with dtype ") +
                  legacy_name(tensor->dtype()));
    if (is_condition(op, k) && tensor->dtype() == Dtype::uint8)
      warn(Warning::user, "where: a condition of dtype uint8 is deprecated: make it bool.");
    // A CPU tensor without dimensions goes wherever the others are.
    const bool decides = tensor->dim() > 0 || tensor->is_cuda();
    if (!device || (decides && !decided))
      device = tensor->device();
    else if (decides)
      ops::require_same_device(*device, tensor->device());
    decided |= decides;
    if (tensor->dim() > 0)
      sizes = sizes.empty() ? tensor->sizes() : broadcast_shapes(sizes, tensor->sizes());
  }
  if (!device) device = out.defined() ? out.device() : Device(Device::Type::cpu);
  return {*device, sizes};
}

/// The type that a call computes in.
Dtype computed_dtype(OpId op, const OpInfo& info, Inputs inputs) {
  const Dtype dtype = result_type(op == OpId::where ? inputs.subspan(1) : inputs);
  if (contains(info.dtypes, dtype)) return dtype;
  if (op == OpId::square && dtype == Dtype::bool_) return Dtype::int64;  // as pow(x, 2)
  if (!is_integral(dtype) || !contains(info.dtypes, default_dtype()) ||
      contains(info.dtypes, Dtype::int64))
    ops::throw_not_implemented(info.name, dtype);
  return default_dtype();
}

/// What is written: `out`, or a new tensor if there is none or it has another type.
Tensor target(OpId op, Tensor& out, const Place& place, Dtype result, Inputs inputs) {
  if (out.defined()) {
    for (const Operand* input : inputs)  // what is written in place has its shape
      if (input->tensor() != nullptr && input->tensor()->is(out) && out.sizes() != place.sizes)
        throw Error("output with shape " + out.sizes().str() +
                    " doesn't match the broadcast shape " + place.sizes.str());
    const bool resized = out.sizes() != place.sizes;
    std::array<const Tensor*, kMaxInputs> read{};
    std::size_t count = 0;
    for (const Operand* input : inputs)
      if (input->tensor() != nullptr) read[count++] = input->tensor();
    const std::span<const Tensor* const> all = std::span(read).first(count);
    const Shape strides = resized ? output_strides(op, place.sizes, inputs) : Shape();
    ops::require_no_internal_overlap(out);
    ops::prepare_output(out, place.device, place.sizes, result, all, resized ? &strides : nullptr);
    for (const Tensor* input : all) ops::require_no_partial_overlap(out, *input);
    if (out.dtype() == result) return out;
  }
  const Shape strides = output_strides(op, place.sizes, inputs);
  return Tensor::make(place.device, result, place.sizes, &strides);
}

/// Inputs, first as they were given, then normalised, one step after the other: in the end all are
/// tensors on one device, of the type that is computed in, or numbers that fit into a loop.
class NormalisedOperands {
 public:
  explicit NormalisedOperands(Inputs given) noexcept : count_(given.size()) {
    for (std::size_t k = 0; k < count_; ++k) inputs_[k] = given[k];
  }

  NormalisedOperands(const NormalisedOperands&) = delete;
  NormalisedOperands& operator=(const NormalisedOperands&) = delete;

  Inputs inputs() const noexcept { return std::span(inputs_).first(count_); }

  /// CPU tensors without dimensions become numbers on other devices.
  void move_to(Device device) {
    for (std::size_t k = 0; k < count_; ++k)
      if (const Tensor* tensor = inputs_[k]->tensor();
          tensor != nullptr && tensor->device() != device)
        inputs_[k] = &normalised_[k].emplace(ops::value_of(*tensor));
  }
  /// `mixed`: the kernel converts what is not complex itself.
  void convert_to(OpId op, Dtype computed, Device device, bool mixed) {
    std::size_t numbers = 0;
    for (std::size_t k = 0; k < count_; ++k) {
      const Dtype dtype = input_dtype(op, k, computed);
      const Tensor* tensor = inputs_[k]->tensor();
      if (tensor == nullptr && numbers++ < kLoopNumbers) continue;
      if (tensor == nullptr) {
        // A loop has no room for it: it lies in memory.
        converted_[k] = Tensor::make(device, dtype, {});
        converted_[k].fill_(inputs_[k]->number());
      } else if (tensor->dtype() != dtype && !(mixed && !tensor->is_complex())) {
        converted_[k] = tensor->to(dtype);
      } else {
        continue;
      }
      inputs_[k] = &normalised_[k].emplace(converted_[k]);
    }
  }

 private:
  std::size_t count_;
  std::array<const Operand*, kMaxInputs> inputs_{};
  std::array<std::optional<Operand>, kMaxInputs> normalised_;  ///< what is not as it was given
  std::array<Tensor, kMaxInputs> converted_;
};

/// What schemas call the inputs.
const char* argument_name(OpId op, std::size_t input) noexcept {
  static constexpr const char* kNames[] = {"self", "other"};
  static constexpr const char* kLerp[] = {"self", "end", "weight"};
  static constexpr const char* kProduct[] = {"self", "tensor1", "tensor2"};
  static constexpr const char* kWhere[] = {"condition", "self", "other"};
  if (op == OpId::lerp) return kLerp[input];
  if (op == OpId::addcmul || op == OpId::addcdiv) return kProduct[input];
  if (op == OpId::where) return kWhere[input];
  return input < std::size(kNames) ? kNames[input] : nullptr;
}
/// What they call what is written: in place it is an input.
const char* written_name(OpId op, Inputs inputs, const Tensor& out) noexcept {
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k]->tensor() != nullptr && inputs[k]->tensor()->is(out)) return argument_name(op, k);
  return cuda::kOutputArgument;
}

/// The fast path: the loop goes over all elements, one after the other.
void run_fast(OpId op, const OpInfo& info, const TensorState& like, Inputs inputs,
              const Tensor& out) {
  ops::Loop loop{};
  loop.dims = 0;
  loop.count = like.count;
  loop.set_flat(0, out.state().data);
  std::int8_t numbers = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (const Tensor* tensor = inputs[k]->tensor()) {
      loop.set_flat(k + 1, tensor->state().data);
    } else {
      put_number(loop.numbers[numbers], op, info, inputs[k]->number(), like.dtype);
      loop.set_number(k + 1, numbers++);
    }
  }
  const ops::Site site = ops::at(out);
  for (const Operand* input : inputs)
    if (input->tensor() != nullptr) ops::require_same_epoch(site, *input->tensor());
  const driver::Kernel& kernel = ops::elementwise_kernel(op, like.dtype);
  if (!cuda::accesses_wanted()) [[likely]] {
    ops::run(site, kernel, loop);
    return;
  }
  std::array<cuda::Access, ops::kLoopOperands> accesses{
      ops::writes(out, written_name(op, inputs, out))};
  std::size_t count = 1;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (const Tensor* tensor = inputs[k]->tensor())
      accesses[count++] = ops::reads(*tensor, argument_name(op, k));
  ops::run(site, kernel, loop, std::span(accesses).first(count));
}

/// What was written becomes the output, unless it is.
void finish(Tensor& out, const Tensor& made) {
  if (!out.defined())
    out = made;
  else if (!made.is(out))
    out.copy_(made);
}

/// Whether the thread's recorder takes a call, whose inputs are on one device.
bool is_recorded(ops::Recorder& recorder, OpId op, const OpInfo& info, const Place& place,
                 Dtype computed, Inputs inputs, Tensor& out) {
  std::array<ops::RecordedNumber, kMaxInputs> numbers;
  std::size_t in_loop = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k]->tensor() != nullptr) continue;
    const Dtype dtype = input_dtype(op, k, computed);
    ops::RecordedNumber& number = numbers[k];
    number.given = inputs[k]->number();
    number.type = dtype;
    with_type(dtype, [&]<class T>() {
      if (in_loop < kLoopNumbers) {
        put_number(number.bytes, op, info, number.given, dtype);
        if (op != OpId::where) number.type = dtype_of<Compute<T>>;
      } else {  // an element, as convert_to() makes of it
        require_fits(number.given, dtype);
        const T element = number.given.to<T>();
        std::memcpy(number.bytes, &element, sizeof element);
      }
    });
    ++in_loop;
  }
  const Shape strides = output_strides(op, place.sizes, inputs);
  return recorder.compute({op, computed, output_dtype(info, computed), place.device, place.sizes,
                           strides, inputs, std::span(numbers).first(inputs.size())},
                          out);
}

/// All other calls. A function of its own, since the fast path needs none of its large frame.
[[gnu::noinline]] void run_normalised(OpId op, const OpInfo& info, Inputs given, Tensor& out) {
  const Inputs deciding = without_factor(op, given);
  const Place place = place_of(op, deciding, out);
  NormalisedOperands normalised(given);
  normalised.move_to(place.device);
  const Dtype computed = computed_dtype(op, info, deciding);
  require_numbers_fit(op, given, computed);
  if (ops::Recorder* const recorder = ops::recorder())
    if (is_recorded(*recorder, op, info, place, computed, normalised.inputs(), out)) return;
  const Tensor made =
      target(op, out, place, output_dtype(info, computed), without_factor(op, normalised.inputs()));
  const bool may_mix = computed == Dtype::float32 && op != OpId::where;
  normalised.convert_to(op, computed, place.device, may_mix);
  const Inputs inputs = normalised.inputs();
  ops::Loop loop{};
  std::array<ops::PlanOperand, ops::kLoopOperands> operands{
      ops::memory_of(made, written_name(op, given, made))};
  int numbers = 0;
  bool mixed = false;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (const Tensor* tensor = inputs[k]->tensor()) {
      operands[k + 1] = ops::memory_of(*tensor, argument_name(op, k));
      loop.stored[k + 1] = tensor->dtype();
      mixed |= may_mix && tensor->dtype() != computed;
    } else {
      put_number(loop.numbers[numbers++], op, info, inputs[k]->number(),
                 input_dtype(op, k, computed));
    }
  }
  ops::run_loop(place.device, mixed ? ops::mixed_kernel(op) : ops::elementwise_kernel(op, computed),
                made.sizes(), std::span(operands).first(inputs.size() + 1), loop);
  finish(out, made);
}

/// isnan, isinf and isfinite of integers, of which nothing has to be read.
bool is_constant(OpId op, const Operand& x) {
  return (op == OpId::isnan || op == OpId::isinf || op == OpId::isfinite) &&
         x.tensor() != nullptr && is_integral(x.tensor()->dtype());
}
void run_constant(OpId op, Inputs inputs, Tensor& out) {
  const Place place = place_of(op, inputs, out);
  const Tensor made = target(op, out, place, Dtype::bool_, inputs);
  made.fill_(op == OpId::isfinite);
  finish(out, made);
}

/// What torch refuses although there is a result: bools in differences, which are mistaken masks,
/// and negative powers of integers, nearly all of them zero.
void require_sense(OpId op, const Operand& x, const Operand& y) {
  if (op == OpId::sub) {
    const bool bools[] = {ops::operand_dtype(x) == Dtype::bool_,
                          ops::operand_dtype(y) == Dtype::bool_};
    if (bools[0] != bools[1])
      throw Error(
          "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
          "to invert a mask, use the `~` or `logical_not()` operator instead.");
    return;
  }
  if (y.tensor() == nullptr && is_integral(ops::operand_dtype(x)) &&
      is_integral(ops::operand_dtype(y)) && !y.number().beyond_int64() &&
      y.number().to<std::int64_t>() < 0)
    throw Error("Integers to negative integer powers are not allowed.");
}

/// Which operation a power with a number as exponent is: a root, or pow itself. As torch has it,
/// also where a root and a power differ: at -inf and -0.0.
OpId root_of(OpId op, const Operand& x, const Operand& y) {
  if (op != OpId::pow || x.tensor() == nullptr || y.tensor() != nullptr) return op;
  if (is_integral(x.tensor()->dtype()) || is_complex_dtype(y.number().dtype())) return op;
  const auto exponent = y.number().to<double>();
  return exponent == 0.5 ? OpId::sqrt : exponent == -0.5 ? OpId::rsqrt : op;
}

/// x ** True is x and x ** False is true: x or not y. Powers of other bools are not offered.
bool is_power_of_bools(const Operand& x, const Operand& y) {
  return x.tensor() != nullptr && x.tensor()->dtype() == Dtype::bool_ && y.tensor() == nullptr &&
         y.number().dtype() == Dtype::bool_;
}

/// Into `out`, which becomes a new tensor if it is none.
///
/// Note [Normalised operands]
/// Operand      what the caller gave: a tensor or a number
/// PlanOperand  where the elements of a normalised operand lie; the fast path has none (plan.h)
/// Loop         its address and steps, or its value, in the arguments of a kernel (loop.h)
void compute(OpId op, Inputs inputs, Tensor& out) {
  if (op == OpId::sub || op == OpId::pow) {
    require_sense(op, *inputs[0], *inputs[1]);
    if (const OpId root = root_of(op, *inputs[0], *inputs[1]); root != op)
      return compute(root, inputs.first(1), out);
    if (op == OpId::pow && is_power_of_bools(*inputs[0], *inputs[1])) {
      const Operand not_y(Scalar(!inputs[1]->number().to<bool>()));
      const std::array<const Operand*, 2> list{inputs[0], &not_y};
      return compute(OpId::logical_or, list, out);
    }
  }
  if (is_constant(op, *inputs[0])) return run_constant(op, inputs, out);
  const OpInfo& info = kInfos[static_cast<int>(op)];
  const auto [like, numbers] =
      op == OpId::where || ops::recorder() != nullptr
          ? FastPath()
          : fast_path(info, inputs, out.defined() ? &out.state() : nullptr);
  if (like == nullptr) return run_normalised(op, info, inputs, out);
  if (numbers > 0) require_numbers_fit(op, inputs, like->dtype);
  if (!out.defined())
    out = Tensor::make(like->storage->device(), output_dtype(info, like->dtype), like->sizes);
  if (like->count > 0) run_fast(op, info, *like, inputs, out);
}

/// positive(), and conj() of real numbers, compute nothing.
bool is_identity(OpId op, const Tensor& x) {
  return op == OpId::positive ? contains(kInfos[static_cast<int>(op)].dtypes, x.dtype())
                              : op == OpId::conj && !x.is_complex();
}

}  // namespace

namespace ops {

const OpInfo& op_info(OpId op) noexcept { return kInfos[static_cast<int>(op)]; }
std::span<const OpInfo> all_ops() noexcept {
  return std::span(kInfos).first(static_cast<std::size_t>(OpId::where) + 1);
}

void elementwise_into(Tensor& out, OpId op, std::span<const Operand* const> inputs) {
  static_cast<void>(out.state());  // Error unless there is a tensor
  compute(op, inputs, out);
}

void require_in_place(OpId op, const Tensor& self) {
  if (kInfos[static_cast<int>(op)].result == Result::real && self.is_complex()) [[unlikely]]
    throw Error(std::string("In-place ") + kInfos[static_cast<int>(op)].name +
                " is not supported for complex tensors.");
}

Tensor elementwise(OpId op, std::span<const Operand* const> inputs) {
  if (op == OpId::positive || op == OpId::conj) [[unlikely]] {
    const Tensor* const x = inputs[0]->tensor();
    if (x != nullptr && x->defined() && is_identity(op, *x)) return *x;
  }
  Tensor out;
  compute(op, inputs, out);
  return out;
}

Tensor elementwise(OpId op, std::span<const Operand* const> inputs, Tensor* out) {
  if (out == nullptr) return elementwise(op, inputs);
  elementwise_into(*out, op, inputs);
  return *out;
}

}  // namespace ops

namespace {

template <class... Inputs>
Tensor call(OpId op, const Inputs&... inputs) {
  const std::array<const Operand*, sizeof...(Inputs)> list{&inputs...};
  return ops::elementwise(op, list);
}

template <class... Inputs>
Tensor& call_into(Tensor& out, OpId op, const Inputs&... inputs) {
  const std::array<const Operand*, sizeof...(Inputs)> list{&inputs...};
  ops::elementwise_into(out, op, list);
  return out;
}

}  // namespace

// clang-format off
#define EMBER_UNARY(name, ...)                                                                     \
  Tensor name(const Tensor& x) { return call(OpId::name, Operand(x)); }                            \
  Tensor& name##_out(Tensor& out, const Tensor& x) { return call_into(out, OpId::name, Operand(x)); } \
  Tensor Tensor::name() const { return call(OpId::name, Operand(*this)); }                         \
  Tensor& Tensor::name##_() const {                                                                \
    ops::require_in_place(OpId::name, *this);                                                      \
    return call_into(self(), OpId::name, Operand(*this));                                          \
  }
#define EMBER_BINARY(name, ...)                                                                    \
  Tensor name(const Operand& x, const Operand& y) { return call(OpId::name, x, y); }               \
  Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y) { return call_into(out, OpId::name, x, y); } \
  Tensor Tensor::name(const Operand& y) const { return call(OpId::name, Operand(*this), y); }      \
  Tensor& Tensor::name##_(const Operand& y) const { return call_into(self(), OpId::name, Operand(*this), y); }
#define EMBER_TERNARY(name, ...)                                                                   \
  Tensor name(const Operand& x, const Operand& y, const Operand& z) { return call(OpId::name, x, y, z); } \
  Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z) { return call_into(out, OpId::name, x, y, z); } \
  Tensor Tensor::name(const Operand& y, const Operand& z) const { return call(OpId::name, Operand(*this), y, z); } \
  Tensor& Tensor::name##_(const Operand& y, const Operand& z) const { return call_into(self(), OpId::name, Operand(*this), y, z); }
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
// clang-format on

Tensor Tensor::mH() const { return mT().conj(); }

Tensor Tensor::H() const {
  if (dim() != 0 && dim() != 2)
    throw Error("tensor.H is only supported on matrices (2-D tensors). Got " +
                std::to_string(dim()) + "-D tensor.");
  return mH();
}

Tensor where(const Tensor& condition, const Operand& x, const Operand& y) {
  return call(OpId::where, Operand(condition), x, y);
}
Tensor& where_out(Tensor& out, const Tensor& condition, const Operand& x, const Operand& y) {
  return call_into(out, OpId::where, Operand(condition), x, y);
}

// Not const, as assignment is not.
// NOLINTBEGIN(readability-make-member-function-const)
Tensor& Tensor::operator+=(const Operand& other) { return add_(other); }
Tensor& Tensor::operator-=(const Operand& other) { return sub_(other); }
Tensor& Tensor::operator*=(const Operand& other) { return mul_(other); }
Tensor& Tensor::operator/=(const Operand& other) { return div_(other); }
// NOLINTEND(readability-make-member-function-const)

}  // namespace ember::inline v0
