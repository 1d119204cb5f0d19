// The host column of element-wise kernels: for the CPU and for simulated devices.
#pragma once

#include <utility>

#include "ember/ops/functors.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define EMBER_HOST_AVX2 1
#endif

namespace ember::ops::host {

using driver::HostLaunch;

// Note [Vector instructions]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// The innermost loops exist twice: with AVX2, as vectors, and for any x86-64 as plain loops, which
// are small. Which of them runs is decided once, by what the processor has. Both give the same
// bits: nothing is contracted or reordered (-ffp-contract=off, no -ffast-math). The attribute
// names instructions rather than an architecture, so that the always-inline functions of scalar/
// can become part of either.
#if EMBER_HOST_AVX2
#define EMBER_VECTOR_CODE __attribute__((target("avx,avx2,bmi,bmi2,f16c,lzcnt,popcnt")))
/// Whether this processor runs the loops with AVX2.
extern const bool has_avx2;
#else
#define EMBER_VECTOR_CODE
inline constexpr bool has_avx2 = true;
#endif

// Before a loop whose output may lie exactly on an input, but never beside it.
#if defined(__clang__)
#define EMBER_NO_ALIAS _Pragma("clang loop vectorize(assume_safety)")
#else
#define EMBER_NO_ALIAS _Pragma("GCC ivdep")
#endif

/// Keeps the compiler from making vectors of a loop that is rarely used.
inline __attribute__((always_inline)) void plain() {
#if EMBER_HOST_AVX2
  asm volatile("");
#endif
}

/// Calls `row()` for every row of a loop, and between them `move(dimension, steps)`: all operands
/// go so many steps along a dimension. A row may have several dimensions: those below `first`.
template <class Row, class Move>
void each_row(const Loop& loop, const Row& row, const Move& move, int first = 1) {
  std::uint32_t index[kLoopDims] = {};
  for (;;) {
    row();
    int d = first;
    for (; d < loop.dims; ++d) {
      const bool carry = ++index[d] == loop.size[d];
      if (carry) index[d] = 0;
      move(d, carry ? 1 - static_cast<std::ptrdiff_t>(loop.size[d]) : 1);
      if (!carry) break;
    }
    if (d >= loop.dims) return;
  }
}

/// Copies a plane whose output is adjacent along dimension 0 and whose input along dimension 1: by
/// tiles, so that every line of the cache is fetched once.
template <class T>
void transpose_plane(const Loop& loop, T* out, const T* in) {
  constexpr std::int64_t kTile = 16;
  const std::int64_t width = loop.size[0];
  const std::int64_t height = loop.size[1];
  const std::ptrdiff_t in_x = loop.stride[1][0];
  const std::ptrdiff_t out_y = loop.stride[0][1];
  for (std::int64_t y0 = 0; y0 < height; y0 += kTile)
    for (std::int64_t x0 = 0; x0 < width; x0 += kTile)
      for (std::int64_t y = y0; y < height && y < y0 + kTile; ++y)
        for (std::int64_t x = x0; x < width && x < x0 + kTile; ++x) {
          out[y * out_y + x] = in[x * in_x + y];
          plain();
        }
}

/// One input along a row: elements at a stride, or the same value throughout.
template <class F, int k>
struct Input {
  using Stored = typename F::template Input<k>;
  using Computed = typename F::template Computed<k>;
  const Stored* data;
  std::ptrdiff_t stride;  ///< 0: `value` throughout
  Computed value;

  Computed at(std::int64_t i) const {
    return stride == 0 ? value : convert<Computed>(data[i * stride]);
  }
};

template <class F, unsigned fixed, int k>
EMBER_HD typename F::template Computed<k> adjacent(const typename F::template Input<k>* data,
                                                   const typename F::template Computed<k>& value,
                                                   std::int64_t i) {
  if constexpr (((fixed >> k) & 1U) != 0)
    return value;
  else
    return convert<typename F::template Computed<k>>(data[i]);
}

/// Whether there is a loop of its own for rows in which the inputs of a mask are the same
/// throughout: for what is common. The others take the loop for everything.
template <class F>
constexpr bool has_row(unsigned fixed) {
  if (F::kInputs == 1) return fixed == 0 || F::kFills;
  if (F::kInputs == 2) return fixed != 3;
  return fixed % 2 == 0;
}

template <class F, class Order>
struct Rows;

template <class F, std::size_t... k>
struct Rows<F, std::index_sequence<k...>> {
  using Output = typename F::Output;
  template <std::size_t n>
  using In = Input<F, static_cast<int>(n)>;

