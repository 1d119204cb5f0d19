// Functions whose calls become replays by themselves. docs/graphs.md is the guide.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/graphs/callables.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda {

struct GraphedFunctionOptions {
  /// How many graphs there are at most; the one that was used least recently goes. From 1.
  int max_graphs = 8;
  /// Whether results are copied out of the graph's memory. Without, they are that memory, which the
  /// next call of the function overwrites, whatever its arguments are.
  bool copy = true;
  /// For warnings.
  std::string name = "a function";
};

namespace detail {

class GraphCache;

/// What a call gives: tensors, and what else its caller wants to have again after a replay.
struct GraphedResults {
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> rest;
  std::string refusal = {};  ///< of a call that is captured: why replays would not do; else empty
};
/// `captured`: the call is captured for replays, so that it may get other tensors than its
/// caller's.
using GraphedFunctionBody =
    std::function<GraphedResults(const std::vector<Tensor>&, bool captured)>;

/// What other languages build on: graphs of functions whose arguments are not only tensors.
class EMBER_API GraphedCalls {
 public:
  /// Whether two values of `other` are the same; a null one never comes. `before_capture`, which
  /// may be empty, is called before each capture.
  using Same = std::function<bool(const void* a, const void* b)>;
  explicit GraphedCalls(GraphedFunctionOptions options, Same same = {},
                        std::function<void()> before_capture = {});
  /// As GraphedFunction's call. `other`: the arguments beside the tensors, null if there are none.
  /// `refusal`: why there can be no graph, if the caller knows; else empty. The body is called
  /// before this returns or not at all.
  GraphedResults call(const GraphedFunctionBody& body, const std::vector<Tensor>& arguments,
                      const std::shared_ptr<const void>& other = {},
                      const std::string& refusal = {}) const;
  void clear() const;

 private:
  std::shared_ptr<GraphCache> cache_;
};

}  // namespace detail

/// A function of tensors that is called like before, and replays graphs. Copies share them.
class EMBER_API GraphedFunction {
 public:
  /// Internal: graphed() makes them.
  GraphedFunction(TensorFunction function, detail::GraphedCalls calls);
  // Moving copies: there is no graphed function that is none.
  GraphedFunction(const GraphedFunction&) = default;
  GraphedFunction& operator=(const GraphedFunction&) = default;
  ~GraphedFunction() = default;

  /// What the function gives for these arguments, with all that it does to them and to other
  /// tensors, on the current stream of the arguments' device (without arguments, of the current
  /// one). For each signature (dtypes, sizes, strides and devices of the arguments, which of them
  /// overlap, the current device) the first call is the function's, the second one captures it and
  /// replays, and later ones replay. Where there can be no graph the function is called, and a
  /// warning says why, once per function. Whatever the function throws. May be called by several
  /// threads, and on several streams: replays follow each other. Does not block, but where the
  /// function does, and while another thread captures.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments) const;
  /// Forgets all graphs and signatures. Thread-safe; waits for a capture in progress, and Error in
  /// that capture itself.
  void clear() const { calls_.clear(); }

 private:
  TensorFunction function_;
  detail::GraphedCalls calls_;
};

/// Makes one of a function. What it does beside work of devices is done when it is called only:
/// twice in the call that captures if the capture fails, and never in a replay. ValueError for an
/// empty function, and a max_graphs below 1. Does not initialise.
///
///     auto step = cuda::graphed([&](const auto& in) { return std::vector{matmul(in[0], w).relu()};
///     }); Tensor y = step({x})[0];
EMBER_API GraphedFunction graphed(TensorFunction function, GraphedFunctionOptions options = {});

}  // namespace ember::inline v0::cuda
