// The host implementations of distributions: for the CPU and for simulated devices.
#include "ember/random/draw_kernels.h"

#include <cstring>
#include <iterator>
#include <string>

#include "ember/driver/kernels.h"
#include "ember/random/host_source.h"
#include "ember/random/host_vectors.h"

namespace ember::inline v0::random {
namespace {

using driver::HostLaunch;

// Lanes are independent of each other, so the compiler makes vectors of them.
constexpr std::int64_t kLanes = 64;
static_assert(kThreadsPerBlock % kLanes == 0);

/// The numbers of `kLanes` neighbouring threads in one step, and where they belong.
template <class Draw>
EMBER_HD void draw_lanes(const Draw& draw, const DrawArgs& args, std::int64_t threads,
                         std::uint64_t step, std::int64_t thread, std::int64_t base,
                         const float* probabilities, typename Draw::Element* out) {
  using T = typename Draw::Element;
  constexpr int kNumbers = Draw::kNumbers;
  T block[kNumbers][kLanes];
  [[maybe_unused]] float p[kNumbers][kLanes];
  if constexpr (draw::for_each<Draw>)
    for (int j = 0; j < kNumbers; ++j)
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const std::int64_t i = base + j * threads + lane;
        p[j][lane] = i < args.count ? probabilities[i] : 0;
      }
  const auto first = static_cast<std::uint32_t>(thread);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const PhiloxWords words = philox_at(args.source.own.seed, first + lane, step);
    T numbers[kNumbers];
    if constexpr (draw::for_each<Draw>) {
      const float own[4] = {p[0][lane], p[1][lane], p[2][lane], p[3][lane]};
      draw(words, own, numbers);
    } else {
      draw(words, numbers);
    }
    for (int j = 0; j < kNumbers; ++j) block[j][lane] = numbers[j];
  }
  for (int j = 0; j < kNumbers; ++j) {
    const std::int64_t at = base + j * threads;
    const std::int64_t left = args.count - at;
    if (left <= 0) return;
    std::memcpy(static_cast<void*>(out + at), block[j],
                static_cast<std::size_t>(left < kLanes ? left : kLanes) * sizeof(T));
  }
}

/// Note [Which numbers an element takes].
template <class Draw>
EMBER_HD void draw_all(const DrawArgs& args, const float* probabilities,
                       typename Draw::Element* out) {
  const Draw draw(args.params);
  const std::int64_t threads = blocks_for(args.count) * kThreadsPerBlock;
  std::uint64_t step = args.source.own.step();
  for (std::int64_t start = 0; start < args.count; start += Draw::kNumbers * threads, ++step)
    for (std::int64_t thread = 0; thread < threads && start + thread < args.count; thread += kLanes)
      draw_lanes(draw, args, threads, step, thread, start + thread, probabilities, out);
}

template <class Draw>
EMBER_WIDE_VECTORS void draw_wide(const DrawArgs& args, const float* probabilities,
                                  typename Draw::Element* out) {
  draw_all<Draw>(args, probabilities, out);
}
template <class Draw>
void draw_plain(const DrawArgs& args, const float* probabilities, typename Draw::Element* out) {
  draw_all<Draw>(args, probabilities, out);
}

template <class Draw>
Status host_implementation(const driver::Params& params, const HostLaunch& on) {
  using T = typename Draw::Element;
  auto args = params.as<DrawArgs>();
  if (!read_source(on, args.source)) return on.fault();
  const auto count = static_cast<std::size_t>(args.count);
  T* out = on.at(static_cast<T*>(args.out), count);
  if (out == nullptr) return on.fault();
  const float* probabilities = nullptr;
  if constexpr (draw::for_each<Draw>) {
    probabilities = on.at(args.probabilities, count);
    if (probabilities == nullptr) return on.fault();
    for (std::size_t i = 0; i < count; ++i)
      if (!(probabilities[i] >= 0 && probabilities[i] <= 1))
        return Status(Code::device_assert, "bernoulli expects p to be in [0, 1], but got p=" +
                                               std::to_string(probabilities[i]) + " for element " +
                                               std::to_string(i));
  }
  if (has_wide_vectors())
    draw_wide<Draw>(args, probabilities, out);
  else
    draw_plain<Draw>(args, probabilities, out);
  return {};
}

constinit driver::Kernel kernels[] = {
#define EMBER_DRAW(name, dtype, type, functor) \
  {#name "." #dtype, &host_implementation<draw::functor<type>>, nullptr},
    EMBER_FOR_EACH_DRAW(EMBER_DRAW)
#undef EMBER_DRAW
};
const driver::kernels::Table table(kernels, driver::arguments<DrawArgs>());

/// What a kernel is for, in the order of the kernels.
struct Entry {
  DrawId draw;
  Dtype dtype;
  int numbers;
};
constexpr Entry entries[] = {
#define EMBER_DRAW(name, dtype, type, functor) \
  {DrawId::name, Dtype::dtype, draw::functor<type>::kNumbers},
    EMBER_FOR_EACH_DRAW(EMBER_DRAW)
#undef EMBER_DRAW
};

/// The type whose kernel serves a type.
Dtype stored(DrawId draw, Dtype dtype) noexcept {
  // A bool is a byte that is one or zero, which is what these give.
  if (draw < DrawId::bernoulli) return dtype;
  switch (dtype) {  // and wide unsigned numbers are those of as many bits
    case Dtype::bool_:
    case Dtype::int8: return Dtype::uint8;
    case Dtype::uint16: return Dtype::int16;
    case Dtype::uint32: return Dtype::int32;
    case Dtype::uint64: return Dtype::int64;
    default: return dtype;
  }
}

int find(DrawId draw, Dtype dtype) noexcept {
  const Dtype wanted = stored(draw, dtype);
  for (int i = 0; i < static_cast<int>(std::size(entries)); ++i)
    if (entries[i].draw == draw && entries[i].dtype == wanted) return i;
  return -1;
}

}  // namespace

const driver::Kernel* draw_kernel(DrawId draw, Dtype dtype) noexcept {
  const int found = find(draw, dtype);
  return found < 0 ? nullptr : &kernels[found];
}

int numbers_per_call(DrawId draw, Dtype dtype) noexcept {
  const int found = find(draw, dtype);
  return found < 0 ? 0 : entries[found].numbers;
}

}  // namespace ember::inline v0::random
