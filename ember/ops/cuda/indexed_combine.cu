#include <cstring>

#include "ember/driver/cuda/implementations.h"
#include "ember/ops/cuda/indexed.cuh"
#include "ember/ops/functors.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr unsigned kLocks = 1024;
__device__ unsigned locks[kLocks];

/// *target = combined<How>(*target, value) for what no instruction exchanges: one thread at a time.
template <class How, class T>
__device__ void combine_locked(T* target, T value) {
  unsigned* const lock = &locks[(reinterpret_cast<std::uintptr_t>(target) / sizeof(T)) % kLocks];
  // Unlocked in the round in which it was locked, so that threads of one warp may share it.
  for (bool done = false; !done;) {
    if (atomicExch(lock, 1U) != 0) continue;
    __threadfence();
    using Part = BitsOfSize<sizeof(Real<T>)>;
    volatile Part* const at = reinterpret_cast<Part*>(target);
    Part parts[2] = {at[0], at[1]};
    T made;
    memcpy(&made, parts, sizeof made);
    made = combined<How>(made, value);
    memcpy(parts, &made, sizeof made);
    at[0] = parts[0];
    at[1] = parts[1];
    __threadfence();
    atomicExch(lock, 0U);
    done = true;
  }
}

/// The same for the bits of T in a word that can be exchanged: until nobody came between.
template <class How, class T, class Word>
__device__ __forceinline__ void combine_exchanged(Word* word, unsigned shift, T value) {
  constexpr Word kMask = static_cast<Word>(~Word{0}) >> (8 * (sizeof(Word) - sizeof(T)));
  using Bits = BitsOfSize<sizeof(T)>;
  Word seen = *word;
  Word expected = 0;
  do {
    expected = seen;
    const auto old = static_cast<Bits>((expected >> shift) & kMask);
    T made;
    memcpy(&made, &old, sizeof made);
    made = combined<How>(made, value);
    Bits bits = 0;
    memcpy(&bits, &made, sizeof bits);
    seen = atomicCAS(word, expected,
                     static_cast<Word>((expected & ~(kMask << shift)) | (Word{bits} << shift)));
  } while (seen != expected);
}

/// Adds to one of the two 16-bit floats of an aligned word; -0.0 changes no other. There are
/// instructions for pairs only.
template <class T>
__device__ __forceinline__ void add_to_pair(T* target, T value) {
  std::uint16_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  constexpr std::uint32_t kNegativeZero = 0x8000;
  const std::uint32_t pair =
      (address & 2) == 0 ? kNegativeZero << 16 | bits : std::uint32_t{bits} << 16 | kNegativeZero;
  auto* const word = reinterpret_cast<std::uint32_t*>(address & ~std::uintptr_t{3});
  if constexpr (std::is_same_v<T, Half>)
    asm volatile("red.add.noftz.f16x2 [%0], %1;" ::"l"(word), "r"(pair) : "memory");
  else
    asm volatile("red.add.noftz.bf16x2 [%0], %1;" ::"l"(word), "r"(pair) : "memory");
}
/// Whether this kind of GPU has such an instruction.
#if __CUDA_ARCH__ >= 900
template <class T>
constexpr bool adds_pairs = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
#else
template <class T>
constexpr bool adds_pairs = std::is_same_v<T, Half>;
#endif

/// *target = combined<How>(*target, value), whoever else does the same.
template <class How, class T>
__device__ __forceinline__ void combine(T* target, T value) {
  constexpr bool kAdds = std::is_same_v<How, Sum>;
  if constexpr (kAdds && adds_pairs<T>) {
    add_to_pair(target, value);
  } else if constexpr (kAdds && is_complex<T>) {
    combine<How>(&target->re, value.re);
    combine<How>(&target->im, value.im);
  } else if constexpr (kAdds && std::is_floating_point_v<T>) {
    atomicAdd(target, value);
  } else if constexpr (kAdds && sizeof(T) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(target),
              static_cast<unsigned long long>(value));
  } else if constexpr (kAdds && sizeof(T) == 4) {
    atomicAdd(target, value);
  } else if constexpr (sizeof(T) == 16) {
    combine_locked<How>(target, value);
  } else if constexpr (sizeof(T) == 8 || is_complex<T>) {
    using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
    if constexpr (is_complex<T>)  // in memory of others it may lie across two words
      if (reinterpret_cast<std::uintptr_t>(target) % sizeof(T) != 0)
        return combine_locked<How>(target, value);
    combine_exchanged<How>(reinterpret_cast<Word*>(target), 0, value);
  } else {
    // Within the aligned word, which lies in the same allocation: those are multiples of 512 bytes.
    const auto address = reinterpret_cast<std::uintptr_t>(target);
    combine_exchanged<How>(reinterpret_cast<unsigned*>(address & ~std::uintptr_t{3}),
                           static_cast<unsigned>(address & 3) * 8, value);
  }
}

constexpr int kEach = 4;

template <class How, class T>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(T* target, const T* source, const std::int64_t* index, std::uint32_t count,
                   const __grid_constant__ Places places,
                   const __grid_constant__ Positions positions) {
  const std::uint32_t begin = blockIdx.x * (kThreads * kEach) + threadIdx.x;
  Position at[kEach];
  T value[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const std::uint32_t i = begin + e * kThreads;
    if (i >= count) break;
    at[e] = positions.at(i);
    at[e].index = index[at[e].index];
    value[e] = source[at[e].source];
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    if (begin + e * kThreads >= count) break;
    combine<How>(target + at[e].target + places.offset(at[e].index), value[e]);
  }
}

template <class How, class T>
Status combine_implementation(const driver::Params& params, const CudaLaunch& on) {
  return each_part(
      params.as<IndexedArgs>(), sizeof(T), [&](const IndexedArgs& args, std::uint32_t count) {
        const Grid grid{blocks_for(count, kThreads * kEach), kThreads};
        return start<&combine_kernel<How, T>>(on, grid, static_cast<T*>(args.target),
                                              static_cast<const T*>(args.source), args.index, count,
                                              Places(args), Positions(args));
      });
}

constexpr NamedImplementation implementations[] = {
#define EMBER_KERNEL(name, how)                                           \
  {#name ".bool", &combine_implementation<how, bool>},                    \
      {#name ".uint8", &combine_implementation<how, std::uint8_t>},       \
      {#name ".int8", &combine_implementation<how, std::int8_t>},         \
      {#name ".int16", &combine_implementation<how, std::int16_t>},       \
      {#name ".int32", &combine_implementation<how, std::int32_t>},       \
      {#name ".int64", &combine_implementation<how, std::int64_t>},       \
      {#name ".float16", &combine_implementation<how, Half>},             \
      {#name ".bfloat16", &combine_implementation<how, BFloat16>},        \
      {#name ".float32", &combine_implementation<how, float>},            \
      {#name ".float64", &combine_implementation<how, double>},           \
      {#name ".complex32", &combine_implementation<how, Complex<Half>>},  \
      {#name ".complex64", &combine_implementation<how, Complex<float>>}, \
      {#name ".complex128", &combine_implementation<how, Complex<double>>},
    EMBER_FOR_EACH_COMBINATION(EMBER_KERNEL)
#undef EMBER_KERNEL
};
const Implementations table(implementations, driver::arguments<IndexedArgs, OffsetArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
