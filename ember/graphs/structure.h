// What a capture was given, as a graph: which work waits for which.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ember/graphs/graph.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::cuda::detail {

struct GraphStructure {
  using Entry = CaptureLog::Entry;
  struct Node {
    const Entry* entry = nullptr;
    std::vector<std::size_t> after;  ///< earlier nodes, which it waits for
  };
  /// How a stream came into the capture: by a wait for an event.
  struct Fork {
    const Entry* wait = nullptr;
    const Entry* record = nullptr;
  };

  std::vector<Node> nodes;        ///< each after those that it waits for
  std::vector<std::size_t> last;  ///< what the first stream has waited for in the end
  std::vector<Fork> forks;        ///< by the number of the stream; null for the first one

  /// Nodes that the first stream does not wait for, in order.
  std::vector<std::size_t> unjoined() const;
};

/// The log has ended, and lives as long as the structure.
GraphStructure structure_of(const CaptureLog& log);

/// The same for users.
GraphDescription describe(const CaptureLog& log);

/// "add.float32", or "copy", "fill", "host function".
const char* work_name(const Activity& activity) noexcept;

}  // namespace ember::inline v0::cuda::detail
