// The transforms of the host as they are compiled: which of them there are says CMake.
#pragma once

#include <cstdint>

#include "ember/base/status.h"
#include "ember/driver/fft.h"

namespace ember::inline v0::fft::host {

/// From this length on a complex signal is computed as a table of short ones, and those of a batch
/// one after the other.
inline constexpr std::int64_t kLong = 131'072;

// As host::transform.
namespace plain {
template <class T>
Status transform(const driver::FftArgs& args, int threads) noexcept;
}
// For processors where has_avx2().
namespace avx2 {
template <class T>
Status transform(const driver::FftArgs& args, int threads) noexcept;
}

/// Whether there is that variant, and this processor runs it. Thread-safe.
bool has_avx2() noexcept;

}  // namespace ember::inline v0::fft::host
