// The CUDA implementation of element-wise kernels. Two kernels for each functor: one for flat
// loops, which moves 16 bytes per thread, and one that looks for its places. That one does so once
// per 16 bytes for loops whose rows have adjacent outputs, and inputs that are adjacent or the same
// throughout (broadcasting, cut rows), and once per element for everything else. Copies have a
// third, for transpositions (transpose.h), and a fourth, which fills.
#pragma once

#include <cstdint>
#include <utility>

#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/divider.cuh"
#include "ember/ops/cuda/transpose.h"
#include "ember/ops/functors.h"

template <>
inline constexpr bool ember::driver::layout::is_number<ember::ops::Bits128> = true;

namespace ember::inline v0::ops::cuda {

using driver::CudaLaunch;
using driver::cuda::Grid;
using driver::cuda::is_aligned;
using driver::cuda::Pack;
using driver::cuda::start;

constexpr int kThreads = 256;

template <class F, int... k>
constexpr std::size_t widest(std::integer_sequence<int, k...>) {
  std::size_t most = sizeof(typename F::Output);
  ((most = most > sizeof(typename F::template Input<k>) ? most
                                                        : sizeof(typename F::template Input<k>)),
   ...);
  return most;
}
/// How many elements are moved at once: 16 bytes of the widest operand.
template <class F>
inline constexpr int width =
    static_cast<int>(16 / widest<F>(std::make_integer_sequence<int, F::kInputs>()));

/// An input: elements, or one value for all.
template <class F, int k>
struct Source {
  const typename F::template Input<k>* data;
  typename F::template Computed<k> value;
  bool fixed;  ///< one value for all: `*data`, or `value` if there is no data

  static constexpr driver::AddressPlaces kAddresses = driver::kFirstIsAddress;
};

template <class F, int k>
Source<F, k> source(const Loop& loop) {
  Source<F, k> made{};
  if (loop.number[k + 1] >= 0) {
    made.value = loop.number_as<typename F::template Computed<k>>(k + 1);
    made.fixed = true;
  } else {
    made.data = static_cast<const typename F::template Input<k>*>(loop.data[k + 1]);
    made.fixed = loop.flat() && loop.stride[k + 1][0] == 0;
  }
  return made;
}

/// From here on the compiler knows nothing of a pack that was loaded. What is computed from it
/// would otherwise move up into the branch of its load, and wait there before the next input is
/// asked for.
template <class Packed>
__device__ __forceinline__ void settle(Packed& pack) {
  if constexpr (sizeof(Packed) == 1) {
    unsigned byte = reinterpret_cast<const std::uint8_t&>(pack);
    asm volatile("" : "+r"(byte));
    reinterpret_cast<std::uint8_t&>(pack) = static_cast<std::uint8_t>(byte);
  } else if constexpr (sizeof(Packed) == 2) {
    asm volatile("" : "+h"(reinterpret_cast<std::uint16_t&>(pack)));
  } else {
#pragma unroll
    for (std::size_t i = 0; i < sizeof(Packed) / 4; ++i)
      asm volatile("" : "+r"(reinterpret_cast<std::uint32_t*>(&pack)[i]));
  }
}

/// Which inputs are one value for all: decided while compiling, or asked for at run time.
enum class Fixed : std::uint8_t { ask, none, all_but_first };

/// What one thread reads of one input: a pack of N elements at each of P offsets. Constructing it
/// starts all loads, so that those of all inputs are in flight together before anything is
/// computed. An input that is fixed has one value for each pack, or for the whole of a flat loop.
template <class F, int k, int N, int P, bool flat, Fixed known>
struct Reader {
  using Stored = typename F::template Input<k>;
  using Computed = typename F::template Computed<k>;
  using Packed = Pack<Stored, N>;

