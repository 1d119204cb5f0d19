// The kernels of fused functions that this process has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ember/fuse/graph.h"
#include "ember/fuse/rows.h"
#include "ember/jit/compiled_kernel.h"

namespace ember::inline v0::fusion {

/// The kernel of a graph, which is compiled at the first call for an instance and a kind of device.
/// `name`: of the function, for errors. Blocks while it is compiled; thread-safe.
Ref<const jit::CompiledKernel> kernel_of(const Graph& graph, const jit::Instance& instance,
                                         Device device, bool precise, const std::string& name);

struct WantedKernel {
  const Graph* graph;
  const jit::Instance* instance;
};
/// Those of one call. The ones that are not there yet are compiled beside each other, since each
/// takes a tenth of a second.
std::vector<Ref<const jit::CompiledKernel>> kernels_of(std::span<const WantedKernel> wanted,
                                                       Device device, bool precise,
                                                       const std::string& name);

/// Sweeps::needs() of a graph with reductions.
Sweeps::Needs needs_of(const Graph& graph, bool precise);

}  // namespace ember::inline v0::fusion
