#include "ember/ops/checks.h"

#include <algorithm>
#include <string_view>

#include "ember/base/embedding.h"
#include "ember/base/error.h"

namespace ember::inline v0::ops {
namespace {

/// Bytes from the first to behind the last element.
std::pair<std::uintptr_t, std::uintptr_t> range(const Tensor& tensor) {
  std::int64_t last = 0;
  for (int i = 0; i < tensor.dim(); ++i) last += (tensor.sizes()[i] - 1) * tensor.strides()[i];
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.address());
  return {begin, begin + static_cast<std::uintptr_t>(last + 1) * tensor.element_size()};
}

/// Whether that many elements have room in the output's memory, from its first element on. A view
/// without elements may lie behind its end.
bool has_room(const Tensor& out, std::uint64_t elements) {
  const std::uint64_t held = out.storage()->bytes() / out.element_size();
  const auto first = static_cast<std::uint64_t>(out.storage_offset());
  return first <= held && elements <= held - first;
}

/// Gives an output other sizes: in its own memory, from its first element on, if there is room, as
/// torch does; else in new memory. Also where an input lies in the same memory, which the output
/// may reach now.
void resize(Tensor& out, const Shape& sizes, std::span<const Tensor* const> inputs,
            const Shape* strides, Resizing resizing) {
  if (out.numel() != 0 && resizing == Resizing::warns)
    warn(Warning::user, "An output with one or more elements was resized since it had shape " +
                            out.sizes().str() +
                            ", which does not match the required output shape " + sizes.str() +
                            ". Pass an output of the right shape, or one without elements.");
  const bool alone = std::none_of(inputs.begin(), inputs.end(), [&](const Tensor* input) {
    return input->storage() == out.storage();
  });
  if (alone && has_room(out, static_cast<std::uint64_t>(element_count(sizes))))
    out.set_(Tensor(out.storage(), out.dtype(), sizes,
                    strides != nullptr ? *strides : contiguous_strides(sizes),
                    out.storage_offset()));
  else
    out.set_(Tensor::make(out.device(), out.dtype(), sizes, strides));
}

}  // namespace

void require_same_device(Device first, Device second) {
  if (first != second) [[unlikely]]
    throw Error("Expected all tensors to be on the same device, but found at least two devices, " +
                first.str() + " and " + second.str() + "!");
}

void require_no_internal_overlap(const Tensor& out) {
  if (out.is_contiguous()) return;
  for (int i = 0; i < out.dim(); ++i)
    if (out.sizes()[i] > 1 && out.strides()[i] == 0)
      throw Error(
          "unsupported operation: more than one element of the written-to tensor refers to a "
          "single memory location. Please clone() the tensor before performing the operation.");
}

void require_no_partial_overlap(const Tensor& out, const Tensor& input) {
  if (out.storage() != input.storage() || out.numel() == 0 || input.numel() == 0) return;
  if (out.address() == input.address() && out.dtype() == input.dtype() &&
      out.sizes() == input.sizes() && out.strides() == input.strides())
    return;
  // Views with gaps may lie between each other; whether they do is too hard a question.
  if (!is_dense(out.sizes(), out.strides()) || !is_dense(input.sizes(), input.strides())) return;
  const auto a = range(out);
  const auto b = range(input);
  if (a.first < b.second && b.first < a.second)
    throw Error(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation.");
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  if (a.address() == b.address()) return true;
  if (!is_dense(a.sizes(), a.strides()) || !is_dense(b.sizes(), b.strides())) return false;
  const auto x = range(a);
  const auto y = range(b);
  return x.first < y.second && y.first < x.second;
}

void require_no_overlap(const Tensor& out, const Tensor& input) {
  if (overlap(out, input))
    throw Error(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation.");
}

void require_apart(const Tensor& first, const Tensor& second) {
  if (first.is(second) || overlap(first, second))
    throw Error(
        "unsupported operation: some elements of two outputs refer to a single memory location. "
        "Please give each output memory of its own.");
}

void require_output(const Tensor& out, Device device, const Shape& sizes, Dtype dtype,
                    std::span<const Tensor* const> inputs) {
  require_same_device(device, out.device());
  if (!can_cast(dtype, out.dtype()))
    throw Error(std::string("result type ") + legacy_name(dtype) +
                " can't be cast to the desired output type " + legacy_name(out.dtype()));
  if (out.sizes() == sizes) return;
  for (const Tensor* input : inputs)
    if (out.is(*input) || overlap(out, *input))
      throw Error("output with shape " + out.sizes().str() + " doesn't match the result's shape " +
                  sizes.str() + ", and can't be resized: it shares memory with an input");
}

void prepare_output(Tensor& out, Device device, const Shape& sizes, Dtype dtype,
                    std::span<const Tensor* const> inputs, const Shape* strides,
                    Resizing resizing) {
  require_output(out, device, sizes, dtype, inputs);
  if (out.sizes() == sizes) return;
  resize(out, sizes, inputs, strides, resizing);
}

void require_dtype(const Tensor& out, Dtype dtype) {
  if (out.dtype() != dtype)
    throw Error(std::string("Expected out tensor to have dtype ") + dtype_name(dtype) +
                ", but got " + dtype_name(out.dtype()) + " instead");
}

Tensor& put_result(Tensor& out, const Tensor& result, Resizing resizing) {
  require_dtype(out, result.dtype());
  require_same_device(result.device(), out.device());
  if (out.numel() == 0 && out.sizes() != result.sizes() &&
      !has_room(out, static_cast<std::uint64_t>(result.numel()))) {
    out.set_(result);
    return out;
  }
  prepare_output(out, result.device(), result.sizes(), result.dtype(), {}, nullptr, resizing);
  require_no_internal_overlap(out);
  out.copy_(result);
  return out;
}

void throw_not_implemented(const char* op, Dtype dtype) {
  const std::string_view name = op;
  if (dtype == Dtype::bool_ && name == "sub")
    throw Error(
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
        "`logical_xor()` operator instead.");
  if (dtype == Dtype::bool_ && name == "neg")
    throw Error(
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
  throw NotImplementedError(std::string("\"") + op + "\" not implemented for '" +
                            legacy_name(dtype) + "'");
}

Device resolve(Device device) {
  if (!device.is_cuda()) return Device(Device::Type::cpu);
  return Device(Device::Type::cuda, cuda::DeviceArg(device).existing());
}

}  // namespace ember::inline v0::ops
