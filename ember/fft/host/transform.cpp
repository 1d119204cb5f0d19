// Which of the transforms that were compiled runs.
#include "ember/fft/host/transform.h"

#include "ember/fft/host/variants.h"

namespace ember::inline v0::fft::host {

#ifdef EMBER_DUCC0

Status available() noexcept { return {}; }

bool has_avx2() noexcept {
#ifdef EMBER_FFT_WITH_AVX2
  static const bool found = __builtin_cpu_supports("avx2") != 0;
  return found;
#else
  return false;
#endif
}

template <class T>
Status transform(const driver::FftArgs& args, int threads) noexcept {
#ifdef EMBER_FFT_WITH_AVX2
  if (has_avx2()) [[likely]]
    return avx2::transform<T>(args, threads);
#endif
  return plain::transform<T>(args, threads);
}

#else

Status available() noexcept {
  return Status(Code::not_supported,
                "Fourier transforms on the CPU and on simulated devices need the headers of ducc0, "
                "which this build of ember was made without. Configure it with "
                "-DEMBER_DUCC0_INCLUDE_DIR=<the folder that holds ducc0/fft/fft.h>, or build it "
                "with ./dev, which gets them");
}

bool has_avx2() noexcept { return false; }

template <class T>
Status transform(const driver::FftArgs&, int) noexcept {
  return available();
}

#endif

template Status transform<float>(const driver::FftArgs&, int) noexcept;
template Status transform<double>(const driver::FftArgs&, int) noexcept;

}  // namespace ember::inline v0::fft::host
