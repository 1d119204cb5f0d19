// Functions of tensors made graphs: captured once, and called like before. Chapter 7 of the
// documents, make_graphed_callables; docs/graphs.md is the guide.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ember/base/export.h"
#include "ember/memory/pool_id.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda {

/// A function of tensors that gives tensors.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

namespace detail {
struct GraphedState;
}  // namespace detail

/// A function whose work is a graph. Copies share it. Not to be called by two threads at once, nor
/// on two streams without an order between them: arguments and results lie in memory of its own.
class EMBER_API GraphedCallable {
 public:
  /// Internal: make_graphed_callables() makes them.
  explicit GraphedCallable(std::shared_ptr<detail::GraphedState> state) noexcept;
  // Moving copies: there is no graphed callable that is none.
  GraphedCallable(const GraphedCallable&) noexcept = default;
  GraphedCallable& operator=(const GraphedCallable&) noexcept = default;
  ~GraphedCallable() = default;

  /// What the function gives for these arguments, on the current stream of the device on which it
  /// was captured. Those whose addresses are not those of the sample are copied there first, from
  /// any device. The results are the same memory each time, which the next call overwrites. Error
  /// for another number of arguments, or one of another dtype or shape than its sample; ValueError
  /// for two whose samples share memory, unless both are what their samples are: one tensor, or the
  /// samples. Blocks where such a copy does.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments) const;

 private:
  std::shared_ptr<detail::GraphedState> state_;
};

struct GraphedOptions {
  /// How often each function is called before it is captured.
  int num_warmup_iters = 3;
  /// As of CUDAGraph::capture_begin; one of their own otherwise, which all of them share.
  std::optional<MemPoolId> pool = {};
};

/// Makes graphs of functions on the current device: calls each a few times with its sample
/// arguments, on a side stream, and captures it then, in this order. The samples are kept, and
/// their memory is where later arguments are copied to. The graphs share a pool, so they have to be
/// called in this order, and never at once. Error if the lists have not the same length, for an
/// argument or a result that is undefined, and for less than no calls; ValueError for an empty
/// function, and for a sample on the CPU that is not pinned; whatever a function throws; what
/// CUDAGraph::capture_end throws. Waits for the device, and empties the caches before each capture.
EMBER_API std::vector<GraphedCallable> make_graphed_callables(
    const std::vector<TensorFunction>& functions,
    const std::vector<std::vector<Tensor>>& sample_arguments, const GraphedOptions& options = {});
/// The same of one function.
EMBER_API GraphedCallable make_graphed_callable(const TensorFunction& function,
                                                const std::vector<Tensor>& sample_arguments,
                                                const GraphedOptions& options = {});

}  // namespace ember::inline v0::cuda
