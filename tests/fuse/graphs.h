// Graphs that tests make by hand, as instances of kernels.
#pragma once

#include "ember/fuse/graph.h"
#include "ember/jit/source.h"

namespace ember::test {

/// Of kernels without rows, or of which the rows are still to be said.
inline jit::Instance instance_of(const fusion::Graph& graph, jit::Layout layout) {
  jit::Instance made;
  made.fused = true;
  made.layout = layout;
  made.inputs.assign(graph.inputs);
  made.numbers.assign(graph.numbers);
  made.outputs = graph.outputs.size();
  for (const std::uint8_t output : graph.outputs) made.stored.push_back(graph.steps[output].result);
  made.dtype = made.stored[0];
  return made;
}

inline const jit::Signature& kernel_name() {
  static const jit::Signature made = [] {
    jit::Signature signature;
    signature.name = "all";
    return signature;
  }();
  return made;
}

}  // namespace ember::test
