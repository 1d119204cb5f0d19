// The host implementation of operations that are computed in float on elements that are stored
// otherwise: on 16-bit floating-point numbers, and on mixed dtypes. Pieces of their rows become
// floats, go through the rows that float32 has, and become narrow again: no operation has rows of
// its own for them.
#pragma once

#include "ember/ops/elementwise_kernels.h"
#include "ember/ops/host/elementwise_loop.h"
#include "ember/ops/host/half_rows.h"

namespace ember::inline v0::ops::host {

/// The rows of all operations for elements of type T, in the order of OpId; null where there is
/// none. Only float has them. (Hidden by name: g++ takes specialisations for builtin types out of
/// -fvisibility.)
template <class T>
[[gnu::visibility("hidden")]] const RowKernel::Row* float_rows();

template <class Op, class T>
constexpr RowKernel::Row float_row_of() {
  if constexpr (std::is_same_v<T, float> && contains(Op::info.dtypes, Dtype::float32))
    return &Rows<Apply<Op, float>, std::make_index_sequence<Op::info.operands>>::row;
  else
    return nullptr;
}

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
    T room[kWidenedPiece];
    gather(room, from, stride, count);
    return widen<T>(to, room, 1, count);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = convert<float>(from[i * stride]);
    plain();
  }
}
template <class T>
inline constexpr Widening widening_of = {&widen<T>, sizeof(T)};

template <class To>
void store(void* output, std::ptrdiff_t stride, const float* from, std::int64_t count) {
  To* const to = static_cast<To*>(output);
  if constexpr (std::is_same_v<To, Half>)
    if (has_avx2 && stride == 1) return halves_of(to, from, count);
  if (has_avx512 && stride == 1) return narrow_wide(to, from, count);
  if (has_avx2 && stride == 1) return narrow_vector(to, from, count);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i * stride] = To(from[i]);
    plain();
  }
}

/// A kernel whose rows are those of float32.
template <class Output>
RowKernel narrow_kernel(OpId op, int inputs, const ItemSizes& items, const Widening* widenings) {
  RowKernel made{float_rows<float>()[static_cast<int>(op)], inputs, items};
  made.widenings = widenings;
  if constexpr (!std::is_same_v<Output, bool> && !std::is_same_v<Output, float>)
    made.store = &store<Output>;
  return made;
}

template <OpId op, class Op, class T>
Status narrow_implementation(const driver::Params& params, const HostLaunch& on) {
  static constexpr Widening kAll[] = {widening_of<T>, widening_of<T>, widening_of<T>,
                                      widening_of<T>};
  using Output = typename Apply<Op, T>::Output;
  ItemSizes items = {sizeof(Output)};
  for (std::size_t k = 1; k <= Op::info.operands; ++k) items[k] = sizeof(T);
  return run_rows(params.as<Loop>(), on, narrow_kernel<Output>(op, Op::info.operands, items, kAll));
}

}  // namespace ember::inline v0::ops::host
