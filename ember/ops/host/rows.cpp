#include "ember/ops/host/rows.h"

#include <algorithm>
#include <cstring>

#include "ember/ops/functors.h"
#include "ember/ops/host/parts.h"
#include "ember/ops/host/vector.h"

namespace ember::inline v0::ops::host {
namespace {

using driver::HostLaunch;

/// Elements that are brought together at once.
constexpr std::int64_t kPackedPiece = 256;
/// Elements of a row from which on bringing them together pays.
constexpr std::int64_t kWorthPacking = 32;

/// Calls `body` with a zero of the type that has the bits of such an element.
template <class Body>
void with_bits(std::uint8_t item, const Body& body) {
  // NOLINTBEGIN(bugprone-branch-clone): their types differ
  switch (item) {
    case 1: return body(std::uint8_t());
    case 2: return body(std::uint16_t());
    case 4: return body(std::uint32_t());
    case 8: return body(std::uint64_t());
    default: return body(Bits128());
  }
  // NOLINTEND(bugprone-branch-clone)
}

void scatter(std::byte* out, std::ptrdiff_t stride, const std::byte* in, std::int64_t count,
             std::uint8_t item) {
  with_bits(item, [&](auto bits) {
    using T = decltype(bits);
    const T* const from = reinterpret_cast<const T*>(in);
    T* const to = reinterpret_cast<T*>(out);
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
  });
}

/// A loop on its way: where its operands are now.
class Walk {
 public:
  Walk(const Loop& loop, const RowKernel& kernel) : loop_(loop), kernel_(kernel) {}

  Status run(const HostLaunch& on) {
    if (!open(on)) return on.fault();
    if (loop_.flat()) {
      if (kernel_.widenings != nullptr)
        pieces(kWidenedPiece, 1, loop_.count);
      else
        row(1, loop_.count);
    } else if (is_transposed()) {
      each(2, [this] { kernel_.transpose(loop_, out_, in_[0].data); });
    } else {
      const std::ptrdiff_t out_stride = loop_.stride[0][0];
      const std::int64_t count = loop_.size[0];
      if (const std::int64_t piece = piece_of(out_stride, count); piece != 0)
        each(1, [=, this] { pieces(piece, out_stride, count); });
      else
        each(1, [=, this] { row(out_stride, count); });
    }
    return {};
  }

 private:
  bool open(const HostLaunch& on) {
    out_ = loop_.place(on, 0, static_cast<std::byte*>(loop_.data[0]), kernel_.items[0]);
    if (out_ == nullptr) return false;
    for (int k = 0; k < kernel_.inputs; ++k) {
      RowInput& in = in_[k];
      if (loop_.number[k + 1] >= 0) {
        std::memcpy(in.value, loop_.numbers[loop_.number[k + 1]], sizeof in.value);
        continue;
      }
      const auto operand = static_cast<std::size_t>(k) + 1;
      in.stride = loop_.stride[operand][0];
      in.data = loop_.place(on, k + 1, static_cast<const std::byte*>(loop_.data[operand]),
                            kernel_.items[operand]);
      if (in.data == nullptr) return false;
      loads_ |= in.stride == 0;
    }
    return true;
  }

  bool is_transposed() const {
    return kernel_.transpose != nullptr && loop_.dims > 1 && loop_.number[1] < 0 &&
           loop_.stride[0][0] == 1 && loop_.stride[1][0] > 1 && loop_.stride[1][1] == 1;
  }

  /// Calls `body()` for every row; one has the dimensions below `first`.
  template <class Body>
  void each(int first, const Body& body) {
    if (first >= loop_.dims) return body();
    const auto inner = static_cast<std::size_t>(first);
    const std::uint32_t count = loop_.size[inner];
    std::ptrdiff_t steps[kLoopOperands];
    for (std::size_t k = 0; k < kLoopOperands; ++k)
      steps[k] = std::ptrdiff_t{loop_.stride[k][inner]} * kernel_.items[k];
    std::uint32_t index[kLoopDims] = {};
    for (;;) {
      body();
      for (std::uint32_t i = 1; i < count; ++i) {
        move(steps);
        body();
      }
      // On to the next along the dimensions further out; those that are through begin again.
      std::ptrdiff_t jump[kLoopOperands] = {};
      const auto add = [&](int d, std::ptrdiff_t times) {
        for (std::size_t k = 0; k < kLoopOperands; ++k)
          jump[k] += times * loop_.stride[k][d] * kernel_.items[k];
      };
      add(first, 1 - std::ptrdiff_t{count});
      int d = first + 1;
      for (; d < loop_.dims && ++index[d] == loop_.size[d]; ++d) {
        index[d] = 0;
        add(d, 1 - std::ptrdiff_t{loop_.size[d]});
      }
      if (d >= loop_.dims) return;
      add(d, 1);
      move(jump);
    }
  }
  void move(const std::ptrdiff_t* bytes) {
    out_ += bytes[0];
    for (int k = 0; k < kernel_.inputs; ++k)
      if (in_[k].data != nullptr)
        in_[k].data = static_cast<const std::byte*>(in_[k].data) + bytes[k + 1];
  }
  const std::byte* shifted(int k, std::ptrdiff_t elements) const {
    return static_cast<const std::byte*>(in_[k].data) +
           elements * kernel_.items[static_cast<std::size_t>(k) + 1];
  }