  template <class Offset>
  __device__ __forceinline__ Reader(const Source<F, k>& in, const Offset (&offsets)[P])
      : asked(in.fixed) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (!fixed())
        packs[p] = *reinterpret_cast<const Packed*>(in.data + offsets[p]);
      else if (in.data != nullptr)
        values[p] = convert<Computed>(in.data[flat ? 0 : offsets[p]]);
      else
        values[p] = in.value;
      settle(packs[p]);
    }
  }
  __device__ __forceinline__ Computed at(int pack, int i) const {
    return fixed() ? values[flat ? 0 : pack] : convert<Computed>(packs[pack].value[i]);
  }
  __device__ __forceinline__ bool fixed() const {
    return known == Fixed::ask ? asked : known == Fixed::all_but_first && k > 0;
  }

  bool asked;
  Computed values[P];
  Packed packs[P];
};

/// Computes and stores packs number `first`, `first` + `step`... as far as there are so many.
template <class F, int N, int P, class Number, class Offset, class... Readers>
__device__ __forceinline__ void write_packs(typename F::Output* out, Number first, int step,
                                            Number packs, const Offset (&offsets)[P],
                                            const Readers&... in) {
  using Packed = Pack<typename F::Output, N>;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    if (first + p * step >= packs) return;
    Packed result;
#pragma unroll
    for (int i = 0; i < N; ++i) result.value[i] = F::call(in.at(p, i)...);
    *reinterpret_cast<Packed*>(out + offsets[p]) = result;
  }
}

/// The same input, from an element on.
template <class F, int k>
__device__ __forceinline__ Source<F, k> from(const Source<F, k>& in, std::int64_t element) {
  Source<F, k> moved = in;
  if (!in.fixed) moved.data += element;
  return moved;
}

/// An element of an input, whether it is one value for all or not.
template <class F, int k>
__device__ __forceinline__ typename F::template Computed<k> element(const Source<F, k>& in,
                                                                    std::int64_t i) {
  if (in.data == nullptr) return in.value;
  return convert<typename F::template Computed<k>>(in.data[in.fixed ? 0 : i]);
}

/// Whether an operation does so much with each element that instructions count: functions, and what
/// is computed of 16-bit elements. (lgamma is so long that several of it get in each other's way.)
template <class F>
inline constexpr bool computes_much = false;
template <class Op, class T>
inline constexpr bool computes_much<Apply<Op, T>> =
    is_floating<T> && !std::is_same_v<Op, elementwise::lgamma> &&
    (Op::info.ulp >= 4 || std::is_same_v<Op, elementwise::floor_divide> ||
     std::is_same_v<Op, elementwise::remainder> || std::is_same_v<Op, elementwise::fmod> ||
     (sizeof(T) == 2 && Op::info.operands != 2));

/// Whether much of what an operation does depends on its other inputs alone, and is done once if
/// those are numbers; or so little that asking whether they are would be a good part of it.
template <class F>
inline constexpr bool hoists = false;
template <class Op, class T>
inline constexpr bool hoists<Apply<Op, T>> = is_floating<T> &&
                                             (std::is_same_v<Op, elementwise::pow> ||
                                              std::is_same_v<Op, elementwise::floor_divide> ||
                                              std::is_same_v<Op, elementwise::remainder> ||
                                              std::is_same_v<Op, elementwise::fmod> ||
                                              std::is_same_v<Op, elementwise::clamp>);

/// Packs per thread of flat loops: two where packs of the output are smaller, since then more of
/// what is in flight has to be reads; more where finding the place would take a good part of the
/// instructions.
template <class F>
inline constexpr int flat_packs = computes_much<F> ? (width<F> > 4 ? 2 : 4)
                                  : sizeof(typename F::Output) * width<F> < 16 ? 2
                                                                               : 1;

