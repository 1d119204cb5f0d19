// The nodes of a captured graph that replays may be given other memory in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ember/base/status.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/rebinding.h"

namespace ember::inline v0::driver::cuda {

/// Of one graph. A piece of work is known by the last of its nodes; those before it that are the
/// last of no other piece belong to it, too. What they are is asked of CUDA once, at the first
/// binding. Not thread-safe.
class GraphNodes {
 public:
  explicit GraphNodes(std::span<const std::uint64_t> all) : last_(all.begin(), all.end()) {}

  /// Driver::graph_bind; the context of the graph is current.
  Status bind(CUgraphExec exec, const GraphRebinding& binding);

 private:
  struct Node {
    CUgraphNode node = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    bool own = false;      ///< a kernel of this library's
    bool changed = false;  ///< whether it has other memory than it was captured with
    CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
    CUDA_MEMCPY3D copy{};
    CUDA_MEMSET_NODE_PARAMS fill{};
    // Of a kernel: its parameters one behind the other, each where words may be.
    struct Parameter {
      std::size_t offset;
      std::size_t bytes;
      AddressPlaces addresses;
    };
    std::vector<std::byte> bytes;
    std::vector<Parameter> parameters;
  };
  Status look_at(CUgraphNode node, Node& out) const;
  Status nodes_of(std::uint64_t last, std::vector<Node>*& out);
  static Status set(CUgraphExec exec, const Node& node, std::vector<std::byte>& bytes);

  const std::unordered_set<std::uint64_t> last_;
  std::unordered_map<std::uint64_t, std::vector<Node>> known_;
};

}  // namespace ember::inline v0::driver::cuda
