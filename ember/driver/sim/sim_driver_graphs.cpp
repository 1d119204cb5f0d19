// Capture and graphs of the simulated driver.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "ember/driver/sim/capture.h"
#include "ember/driver/sim/graph.h"
#include "ember/driver/sim/host_guard.h"
#include "ember/driver/sim/sim_driver.h"

namespace ember::inline v0::driver::sim {
namespace {

Status no_graph(const char* what, const void* native) {
  char text[96];
  std::snprintf(text, sizeof text, "%p is not the handle of a %s", native, what);
  return Status(Code::invalid_handle, text);
}

void do_nothing(void*) {}

}  // namespace

Status SimDriver::capture_work(Stream& stream, Task::Kind kind, const Kernel& kernel,
                               const Params& params, PeerMemory peer) {
  if (kind != Task::Kind::host_function) return captures_.add(stream, kind, kernel, params, peer);
  // Until the capture has it, it is the caller's.
  HostFunctionArgs args = params.as<HostFunctionArgs>();
  const auto destroy = std::exchange(args.destroy, &do_nothing);
  Ref<CapturedCall> owner = make_ref<CapturedCall>(args);
  Kernel node = kernel;
  node.context = owner;
  EMBER_TRY(captures_.add(stream, kind, node, Params(args), peer));
  owner->call.destroy = destroy;
  return {};
}

Status SimDriver::capture_begin(StreamHandle handle, CaptureMode mode) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (handle.native == nullptr)
    return Status(Code::stream_capture_unsupported, "a default stream cannot be captured");
  stream->hand_over();
  return captures_.begin(*stream, handle.epoch, mode);
}

Status SimDriver::capture_end(StreamHandle handle, GraphHandle& out) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, stream));
  std::unique_ptr<CapturedGraph> graph;
  EMBER_TRY(captures_.end(*stream, graph));
  std::shared_ptr<const CapturedGraph> shared = std::move(graph);
  const MutexLock lock(graphs_mutex_);
  out = {graphs_.emplace(const_cast<CapturedGraph*>(shared.get()), shared).first->first,
         shared->device, handle.epoch};
  return {};
}

Status SimDriver::capture_status(StreamHandle handle, CaptureStatus& out,
                                 std::uint64_t& id) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, stream));
  out = captures_.status(*stream, id);
  return {};
}

Status SimDriver::capture_node(StreamHandle handle, std::uint64_t& node) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, stream));
  node = captures_.node(*stream);
  return {};
}

Status SimDriver::capture_mode_exchange(CaptureMode& mode) noexcept {
  mode = Captures::exchange_mode(mode);
  return {};
}

Status SimDriver::find(GraphHandle graph, std::shared_ptr<const CapturedGraph>& out) noexcept {
  const MutexLock lock(graphs_mutex_);
  const auto found = graphs_.find(graph.native);
  if (found == graphs_.end()) return no_graph("graph", graph.native);
  out = found->second;
  return {};
}

Status SimDriver::find(GraphExecHandle graph, std::shared_ptr<GraphExec>& out) noexcept {
  const MutexLock lock(graphs_mutex_);
  const auto found = graph_execs_.find(graph.native);
  if (found == graph_execs_.end()) return no_graph("graph that is ready to run", graph.native);
  out = found->second;
  return {};
}

Status SimDriver::graph_node_count(GraphHandle handle, std::size_t& out) noexcept {
  std::shared_ptr<const CapturedGraph> graph;
  EMBER_TRY(find(handle, graph));
  out = graph->nodes.size();
  return {};
}

Status SimDriver::graph_instantiate(GraphHandle handle, GraphExecHandle& out) noexcept {
  std::shared_ptr<const CapturedGraph> graph;
  EMBER_TRY(find(handle, graph));
  std::vector<StreamHandle> streams;
  for (std::size_t i = 1; i < graph->branches.size(); ++i) {
    const CapturedGraph::Branch& branch = graph->branches[i];
    StreamHandle made;
    if (Status status = stream_create(branch.device, branch.priority, made); !status.ok()) {
      for (const StreamHandle& stream : streams) (void)stream_destroy(stream);
      return status;
    }
    streams.push_back(made);
  }
  auto exec = std::make_shared<GraphExec>(graph, std::move(streams));
  const MutexLock lock(graphs_mutex_);
  out = {graph_execs_.emplace(exec.get(), exec).first->first, graph->device, handle.epoch};
  return {};
}

