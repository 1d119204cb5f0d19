#include "ember/ops/elementwise.h"

#include <string>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/plan.h"

namespace ember {
namespace {

using ops::OpId;

constexpr int kMaxInputs = ops::kLoopOperands - 1;

constexpr OpInfo kInfos[] = {
#define EMBER_UNARY(name, ...) elementwise::name::info,
#define EMBER_BINARY(name, ...) elementwise::name::info,
#define EMBER_TERNARY(name, ...) elementwise::name::info,
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
    {"where", 3, dtypes::any, Result::same, 0, "x where the condition is true, y elsewhere."},
};

/// A number or a tensor without dimensions yields to tensors with dimensions of the same kind.
/// Between kinds (integer, floating, complex) the higher one wins.
int kind(Dtype dtype) {
  if (dtype == Dtype::bool_) return 0;
  if (is_integral(dtype)) return 1;
  return ember::is_floating_point(dtype) ? 2 : 3;
}

struct Promotion {
  std::optional<Dtype> dims;     ///< of tensors with dimensions
  std::optional<Dtype> points;   ///< of tensors without
  std::optional<Dtype> numbers;  ///< of numbers

  static void join(std::optional<Dtype>& into, Dtype dtype) {
    into = into ? promote_types(*into, dtype) : dtype;
  }
  void add(const Operand& operand) {
    if (const Tensor* tensor = operand.tensor()) {
      join(tensor->dim() > 0 ? dims : points, tensor->dtype());
      return;
    }
    const Dtype dtype = operand.number().dtype();
    join(numbers, dtype == Dtype::float64      ? default_dtype()
                  : dtype == Dtype::complex128 ? complex_dtype(default_dtype())
                                               : dtype);
  }
  static std::optional<Dtype> combine(std::optional<Dtype> higher, std::optional<Dtype> lower) {
    if (!higher) return lower;
    if (!lower || kind(*lower) <= kind(*higher)) return higher;
    // A complex number beside floating-point elements: their width stays.
    if (is_complex_dtype(*lower) && ember::is_floating_point(*higher))
      return complex_dtype(*higher);
    return promote_types(*higher, *lower);
  }
  Dtype result() const { return combine(combine(dims, points), numbers).value_or(default_dtype()); }
};

Dtype output_dtype(const OpInfo& info, Dtype computed) {
  switch (info.result) {
    case Result::boolean: return Dtype::bool_;
    case Result::real: return real_dtype(computed);
    case Result::same: break;
  }
  return computed;
}

/// The strides of a new output: those of the inputs if they all lie alike without gaps.
Shape output_strides(const Shape& sizes, std::span<const Tensor* const> inputs) {
  const Tensor* pattern = nullptr;
  for (const Tensor* input : inputs) {
    if (input == nullptr || input->dim() == 0) continue;
    if (input->sizes() != sizes) return contiguous_strides(sizes);
    if (pattern != nullptr && pattern->strides() != input->strides())
      return contiguous_strides(sizes);
    pattern = input;
  }
  if (pattern == nullptr || pattern->is_contiguous() ||
      !is_dense(pattern->sizes(), pattern->strides()))
    return contiguous_strides(sizes);
  return pattern->strides();
}

/// The inputs of one call, in the form that the kernel wants.
struct Inputs {
  std::array<Tensor, kMaxInputs> converted;         ///< owns what had to be converted
  std::array<const Tensor*, kMaxInputs> tensors{};  ///< null: a number
  std::array<Scalar, kMaxInputs> numbers;
};

/// Numbers that stand for elements have to be some; those that are only computed with need not: an
/// integer wraps around then, a 16-bit float becomes what the wider one is rounded to.
bool takes_elements(OpId op, Dtype computed) {
  switch (op) {
    case OpId::where:
    case OpId::clamp:
    case OpId::maximum:
    case OpId::minimum:
    case OpId::lerp:
    case OpId::addcmul:
    case OpId::addcdiv: return true;
    case OpId::pow: return is_integral(computed);
    default: return false;
  }
}

void require_all_fit(std::span<const Operand* const> inputs, Dtype dtype) {
  for (const Operand* input : inputs)
    if (input->tensor() == nullptr) require_fits(input->number(), dtype);
}

/// A number as T is computed with. Beside elements it is compared as an element would be: 0.1
/// equals the 16-bit float nearest to it.
template <class T>
Compute<T> computed_number(const OpInfo& info, const Scalar& number) {
  if constexpr (!std::is_same_v<T, Compute<T>>)
    if (info.result == Result::boolean) return convert<Compute<T>>(number.to<T>());
  return number.to<Compute<T>>();
}

void put_number(ops::Loop& loop, int slot, const OpInfo& info, const Scalar& number, Dtype stored,
                bool as_stored) {
  with_type(stored, [&]<class T>() {
    const auto put = [&](auto value) { std::memcpy(loop.numbers[slot], &value, sizeof value); };
    if (as_stored)
      put(number.to<T>());
    else
      put(computed_number<T>(info, number));
  });
}

/// What most calls are, without the questions that they don't raise: tensors of one shape without
/// gaps, of one type and on one device, with numbers that change nothing, into a new tensor or one
/// of that kind. False, and nothing done, for all others.
bool run_plain(OpId op, const OpInfo& info, std::span<const Operand* const> inputs, Tensor* out,
               Tensor& made) {
  const TensorState* first = nullptr;
  ops::Loop loop;
  std::int8_t numbers = 0;
  Dtype number = Dtype::bool_;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor* tensor = inputs[k]->tensor();
    if (tensor == nullptr) {
      if (numbers == 2) return false;
      number = std::max(number, inputs[k]->number().dtype());
      loop.number[k + 1] = numbers++;
      loop.data[k + 1] = nullptr;
      loop.stride[k + 1][0] = 0;
      continue;
    }
    const TensorState& state = tensor->state();
    if (!state.contiguous) return false;
    if (first == nullptr)
      first = &state;
    else if (state.dtype != first->dtype || state.storage->device() != first->storage->device() ||
             state.sizes != first->sizes)
      return false;
    loop.number[k + 1] = -1;
    loop.data[k + 1] = state.data;
    loop.stride[k + 1][0] = 1;
  }
  if (first == nullptr || !contains(info.dtypes, first->dtype)) return false;
  const Dtype dtype = first->dtype;
  if (numbers > 0) {
    if (kind(number) > kind(dtype)) return false;
    if (takes_elements(op, dtype)) require_all_fit(inputs, dtype);
  }
  const Dtype result = info.result == Result::same ? dtype : output_dtype(info, dtype);
  const Device device = first->storage->device();
  if (out != nullptr) {
    const TensorState& state = out->state();
    if (state.dtype != result || !state.contiguous || state.storage->device() != device ||
        state.sizes != first->sizes)
      return false;
    // The same elements are no conflict, other parts of the same memory may be.
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (const Tensor* tensor = inputs[k]->tensor())
        if (tensor->state().storage == state.storage &&
            (tensor->state().data != state.data || result != dtype))
          return false;
  }
  if (numbers > 0)
    with_type(dtype, [&]<class T>() {
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (loop.number[k + 1] >= 0) {
          const Compute<T> value = computed_number<T>(info, inputs[k]->number());
          std::memcpy(loop.numbers[loop.number[k + 1]], &value, sizeof value);
        }
    });
  if (out == nullptr) made = Tensor::make(device, result, first->sizes);
  const TensorState& target = (out == nullptr ? made : *out).state();
  if (target.count == 0) return true;
  loop.data[0] = target.data;
  loop.number[0] = -1;
  loop.stride[0][0] = 1;
  loop.count = target.count;
  loop.dims = 0;
  const std::array<std::size_t, 2> items{item_size(dtype), item_size(result)};
  ops::run_flat(device, ops::elementwise_kernel(op, dtype), loop, static_cast<int>(inputs.size()),
                items);
  return true;
}

/// All calls. Apart from the plain ones, which need none of its large frame.
[[gnu::noinline]] void run_any(OpId op, const OpInfo& info, std::span<const Operand* const> inputs,
                               Tensor* out, Tensor& made) {
  const bool chooses = op == OpId::where;  // whose first input is a condition
  Inputs in;
  std::optional<Device> device;
  bool device_settled = false;
  Shape sizes;
  Promotion promotion;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor* tensor = inputs[k]->tensor();
    if (!chooses || k > 0) promotion.add(*inputs[k]);
    in.tensors[k] = tensor;
    in.numbers[k] = inputs[k]->number();
    if (tensor == nullptr) continue;
    if (chooses && k == 0 && tensor->dtype() != Dtype::bool_ && tensor->dtype() != Dtype::uint8)
      throw Error(std::string("where expected condition to be a boolean tensor, but got a tensor "
                              "with dtype ") +
                  legacy_name(tensor->dtype()));
    // A CPU tensor without dimensions goes wherever the others are.
    const bool settles = tensor->dim() > 0 || tensor->is_cuda();
    if (!device || (settles && !device_settled))
      device = tensor->device();
    else if (settles)
      ops::require_same_device(*device, tensor->device());
    device_settled |= settles;
    if (tensor->dim() > 0)
      sizes = sizes.empty() ? tensor->sizes() : broadcast_shapes(sizes, tensor->sizes());
  }
  if (!device) device = out != nullptr ? out->device() : Device(Device::Type::cpu);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor* tensor = in.tensors[k];
    if (tensor == nullptr || tensor->device() == *device) continue;
    in.numbers[k] = tensor->item();
    in.tensors[k] = nullptr;
  }

  Dtype computed = promotion.result();
  if (!contains(info.dtypes, computed)) {
    if (!is_integral(computed) || !contains(info.dtypes, default_dtype()) ||
        contains(info.dtypes, Dtype::int64))
      ops::throw_not_implemented(info.name, computed);
    computed = default_dtype();
  }
  const Dtype result = output_dtype(info, computed);
  if (takes_elements(op, computed)) require_all_fit(inputs, computed);

  // An output of another type takes the result over from a temporary one.
  if (out != nullptr) {
    for (const Tensor* tensor : in.tensors)  // what is written in place has its shape
      if (tensor != nullptr && tensor->is(*out) && out->sizes() != sizes)
        throw Error("output with shape " + out->sizes().str() +
                    " doesn't match the broadcast shape " + sizes.str());
    ops::prepare_output(*out, *device, sizes, result);
    ops::require_no_internal_overlap(*out);
    for (const Tensor* tensor : in.tensors)
      if (tensor != nullptr) ops::require_no_partial_overlap(*out, *tensor);
    if (out->dtype() == result) made = *out;
  }
  if (!made.defined()) {
    const Shape strides = output_strides(sizes, in.tensors);
    made = Tensor::make(*device, result, sizes, &strides);
  }

  ops::Loop loop;
  std::array<ops::PlanOperand, ops::kLoopOperands> operands;
  operands[0] = {made.data_ptr(), &made.sizes(), &made.strides(), made.element_size()};
  int numbers = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Dtype wanted = chooses && k == 0 ? Dtype::bool_ : computed;
    const Tensor* tensor = in.tensors[k];
    if (tensor == nullptr) {
      if (numbers == 2) {
        // A loop has room for two numbers: the third lies in memory.
        in.converted[k] = Tensor::make(*device, wanted, {});
        in.converted[k].fill_(in.numbers[k]);
        in.tensors[k] = tensor = &in.converted[k];
      } else {
        put_number(loop, numbers++, info, in.numbers[k], wanted, chooses);
        continue;
      }
    } else if (tensor->dtype() != wanted) {
      in.converted[k] = tensor->to(wanted);
      in.tensors[k] = tensor = &in.converted[k];
    }
    operands[k + 1] = {tensor->data_ptr(), &tensor->sizes(), &tensor->strides(),
                       tensor->element_size()};
  }
  ops::run_loop(*device, ops::elementwise_kernel(op, computed), made.sizes(),
                std::span(operands).first(inputs.size() + 1), loop);
  if (out != nullptr && !made.is(*out)) out->copy_(made);
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
      is_integral(ops::operand_dtype(y)) && y.number().to<std::int64_t>() < 0)
    throw Error("Integers to negative integer powers are not allowed.");
}