  /// A row of adjacent elements in which the inputs of the mask are the same throughout and the
  /// others adjacent. An output may lie exactly on an input (in place), but never beside it.
  template <unsigned fixed>
  EMBER_VECTOR_CODE static void vector_row(Output* out, std::int64_t count, In<k>... in) {
    EMBER_NO_ALIAS
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = F::call(adjacent<F, fixed, static_cast<int>(k)>(in.data, in.value, i)...);
  }
  template <unsigned fixed>
  static void plain_row(Output* out, std::int64_t count, In<k>... in) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = F::call(adjacent<F, fixed, static_cast<int>(k)>(in.data, in.value, i)...);
      plain();
    }
  }
  template <unsigned fixed>
  static bool try_row(unsigned mask, Output* out, std::int64_t count, const In<k>&... in) {
    if constexpr (has_row<F>(fixed)) {
      if (mask != fixed) return false;
      if (has_avx2) {
        vector_row<fixed>(out, count, in...);
        return true;
      }
#if EMBER_HOST_AVX2
      plain_row<fixed>(out, count, in...);
#endif
      return true;
    } else {
      return false;
    }
  }

  static void row(Output* out, std::ptrdiff_t out_stride, std::int64_t count, const In<k>&... in) {
    constexpr unsigned kMasks = 1U << sizeof...(k);
    if (out_stride == 1 && ((in.stride == 0 || in.stride == 1) && ...)) {
      const unsigned mask = (((in.stride == 0 ? 1U : 0U) << k) | ...);
      const bool done = [&]<std::size_t... fixed>(std::index_sequence<fixed...>) {
        return (try_row<fixed>(mask, out, count, in...) || ...);
      }
      (std::make_index_sequence<kMasks>());
      if (done) return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      out[i * out_stride] = F::call(in.at(i)...);
      plain();
    }
  }

  static Status run(const Loop& loop, const HostLaunch& on) {
    Output* out = on.at(static_cast<Output*>(loop.data[0]), loop.span(0));
    if (out == nullptr) return on.fault();
    bool found = true;
    const auto open = [&]<int n>() {
      Input<F, n> in{nullptr, loop.stride[n + 1][0], {}};
      if (loop.number[n + 1] >= 0) {
        in.stride = 0;
        in.value = loop.number_as<typename F::template Computed<n>>(n + 1);
        return in;
      }
      using Stored = typename F::template Input<n>;
      in.data = on.at(static_cast<const Stored*>(loop.data[n + 1]), loop.span(n + 1));
      if (in.data == nullptr) found = false;
      return in;
    };
    return all_rows(loop, out, found, on, open.template operator()<static_cast<int>(k)>()...);
  }

  static Status all_rows(const Loop& loop, Output* out, const bool& found, const HostLaunch& on,
                         In<k>... in) {
    if (!found) return on.fault();
    const auto load = [](auto& input) {
      using Computed = typename std::remove_cvref_t<decltype(input)>::Computed;
      if (input.stride == 0 && input.data != nullptr) input.value = convert<Computed>(*input.data);
    };
    if (loop.flat()) {
      (load(in), ...);
      row(out, 1, loop.count, in...);
      return {};
    }
    if constexpr (F::kFills) {
      if (loop.dims > 1 && loop.number[1] < 0 && loop.stride[0][0] == 1 && loop.stride[1][0] > 1 &&
          loop.stride[1][1] == 1) {
        each_row(
            loop, [&] { (transpose_plane(loop, out, in.data), ...); },
            [&](int d, std::ptrdiff_t steps) {
              out += steps * loop.stride[0][d];
              ((in.data += steps * loop.stride[k + 1][d]), ...);
            },
            2);
        return {};
      }
    }
    each_row(
        loop,
        [&] {
          (load(in), ...);
          row(out, loop.stride[0][0], loop.size[0], in...);
        },
        [&](int d, std::ptrdiff_t steps) {
          out += steps * loop.stride[0][d];
          ((in.data = in.data == nullptr ? nullptr : in.data + steps * loop.stride[k + 1][d]), ...);
        });
    return {};
  }
};

template <class F>
Status column(const driver::Params& params, const HostLaunch& on) {
  return Rows<F, std::make_index_sequence<F::kInputs>>::run(params.as<Loop>(), on);
}

}  // namespace ember::ops::host
