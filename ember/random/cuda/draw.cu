#undef NDEBUG  // what is asserted here is how a kernel refuses its data
#include <cassert>

#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/random/draw_args.h"

namespace ember::inline v0::random::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::is_aligned;
using driver::cuda::NamedImplementation;
using driver::cuda::Pack;

/// Neighbouring elements that a thread draws, each from its own subsequence: what a row of 32
/// threads stores at once decides the speed (float32 on an H200: 16 bytes per thread reach
/// 4.3 TB/s, 8 bytes 3.9, 4 bytes 2.9).
template <class Draw>
inline constexpr int kNeighbours = sizeof(typename Draw::Element) == 8 ? 2 : 4;

/// How many blocks a multiprocessor shall hold: as many as the registers are enough for.
template <class Draw>
inline constexpr int kBlocksPerProcessor = draw::for_each<Draw> ||
                                                   sizeof(Compute<typename Draw::Element>) == 8
                                               ? 3
                                               : 5;

/// Blocks that share the steps of one subsequence: with more blocks than fit into an H200 the loop
/// over steps is short, which bernoulli_ likes, and with fewer what comes before it costs less,
/// which normal_ likes.
constexpr unsigned kMostSteps = 32;

/// `n` neighbours of which `left` exist; zeros for the others.
template <int n>
__device__ __forceinline__ Pack<float, n> load(const float* from, std::int64_t left, bool packed) {
  if (packed && left >= n) return *reinterpret_cast<const Pack<float, n>*>(from);
  Pack<float, n> pack;
#pragma unroll
  for (int k = 0; k < n; ++k) pack.value[k] = k < left ? from[k] : 0.0F;
  return pack;
}

/// Note [Which numbers an element takes] in draw_args.h: "threads" there are subsequences here, of
/// which a thread has some neighbours, and there are `row` of them. The grid's y goes over steps.
/// `packed`: the addresses are those of packs.
template <class Draw>
__global__ void __launch_bounds__(kThreadsPerBlock, kBlocksPerProcessor<Draw>)
    draw_kernel(DrawArgs args, std::uint32_t row, std::uint32_t steps, bool packed) {
  using T = typename Draw::Element;
  constexpr int kNumbers = Draw::kNumbers;
  constexpr int kTogether = kNeighbours<Draw>;
  const std::uint32_t subsequence =
      (blockIdx.x * static_cast<std::uint32_t>(kThreadsPerBlock) + threadIdx.x) * kTogether;
  if (subsequence >= row) return;
  const std::int64_t stride = row;
  const Draw draw(args.params);
  const PhiloxState state = args.source.state();
  for (std::uint32_t s = blockIdx.y; s < steps; s += gridDim.y) {
    const std::uint64_t step = state.step() + s;
    const std::int64_t first = std::int64_t{s} * kNumbers * row + subsequence;
    const std::int64_t left = args.count - first;
    [[maybe_unused]] Pack<float, kTogether> p[kNumbers];
    if constexpr (draw::for_each<Draw>) {
#pragma unroll
      for (int j = 0; j < kNumbers; ++j)
        p[j] = load<kTogether>(args.probabilities + first + j * stride, left - j * stride, packed);
    }
    Pack<T, kTogether> packs[kNumbers];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const PhiloxWords words = philox_at(state.seed, subsequence + k, step);
      T numbers[kNumbers];
      if constexpr (draw::for_each<Draw>) {
        float own[kNumbers];
#pragma unroll
        for (int j = 0; j < kNumbers; ++j) {
          own[j] = p[j].value[k];
          assert(own[j] >= 0 && own[j] <= 1);  // bernoulli_ expects p to be in [0, 1]
        }
        draw(words, own, numbers);
      } else {
        draw(words, numbers);
      }
#pragma unroll
      for (int j = 0; j < kNumbers; ++j) packs[j].value[k] = numbers[j];
    }
    T* out = static_cast<T*>(args.out) + first;
    if (packed && left >= (kNumbers - 1) * stride + kTogether) {
#pragma unroll
      for (int j = 0; j < kNumbers; ++j)
        *reinterpret_cast<Pack<T, kTogether>*>(out + j * stride) = packs[j];
      continue;
    }
#pragma unroll
    for (int j = 0; j < kNumbers; ++j)
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        if (j * stride + k < left) out[j * stride + k] = packs[j].value[k];
  }
}

template <class Draw>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  using T = typename Draw::Element;
  constexpr int kTogether = kNeighbours<Draw>;
  const auto& args = params.as<DrawArgs>();
  const bool packed = is_aligned(args.out, sizeof(Pack<T, kTogether>)) &&
                      is_aligned(args.probabilities, sizeof(Pack<float, kTogether>));
  const std::int64_t blocks = blocks_for(args.count);
  const auto row = static_cast<std::uint32_t>(blocks * kThreadsPerBlock);
  const std::int64_t per_step = std::int64_t{row} * Draw::kNumbers;
  const auto steps = static_cast<std::uint32_t>((args.count + per_step - 1) / per_step);
  const driver::cuda::Grid grid{{static_cast<unsigned>((blocks + kTogether - 1) / kTogether),
                                 steps < kMostSteps ? steps : kMostSteps},
                                static_cast<unsigned>(kThreadsPerBlock)};
  return driver::cuda::start<&draw_kernel<Draw>>(on, grid, args, row, steps, packed);
}

constexpr NamedImplementation implementations[] = {
#define EMBER_DRAW(name, dtype, type, functor) \
  {#name "." #dtype, &implementation<draw::functor<type>>},
    EMBER_FOR_EACH_DRAW(EMBER_DRAW)
#undef EMBER_DRAW
};
const Implementations table(implementations, driver::arguments<DrawArgs>());

}  // namespace
}  // namespace ember::inline v0::random::cuda
