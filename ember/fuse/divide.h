// Graphs with reductions of a few long rows, as two kernels: one for parts of the rows, and one
// that reduces what that has made of them.
#pragma once

#include <cstdint>
#include <vector>

#include "ember/fuse/graph.h"

namespace ember::inline v0::fusion {

struct Divided {
  /// Outputs that are there for each element, and behind them one element for each reduction and
  /// part. Which outputs of the undivided graph the former are.
  Graph of_parts;
  std::vector<std::uint8_t> element_outputs;
  std::vector<Dtype> partial;  ///< the element types of the latter
  /// Outputs that are there for each row, from inputs behind those of the undivided graph: what the
  /// other kernel has made of the parts. Which outputs of the undivided graph they are.
  Graph of_rows;
  std::vector<std::uint8_t> row_outputs;
};

/// Of a graph in which no step on elements needs the result of a reduction. What the kernels do not
/// need is still in their graphs (Graph::needed()).
Divided divide(const Graph& graph, bool precise);

}  // namespace ember::inline v0::fusion
