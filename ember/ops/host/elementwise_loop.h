// What element-wise kernels do with a row on the host: for the CPU and for simulated devices. The
// loop over rows is one for all of them (rows.h).
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "ember/ops/functors.h"
#include "ember/ops/host/half_rows.h"
#include "ember/ops/host/ordinary.h"
#include "ember/ops/host/rows.h"
#include "ember/ops/host/vector.h"

namespace ember::inline v0::ops::host {

using driver::HostLaunch;

/// Four rows of four elements become columns; `from` and `to` say how far rows are apart.
template <class T>
EMBER_HD void transpose_four(T* out, std::ptrdiff_t to, const T* in, std::ptrdiff_t from) {
  using Vector __attribute__((vector_size(16))) = std::uint32_t;
  Vector a;
  Vector b;
  Vector c;
  Vector d;
  std::memcpy(&a, in, sizeof a);
  std::memcpy(&b, in + from, sizeof b);
  std::memcpy(&c, in + 2 * from, sizeof c);
  std::memcpy(&d, in + 3 * from, sizeof d);
  const Vector low_ac = __builtin_shufflevector(a, c, 0, 4, 1, 5);
  const Vector low_bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  const Vector high_ac = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Vector high_bd = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(low_ac, low_bd, 0, 4, 1, 5);
  b = __builtin_shufflevector(low_ac, low_bd, 2, 6, 3, 7);
  c = __builtin_shufflevector(high_ac, high_bd, 0, 4, 1, 5);
  d = __builtin_shufflevector(high_ac, high_bd, 2, 6, 3, 7);
  std::memcpy(out, &a, sizeof a);
  std::memcpy(out + to, &b, sizeof b);
  std::memcpy(out + 2 * to, &c, sizeof c);
  std::memcpy(out + 3 * to, &d, sizeof d);
}

/// Copies a plane whose output is adjacent along dimension 0 and whose input along dimension 1: by
/// tiles, so that every line of the cache is fetched once.
template <class T>
void transpose_plane(const Loop& loop, void* output, const void* input) {
  T* const out = static_cast<T*>(output);
  const T* const in = static_cast<const T*>(input);
  constexpr std::int64_t kTile = 16;
  const std::int64_t width = loop.size[0];
  const std::int64_t height = loop.size[1];
  const std::ptrdiff_t in_x = loop.stride[1][0];
  const std::ptrdiff_t out_y = loop.stride[0][1];
  for (std::int64_t y0 = 0; y0 < height; y0 += kTile)
    for (std::int64_t x0 = 0; x0 < width; x0 += kTile) {
      if constexpr (sizeof(T) == 4) {
        if (y0 + kTile <= height && x0 + kTile <= width) {
          for (std::int64_t y = y0; y < y0 + kTile; y += 4)
            for (std::int64_t x = x0; x < x0 + kTile; x += 4)
              transpose_four(out + y * out_y + x, out_y, in + x * in_x + y, in_x);
          continue;
        }
      }
      for (std::int64_t y = y0; y < height && y < y0 + kTile; ++y)
        for (std::int64_t x = x0; x < width && x < x0 + kTile; ++x) {
          out[y * out_y + x] = in[x * in_x + y];
          plain();
        }
    }
}

/// A RowInput as the functor takes it.
template <class F, int k>
struct Input {
  using Stored = typename F::template Input<k>;
  using Computed = typename F::template Computed<k>;
  const Stored* data;
  std::ptrdiff_t stride;  ///< 0: `value` throughout
  Computed value;

