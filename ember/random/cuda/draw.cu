#undef NDEBUG  // what is asserted here is how a kernel refuses its data
#include <cassert>

#include "ember/driver/cuda/columns.h"
#include "ember/driver/cuda/launch.h"
#include "ember/random/draw_args.h"

namespace ember::random::cuda {
namespace {

using driver::cuda::Columns;
using driver::cuda::NamedColumn;

/// How many blocks a multiprocessor shall hold: all 2048 threads, where the registers are enough.
template <class Draw>
inline constexpr int kBlocksPerProcessor = draw::for_each<Draw> ||
                                                   sizeof(Compute<typename Draw::Element>) == 8
                                               ? 4
                                               : 8;

/// Note [Which numbers an element takes] in draw_args.h: the grid is the one of the note, so a
/// thread draws for itself. In each step a warp writes one row of 32 neighbours per number.
template <class Draw>
__global__ void __launch_bounds__(kThreadsPerBlock, kBlocksPerProcessor<Draw>)
    draw_kernel(DrawArgs args) {
  using T = typename Draw::Element;
  constexpr int kNumbers = Draw::kNumbers;
  const Draw draw(args.params);
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreadsPerBlock;
  const std::uint32_t thread =
      blockIdx.x * static_cast<std::uint32_t>(kThreadsPerBlock) + threadIdx.x;
  std::uint64_t step = args.offset / 4;
  for (std::int64_t first = thread; first < args.count; first += kNumbers * threads, ++step) {
    T* out = static_cast<T*>(args.out) + first;
    const std::int64_t left = args.count - first;
    const PhiloxWords words = philox_at(args.seed, thread, step);
    T numbers[kNumbers];
    if constexpr (draw::for_each<Draw>) {
      float p[kNumbers];
#pragma unroll
      for (int j = 0; j < kNumbers; ++j) {
        p[j] = j * threads < left ? args.probabilities[first + j * threads] : 0.0F;
        assert(p[j] >= 0 && p[j] <= 1);  // bernoulli_ expects p to be in [0, 1]
      }
      draw(words, p, numbers);
    } else {
      draw(words, numbers);
    }
    if (left > (kNumbers - 1) * threads) {
#pragma unroll
      for (int j = 0; j < kNumbers; ++j) out[j * threads] = numbers[j];
    } else {
#pragma unroll
      for (int j = 0; j < kNumbers; ++j)
        if (j * threads < left) out[j * threads] = numbers[j];
    }
  }
}

template <class Draw>
Status column(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<DrawArgs>();
  const driver::cuda::Grid grid{static_cast<unsigned>(blocks_for(args.count)),
                                static_cast<unsigned>(kThreadsPerBlock)};
  return driver::cuda::start<&draw_kernel<Draw>>(on, grid, args);
}

constexpr NamedColumn columns[] = {
#define EMBER_DRAW(name, dtype, type, functor) {#name "." #dtype, &column<draw::functor<type>>},
    EMBER_FOR_EACH_DRAW(EMBER_DRAW)
#undef EMBER_DRAW
};
const Columns table(columns);

}  // namespace
}  // namespace ember::random::cuda