/// Adjacent elements, kThreads packs for each block. All addresses are aligned to packs.
///
/// Small blocks that start in the order of addresses: copies of 1 GiB reach 4.26 TB/s on an H200
/// with blocks of 4 KiB, but 4.08 with 16 KiB, and less with a grid that stays.
template <class F, Fixed known, class... Sources>
__global__ void __launch_bounds__(kThreads / flat_packs<F>)
    flat_kernel(typename F::Output* out, std::int64_t count, Sources... in) {
  constexpr int P = flat_packs<F>;
  constexpr int kStep = kThreads / P;
  const std::int64_t packs = count / width<F>;
  const std::int64_t begin = std::int64_t{blockIdx.x} * kThreads;
  const int here = static_cast<int>(packs - begin < kThreads ? packs - begin : kThreads);
  const int first = static_cast<int>(threadIdx.x);
  [&]<int... k>(std::integer_sequence<int, k...>) {
    if (here > 0) {
      std::int32_t offsets[P];
#pragma unroll
      for (int p = 0; p < P; ++p) {
        // Beyond the end the last pack is read again, and not written.
        const int pack = first + p * kStep;
        offsets[p] = (pack < here ? pack : here - 1) * width<F>;
      }
      write_packs<F, width<F>>(
          out + begin * width<F>, first, kStep, here, offsets,
          Reader<F, k, width<F>, P, true, known>(from(in, begin * width<F>), offsets)...);
    }
    // What is left is less than a pack.
    const std::int64_t i = packs * width<F> + threadIdx.x;
    if (blockIdx.x == 0 && i < count) out[i] = F::call(element<F, k>(in, i)...);
  }
  (std::make_integer_sequence<int, F::kInputs>());
}

/// Where the operands' elements lie, for an element's number in the order of the dimensions.
template <int kOperands>
struct Offsets {
  int dims;
  Divider size[kLoopDims];
  std::int32_t stride[kLoopDims][kOperands];

  explicit Offsets(const Loop& loop) : dims(loop.flat() ? 1 : loop.dims) {
    for (int d = 0; d < dims; ++d) {
      size[d] = Divider(loop.flat() ? 1 : loop.size[d]);
      for (int k = 0; k < kOperands; ++k) stride[d][k] = loop.stride[k][d];
    }
  }
  __device__ __forceinline__ void find(std::uint32_t i, std::int32_t (&offsets)[kOperands]) const {
#pragma unroll
    for (int k = 0; k < kOperands; ++k) offsets[k] = 0;
#pragma unroll
    for (int d = 0; d < kLoopDims; ++d) {
      if (d >= dims) break;
      // The slowest dimension has no further one to be divided among.
      const std::uint32_t rest = d + 1 == dims ? 0 : size[d].quotient(i);
      const auto index = static_cast<std::int32_t>(i - rest * size[d].divisor);
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offsets[k] += index * stride[d][k];
      i = rest;
    }
  }
  /// Of P elements, the number `first` and every `step`th after it. Beyond `count` the last one is
  /// found again, to be read and not written.
  template <int P>
  __device__ __forceinline__ void find(std::uint32_t first, int step, std::uint32_t count,
                                       std::int32_t (&offsets)[kOperands][P]) const {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const std::uint32_t i = first + p * step;
      std::int32_t found[kOperands];
      find(i < count ? i : count - 1, found);
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offsets[k][p] = found[k];
    }
  }
};

/// What a block of the kernel that looks for its places does, in packs of N elements.
template <int N>
struct PlacesTile {
  static constexpr int kEach = N > 1 ? 2 : 4;  ///< packs per thread
  static constexpr int kThreads = cuda::kThreads / (N > 1 ? 2 : 1);
  static constexpr int kPerBlock = kEach * kThreads;
};

/// Packs of N elements, wherever they lie. `where` counts packs along dimension 0; a source is
/// `fixed` if it is a number, or the same throughout the rows that packs are cut from.
template <class F, int N, class... Sources>
__global__ void __launch_bounds__(PlacesTile<N>::kThreads)
    places_kernel(typename F::Output* out, std::uint32_t packs, Offsets<F::kInputs + 1> where,
                  Sources... in) {
  constexpr int P = PlacesTile<N>::kEach;
  constexpr int kStep = PlacesTile<N>::kThreads;
  const std::uint32_t first = blockIdx.x * PlacesTile<N>::kPerBlock + threadIdx.x;
  std::int32_t offsets[F::kInputs + 1][P];
  where.find(first, kStep, packs, offsets);
  [&]<int... k>(std::integer_sequence<int, k...>) {
    write_packs<F, N>(out, first, kStep, packs, offsets[0],
                      Reader<F, k, N, P, false, Fixed::ask>(in, offsets[k + 1])...);
  }
  (std::make_integer_sequence<int, F::kInputs>());
}