  static Input of(const RowInput& in) {
    Input typed{static_cast<const Stored*>(in.data), in.stride, {}};
    std::memcpy(&typed.value, in.value, sizeof typed.value);
    return typed;
  }
  Computed at(std::int64_t i) const {
    return stride == 0 ? value : convert<Computed>(data[i * stride]);
  }
};

template <class F, unsigned fixed, int k>
EMBER_HD typename F::template Computed<k> adjacent(const Input<F, k>& in, std::int64_t i) {
  if constexpr (((fixed >> k) & 1U) != 0)
    return in.value;
  else
    return convert<typename F::template Computed<k>>(in.data[i]);
}

/// Whether there is a vector loop of its own for rows in which the inputs of a mask are the same
/// throughout: for what is common. The others take the loop for everything.
template <class F>
constexpr bool has_row(unsigned fixed) {
  if (F::kInputs == 1) return fixed == 0 || F::kFills;
  if (F::kInputs == 2) return fixed != 3;
  if (F::kInputs == 4) return fixed == 8;
  return fixed % 2 == 0;
}

/// Whether an operation does so much with each element that wider vectors are quicker: functions,
/// comparisons, whose truth values have to be brought together, and what only wide ones can do.
template <class F>
inline constexpr bool computes_much = false;
template <class To>
inline constexpr bool computes_much<Cast<std::int64_t, To>> = is_floating<To>;
template <class Op>
inline constexpr bool computes_much<Apply<Op, float>> =
    Op::info.ulp > 0 || Op::info.result == Result::boolean;

template <class F>
inline constexpr bool is_power = std::is_same_v<F, Apply<elementwise::pow, float>>;

template <class F, class Order>
struct Rows;

template <class F, std::size_t... k>
struct Rows<F, std::index_sequence<k...>> {
  using Output = typename F::Output;
  template <std::size_t n>
  using In = Input<F, static_cast<int>(n)>;
  static constexpr std::int64_t kPiece = 256;
  static constexpr ItemSizes kItems = {sizeof(Output),
                                       sizeof(typename F::template Input<static_cast<int>(k)>)...};