  /// How many elements a piece of a row has; 0 if the kernel takes rows as they are.
  std::int64_t piece_of(std::ptrdiff_t out_stride, std::int64_t count) const {
    if (kernel_.widenings != nullptr) return kWidenedPiece;
    if (!kernel_.packs || !has_avx2 || count < kWorthPacking) return 0;
    bool adjacent = out_stride == 1;
    for (int k = 0; k < kernel_.inputs; ++k) adjacent &= in_[k].stride == 0 || in_[k].stride == 1;
    return adjacent ? 0 : kPackedPiece;
  }

  void row(std::ptrdiff_t out_stride, std::int64_t count) {
    load();
    kernel_.row(out_, out_stride, count, in_);
  }
  /// The elements in memory that are the same throughout the row.
  void load() {
    if (!loads_) return;
    for (int k = 0; k < kernel_.inputs; ++k) {
      RowInput& in = in_[k];
      if (in.stride != 0 || in.data == nullptr) continue;
      if (kernel_.widenings != nullptr)
        kernel_.widenings[k].widen(reinterpret_cast<float*>(in.value), in.data, 1, 1);
      else if (kernel_.value != nullptr)
        kernel_.value(in.value, in.data);
      else
        std::memcpy(in.value, in.data, kernel_.items[static_cast<std::size_t>(k) + 1]);
    }
  }

  /// A row in pieces whose elements are adjacent, as the kernel's row takes and gives them.
  void pieces(std::int64_t size, std::ptrdiff_t out_stride, std::int64_t length) {
    load();
    alignas(64) std::byte inputs[kLoopInputs][kPackedPiece * 8];
    alignas(64) std::byte results[kPackedPiece * 16];
    static_assert(kWidenedPiece * sizeof(float) <= sizeof inputs[0]);
    const std::uint8_t item = kernel_.items[0];
    const bool apart = out_stride != 1 || kernel_.store != nullptr;
    RowInput taken[kLoopInputs];
    std::copy_n(in_, kernel_.inputs, taken);
    for (std::int64_t first = 0; first < length; first += size) {
      const std::int64_t count = std::min(size, length - first);
      for (int k = 0; k < kernel_.inputs; ++k)
        if (in_[k].stride != 0) {
          taken[k].data = adjacent(k, first, count, inputs[k]);
          taken[k].stride = 1;
        }
      std::byte* const to = out_ + first * out_stride * item;
      kernel_.row(apart ? results : to, 1, count, taken);
      if (kernel_.store != nullptr)
        kernel_.store(to, out_stride, reinterpret_cast<const float*>(results), count);
      else if (apart)
        scatter(to, out_stride, results, count, item);
    }
  }
  const void* adjacent(int k, std::int64_t first, std::int64_t count, std::byte* room) const {
    const std::ptrdiff_t stride = in_[k].stride;
    const std::byte* const from = shifted(k, first * stride);
    if (kernel_.widenings != nullptr) {
      kernel_.widenings[k].widen(reinterpret_cast<float*>(room), from, stride, count);
    } else {
      if (stride == 1) return from;
      with_bits(kernel_.items[static_cast<std::size_t>(k) + 1], [&](auto bits) {
        using T = decltype(bits);
        gather(reinterpret_cast<T*>(room), reinterpret_cast<const T*>(from), stride, count);
      });
    }
    return room;
  }

  const Loop& loop_;
  const RowKernel& kernel_;
  std::byte* out_ = nullptr;
  RowInput in_[kLoopInputs] = {};
  bool loads_ = false;  ///< whether an input in memory is the same throughout a row
};

/// The steps [first, last) of a loop along a dimension, 0 for a flat one.
Loop part_of(const Loop& loop, const ItemSizes& items, int d, std::int64_t first,
             std::int64_t last) {
  Loop part = loop;
  const auto dim = static_cast<std::size_t>(d);
  for (std::size_t k = 0; k < kLoopOperands; ++k)
    if (items[k] != 0 && loop.data[k] != nullptr)  // there is nothing in what is no operand
      part.data[k] = static_cast<std::byte*>(loop.data[k]) + first * loop.stride[k][dim] * items[k];
  part.count = loop.count / (loop.flat() ? loop.count : loop.size[dim]) * (last - first);
  part.size[dim] = static_cast<std::uint32_t>(last - first);
  return part;
}

/// Whether an input lies in the output's memory, but not element upon element: there the order in
/// which elements are written shows, as in `x -= x[:, :1]`.
bool depends_on_order(const Loop& loop, const ItemSizes& items) {
  const auto* const out = static_cast<const std::byte*>(loop.data[0]);
  const std::byte* const end = out + loop.span(0) * items[0];
  for (std::size_t k = 1; k < kLoopOperands; ++k) {
    const auto* const in = static_cast<const std::byte*>(loop.data[k]);
    if (items[k] == 0 || in == nullptr) continue;
    if (in >= end || out >= in + loop.span(static_cast<int>(k)) * items[k]) continue;
    if (in != out || items[k] != items[0] ||
        !std::equal(loop.stride[k], loop.stride[k] + std::max<int>(loop.dims, 1), loop.stride[0]))
      return true;
  }
  return false;
}

}  // namespace

Status run_rows(const Loop& loop, const HostLaunch& on, const RowKernel& kernel) {
  if (!on.has_pieces(loop.count, kLeastElements) || depends_on_order(loop, kernel.items))
    return Walk(loop, kernel).run(on);
  const int along = longest_dim(loop.size, loop.dims);
  const std::int64_t steps = loop.flat() ? loop.count : loop.size[along];
  return try_in_pieces(on, steps, least_steps(loop.count / steps),
                       [&](std::int64_t first, std::int64_t last) {
                         const Loop part = part_of(loop, kernel.items, along, first, last);
                         return Walk(part, kernel).run(on);
                       });
}

}  // namespace ember::inline v0::ops::host