/// One value everywhere, in packs. Few stores per thread: nothing has to be waited for.
constexpr int kFillPacks = 2;
template <class T>
__global__ void __launch_bounds__(kThreads) fill_kernel(T* out, std::int64_t count, T value) {
  constexpr int kWidth = 16 / sizeof(T);
  Pack<T, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) pack.value[i] = value;
  const std::int64_t packs = count / kWidth;
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kFillPacks) + threadIdx.x;
#pragma unroll
  for (int p = 0; p < kFillPacks; ++p)
    if (first + p * kThreads < packs)
      reinterpret_cast<Pack<T, kWidth>*>(out)[first + p * kThreads] = pack;
  // What is left is less than a pack.
  if (blockIdx.x == 0 && threadIdx.x < static_cast<unsigned>(count % kWidth))
    out[packs * kWidth + threadIdx.x] = value;
}

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

/// Whether every address is a multiple of its pack.
template <class F, int... k>
bool packs_fit(const Loop& loop, std::integer_sequence<int, k...>) {
  return is_aligned(loop.data[0], sizeof(typename F::Output) * width<F>) &&
         ((loop.stride[k + 1][0] == 0 ||
           is_aligned(loop.data[k + 1], sizeof(typename F::template Input<k>) * width<F>)) &&
          ...);
}

/// Whether a loop's rows can be cut into packs of width<F>.
template <class F, int... k>
bool rows_fit(const Loop& loop, std::integer_sequence<int, k...> inputs) {
  constexpr int kWidth = width<F>;
  if (loop.flat() || loop.stride[0][0] != 1 || loop.size[0] % kWidth != 0) return false;
  if (!packs_fit<F>(loop, inputs)) return false;
  const auto fits = [&](int operand) {
    if (loop.number[operand] >= 0 || loop.stride[operand][0] == 0) return true;
    if (loop.stride[operand][0] != 1) return false;
    for (int d = 1; d < loop.dims; ++d)
      if (loop.stride[operand][d] % kWidth != 0) return false;
    return true;
  };
  return fits(0) && (fits(k + 1) && ...);
}

/// A source of the kernel that looks for its places.
template <int N, class F, int k>
Source<F, k> place_source(const Loop& loop) {
  Source<F, k> made = source<F, k>(loop);
  made.fixed = made.data == nullptr || (N > 1 && loop.stride[k + 1][0] == 0);
  return made;
}

template <int N, class F, int... k>
Status launch_places(const Loop& loop, const CudaLaunch& on, std::integer_sequence<int, k...>) {
  Loop packed = loop;
  if constexpr (N > 1) {
    packed.size[0] /= N;
    for (int operand = 0; operand <= F::kInputs; ++operand) packed.stride[operand][0] *= N;
  }
  const auto packs = static_cast<std::uint32_t>(loop.count / N);
  const Grid grid{blocks_for(packs, PlacesTile<N>::kPerBlock), PlacesTile<N>::kThreads};
  return start<&places_kernel<F, N, Source<F, k>...>>(
      on, grid, static_cast<typename F::Output*>(loop.data[0]), packs,
      Offsets<F::kInputs + 1>(packed), place_source<N, F, k>(loop)...);
}

/// x * x * x.
template <class T>
struct Cube {
  static constexpr int kInputs = 1;
  static constexpr bool kFills = false;
  using Output = T;
  template <int k>
  using Input = T;
  template <int k>
  using Computed = Compute<T>;
  static EMBER_HD T call(Compute<T> x) { return convert<T>(m::mul(m::mul(x, x), x)); }
};

template <class F>
inline constexpr bool is_power = false;
template <class T>
inline constexpr bool is_power<Apply<elementwise::pow, T>> = is_floating<T>;

