#include "ember/tensor/tensor.h"

#include <numeric>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/recycled.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/runtime.h"
#include "ember/tensor/accesses.h"

namespace ember::inline v0 {
namespace {

/// The bytes that a view needs of its storage; UINT64_MAX if that is no number of 64 bits.
std::uint64_t extent(Dtype dtype, const Shape& sizes, const Shape& strides, std::int64_t offset,
                     std::int64_t count) {
  if (count == 0) return 0;
  std::int64_t last = offset;
  bool overflow = false;
  for (int i = 0; i < sizes.size(); ++i) {
    std::int64_t step = 0;
    overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  std::uint64_t bytes = 0;
  overflow |=
      __builtin_mul_overflow(static_cast<std::uint64_t>(last) + 1, item_size(dtype), &bytes);
  return overflow ? UINT64_MAX : bytes;
}

Ref<TensorState> new_state() {
  return Ref<TensorState>::first(new (Recycled<TensorState>::take()) TensorState);
}

Ref<TensorState> make_state(Ref<Storage> storage, Dtype dtype, const Shape& sizes,
                            const Shape& strides, std::int64_t offset) {
  const std::int64_t count = element_count(sizes);
  Ref<TensorState> made = new_state();
  made->count = count;
  made->data = count == 0 || storage->data() == nullptr
                   ? nullptr
                   : static_cast<std::byte*>(storage->data()) +
                         offset * static_cast<std::int64_t>(item_size(dtype));
  made->storage = std::move(storage);
  made->offset = offset;
  made->dtype = dtype;
  made->contiguous = is_contiguous(sizes, strides);
  made->sizes = sizes;
  made->strides = strides;
  return made;
}

/// Elements that are yet to be computed have no memory: views need it.
void require_memory(const TensorState& state) {
  if (state.data == nullptr && state.count > 0) [[unlikely]]
    state.storage->require_alive();
}

/// Everything but the count of owners.
void assign(TensorState& to, const TensorState& from) {
  to.storage = from.storage;
  to.data = from.data;
  to.offset = from.offset;
  to.count = from.count;
  to.dtype = from.dtype;
  to.contiguous = from.contiguous;
  to.sizes = from.sizes;
  to.strides = from.strides;
}

}  // namespace

bool is_contiguous(const Shape& sizes, const Shape& strides) noexcept {
  std::uint64_t next = 1;  // may overflow beside a size of zero
  bool follows = true;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    follows = follows && static_cast<std::uint64_t>(strides[i]) == next;
    next *= static_cast<std::uint64_t>(sizes[i]);
  }
  return follows;
}

bool is_dense(const Shape& sizes, const Shape& strides) noexcept {
  std::array<int, kMaxDims> order{};
  int dims = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] > 1) order[static_cast<std::size_t>(dims++)] = i;
  }
  std::sort(order.begin(), order.begin() + dims,
            [&](int a, int b) { return strides[a] < strides[b]; });
  std::int64_t next = 1;
  for (int i = 0; i < dims; ++i) {
    const int dim = order[static_cast<std::size_t>(i)];
    if (strides[dim] != next) return false;
    next *= sizes[dim];
  }
  return true;
}

Tensor::Tensor(Ref<Storage> storage, Dtype dtype, const Shape& sizes, const Shape& strides,
               std::int64_t offset) {
  if (!storage) throw ValueError("Tensor: storage is null, expected one that exists");
  if (sizes.size() != strides.size())
    throw Error("mismatch in length of strides and shape: " + strides.str() + " and " +
                sizes.str());
  const std::int64_t count = element_count(sizes);
  for (const std::int64_t stride : strides)
    if (stride < 0)
      throw Error("as_strided: Negative strides are not supported at the moment, got strides: " +
                  strides.str());
  if (offset < 0) throw Error("Tensor: invalid storage offset " + std::to_string(offset));
  const std::uint64_t bytes = extent(dtype, sizes, strides, offset, count);
  if (bytes > storage->bytes())
    throw Error("setStorage: sizes " + sizes.str() + ", strides " + strides.str() +
                ", storage offset " + std::to_string(offset) + ", and itemsize " +
                std::to_string(item_size(dtype)) + " requiring a storage size of " +
                std::to_string(bytes) + " are out of bounds for storage of size " +
                std::to_string(storage->bytes()));
  state_ = make_state(std::move(storage), dtype, sizes, strides, offset);
}

