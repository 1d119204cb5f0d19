// What every file of scalar/ needs. Three compilers read this folder: the C++ compiler, nvcc, and
// NVRTC, which gets it as text. So it includes nothing of ember outside itself.
#pragma once

#if !defined(__CUDACC_RTC__)
// The C names, in the global namespace, as on devices.
#include <math.h>    // NOLINT(modernize-deprecated-headers)
#include <string.h>  // NOLINT(modernize-deprecated-headers)

#include <cstdint>
#include <type_traits>
#endif

#if defined(__CUDACC__)
#define EMBER_HD __host__ __device__ __forceinline__
#else
#define EMBER_HD inline __attribute__((always_inline))
#endif
