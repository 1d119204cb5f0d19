// What the core and the CUDA object (libember_cuda.so) say to each other: one C function that
// returns one table. The core opens the object at run time, so that a program starts without CUDA.
#pragma once

#include "ember/driver/driver.h"
#include "ember/version.h"

namespace ember::driver {

struct CudaObject {
  /// Core and object must come from one build; anything else is refused by name.
  const char* version = EMBER_VERSION_STRING;
  /// Number of visible devices without initialising CUDA (so that the process may still fork), from
  /// NVML and CUDA_VISIBLE_DEVICES; -1 when NVML cannot tell.
  int (*count_without_cuda)() noexcept = nullptr;
  /// Whether count_without_cuda answers from memory. May be null: it never does.
  bool (*devices_are_known)() noexcept = nullptr;
  /// Initialises CUDA and makes the driver: insufficient_driver, no_device, or what CUDA said.
  /// no_device's detail says whether libcuda.so.1 is missing. Called at most once.
  Status (*open)(Driver*& out) noexcept = nullptr;
  /// The CUDA column of a kernel that the core knows by name; null if there is none.
  CudaColumn (*column)(const char* kernel) noexcept = nullptr;
  /// The architectures compiled in, such as "sm_90 compute_90".
  const char* architectures = "";
};

/// The one symbol the object exports.
using CudaObjectEntry = const CudaObject* (*)();
inline constexpr const char* kCudaObjectEntry = "ember_cuda_object";

}  // namespace ember::driver