Tensor Tensor::make(Device device, Dtype dtype, const Shape& sizes, const Shape* dense_strides,
                    bool pinned) {
  const std::int64_t count = element_count(sizes);
  Ref<Storage> storage = Storage::allocate(device, byte_count(count, dtype), pinned);
  Ref<TensorState> made = new_state();
  made->count = count;
  made->data = storage->data();
  made->storage = std::move(storage);
  made->dtype = dtype;
  made->sizes = sizes;
  if (dense_strides == nullptr) {
    contiguous_strides(sizes, made->strides);
  } else {
    made->strides = *dense_strides;
    made->contiguous = ember::is_contiguous(sizes, *dense_strides);
  }
  return Tensor(std::move(made));
}

void TensorState::dispose(TensorState* state) noexcept {
  state->~TensorState();
  Recycled<TensorState>::give(state);
}

Ref<TensorState> Tensor::copy_state() const {
  const TensorState& from = state();
  require_memory(from);
  Ref<TensorState> made = new_state();
  assign(*made, from);
  return made;
}

Tensor Tensor::make_view(const Shape& sizes, const Shape& strides, std::int64_t offset) const {
  require_memory(state());
  return Tensor(make_state(state().storage, state().dtype, sizes, strides, offset));
}

Tensor& Tensor::set_(const Tensor& other) const {
  const TensorState& source = other.state();
  if (source.dtype != dtype() || other.device() != device())
    throw Error(std::string("set_: the source is ") + dtype_name(source.dtype) + " on " +
                other.device().str() + ", expected " + dtype_name(dtype()) + " on " +
                device().str() + " as the tensor has");
  // What was put off is for the memory that both have now.
  cuda::settle_deferred();
  assign(*state_, other.state());
  return self();
}

Tensor& Tensor::set_data(const Tensor& other) const {
  const TensorState& source = other.state();
  cuda::settle_deferred();  // as in set_()
  assign(*state_, source);
  return self();
}

void Tensor::throw_undefined() {
  throw Error("this Tensor is undefined: it was made without a value, expected one with elements");
}

void Tensor::require_dtype(Dtype expected) const {
  cuda::settle_deferred();  // somebody asks for the elements
  if (dtype() != expected)
    throw TypeError(std::string("data: the tensor's elements are ") + dtype_name(dtype()) +
                    ", asked for as " + dtype_name(expected));
}

void Tensor::require_accessible(int dims) const {
  cuda::settle_deferred();
  if (is_cuda())
    throw Error("accessor: the tensor is on " + device().str() +
                ", expected one on the CPU, such as x.cpu()");
  if (dim() != dims)
    throw Error("accessor: the tensor has " + std::to_string(dim()) + " dimensions, expected " +
                std::to_string(dims));
}

std::int64_t Tensor::size(std::int64_t dim) const {
  if (sizes().empty())
    throw IndexError("Dimension specified as " + std::to_string(dim) +
                     " but tensor has no dimensions");
  return sizes()[wrap_dim(dim, this->dim())];
}

std::int64_t Tensor::stride(std::int64_t dim) const {
  if (sizes().empty())
    throw IndexError("Dimension specified as " + std::to_string(dim) +
                     " but tensor has no dimensions");
  return strides()[wrap_dim(dim, this->dim())];
}

void Tensor::record_stream(const cuda::Stream& stream) const {
  if (!is_cuda() && !is_pinned())
    throw Error("record_stream: expected a CUDA tensor or one in pinned memory, but got one on " +
                device().str());
  require_memory(state());
  storage()->record_stream(stream);
}

void* Tensor::data_ptr() const {
  cuda::Batch::hand_over();
  if (cuda::observed() && is_pinned()) [[unlikely]]
    ops::tell_exposed("data_ptr", *this);
  return address();
}

bool Tensor::is_pinned() const {
  if (is_cuda()) return false;
  if (storage()->from_pinned_allocator()) return true;
  driver::Driver* machine = cuda::driver_if_made();
  if (machine == nullptr || address() == nullptr) return false;
  driver::PointerInfo info;
  return machine->pointer_info(address(), info).ok() &&
         info.kind == driver::PointerInfo::Kind::pinned;
}

}  // namespace ember::inline v0