/// Into `out` if that is not null, else into a new tensor, `made`.
void run(OpId op, std::span<const Operand* const> inputs, Tensor* out, Tensor& made) {
  const OpInfo& info = kInfos[static_cast<int>(op)];
  if (op == OpId::sub || op == OpId::pow) require_sense(op, *inputs[0], *inputs[1]);
  if (op == OpId::where || !run_plain(op, info, inputs, out, made))
    run_any(op, info, inputs, out, made);
}

}  // namespace

namespace ops {

const OpInfo& op_info(OpId op) noexcept { return kInfos[static_cast<int>(op)]; }
std::span<const OpInfo> all_ops() noexcept { return kInfos; }

void elementwise_into(Tensor& out, OpId op, std::span<const Operand* const> inputs) {
  Tensor made;
  run(op, inputs, &out, made);
}

Tensor elementwise(OpId op, std::span<const Operand* const> inputs) {
  Tensor made;
  run(op, inputs, nullptr, made);
  return made;
}

Tensor elementwise(OpId op, std::span<const Operand* const> inputs, Tensor* out) {
  if (out == nullptr) return elementwise(op, inputs);
  elementwise_into(*out, op, inputs);
  return *out;
}

}  // namespace ops

Dtype result_type(std::span<const Operand* const> inputs) {
  Promotion promotion;
  for (const Operand* input : inputs) promotion.add(*input);
  return promotion.result();
}

