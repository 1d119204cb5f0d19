// The layouts of all that the core and the CUDA object hand to each other through the seam, as one
// number. Both are compiled from this header; the number differs when a type, the order of the
// seam's functions, a compiler's flag or a C++ library differs, and the core then refuses the
// object. The arguments of kernels have numbers of their own (arguments.h), which are compared
// kernel by kernel.
#pragma once

#include <cstddef>
#include <string>

#include "ember/driver/arguments.h"
#include "ember/driver/driver.h"
#include "ember/driver/kernels.h"

namespace ember::inline v0::driver::layout {

/// A function of Driver that is in no list because it cannot fail, and its place in the table of
/// virtual functions.
struct Place {
  const char* name;
  std::size_t slot;
};
inline constexpr Place kUnlisted[] = {{"name", 2},          {"simulated", 3}, {"device_count", 4},
                                      {"device_active", 6}, {"may_wait", 10}, {"device_epoch", 11},
                                      {"epoch_ended", 12},  {"now", 46}};

/// What crosses the boundary, but for the table of entries itself (cuda_object.h).
constexpr void add_seam(Hash& hash) {
  // The standard library's part: its strings cross in Status and in DeviceProperties.
  add_opaque<std::string>(hash, "std::string");
  add_opaque<Code>(hash, "Code");
  add_opaque<Status>(hash, "Status");
  add_opaque<Params>(hash, "Params");
  add_opaque<HostLaunch>(hash, "HostLaunch");
  add_opaque<CudaLaunch>(hash, "CudaLaunch");
  add_opaque<Name>(hash, "Name");
  add_opaque<Context>(hash, "Context");
  add_opaque<HostImplementation>(hash, "HostImplementation");
  add_opaque<CudaImplementation>(hash, "CudaImplementation");
  add_opaque<kernels::Found>(hash, "kernels::Found");
  EMBER_LAYOUT(KernelNeeds, EMBER_FIELD(scratch))
  add_opaque<Kernel>(hash, "Kernel");
  hash.add(offsetof(Kernel, name)).add(offsetof(Kernel, host)).add(offsetof(Kernel, cuda));
  hash.add(offsetof(Kernel, context));
  EMBER_LAYOUT(StreamHandle, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(EventHandle, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(RecentLaunch, EMBER_FIELD(name), EMBER_FIELD(stream), EMBER_FIELD(number),
               EMBER_FIELD(bytes), EMBER_FIELD(stack), EMBER_FIELD(epoch), EMBER_FIELD(state))
  EMBER_LAYOUT(PeerMemory, EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(GraphHandle, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(GraphExecHandle, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(Rebound, EMBER_FIELD(captured), EMBER_FIELD(bytes), EMBER_FIELD(now))
  add_opaque<NodeBinding>(hash, "NodeBinding");
  hash.add(offsetof(NodeBinding, node)).add(offsetof(NodeBinding, name));
  hash.add(offsetof(NodeBinding, addresses));
  add_opaque<GraphRebinding>(hash, "GraphRebinding");
  hash.add(offsetof(GraphRebinding, nodes)).add(offsetof(GraphRebinding, all_nodes));
  hash.add(offsetof(GraphRebinding, memory)).add(offsetof(GraphRebinding, kernel));
  EMBER_LAYOUT(EventOptions, EMBER_FIELD(timing), EMBER_FIELD(blocking), EMBER_FIELD(interprocess))
  EMBER_LAYOUT(PriorityRange, EMBER_FIELD(least), EMBER_FIELD(greatest))
  EMBER_LAYOUT(MemoryInfo, EMBER_FIELD(free), EMBER_FIELD(total))
  EMBER_LAYOUT(PointerInfo, EMBER_FIELD(kind), EMBER_FIELD(device), EMBER_FIELD(base),
               EMBER_FIELD(bytes))
  add_opaque<IpcHandle>(hash, "IpcHandle");
  add_opaque<Sensor>(hash, "Sensor");
  add_opaque<WorkTimes>(hash, "WorkTimes");
  EMBER_LAYOUT(GpuProcess, EMBER_FIELD(pid), EMBER_FIELD(bytes))
  EMBER_LAYOUT(GpuProcesses, EMBER_FIELD(machine_index), EMBER_FIELD(processes))
  add_opaque<IpcExport>(hash, "IpcExport");
  hash.add(offsetof(IpcExport, handle)).add(offsetof(IpcExport, file));
  hash.add(offsetof(IpcExport, offset)).add(offsetof(IpcExport, extent));
  EMBER_LAYOUT(
      DeviceProperties, EMBER_FIELD(name), EMBER_FIELD(major), EMBER_FIELD(minor),
      EMBER_FIELD(is_multi_gpu_board), EMBER_FIELD(is_integrated), EMBER_FIELD(simulated),
      EMBER_FIELD(multi_processor_count), EMBER_FIELD(total_memory),
      EMBER_FIELD(max_threads_per_multi_processor), EMBER_FIELD(max_threads_per_block),
      EMBER_FIELD(regs_per_multiprocessor), EMBER_FIELD(warp_size), EMBER_FIELD(L2_cache_size),
      EMBER_FIELD(shared_memory_per_block), EMBER_FIELD(shared_memory_per_block_optin),
      EMBER_FIELD(shared_memory_per_multiprocessor), EMBER_FIELD(clock_rate),
      EMBER_FIELD(memory_clock_rate), EMBER_FIELD(memory_bus_width), EMBER_FIELD(pci_domain_id),
      EMBER_FIELD(pci_bus_id), EMBER_FIELD(pci_device_id), EMBER_FIELD(uuid))
  // The seam's functions in the order of the table that they are called through, and those between
  // them. A test holds both lists against that table.
  add_opaque<Driver>(hash, "Driver");
  for (const Place& place : kUnlisted) hash.add(place.name).add(place.slot);
#define EMBER_SEAM_CALL(name, parameters, arguments) hash.add(#name).add(#parameters);
#include "ember/driver/seam_calls.inc"
#undef EMBER_SEAM_CALL
}

}  // namespace ember::inline v0::driver::layout
