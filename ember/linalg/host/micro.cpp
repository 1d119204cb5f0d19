#include "ember/linalg/host/micro.h"

#include <cstring>

namespace ember::inline v0::linalg::host {
namespace {

// Note [Vectors]
// ~~~~~~~~~~~~~~
// The loops are written once, with the compiler's vector types, and compiled for three widths of
// registers. A function for wider ones must not be called on a CPU without them, so the bodies are
// always inlined into a function that is marked with what it needs. Products and sums may be fused
// here: results of matrix products are those of one machine.

#define EMBER_LOAD(vector, from) std::memcpy(&(vector), from, sizeof(vector))

template <class R, int bytes, int columns>
[[gnu::always_inline]] inline void real_tile(std::int64_t depth, const R* a, const R* b, R* tile) {
  using Vector __attribute__((vector_size(bytes))) = R;
  constexpr int kLanes = bytes / static_cast<int>(sizeof(R));
  Vector sum[columns][2] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    Vector a0;
    Vector a1;
    EMBER_LOAD(a0, a);
    EMBER_LOAD(a1, a + kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) {
      sum[j][0] += a0 * b[j];
      sum[j][1] += a1 * b[j];
    }
    a += 2 * kLanes;
    b += columns;
  }
#pragma GCC unroll 16
  for (int j = 0; j < columns; ++j) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      R* to = tile + (j * 2 + i) * kLanes;
      Vector old;
      EMBER_LOAD(old, to);
      old += sum[j][i];
      std::memcpy(to, &old, sizeof old);
    }
  }
}

template <class R, int bytes, int columns>
[[gnu::always_inline]] inline void complex_tile(std::int64_t depth, const R* a, const R* b,
                                                R* tile) {
  using Vector __attribute__((vector_size(bytes))) = R;
  constexpr int kLanes = bytes / static_cast<int>(sizeof(R));
  Vector re[columns] = {};
  Vector im[columns] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    Vector x;
    Vector y;
    EMBER_LOAD(x, a);
    EMBER_LOAD(y, a + kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) {
      re[j] += x * b[j];
      re[j] -= y * b[columns + j];
      im[j] += x * b[columns + j];
      im[j] += y * b[j];
    }
    a += 2 * kLanes;
    b += 2 * columns;
  }
#pragma GCC unroll 16
  for (int j = 0; j < columns; ++j) {
    R* to = tile + j * 2 * kLanes;
    Vector old;
    EMBER_LOAD(old, to);
    old += re[j];
    std::memcpy(to, &old, sizeof old);
    EMBER_LOAD(old, to + kLanes);
    old += im[j];
    std::memcpy(to + kLanes, &old, sizeof old);
  }
}

template <class R, int planes, int bytes, int columns>
[[gnu::always_inline]] inline void tile_of(std::int64_t depth, const R* a, const R* b, R* tile) {
  if constexpr (planes == 1)
    real_tile<R, bytes, columns>(depth, a, b, tile);
  else
    complex_tile<R, bytes, columns>(depth, a, b, tile);
}

template <class R, int planes>
void narrow(std::int64_t depth, const R* a, const R* b, R* tile) noexcept {
  tile_of<R, planes, 16, 4>(depth, a, b, tile);
}

#if defined(__x86_64__)
template <class R, int planes>
__attribute__((target("avx2,fma"))) void wide(std::int64_t depth, const R* a, const R* b,
                                              R* tile) noexcept {
  tile_of<R, planes, 32, 6>(depth, a, b, tile);
}
// g++ would otherwise keep to half the width; clang has no such option here.
#if defined(__clang__)
#define EMBER_WIDEST_CODE __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")))
#else
#define EMBER_WIDEST_CODE \
  __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))
#endif
template <class R, int planes>
EMBER_WIDEST_CODE void widest(std::int64_t depth, const R* a, const R* b, R* tile) noexcept {
  tile_of<R, planes, 64, 12>(depth, a, b, tile);
}
#endif

template <class R, int planes>
Micro<R> choose() noexcept {
  constexpr int kSize = static_cast<int>(sizeof(R));
  constexpr int kVectors = planes == 1 ? 2 : 1;  // registers along a line of the tile
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    return {kVectors * 64 / kSize, 12, &widest<R, planes>};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {kVectors * 32 / kSize, 6, &wide<R, planes>};
#endif
  return {kVectors * 16 / kSize, 4, &narrow<R, planes>};
}

}  // namespace

template <class R, int planes>
const Micro<R>& micro() noexcept {
  static const Micro<R> chosen = choose<R, planes>();
  return chosen;
}

template const Micro<float>& micro<float, 1>() noexcept;
template const Micro<double>& micro<double, 1>() noexcept;
template const Micro<std::uint32_t>& micro<std::uint32_t, 1>() noexcept;
template const Micro<std::uint64_t>& micro<std::uint64_t, 1>() noexcept;
template const Micro<float>& micro<float, 2>() noexcept;
template const Micro<double>& micro<double, 2>() noexcept;

}  // namespace ember::inline v0::linalg::host
