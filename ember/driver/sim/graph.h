// Captured graphs of simulated devices: pieces of work with dependencies, which a replay submits as
// tasks, so that whoever decides what runs decides the order of a replay's branches, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/handles.h"
#include "ember/driver/kernel.h"
#include "ember/driver/rebinding.h"
#include "ember/driver/sim/stream.h"

namespace ember::inline v0::driver::sim {

/// What was given to the streams of one capture.
struct CapturedGraph {
  /// The work of one stream, in order. The first one is of the stream on which the capture began.
  struct Branch {
    int device = 0;
    std::uint32_t epoch = 0;  ///< of the device, when the stream came in
    int priority = 0;
  };
  struct Node {
    TaskKind kind = TaskKind::kernel;
    std::size_t branch = 0;
    Kernel kernel{};  ///< of other kinds the name; its context keeps what the node needs
    std::vector<std::byte> arguments;
    AddressPlaces addresses;  ///< in these
    PeerMemory peer;
    EventHandle event;               ///< of kind `stamp`: is recorded; `wait`: is waited for
    std::vector<std::size_t> after;  ///< earlier nodes, which it waits for

    Params params() const noexcept { return {arguments.data(), arguments.size()}; }
  };

  int device = 0;
  std::vector<Branch> branches;
  std::vector<Node> nodes;        ///< each after those that it waits for
  std::vector<std::size_t> last;  ///< what the stream of the first branch had waited for at the end

  /// As a directed graph in Graphviz's language.
  std::string dot() const;
};

/// A host function that replays call: destroyed with the last replay and the graph.
struct CapturedCall : Context {
  explicit CapturedCall(const HostFunctionArgs& args) noexcept : call(args) {}
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;
  ~CapturedCall() override { call.destroy(call.argument); }
  HostFunctionArgs call;
};

/// A graph made ready to run: with streams of its own for all branches but the first, whose nodes
/// are run on the stream that a replay is given to.
class GraphExec {
 public:
  /// `streams` for the branches from the second on.
  GraphExec(std::shared_ptr<const CapturedGraph> graph, std::vector<StreamHandle> streams);

  const CapturedGraph& graph() const noexcept { return *graph_; }
  const std::vector<StreamHandle>& streams() const noexcept { return streams_; }

  /// Submits one replay; `on` for each branch, `events` for each node with an event. After a
  /// failure nothing was submitted.
  Status launch(Machine& machine, const std::vector<Stream*>& on,
                const std::vector<Event*>& events);
  /// Driver::graph_bind. After a failure nothing has changed.
  Status bind(const GraphRebinding& binding);
  /// Calls `act(args, branch)` for each copy of a replay.
  template <class Act>
  void each_copy(const Act& act) {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i)
      if (graph_->nodes[i].kind == TaskKind::copy)
        act(params_of(i).template as<CopyArgs>(), graph_->nodes[i].branch);
  }

 private:
  /// What a node has instead of what was captured.
  struct Bound {
    Kernel kernel;
    std::vector<std::byte> arguments;
  };
  Params params_of(std::size_t node) const EMBER_REQUIRES(mutex_) {
    const auto bound = bound_.find(node);
    if (bound == bound_.end()) return graph_->nodes[node].params();
    return {bound->second.arguments.data(), bound->second.arguments.size()};
  }
  const Kernel& kernel_of(std::size_t node) const EMBER_REQUIRES(mutex_) {
    const auto bound = bound_.find(node);
    return bound == bound_.end() ? graph_->nodes[node].kernel : bound->second.kernel;
  }

  const std::shared_ptr<const CapturedGraph> graph_;
  const std::vector<StreamHandle> streams_;
  std::vector<std::vector<std::size_t>> waits_;  // of each node, for nodes of other branches
  std::vector<std::size_t> last_;                // what the first branch waits for in the end
  Mutex mutex_;                                  // held while a replay is submitted
  Point end_ EMBER_GUARDED_BY(mutex_);           // of the last replay
  std::unordered_map<std::size_t, Bound> bound_ EMBER_GUARDED_BY(mutex_);  // by the node
};

}  // namespace ember::inline v0::driver::sim
