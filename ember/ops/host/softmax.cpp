// The host implementations of softmax and log_softmax: along adjacent elements, or along columns,
// many of them at once. The order of additions is fixed.
#include <algorithm>
#include <type_traits>

#include "ember/driver/kernels.h"
#include "ember/ops/host/parts.h"
#include "ember/ops/host/vector.h"
#include "ember/ops/softmax_args.h"
#include "ember/ops/softmax_kernels.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops {
namespace {

using driver::HostLaunch;

constexpr int kColumns = 256;           ///< of inner elements, worked on together
constexpr std::int64_t kBlock = 256;    ///< exponentials added up before they enter the sum
constexpr int kLanes = 16;              ///< that a row is spread over
constexpr std::int64_t kKept = 2048;    ///< exponentials of a row that are not computed again
constexpr std::int64_t kKeptRows = 64;  ///< the same of columns

/// e^x for x <= 0 in float, with an error of 2^-22 at a third of what exp() of a float takes, which
/// is rounded once.
EMBER_HD float quick_exp(float x) {
  constexpr float kShift = 0x1.8p23F;  // rounds to integers, and has them in its last bits
  x = x < -104 ? -104 : x;
  const float shifted = x * 1.44269504F + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.98412698e-4F;
  for (const float factor :
       {1.38888889e-3F, 8.33333333e-3F, 4.16666667e-2F, 0.166666667F, 0.5F, 1.0F, 1.0F})
    p = p * r + factor;
  // 2^n in two steps, of which neither leaves the range of normal numbers.
  std::int32_t bits = 0;
  memcpy(&bits, &shifted, sizeof bits);
  const std::int32_t whole = bits - 0x4b400000;
  const std::int32_t half = whole >> 1;
  const auto power_of_two = [](std::int32_t exponent) {
    const auto exponent_bits = static_cast<std::uint32_t>(exponent + 127) << 23;
    float power = 0;
    memcpy(&power, &exponent_bits, sizeof power);
    return power;
  };
  return p * power_of_two(half) * power_of_two(whole - half);
}
EMBER_HD float power_of(float x) { return quick_exp(x); }
EMBER_HD double power_of(double x) { return m::exp(x); }

/// What exponentials are added up in. They take most of the time in any case.
using Sum = double;

/// Brings lanes together, in pairs.
template <class V, class Join>
EMBER_HD V joined(V* lanes, const Join& join) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] = join(lanes[k], lanes[k + half]);
  return lanes[0];
}