template <class F, int... k>
Status launch(const Loop& loop, const CudaLaunch& on, std::integer_sequence<int, k...> inputs) {
  if constexpr (is_power<F>) {
    if (loop.number[2] >= 0) {  // some powers are products or quotients
      using T = typename F::Output;
      const auto exponent = loop.number_as<Compute<T>>(2);
      constexpr std::make_integer_sequence<int, 1> kOne;
      if (exponent == 2) return launch<Apply<elementwise::square, T>>(loop, on, kOne);
      if (exponent == 3) return launch<Cube<T>>(loop, on, kOne);
      if (exponent == -1) return launch<Apply<elementwise::reciprocal, T>>(loop, on, kOne);
    }
  }
  auto* out = static_cast<typename F::Output*>(loop.data[0]);
  if constexpr (F::kFills) {
    using T = typename F::Output;
    if (transposes(loop)) return transpose(loop, on, sizeof(T));
    if (loop.flat() && loop.number[1] >= 0 && is_aligned(loop.data[0])) {
      const std::int64_t packs = loop.count / static_cast<std::int64_t>(16 / sizeof(T));
      const Grid grid{blocks_for(packs < 1 ? 1 : packs, kThreads * kFillPacks), kThreads};
      return start<&fill_kernel<T>>(on, grid, out, loop.count, loop.number_as<T>(1));
    }
  }
  if constexpr (width < F >> 1)
    if (rows_fit<F>(loop, inputs)) return launch_places<width<F>, F>(loop, on, inputs);
  [[maybe_unused]] const bool first_moves = loop.stride[1][0] != 0;
  // The flat kernel of one input takes no value that is the same for all.
  const bool fits = packs_fit<F>(loop, inputs) && (F::kInputs > 1 || F::kFills || first_moves);
  if (loop.flat() && (fits || loop.count > INT32_MAX)) {
    if (!fits) {
      // Too long for the other kernel, which counts in 32 bits: in two parts.
      Loop part = loop;
      part.count = loop.count / 2;
      EMBER_TRY(launch<F>(part, on, inputs));
      const auto advance = [&](int operand, std::size_t item) {
        if (loop.number[operand] < 0 && loop.stride[operand][0] != 0)
          part.data[operand] = static_cast<std::byte*>(loop.data[operand]) + part.count * item;
      };
      advance(0, sizeof(typename F::Output));
      (advance(k + 1, sizeof(typename F::template Input<k>)), ...);
      part.count = loop.count - loop.count / 2;
      return launch<F>(part, on, inputs);
    }
    const Grid grid{blocks_for(loop.count, std::int64_t{kThreads} * width<F>),
                    kThreads / flat_packs<F>};
    const auto start_flat = [&]<Fixed known>() {
      return start<&flat_kernel<F, known, Source<F, k>...>>(on, grid, out, loop.count,
                                                            source<F, k>(loop)...);
    };
    if constexpr (F::kInputs == 1 && !F::kFills) {
      return start_flat.template operator()<Fixed::none>();
    } else {
      if constexpr (hoists<F>)
        if (first_moves && ((k == 0 || loop.number[k + 1] >= 0) && ...))
          return start_flat.template operator()<Fixed::all_but_first>();
      if constexpr (computes_much<F>)
        if (((loop.stride[k + 1][0] != 0) && ...))
          return start_flat.template operator()<Fixed::none>();
      return start_flat.template operator()<Fixed::ask>();
    }
  }
  return launch_places<1, F>(loop, on, inputs);
}

template <class F>
Status implementation(const driver::Params& params, const CudaLaunch& on) {
  return launch<F>(params.as<Loop>(), on, std::make_integer_sequence<int, F::kInputs>());
}

/// The implementation of an operation for elements of type T; null where the operation does not
/// exist.
template <class Op, class T>
constexpr driver::CudaImplementation implementation_of() {
  if constexpr (contains(Op::info.dtypes, dtype_of<T>))
    return &implementation<Apply<Op, T>>;
  else
    return nullptr;
}

}  // namespace ember::inline v0::ops::cuda