  /// A row of adjacent elements in which the inputs of the mask are the same throughout and the
  /// others adjacent. An output may lie exactly on an input (in place), but never beside it.
  template <unsigned fixed>
  EMBER_VECTOR_CODE static void vector_row(Output* out, std::int64_t count, In<k>... in) {
    any_row<fixed>(out, count, in...);
  }
  template <unsigned fixed>
  EMBER_WIDE_VECTOR_CODE static void wide_row(Output* out, std::int64_t count, In<k>... in) {
    any_row<fixed>(out, count, in...);
  }
  template <unsigned fixed>
  EMBER_HD static void any_row(Output* out, std::int64_t count, In<k>... in) {
    if constexpr (is_power<F> && fixed == 2)
      if (power_row(out, count, in...)) return;
    if constexpr (std::is_same_v<F, Cast<float, Half>>) {
      (halves_of(out, in.data, count), ...);
    } else if constexpr (Ordinary<F>::exists) {
      for (std::int64_t first = 0; first < count; first += kPiece)
        ordinary_row<fixed>(out + first, std::min(kPiece, count - first), shifted(in, first)...);
    } else {
      EMBER_NO_ALIAS
      for (std::int64_t i = 0; i < count; ++i) out[i] = F::call(adjacent<F, fixed>(in, i)...);
    }
  }
  template <unsigned fixed>
  EMBER_HD static void ordinary_row(Output* out, std::int64_t count, const In<k>&... in) {
    std::uint32_t others = 0;
    for (std::int64_t i = 0; i < count; ++i)
      others |= static_cast<std::uint32_t>(!Ordinary<F>::is(adjacent<F, fixed>(in, i)...));
    if (others != 0) return plain_row(out, 1, count, in...);
    EMBER_NO_ALIAS
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = Ordinary<F>::call(adjacent<F, fixed>(in, i)...);
  }
  /// Of exponents that are the same throughout, some are worth loops of their own.
  EMBER_HD static bool power_row(Output* out, std::int64_t count, const Input<F, 0>& x,
                                 const Input<F, 1>& exponent) {
    const auto each = [&](const auto& function) {
      EMBER_NO_ALIAS
      for (std::int64_t i = 0; i < count; ++i) out[i] = function(x.data[i]);
      return true;
    };
    if (exponent.value == 2) return each([](float base) { return m::mul(base, base); });
    if (exponent.value == 3)
      return each([](float base) { return m::mul(m::mul(base, base), base); });
    if (exponent.value == -1) return each([](float base) { return 1 / base; });
    return false;
  }
  template <class Operand>
  EMBER_HD static Operand shifted(Operand in, std::int64_t by) {
    if (in.data != nullptr) in.data += by * in.stride;
    return in;
  }
  template <unsigned fixed>
  static bool try_row(unsigned mask, Output* out, std::int64_t count, const In<k>&... in) {
    if constexpr (has_row<F>(fixed)) {
      if (mask != fixed) return false;
      if constexpr (computes_much<F>) {
        if (has_avx512) {
          wide_row<fixed>(out, count, in...);
          return true;
        }
      }
      vector_row<fixed>(out, count, in...);
      return true;
    } else {
      return false;
    }
  }
  /// Any row, element by element.
  static __attribute__((noinline)) void plain_row(Output* out, std::ptrdiff_t out_stride,
                                                  std::int64_t count, In<k>... in) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[i * out_stride] = F::call(in.at(i)...);
      plain();
    }
  }

  static void row(void* out, std::ptrdiff_t out_stride, std::int64_t count, const RowInput* in) {
    row(static_cast<Output*>(out), out_stride, count, In<k>::of(in[k])...);
  }
  static void row(Output* out, std::ptrdiff_t out_stride, std::int64_t count, const In<k>&... in) {
    constexpr unsigned kMasks = 1U << sizeof...(k);
    if (out_stride == 1 && ((in.stride == 0 || in.stride == 1) && ...) && has_avx2) {
      const unsigned mask = (((in.stride == 0 ? 1U : 0U) << k) | ...);
      const bool done = [&]<std::size_t... fixed>(std::index_sequence<fixed...>) {
        return (try_row<fixed>(mask, out, count, in...) || ...);
      }
      (std::make_index_sequence<kMasks>());
      if (done) return;
    }
    if constexpr (F::kFills) {
      if (out_stride == 1 && ((in.stride != 0) && ...)) {
        (strided_copy(out, count, in), ...);
        return;
      }
    }
    plain_row(out, out_stride, count, in...);
  }
  static void strided_copy(Output* out, std::int64_t count, const In<0>& in) {
    const auto* from = in.data;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4, from += 4 * in.stride) {
      out[i] = from[0];
      out[i + 1] = from[in.stride];
      out[i + 2] = from[2 * in.stride];
      out[i + 3] = from[3 * in.stride];
      plain();
    }
    for (; i < count; ++i, from += in.stride) {
      out[i] = *from;
      plain();
    }
  }

  /// An element as what is computed with, of inputs that are all alike.
  static void value(void* to, const void* element) {
    using First = In<0>;
    const auto computed =
        convert<typename First::Computed>(*static_cast<const typename First::Stored*>(element));
    std::memcpy(to, &computed, sizeof computed);
  }
  static constexpr RowKernel kernel() {
    RowKernel made{&row, F::kInputs, kItems};
    made.packs = !F::kFills && ((sizeof(typename In<k>::Stored) <= 8) && ...);
    if constexpr (!(std::is_same_v<typename In<k>::Stored, typename In<k>::Computed> && ...)) {
      static_assert((std::is_same_v<typename In<k>::Stored, typename In<0>::Stored> && ...));
      made.value = &value;
    }
    if constexpr (F::kFills) made.transpose = &transpose_plane<Output>;
    return made;
  }
};

template <class F>
Status implementation(const driver::Params& params, const HostLaunch& on) {
  return run_rows(params.as<Loop>(), on, Rows<F, std::make_index_sequence<F::kInputs>>::kernel());
}

}  // namespace ember::inline v0::ops::host
