// The management library as a table of function pointers: what is needed of nvml.h, which is not
// part of every toolkit. The library keeps these stable: a changed function gets a new name, like
// those that end in _v2.
#pragma once

#include <string>

#include "ember/base/status.h"

namespace ember::inline v0::driver::cuda::nvml {

inline constexpr const char* kLibrary = "libnvidia-ml.so.1";

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kInsufficientSize = 7;
inline constexpr Result kDriverNotLoaded = 9;

using Gpu = struct nvmlDevice_st*;

struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};
struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
/// What the first form of the list of processes has, and what later ones have.
struct ProcessV1 {
  unsigned pid = 0;
  unsigned long long bytes = 0;  // ~0 where it is not available
};
struct ProcessV2 {
  unsigned pid = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

struct Calls {
  // Without these the library is of no use.
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*by_index)(unsigned index, Gpu*) = nullptr;
  Result (*uuid)(Gpu, char*, unsigned size) = nullptr;
  // These may be null: older ones do not have all of them.
  const char* (*error_text)(Result) = nullptr;
  Result (*mig_mode)(Gpu, unsigned* current, unsigned* pending) = nullptr;
  Result (*parent_of_mig)(Gpu, Gpu*) = nullptr;
  Result (*by_uuid)(const char*, Gpu*) = nullptr;
  Result (*index)(Gpu, unsigned*) = nullptr;
  Result (*utilization)(Gpu, Utilization*) = nullptr;
  Result (*temperature)(Gpu, int sensor, unsigned* celsius) = nullptr;
  Result (*power)(Gpu, unsigned* milliwatts) = nullptr;
  Result (*clock)(Gpu, int which, unsigned* megahertz) = nullptr;
  Result (*memory)(Gpu, Memory*) = nullptr;
  Result (*processes_v2)(Gpu, unsigned* count, ProcessV2*) = nullptr;
  Result (*processes_v1)(Gpu, unsigned* count, ProcessV1*) = nullptr;
};

/// Opens the library at the first call. Code::not_initialized, naming it, where that is impossible.
/// Takes no lock, which the child of a fork might find taken.
Status load(const Calls*& out) noexcept;

}  // namespace ember::inline v0::driver::cuda::nvml