/// NaN may get lost: its exponential brings it back, into the sum and from there everywhere. So
/// this is one instruction.
template <class Value>
EMBER_HD Value larger(Value x, Value most) {
  return x > most ? x : most;
}
template <class T>
EMBER_HD Compute<T> largest(const T* in, std::int64_t count) {
  using Value = Compute<T>;
  Value most[kLanes];
  for (auto& lane : most) lane = convert<Value>(in[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int k = 0; k < kLanes; ++k) most[k] = larger(convert<Value>(in[i + k]), most[k]);
  for (; i < count; ++i) most[0] = larger(convert<Value>(in[i]), most[0]);
  return joined(most, [](Value x, Value y) { return larger(x, y); });
}
template <class Value>
EMBER_HD Sum total_of(const Value* values, std::int64_t count) {
  Sum lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += static_cast<Sum>(values[i + k]);
  Sum rest = 0;
  for (; i < count; ++i) rest += static_cast<Sum>(values[i]);
  return joined(lanes, [](Sum x, Sum y) { return x + y; }) + rest;
}

template <class T>
EMBER_HD void softmax_row(const T* in, T* out, std::int64_t count, bool logarithm) {
  using Value = Compute<T>;
  // Where the output cannot hold them, a long row's exponentials are computed twice.
  constexpr bool kHolds = std::is_same_v<T, Value>;
  const bool keeps = !logarithm && (kHolds || count <= kKept);
  const Value top = largest(in, count);
  Value room[kKept];
  Sum sum = 0;
  const std::int64_t piece = keeps && !kHolds ? count : kBlock;
  for (std::int64_t first = 0; first < count; first += piece) {
    const std::int64_t n = std::min(piece, count - first);
    Value* powers = room;
    if constexpr (kHolds)
      if (keeps) powers = out + first;
    EMBER_NO_ALIAS
    for (std::int64_t i = 0; i < n; ++i) powers[i] = power_of(convert<Value>(in[first + i]) - top);
    for (std::int64_t i = 0; i < n; i += kBlock)
      sum += total_of(powers + i, std::min(kBlock, n - i));
  }
  const auto total = static_cast<Value>(sum);
  if (logarithm) {
    const Value shift = m::log(total);
    EMBER_NO_ALIAS
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = convert<T>((convert<Value>(in[i]) - top) - shift);
  } else if (keeps) {
    const Value* powers = room;
    if constexpr (kHolds) powers = out;
    EMBER_NO_ALIAS
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<T>(powers[i] / total);
  } else {
    EMBER_NO_ALIAS
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = convert<T>(power_of(convert<Value>(in[i]) - top) / total);
  }
}

/// `width` columns whose elements are `step` apart.
template <class T>
EMBER_HD void softmax_columns(const T* in, T* out, std::int64_t count, std::int64_t step, int width,
                              bool logarithm) {
  using Value = Compute<T>;
  // The exponentials are kept in the output, or, of few rows, here.
  constexpr bool kHolds = std::is_same_v<T, Value>;
  Value room[kHolds ? 1 : kKeptRows][kColumns];
  const bool keeps = !kHolds && !logarithm && count <= kKeptRows;
  Value top[kColumns];
  Sum sum[kColumns];
  for (int c = 0; c < width; ++c) {
    top[c] = convert<Value>(in[c]);
    sum[c] = 0;
  }
  for (std::int64_t i = 1; i < count; ++i)
    for (int c = 0; c < width; ++c) top[c] = larger(convert<Value>(in[i * step + c]), top[c]);
  for (std::int64_t first = 0; first < count; first += kBlock) {
    Sum part[kColumns];
    std::fill_n(part, width, Sum(0));
    for (std::int64_t i = first; i < std::min(first + kBlock, count); ++i) {
      const T* const x = in + i * step;
      Value* powers = room[keeps ? i : 0];
      if constexpr (kHolds)
        if (!logarithm) powers = out + i * step;
      EMBER_NO_ALIAS
      for (int c = 0; c < width; ++c) {
        powers[c] = power_of(convert<Value>(x[c]) - top[c]);
        part[c] += static_cast<Sum>(powers[c]);
      }
    }
    for (int c = 0; c < width; ++c) sum[c] += part[c];
  }
  Value total[kColumns];
  for (int c = 0; c < width; ++c) total[c] = static_cast<Value>(sum[c]);
  if (logarithm)
    for (int c = 0; c < width; ++c) total[c] = m::log(total[c]);
  for (std::int64_t i = 0; i < count; ++i) {
    const T* const x = in + i * step;
    T* const y = out + i * step;
    if (logarithm) {
      EMBER_NO_ALIAS
      for (int c = 0; c < width; ++c) y[c] = convert<T>((convert<Value>(x[c]) - top[c]) - total[c]);
    } else if constexpr (kHolds) {
      EMBER_NO_ALIAS
      for (int c = 0; c < width; ++c) y[c] = y[c] / total[c];
    } else if (keeps) {
      const Value* const powers = room[i];
      EMBER_NO_ALIAS
      for (int c = 0; c < width; ++c) y[c] = convert<T>(powers[c] / total[c]);
    } else {
      EMBER_NO_ALIAS
      for (int c = 0; c < width; ++c)
        y[c] = convert<T>(power_of(convert<Value>(x[c]) - top[c]) / total[c]);
    }
  }
}

/// Tiles [first, last): a row each, or some columns.
template <class T>
EMBER_HD void softmax_tiles(const SoftmaxArgs& args, const T* in, T* out, std::int64_t first,
                            std::int64_t last) {
  if (args.inner == 1) {
    for (std::int64_t row = first; row < last; ++row)
      softmax_row(in + row * args.count, out + row * args.count, args.count, args.logarithm);
    return;
  }
  const std::int64_t across = (args.inner + kColumns - 1) / kColumns;
  for (std::int64_t tile = first; tile < last; ++tile) {
    const std::int64_t column = tile % across * kColumns;
    const std::int64_t at = tile / across * args.count * args.inner + column;
    softmax_columns(in + at, out + at, args.count, args.inner,
                    static_cast<int>(std::min<std::int64_t>(kColumns, args.inner - column)),
                    args.logarithm);
  }
}
template <class T>
EMBER_WIDE_VECTOR_CODE void wide_tiles(const SoftmaxArgs& args, const T* in, T* out,
                                       std::int64_t first, std::int64_t last) {
  softmax_tiles(args, in, out, first, last);
}
template <class T>
EMBER_VECTOR_CODE void vector_tiles(const SoftmaxArgs& args, const T* in, T* out,
                                    std::int64_t first, std::int64_t last) {
  softmax_tiles(args, in, out, first, last);
}

template <class T>
Status implementation(const driver::Params& params, const HostLaunch& on) {
  const auto& args = params.as<SoftmaxArgs>();
  const std::int64_t all = args.outer * args.count * args.inner;
  const T* in = on.at(static_cast<const T*>(args.in), static_cast<std::size_t>(all));
  if (in == nullptr) return on.fault();
  T* out = on.at(static_cast<T*>(args.out), static_cast<std::size_t>(all));
  if (out == nullptr) return on.fault();
  const std::int64_t width = std::min<std::int64_t>(args.inner, kColumns);
  const std::int64_t tiles = args.outer * ((args.inner + kColumns - 1) / kColumns);
  on.in_pieces(tiles, host::least_steps(4 * args.count * width),
               [&](std::int64_t first, std::int64_t last) {
                 if (host::has_avx512) return wide_tiles(args, in, out, first, last);
                 if (host::has_avx2) return vector_tiles(args, in, out, first, last);
#if EMBER_HOST_AVX2
                 softmax_tiles(args, in, out, first, last);
#endif
               });
  return {};
}

// From float16 on, in the order of Dtype.
constinit driver::Kernel kernels[] = {
    {"softmax.float16", &implementation<Half>, nullptr},
    {"softmax.bfloat16", &implementation<BFloat16>, nullptr},
    {"softmax.float32", &implementation<float>, nullptr},
    {"softmax.float64", &implementation<double>, nullptr},
};
static_assert(static_cast<int>(Dtype::float64) - static_cast<int>(Dtype::float16) == 3);
const driver::kernels::Table table(kernels, driver::arguments<SoftmaxArgs>());

}  // namespace

const driver::Kernel& softmax_kernel(Dtype dtype) noexcept {
  return kernels[static_cast<int>(dtype) - static_cast<int>(Dtype::float16)];
}

}  // namespace ember::inline v0::ops
