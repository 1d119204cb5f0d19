// What the core and the CUDA object (libember_cuda.so) say to each other: one C function that
// returns one table. The core opens the object at run time, so that a program starts without CUDA.
#pragma once

#include <string>
#include <vector>

#include "ember/driver/compiled.h"
#include "ember/driver/driver.h"
#include "ember/driver/kernels.h"
#include "ember/driver/layout.h"
#include "ember/version.h"

namespace ember::inline v0::driver {

/// The layouts of this header's table and of all that crosses the seam, as one number.
constexpr std::uint64_t layout_stamp() noexcept;

struct CudaObject {
  /// Core and object must be of one version and of one layout; anything else is refused by name.
  /// These two are the first fields in every version.
  const char* version = EMBER_VERSION_STRING;
  std::uint64_t layout = layout_stamp();
  /// Number of visible devices without initialising CUDA (so that the process may still fork), from
  /// NVML and CUDA_VISIBLE_DEVICES; -1 when NVML cannot tell.
  int (*count_without_cuda)() noexcept = nullptr;
  /// Whether count_without_cuda answers from memory. May be null: it never does.
  bool (*devices_are_known)() noexcept = nullptr;
  /// Initialises CUDA and makes the driver: insufficient_driver, no_device, or what CUDA said.
  /// no_device's detail says whether libcuda.so.1 is missing. Called at most once.
  Status (*open)(Driver*& out) noexcept = nullptr;
  /// The CUDA implementation of a kernel that the core knows by name, and the layout of its
  /// arguments.
  kernels::Found (*implementation)(const char* kernel) noexcept = nullptr;
  /// What Driver::device_sensor and device_processes say, without initialising CUDA: by the
  /// position among CUDA_VISIBLE_DEVICES. Code::not_ready where only CUDA knows which device that
  /// is (MIG instances); Code::not_initialized without NVML, Code::no_device without an NVIDIA
  /// driver.
  Status (*sensor_without_cuda)(int device, Sensor sensor, std::int64_t& out) noexcept = nullptr;
  Status (*processes_without_cuda)(int device, GpuProcesses& out) noexcept = nullptr;
  /// The UUIDs of all devices of the machine, without initialising CUDA; null where NVML cannot
  /// tell. May be null itself.
  const std::vector<std::string>* (*uuids_without_cuda)() noexcept = nullptr;
  /// driver::cuda_compiler and driver::cuda_compile (compiled.h).
  Status (*compiler)(std::string& identity) noexcept = nullptr;
  Status (*compile)(const std::string& source, int capability, std::string& image, std::string& log,
                    bool contract) noexcept = nullptr;
  /// The architectures compiled in, such as "sm_90 compute_90".
  const char* architectures = "";
};

constexpr std::uint64_t layout_stamp() noexcept {
  layout::Hash hash;
  layout::add_seam(hash);
  EMBER_LAYOUT(CudaObject, EMBER_FIELD(version), EMBER_FIELD(layout),
               EMBER_FIELD(count_without_cuda), EMBER_FIELD(devices_are_known), EMBER_FIELD(open),
               EMBER_FIELD(implementation), EMBER_FIELD(sensor_without_cuda),
               EMBER_FIELD(processes_without_cuda), EMBER_FIELD(uuids_without_cuda),
               EMBER_FIELD(compiler), EMBER_FIELD(compile), EMBER_FIELD(architectures))
  hash.add(layout_of(static_cast<const DeviceCode*>(nullptr)));
  layout::add_opaque<CompiledContext>(hash, "CompiledContext");
  return hash.value();
}

/// The one symbol the object exports.
using CudaObjectEntry = const CudaObject* (*)();
inline constexpr const char* kCudaObjectEntry = "ember_cuda_object";

}  // namespace ember::inline v0::driver
