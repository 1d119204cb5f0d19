// The functions of the CUDA runtime that `torch.cuda.cudart()` has, on both kinds of device. As
// there, they answer with CUDA's number of an error, 0 for success, and throw only where there is
// no device at all. Programs in C++ that link the runtime itself need none of them.
#pragma once

#include <cstddef>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0::cuda::cudart {

/// Page-locks memory of the caller's, until host_unregister or the end of the process. Blocks while
/// the driver works.
EMBER_API Code host_register(void* pointer, std::size_t bytes);
/// Blocks until copies that may use the memory are done. host_memory_not_registered for what
/// host_register has not locked.
EMBER_API Code host_unregister(void* pointer);
/// A profiler that is attached to the process, such as `nsys profile -c cudaProfilerApi`, collects
/// from now on what the current device does. Without one, and on simulated devices, it does
/// nothing.
EMBER_API Code profiler_start();
/// The end of that. What the device has yet to do is not waited for.
EMBER_API Code profiler_stop();
/// A stream of the current device, for ExternalStream, until stream_destroy.
EMBER_API Code stream_create(void** handle);
/// Work that the stream holds is still done. invalid_handle for what stream_create has not made.
EMBER_API Code stream_destroy(void* handle);

}  // namespace ember::inline v0::cuda::cudart
