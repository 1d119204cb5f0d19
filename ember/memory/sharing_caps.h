// How others may reach memory of a device: other processes, network cards, other devices. Chapter
// 22 of the documents says how tensors are sent; this says beforehand what will do.
#pragma once

#include <string>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

/// One way to reach memory.
struct SharingCap {
  bool possible = false;
  /// If it is not: the setting that would make it so for memory that is allocated anew, or why no
  /// setting would. A sentence without an end. Empty if it is possible.
  std::string change;
};

/// All of them, for the memory at one pointer.
struct SharingCaps {
  int device = 0;         ///< whose memory it is
  SharingCap legacy_ipc;  ///< cudaIpcGetMemHandle: what tensors are sent by on real devices
  SharingCap fd;          ///< a descriptor of a file: what tensors are sent by on simulated ones
  SharingCap fabric;      ///< a handle that is good on other nodes of an NVLink fabric
  SharingCap rdma;        ///< GPUDirect RDMA: network cards read and write it without the host
  /// Every other visible device can reach it directly; else copies to some of them, which `change`
  /// names, go through the host.
  SharingCap peers;
};

/// What is true of the device memory in use at `pointer`, and what would change it: to be asked
/// before a transfer silently takes a slower way. On real devices by CUDA's attributes of the
/// pointer and the device. ValueError for a pointer to anything else, and for memory of a pool that
/// is asleep; AcceleratorError if the device is in a fault. Enables and changes nothing.
/// Thread-safe; does not wait for work. Initialises.
EMBER_API SharingCaps sharing_caps(const void* pointer);

}  // namespace ember::inline v0::cuda
