#include "ember/graphs/callables.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/graphs/graph.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "ember/runtime/device.h"
#include "ember/runtime/guard.h"

namespace ember::inline v0::cuda {

struct detail::GraphedState {
  CUDAGraph graph;
  std::vector<Tensor> inputs, outputs;
  std::vector<const Storage*> input_storages;  // sorted
  struct Shared {
    std::size_t one, other;
    bool alike;  // they are one tensor
  };
  std::vector<Shared> shared;  // pairs of inputs that share memory
};

namespace {

std::string text_of(const Tensor& tensor) {
  return std::string(dtype_name(tensor.dtype())) + " " + tensor.sizes().str();
}

void require_defined(const std::vector<Tensor>& tensors, const char* what) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].defined())
      throw Error(std::string("make_graphed_callables: ") + what + " " + std::to_string(i) +
                  " is undefined, expected a tensor");
}

/// What the CPU computes while the function is captured is computed then, once. Pinned memory is
/// what captured copies read.
void require_capturable(const std::vector<Tensor>& samples) {
  require_defined(samples, "sample argument");
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!samples[i].is_cuda() && !samples[i].is_pinned())
      throw ValueError("make_graphed_callables: sample argument " + std::to_string(i) +
                       " is on the CPU, where nothing is captured, expected a CUDA device or "
                       "pinned memory");
}

/// As far as that is easy to tell: views with gaps may lie between each other.
bool share_memory(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  if (a.address() == b.address()) return true;
  if (!is_dense(a.sizes(), a.strides()) || !is_dense(b.sizes(), b.strides())) return false;
  const auto* const x = static_cast<const std::byte*>(a.address());
  const auto* const y = static_cast<const std::byte*>(b.address());
  return x < y + b.nbytes() && y < x + a.nbytes();
}

std::vector<detail::GraphedState::Shared> shared_of(const std::vector<Tensor>& samples) {
  std::vector<detail::GraphedState::Shared> made;
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (std::size_t j = i + 1; j < samples.size(); ++j)
      if (share_memory(samples[i], samples[j]))
        made.push_back({i, j,
                        samples[i].address() == samples[j].address() &&
                            samples[i].dtype() == samples[j].dtype() &&
                            samples[i].sizes() == samples[j].sizes() &&
                            samples[i].strides() == samples[j].strides()});
  return made;
}

/// What the function gives while its work is captured; if it throws, there is no graph.
std::vector<Tensor> captured(CUDAGraph& graph, const TensorFunction& function,
                             const std::vector<Tensor>& inputs, const MemPoolId& pool) {
  graph.capture_begin(pool);
  std::vector<Tensor> outputs;
  try {
    outputs = function(inputs);
  } catch (...) {
    try {
      graph.capture_end();
      graph.reset();
    } catch (const Error&) {
      // The function's own error is why; it goes on.
    }
    throw;
  }
  graph.capture_end();
  require_defined(outputs, "result");
  return outputs;
}

}  // namespace

GraphedCallable::GraphedCallable(std::shared_ptr<detail::GraphedState> state) noexcept
    : state_(std::move(state)) {}

std::vector<Tensor> GraphedCallable::operator()(const std::vector<Tensor>& arguments) const {
  detail::GraphedState& state = *state_;
  if (arguments.size() != state.inputs.size())
    throw Error("a graphed callable expected " + std::to_string(state.inputs.size()) +
                " tensors, as in sample_args, got " + std::to_string(arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Tensor& given = arguments[i];
    const Tensor& input = state.inputs[i];
    if (!given.defined() || given.dtype() != input.dtype() || given.sizes() != input.sizes())
      throw Error("argument " + std::to_string(i) +
                  " of a graphed callable has to be like its sample, " + text_of(input) + ", got " +
                  (given.defined() ? text_of(given) : "an undefined tensor"));
  }
  const auto are_alike = [](const Tensor& a, const Tensor& b) {
    return a.address() == b.address() && a.strides() == b.strides();
  };
  const auto is_there = [&](std::size_t i) { return are_alike(arguments[i], state.inputs[i]); };
  for (const auto& [one, other, alike] : state.shared) {
    if ((is_there(one) && is_there(other)) ||
        (alike && are_alike(arguments[one], arguments[other])))
      continue;
    throw ValueError("arguments " + std::to_string(one) + " and " + std::to_string(other) +
                     " of a graphed callable have samples that share memory, so that it cannot "
                     "hold both: expected " +
                     (alike ? "one tensor for both" : "the samples themselves"));
  }
  // What lies in the samples' memory, but not where it belongs, would be overwritten before it is
  // read.
  std::vector<Tensor> from = arguments;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!is_there(i) && std::binary_search(state.input_storages.begin(), state.input_storages.end(),
                                           from[i].storage().get()))
      from[i] = from[i].clone();
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!is_there(i)) Tensor(state.inputs[i]).copy_(from[i]);
  state.graph.replay();
  std::vector<Tensor> results;
  results.reserve(state.outputs.size());
  for (const Tensor& output : state.outputs) results.push_back(output.alias());
  return results;
}

std::vector<GraphedCallable> make_graphed_callables(
    const std::vector<TensorFunction>& functions,
    const std::vector<std::vector<Tensor>>& sample_arguments, const GraphedOptions& options) {
  if (functions.size() != sample_arguments.size())
    throw Error("make_graphed_callables: there are " + std::to_string(functions.size()) +
                " callables and sample_args for " + std::to_string(sample_arguments.size()));
  if (options.num_warmup_iters < 0)
    throw Error("make_graphed_callables: num_warmup_iters must not be negative, got " +
                std::to_string(options.num_warmup_iters));
  for (const TensorFunction& function : functions)
    if (!function)
      throw ValueError("make_graphed_callables: got an empty function, expected a callable one");
  for (const std::vector<Tensor>& samples : sample_arguments) require_capturable(samples);
  const MemPoolId pool = options.pool ? *options.pool : graph_pool_handle();
  // What a library makes at the first call of something is no part of a capture.
  synchronize();
  const StreamGuard on{Stream()};
  for (std::size_t i = 0; i < functions.size(); ++i)
    for (int call = 0; call < options.num_warmup_iters; ++call)
      (void)functions[i](sample_arguments[i]);
  synchronize();
  std::vector<GraphedCallable> made;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    auto state = std::make_shared<detail::GraphedState>();
    state->inputs = sample_arguments[i];
    for (const Tensor& input : state->inputs)
      state->input_storages.push_back(input.storage().get());
    std::sort(state->input_storages.begin(), state->input_storages.end());
    state->shared = shared_of(state->inputs);
    // What the warm-up left in the caches would stand in the graph's way, which empties none.
    empty_cache();
    pinned_empty_cache();
    state->outputs = captured(state->graph, functions[i], state->inputs, pool);
    made.emplace_back(std::move(state));
  }
  return made;
}

GraphedCallable make_graphed_callable(const TensorFunction& function,
                                      const std::vector<Tensor>& sample_arguments,
                                      const GraphedOptions& options) {
  return make_graphed_callables(std::vector{function},
                                std::vector<std::vector<Tensor>>{sample_arguments}, options)
      .front();
}

}  // namespace ember::inline v0::cuda
