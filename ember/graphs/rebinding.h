// Replays with other tensors than were captured: what is asked before, and which work changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ember/driver/rebinding.h"
#include "ember/graphs/graph.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::cuda::detail {

/// Those of one graph that is ready to run. A binding is one of a single replay, but work that
/// changed stays so until a replay wants it otherwise: replays that are bound alike change nothing.
class Rebindings {
 public:
  /// What a replay uses in place of what was captured.
  std::span<const driver::Rebound> memory() const noexcept { return memory_; }
  /// Readies the next replay. Error, before anything has changed, for tensors that cannot take the
  /// place of the captured ones; AcceleratorError if the driver refuses work, and then
  /// `exec` has to be made anew, as a new graph, and forget() to be called.
  void bind(std::span<const GraphBinding> bindings, const CaptureLog& log,
            const driver::GraphHandle& graph, const driver::GraphExecHandle& exec);
  /// The executable is a new one, in which everything is as it was captured.
  void forget() noexcept { memory_.clear(); }

 private:
  std::vector<driver::Rebound> memory_;
};

}  // namespace ember::inline v0::cuda::detail
