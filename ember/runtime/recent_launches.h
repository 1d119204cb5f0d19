// The last operations of each stream: what a fault is traced with. docs/faults.md is the guide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/driver/recent_launches.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda {

using driver::LaunchState;

/// An operation that was enqueued on a stream: a kernel, copy, fill or host function; on simulated
/// devices also a wait, and the record of a timed event.
struct RecentLaunch {
  std::string name;
  int device = 0;
  const void* stream = nullptr;  ///< native handle; null is the default stream
  std::uint64_t number = 0;      ///< counts the stream's operations, from 1; faults name it
  std::size_t bytes = 0;         ///< of a copy or fill
  LaunchState state = LaunchState::unfinished;
  std::uint64_t stack = 0;  ///< a number for where it was enqueued; 0 if that is unknown

  /// Where it was enqueued, one or more lines; empty if that is unknown.
  EMBER_API std::string where() const;

  /// "'add.float32' number 3 of stream 0x100000002 of cuda:0, finished".
  EMBER_API std::string str() const;
};

/// From now on the last `count` operations of each stream are kept (0 to 65536; 0: none, which is
/// the beginning), in place of what EMBER_RECORD_LAUNCHES says, and faults say where the operation
/// was enqueued that has failed. Each operation then costs some 100 ns more, and on real devices
/// every sixteenth one a write to host memory by the stream. ValueError for another number. Needs
/// no device, makes none, does not block. Thread-safe.
EMBER_API void record_launches(int count);

/// What is kept of a device's streams, each stream's oldest first; empty unless recording is on.
/// Works after a fault, too: there is seen how far each stream came, on real devices in steps of
/// sixteen operations, so that up to fifteen that have finished are shown as unfinished.
/// Does not block. Thread-safe.
EMBER_API std::vector<RecentLaunch> recent_launches(DeviceArg device = {});

}  // namespace ember::inline v0::cuda
