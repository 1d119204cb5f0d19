// The host implementation of operations that are computed in float on elements that are stored
// otherwise: on 16-bit floating-point numbers, and on mixed dtypes. Pieces of their rows become
// floats, go through the loops that float32 has, and become narrow again: no operation has loops of
// its own for them.
#pragma once

#include <algorithm>

#include "ember/ops/elementwise_kernels.h"
#include "ember/ops/host/elementwise_loop.h"
#include "ember/ops/host/half_rows.h"

namespace ember::inline v0::ops::host {

/// An operation on adjacent floats, or, where `fixed` has an input's bit, on one throughout. The
/// output is float, or bool where the operation says so.
using FloatBlock = void (*)(void* out, std::int64_t count, const float* const* inputs,
                            unsigned fixed);

/// The blocks of all operations for elements of type T, in the order of OpId; null where there is
/// none. Only float has them. (Hidden by name: g++ takes specialisations for builtin types out of
/// -fvisibility.)
template <class T>
[[gnu::visibility("hidden")]] const FloatBlock* float_blocks();

template <class F, std::size_t... k>
void call_block(void* out, std::int64_t count, const float* const* inputs, unsigned fixed,
                std::index_sequence<k...>) {
  Rows<F, std::index_sequence<k...>>::row(
      static_cast<typename F::Output*>(out), 1, count,
      Input<F, static_cast<int>(k)>{inputs[k], ((fixed >> k) & 1U) != 0 ? 0 : 1, *inputs[k]}...);
}
template <class F>
void float_block(void* out, std::int64_t count, const float* const* inputs, unsigned fixed) {
  call_block<F>(out, count, inputs, fixed, std::make_index_sequence<F::kInputs>());
}
template <class Op, class T>
constexpr FloatBlock block_of() {
  if constexpr (std::is_same_v<T, float> && contains(Op::info.dtypes, Dtype::float32))
    return &float_block<Apply<Op, float>>;
  else
    return nullptr;
}

/// Elements that are worked on at once.
inline constexpr std::int64_t kNarrowPiece = 512;

/// `count` adjacent elements, at most a piece, as floats, and back.
template <class T>
EMBER_HD void widen_all(float* to, const T* from, std::int64_t count) {
  EMBER_NO_ALIAS
  for (std::int64_t i = 0; i < count; ++i) to[i] = convert<float>(from[i]);
}
template <class T>
EMBER_HD void narrow_all(T* to, const float* from, std::int64_t count) {
  EMBER_NO_ALIAS
  for (std::int64_t i = 0; i < count; ++i) to[i] = T(from[i]);
}
template <class T>
EMBER_WIDE_VECTOR_CODE void widen_wide(float* to, const T* from, std::int64_t count) {
  widen_all(to, from, count);
}
template <class T>
EMBER_WIDE_VECTOR_CODE void narrow_wide(T* to, const float* from, std::int64_t count) {
  narrow_all(to, from, count);
}
template <class T>
EMBER_VECTOR_CODE void widen_vector(float* to, const T* from, std::int64_t count) {
  widen_all(to, from, count);
}
template <class T>
EMBER_VECTOR_CODE void narrow_vector(T* to, const float* from, std::int64_t count) {
  narrow_all(to, from, count);
}
template <class T>
void widen(float* to, const void* stored, std::ptrdiff_t stride, std::int64_t count) {
  const T* const from = static_cast<const T*>(stored);
  if (has_avx512 && stride == 1) return widen_wide(to, from, count);
  if (has_avx2 && stride == 1) return widen_vector(to, from, count);
  if (has_avx2) {
    T room[kNarrowPiece];
    gather(room, from, stride, count);
    return widen<T>(to, room, 1, count);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = convert<float>(from[i * stride]);
    plain();
  }
}
/// How elements of one type become floats.
struct Widening {
  void (*widen)(float* to, const void* from, std::ptrdiff_t stride, std::int64_t count);
  std::uint8_t item;  ///< bytes of an element
};
template <class T>
inline constexpr Widening widening_of = {&widen<T>, sizeof(T)};

template <class To, class From>
void store(To* to, std::ptrdiff_t stride, const From* from, std::int64_t count) {
  if constexpr (std::is_same_v<From, float>) {
    if constexpr (std::is_same_v<To, Half>)
      if (has_avx2 && stride == 1) return halves_of(to, from, count);
    if (has_avx512 && stride == 1) return narrow_wide(to, from, count);
    if (has_avx2 && stride == 1) return narrow_vector(to, from, count);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i * stride] = To(from[i]);
    plain();
  }
}

