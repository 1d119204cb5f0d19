#include "ember/ops/plan.h"

#include <algorithm>
#include <limits>

#include "ember/ops/run.h"

namespace ember::inline v0::ops {
namespace {

constexpr std::int64_t kMaxOffset = std::numeric_limits<std::int32_t>::max();

/// Launches the part of a plan that begins at the loop's data pointers.
class Cutter {
 public:
  Cutter(const Site& site, const driver::Kernel& kernel, std::span<const PlanOperand> operands,
         Loop& loop) noexcept
      : site_(site), kernel_(kernel), operands_(operands), loop_(loop) {}

  void cut(const Dims& dims) {
    if (try_flat(dims)) return;
    if (dims.count <= kLoopDims && fits(dims)) {
      loop_.count = 1;
      loop_.dims = static_cast<std::int8_t>(dims.count);
      for (int d = 0; d < dims.count; ++d) {
        const auto i = static_cast<std::size_t>(d);
        loop_.size[d] = static_cast<std::uint32_t>(dims.size[i]);
        loop_.count *= dims.size[i];
        for (std::size_t k = 0; k < operands_.size(); ++k)
          loop_.stride[k][d] = static_cast<std::int32_t>(dims.stride[k][i]);
      }
      launch();
      return;
    }
    if (dims.count > kLoopDims) {
      // The slowest dimension, one index at a time.
      Dims inner = dims;
      --inner.count;
      const auto last = static_cast<std::size_t>(inner.count);
      each_at(last, dims, dims.size[last], 1, [&](std::int64_t) { cut(inner); });
      return;
    }
    // Halves of the dimension that spans most, until offsets fit.
    std::size_t widest = 0;
    std::int64_t most = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims.count); ++d) {
      if (dims.size[d] < 2) continue;
      std::int64_t reach = dims.size[d];
      for (std::size_t k = 0; k < operands_.size(); ++k)
        reach = std::max(reach, (dims.size[d] - 1) * dims.stride[k][d]);
      if (reach > most) most = reach, widest = d;
    }
    const std::int64_t half = (dims.size[widest] + 1) / 2;
    each_at(widest, dims, 2, half, [&](std::int64_t i) {
      Dims part = dims;
      part.size[widest] = i == 0 ? half : dims.size[widest] - half;
      if (part.size[widest] == 1) drop(part, widest);  // its stride may fit nowhere
      cut(part);
    });
  }

 private:
  void drop(Dims& dims, std::size_t dim) const noexcept {
    --dims.count;
    for (std::size_t d = dim; d < static_cast<std::size_t>(dims.count); ++d) {
      dims.size[d] = dims.size[d + 1];
      for (std::size_t k = 0; k < operands_.size(); ++k) dims.stride[k][d] = dims.stride[k][d + 1];
    }
  }

  bool try_flat(const Dims& dims) {
    if (dims.count > 1) return false;
    const bool point = dims.count == 0 || dims.size[0] == 1;
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      const std::int64_t stride = point ? 1 : dims.stride[k][0];
      if (stride != 1 && (k == 0 || stride != 0)) return false;
      loop_.stride[k][0] = static_cast<std::int32_t>(stride);
    }
    loop_.dims = 0;
    loop_.count = dims.count == 0 ? 1 : dims.size[0];
    launch();
    return true;
  }

  bool fits(const Dims& dims) const noexcept {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims.count); ++d)
      if (__builtin_mul_overflow(count, dims.size[d], &count) || count > kMaxOffset) return false;
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      std::int64_t last = 0;
      for (std::size_t d = 0; d < static_cast<std::size_t>(dims.count); ++d) {
        if (dims.stride[k][d] > kMaxOffset) return false;
        last += (dims.size[d] - 1) * dims.stride[k][d];
        if (last > kMaxOffset) return false;
      }
    }
    return true;
  }

  template <class Use>
  void each_at(std::size_t dim, const Dims& dims, std::int64_t count, std::int64_t step,
               const Use& use) {
    void* before[kLoopOperands];
    std::copy_n(loop_.data, operands_.size(), before);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < operands_.size(); ++k)
        if (before[k] != nullptr)
          loop_.data[k] =
              static_cast<std::byte*>(before[k]) +
              i * step * dims.stride[k][dim] * static_cast<std::int64_t>(operands_[k].item);
      use(i);
    }
    std::copy_n(before, operands_.size(), loop_.data);
  }

  void launch() {
    if (!cuda::accesses_wanted()) [[likely]] {
      run(site_, kernel_, loop_);
      return;
    }
    std::array<cuda::Access, kLoopOperands> accesses;
    std::array<std::int64_t, kLoopDims> sizes;
    std::array<std::array<std::int64_t, kLoopDims>, kLoopOperands> strides;
    const auto dims = static_cast<std::size_t>(static_cast<int>(loop_.dims));
    std::copy_n(loop_.size, dims, sizes.begin());
    std::size_t count = 0;
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      if (operands_[k].sizes == nullptr) continue;
      cuda::Access& access = accesses[count++];
      const auto item = static_cast<std::uint32_t>(operands_[k].item);
      access = {loop_.data[k], loop_.span(static_cast<int>(k)) * item, k == 0};
      access.argument = operands_[k].argument;
      if (loop_.flat()) continue;
      std::copy_n(loop_.stride[k], dims, strides[k].begin());
      access.item = item;
      access.sizes = std::span(sizes).first(dims);
      access.strides = std::span(strides[k]).first(dims);
    }
    run(site_, kernel_, loop_, std::span(accesses).first(count));
  }

  Site site_;
  const driver::Kernel& kernel_;
  std::span<const PlanOperand> operands_;
  Loop& loop_;
};

}  // namespace

Dims merge_dims(const Shape& sizes, std::span<const PlanOperand> operands) {
  Dims dims;
  merge_into(dims, sizes, operands);
  return dims;
}

void run_loop(Device device, const driver::Kernel& kernel, const Shape& sizes,
              std::span<const PlanOperand> operands, Loop& loop, driver::PeerMemory peer) {
  for (const std::int64_t size : sizes)
    if (size == 0) return;
  std::int8_t numbers = 0;
  const Site site{device, operands[0].epoch, peer};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].epoch != site.epoch && operands[k].epoch != driver::kAnyEpoch) [[unlikely]]
      refuse_epochs(device);
    loop.data[k] = operands[k].data;
    loop.number[k] = operands[k].sizes == nullptr ? numbers++ : std::int8_t{-1};
  }
  Cutter(site, kernel, operands, loop).cut(merge_dims(sizes, operands));
}

}  // namespace ember::inline v0::ops