Status SimDriver::graph_launch(GraphExecHandle handle, StreamHandle on) noexcept {
  std::shared_ptr<GraphExec> exec;
  EMBER_TRY(find(handle, exec));
  const CapturedGraph& graph = exec->graph();
  Stream* stream = nullptr;
  EMBER_TRY(enter(on, Fault::What::launch, stream));
  if (on.device != graph.device)
    return Status(Code::invalid_handle,
                  "a graph of cuda:" + std::to_string(graph.device) +
                      " cannot be replayed on a stream of cuda:" + std::to_string(on.device));
  if (stream->capturing()) EMBER_TRY(captures_.refuse(*stream, "replaying a graph"));
  for (const CapturedGraph::Node& node : graph.nodes) EMBER_TRY(check_peer(node.peer));
  std::vector<Stream*> streams{stream};
  for (std::size_t i = 1; i < graph.branches.size(); ++i) {
    const CapturedGraph::Branch& branch = graph.branches[i];
    EMBER_TRY(check_peer({branch.device, branch.epoch}));
    Stream* side = nullptr;
    EMBER_TRY(enter(exec->streams()[i - 1], side));
    streams.push_back(side);
  }
  std::vector<Event*> events;
  for (const CapturedGraph::Node& node : graph.nodes) {
    if (node.event.native == nullptr) continue;
    Event* event = nullptr;
    EMBER_TRY(enter(node.event, event));
    Event::Record record;
    if (node.kind == TaskKind::wait && event->read(node.event, record) && record.captured)
      return captures_.refuse(*record.captured, "replaying a graph that waits for an event");
    events.push_back(event);
  }
  if (!host_guard::enabled()) [[likely]]
    return exec->launch(machine_, streams, events);
  const auto is_pinned = [this](const void* address) {
    PointerInfo info;
    return pointer_info(address, info).ok() && info.kind == PointerInfo::Kind::pinned;
  };
  exec->each_copy([&](const CopyArgs& copy, std::size_t branch) {
    host_guard::begin(copy, is_pinned(copy.target), is_pinned(copy.source), *streams[branch],
                      branch == 0 ? on.native : exec->streams()[branch - 1].native);
  });
  Status launched = exec->launch(machine_, streams, events);
  if (!launched.ok())
    exec->each_copy(
        [&](const CopyArgs& copy, std::size_t branch) { host_guard::end(copy, *streams[branch]); });
  return launched;
}

Status SimDriver::graph_bind(GraphHandle, GraphExecHandle handle,
                             const GraphRebinding& binding) noexcept {
  std::shared_ptr<GraphExec> exec;
  EMBER_TRY(find(handle, exec));
  return exec->bind(binding);
}

Status SimDriver::graph_describe(GraphHandle handle, const std::string& path) noexcept {
  std::shared_ptr<const CapturedGraph> graph;
  EMBER_TRY(find(handle, graph));
  const std::string text = graph->dot();
  std::FILE* const file = std::fopen(path.c_str(), "we");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written &= std::fclose(file) == 0;
  }
  if (written) return {};
  return Status(Code::invalid_value,
                "cannot write the graph to '" + path + "': " + std::strerror(errno));
}

Status SimDriver::graph_destroy(GraphHandle handle) noexcept {
  std::shared_ptr<const CapturedGraph> graph;  // what it owns goes without the lock
  EMBER_TRY(find(handle, graph));
  const MutexLock lock(graphs_mutex_);
  graphs_.erase(handle.native);
  return {};
}

Status SimDriver::graph_exec_destroy(GraphExecHandle handle) noexcept {
  std::shared_ptr<GraphExec> exec;
  EMBER_TRY(find(handle, exec));
  for (const StreamHandle& stream : exec->streams())
    (void)stream_destroy(stream);  // gone already, if the device was reset
  const MutexLock lock(graphs_mutex_);
  graph_execs_.erase(handle.native);
  return {};
}

}  // namespace ember::inline v0::driver::sim