/// Runs a loop by a block of float32. Inputs in memory become floats as `widenings` says.
template <class Output>
Status run_narrow(const Loop& loop, const HostLaunch& on, int inputs, const Widening* widenings,
                  FloatBlock block) {
  constexpr std::int64_t kPiece = kNarrowPiece;
  using Stored = std::conditional_t<std::is_same_v<Output, bool>, bool, float>;
  Output* out = loop.place(on, 0, static_cast<Output*>(loop.data[0]));
  if (out == nullptr) return on.fault();
  constexpr int kInputs = kLoopOperands - 1;
  const std::byte* in[kInputs] = {};
  alignas(64) float pieces[kInputs][kPiece];
  unsigned fixed = 0;
  for (int k = 0; k < inputs; ++k) {
    if (loop.stride[k + 1][0] == 0) fixed |= 1U << k;
    if (loop.number[k + 1] >= 0) {
      pieces[k][0] = loop.number_as<float>(k + 1);
    } else {
      in[k] =
          loop.place(on, k + 1, static_cast<const std::byte*>(loop.data[k + 1]), widenings[k].item);
      if (in[k] == nullptr) return on.fault();
    }
  }
  const float* const operands[kInputs] = {pieces[0], pieces[1], pieces[2], pieces[3]};
  const std::int64_t length = loop.flat() ? loop.count : loop.size[0];
  const std::ptrdiff_t out_stride = loop.flat() ? 1 : loop.stride[0][0];
  const auto row = [&] {
    for (int k = 0; k < inputs; ++k)
      if (in[k] != nullptr && loop.stride[k + 1][0] == 0)
        widenings[k].widen(pieces[k], in[k], 1, 1);
    for (std::int64_t begin = 0; begin < length; begin += kPiece) {
      const std::int64_t count = std::min(kPiece, length - begin);
      for (int k = 0; k < inputs; ++k) {
        const std::ptrdiff_t stride = loop.stride[k + 1][0];
        if (in[k] != nullptr && stride != 0)
          widenings[k].widen(pieces[k], in[k] + begin * stride * widenings[k].item, stride, count);
      }
      alignas(64) Stored results[kPiece];
      block(results, count, operands, fixed);
      store(out + begin * out_stride, out_stride, results, count);
    }
  };
  if (loop.flat()) {
    row();
    return {};
  }
  each_row(loop, row, [&](int d, std::ptrdiff_t steps) {
    out += steps * loop.stride[0][d];
    for (int k = 0; k < inputs; ++k)
      if (in[k] != nullptr) in[k] += steps * loop.stride[k + 1][d] * widenings[k].item;
  });
  return {};
}

template <OpId op, class Op, class T>
Status narrow_implementation(const driver::Params& params, const HostLaunch& on) {
  using Output = typename Apply<Op, T>::Output;
  constexpr int kInputs = Op::info.operands;
  constexpr ItemSizes kItems = {sizeof(Output), sizeof(T), kInputs > 1 ? sizeof(T) : 0,
                                kInputs > 2 ? sizeof(T) : 0, kInputs > 3 ? sizeof(T) : 0};
  return run_in_parts(params.as<Loop>(), on, kItems, [](const Loop& loop, const HostLaunch& here) {
    static constexpr Widening kAll[] = {widening_of<T>, widening_of<T>, widening_of<T>,
                                        widening_of<T>};
    return run_narrow<Output>(loop, here, Op::info.operands, kAll,
                              float_blocks<float>()[static_cast<int>(op)]);
  });
}

}  // namespace ember::inline v0::ops::host