Dtype result_type(const Operand& x, const Operand& y) {
  return result_type(std::array<const Operand*, 2>{&x, &y});
}

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
  Tensor& Tensor::name##_() { return call_into(*this, OpId::name, Operand(*this)); }
#define EMBER_BINARY(name, ...)                                                                    \
  Tensor name(const Operand& x, const Operand& y) { return call(OpId::name, x, y); }               \
  Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y) { return call_into(out, OpId::name, x, y); } \
  Tensor Tensor::name(const Operand& y) const { return call(OpId::name, Operand(*this), y); }      \
  Tensor& Tensor::name##_(const Operand& y) { return call_into(*this, OpId::name, Operand(*this), y); }
#define EMBER_TERNARY(name, ...)                                                                   \
  Tensor name(const Operand& x, const Operand& y, const Operand& z) { return call(OpId::name, x, y, z); } \
  Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z) { return call_into(out, OpId::name, x, y, z); } \
  Tensor Tensor::name(const Operand& y, const Operand& z) const { return call(OpId::name, Operand(*this), y, z); } \
  Tensor& Tensor::name##_(const Operand& y, const Operand& z) { return call_into(*this, OpId::name, Operand(*this), y, z); }
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
// clang-format on

Tensor where(const Tensor& condition, const Operand& x, const Operand& y) {
  return call(OpId::where, Operand(condition), x, y);
}
Tensor& where_out(Tensor& out, const Tensor& condition, const Operand& x, const Operand& y) {
  return call_into(out, OpId::where, Operand(condition), x, y);
}

Tensor& Tensor::operator+=(const Operand& other) { return add_(other); }
Tensor& Tensor::operator-=(const Operand& other) { return sub_(other); }
Tensor& Tensor::operator*=(const Operand& other) { return mul_(other); }
Tensor& Tensor::operator/=(const Operand& other) { return div_(other); }

}  // namespace ember
