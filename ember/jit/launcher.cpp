#include "ember/jit/launcher.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace ember::inline v0::jit {
namespace {

constexpr std::int64_t kLargestOffset = std::numeric_limits<std::int32_t>::max();

/// Of a block that might have one for each thread, given how many blocks that would be. Several, as
/// long as all multiprocessors have work for a while.
unsigned packs_of_a_thread(std::int64_t blocks) {
  constexpr std::int64_t kManyBlocks = 8192;
  constexpr std::int64_t kMost = 4;
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks / kManyBlocks, 1, kMost));
}

bool is_flat(const Dims& dims) {
  return dims.count == 0 ||
         (dims.count == 1 && std::all_of(dims.stride.begin(), dims.stride.end(),
                                         [](const ops::DimStrides& s) { return s[0] == 1; }));
}

/// By how large the offsets are.
Layout layout_of(const Dims& dims) {
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

}  // namespace

NumberBytes bytes_of(const Scalar& number) {
  NumberBytes made;
  put_number(made.bytes, number);
  return made;
}

void plan(Plan& made, const Shape& sizes, std::span<const ops::PlanOperand> operands) {
  made.dims.stride.resize(operands.size());
  ops::merge_into(made.dims, sizes, operands);
  made.layout = is_flat(made.dims) ? Layout::flat : layout_of(made.dims);
}

void plan_rows(Plan& made, const Shape& sizes, std::span<const ops::PlanOperand> operands,
               std::int64_t length, std::int64_t count) {
  plan(made, sizes, operands);
  made.layout = layout_of(made.dims);
  made.length = length;
  made.count = count;
}

void plan_row(Plan& made, std::int64_t count, std::size_t operands) {
  made.dims.count = 1;
  made.dims.size[0] = count;
  made.dims.stride.resize(operands);
  for (ops::DimStrides& strides : made.dims.stride) strides[0] = 1;
  made.layout = Layout::flat;
}

Launcher::Launcher(const ops::Site& site, const driver::Kernel& kernel,
                   const CompiledKernel& compiled, std::span<const ops::PlanOperand> operands,
                   std::span<const NumberBytes> numbers)
    : site_(site), kernel_(kernel), compiled_(compiled), operands_(operands) {
  std::memset(arguments_.data(), 0, compiled.places.end);
  data_.resize(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) data_[k] = operands[k].data;
  for (std::size_t k = 0; k < numbers.size(); ++k)
    put(&arguments_[compiled.places.numbers + k * ArgumentPlaces::kNumberBytes], numbers[k]);
}

void Launcher::launch(const Dims& dims, int count) {
  if (count > ops::kLoopDims) {
    // The slowest dimension, one index at a time.
    const auto last = static_cast<std::size_t>(count - 1);
    const auto before = data_;
    for (std::int64_t i = 0; i < dims.size[last]; ++i) {
      for (std::size_t k = 0; k < data_.size(); ++k)
        data_[k] = static_cast<std::byte*>(before[k]) +
                   i * dims.stride[k][last] * static_cast<std::int64_t>(operands_[k].item);
      launch(dims, count - 1);
    }
    data_ = before;
    return;
  }
  const driver::CompiledHeader header = write_arguments(dims, count);
  const driver::Params params(arguments_.data(), compiled_.places.end,
                              driver::compiled_addresses(header));
  if (!cuda::accesses_wanted()) [[likely]]
    return ops::run(site_, kernel_, params);
  ops::run(site_, kernel_, params, accesses(dims, count));
}

driver::CompiledHeader Launcher::write_arguments(const Dims& dims, int count) {
  const ArgumentPlaces& places = compiled_.places;
  driver::CompiledHeader header;
  header.count = 1;
  for (int d = 0; d < count; ++d) header.count *= dims.size[static_cast<std::size_t>(d)];
  const std::size_t pack = pack_of(compiled_.instance);
  const RowPlan& rows = compiled_.instance.rows;
  header.threads = rows.used ? rows.threads : driver::kCompiledThreads;
  header.per_block =
      rows.used ? header.threads / rows.lanes
                : header.threads * static_cast<unsigned>(pack) *
                      (flat() ? packs_of_a_thread(header.count /
                                                  static_cast<std::int64_t>(header.threads * pack))
                              : 1);
  header.dims = flat() ? 0 : count;
  header.packed = 1;
  header.operands = static_cast<std::int32_t>(data_.size());
  for (std::size_t k = 0; k < data_.size(); ++k)
    if (reinterpret_cast<std::uintptr_t>(data_[k]) % (operands_[k].item * pack) != 0)
      header.packed = 0;
  put(&arguments_[0], header);
  std::memcpy(&arguments_[places.data], data_.data(), data_.size() * sizeof(void*));
  if (flat()) return header;
  if (rows.used) put(&arguments_[places.length], std::array{length_, row_count_});
  for (int d = 0; d < count; ++d) {
    const auto i = static_cast<std::size_t>(d);
    put_index(places.sizes, i, dims.size[i]);
    for (std::size_t k = 0; k < data_.size(); ++k)
      put_index(places.strides, k * ops::kLoopDims + i, dims.stride[k][i]);
  }
  return header;
}

void Launcher::put_index(std::size_t at, std::size_t i, std::int64_t value) {
  if (compiled_.instance.layout == Layout::wide)
    put(&arguments_[at + i * sizeof value], value);
  else
    put(&arguments_[at + i * sizeof(std::int32_t)], static_cast<std::int32_t>(value));
}

std::span<const cuda::Access> Launcher::accesses(const Dims& dims, int count) {
  accesses_.clear();
  const auto outer = static_cast<std::size_t>(count);
  const RowPlan& rows = compiled_.instance.rows;
  const std::size_t used = outer + (rows.used ? 1 : 0);
  extents_.clear();
  extents_.reserve(rows.used ? used * (data_.size() + 1) : 0);
  // The dimensions of the rows, and behind them that of a row's elements.
  const auto with_row = [&](std::span<const std::int64_t> those, std::int64_t of_row) {
    if (!rows.used) return those;
    const std::size_t begin = extents_.size();
    extents_.insert(extents_.end(), those.begin(), those.end());
    extents_.push_back(of_row);
    return std::span<const std::int64_t>(extents_).subspan(begin);
  };
  const std::span<const std::int64_t> sizes = with_row(std::span(dims.size).first(outer), length_);
  for (std::size_t k = 0; k < data_.size(); ++k) {
    const std::span<const std::int64_t> strides =
        with_row(std::span(dims.stride[k]).first(outer), rows.is_once(k) ? 0 : 1);
    std::int64_t last = 0;
    for (std::size_t d = 0; d < used; ++d) last += (sizes[d] - 1) * strides[d];
    cuda::Access access{data_[k], (static_cast<std::size_t>(last) + 1) * operands_[k].item,
                        k < compiled_.instance.outputs};
    if (!flat()) {
      access.item = static_cast<std::uint32_t>(operands_[k].item);
      access.sizes = sizes;
      access.strides = strides;
    }
    accesses_.push_back(access);
  }
  return accesses_;
}

}  // namespace ember::inline v0::jit
