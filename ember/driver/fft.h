// What the kernels of Fourier transforms get: `fft_c2c.<dtype>` and its like, `fft_mirror.<dtype>`
// and `fft_plan`; on hosts in fft/host/, on real devices in fft/cuda/ and driver/cuda/fft.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver {

/// What is transformed into what: complex to complex, real to half of a Hermitian signal, and back.
enum class FftKind : std::uint8_t { c2c, r2c, c2r };

/// The most dimensions that one plan transforms, and that its batch has.
inline constexpr int kFftDims = 3;
inline constexpr int kFftBatchDims = 4;

/// A transform but for its addresses and its direction: all that a plan depends on. Strides are in
/// elements, and positive. The last transformed dimension is the one that a real transform has half
/// of: `sizes` are those of the signal, so that the complex side of r2c and c2r has sizes[dims - 1]
/// / 2 + 1 elements there. No size is zero.
struct FftGeometry {
  std::int64_t sizes[kFftDims] = {};
  std::int64_t in_strides[kFftDims] = {};
  std::int64_t out_strides[kFftDims] = {};
  std::int64_t batch_sizes[kFftBatchDims] = {};
  std::int64_t in_batch_strides[kFftBatchDims] = {};
  std::int64_t out_batch_strides[kFftBatchDims] = {};
  std::int32_t dims = 0;
  std::int32_t batch_dims = 0;
  FftKind kind = FftKind::c2c;
  std::uint8_t real_bytes = 4;  ///< of a real number: 2, 4 or 8
  std::uint8_t unused[6]{};     ///< so that a geometry is compared byte by byte

  std::int64_t transforms() const noexcept {
    std::int64_t product = 1;
    for (int d = 0; d < batch_dims; ++d) product *= batch_sizes[d];
    return product;
  }
  std::int64_t complex_bytes() const noexcept { return 2 * std::int64_t{real_bytes}; }
};
EMBER_ARGUMENTS(FftGeometry, EMBER_FIELD(sizes), EMBER_FIELD(in_strides), EMBER_FIELD(out_strides),
                EMBER_FIELD(batch_sizes), EMBER_FIELD(in_batch_strides),
                EMBER_FIELD(out_batch_strides), EMBER_FIELD(dims), EMBER_FIELD(batch_dims),
                EMBER_FIELD(kind), EMBER_FIELD(real_bytes), EMBER_FIELD(unused))

/// What an implementation has made of a geometry. Written by `fft_plan` alone, but for `scales` of
/// float16, which is false wherever it is transformed.
struct FftPlanState {
  void* native = nullptr;       ///< the implementation's; null if it keeps nothing
  std::size_t work_bytes = 0;   ///< device memory that each transform needs to work in
  std::size_t table_bytes = 0;  ///< what the plan itself takes, about
  bool scales = true;           ///< whether transforms multiply by their scale
};
EMBER_ARGUMENTS(FftPlanState, EMBER_FIELD(native), EMBER_FIELD(work_bytes),
                EMBER_FIELD(table_bytes), EMBER_FIELD(scales))

/// `fft_plan`: makes a plan, or destroys what it has made. On a real device within the launch;
/// there no transform that uses the plan may be in progress when it is destroyed.
struct FftPlanArgs {
  void* state = nullptr;  ///< a FftPlanState on the host, which lives until the launch returns
  FftGeometry geometry;
  bool destroy = false;
  std::uint8_t unused[7]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(FftPlanArgs, EMBER_FIELD(state), EMBER_FIELD(geometry), EMBER_FIELD(destroy),
                EMBER_FIELD(unused))

/// A transform: out = scale * DFT(in), not normalised otherwise. On a real device a plan goes with
/// it, c2r overwrites its input, and the scale is for others, as that of float16 is everywhere.
/// `out` may be `in` for c2c with the same strides.
struct FftArgs {
  void* out = nullptr;
  void* in = nullptr;
  void* work = nullptr;  ///< FftPlanState::work_bytes of device memory, or null
  void* plan = nullptr;  ///< a FftPlanState on the host, which lives until the launch returns
  double scale = 1;
  FftGeometry geometry;
  bool forward = true;
  std::uint8_t unused[7]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(FftArgs, EMBER_FIELD(out), EMBER_FIELD(in), EMBER_FIELD(work), EMBER_FIELD(plan),
                EMBER_FIELD(scale), EMBER_FIELD(geometry), EMBER_FIELD(forward),
                EMBER_FIELD(unused))

/// `fft_mirror.<dtype>`: the second halves of Hermitian signals from their first: data[n - k] =
/// conj(data[k]) for 0 < k < (n + 1) / 2, in each of `batch` signals.
struct FftMirrorArgs {
  void* data = nullptr;
  std::int64_t size = 0, stride = 0;  ///< of a signal, which is n
  std::int64_t batch_sizes[kFftBatchDims] = {};
  std::int64_t batch_strides[kFftBatchDims] = {};
  std::int32_t batch_dims = 0;
  std::uint8_t unused[4]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(FftMirrorArgs, EMBER_FIELD(data), EMBER_FIELD(size), EMBER_FIELD(stride),
                EMBER_FIELD(batch_sizes), EMBER_FIELD(batch_strides), EMBER_FIELD(batch_dims),
                EMBER_FIELD(unused))

}  // namespace ember::inline v0::driver
