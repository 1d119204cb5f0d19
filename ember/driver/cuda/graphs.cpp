// Capture and graphs.
#include <string>
#include <utility>

#include "ember/driver/cuda/call_gate.h"
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

CUstream to_cuda(StreamHandle stream) { return static_cast<CUstream>(stream.native); }
CUgraph to_cuda(GraphHandle graph) { return static_cast<CUgraph>(graph.native); }
CUgraphExec to_cuda(GraphExecHandle graph) { return static_cast<CUgraphExec>(graph.native); }

CUstreamCaptureMode to_cuda(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::thread_local_: return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    case CaptureMode::relaxed: return CU_STREAM_CAPTURE_MODE_RELAXED;
    default: return CU_STREAM_CAPTURE_MODE_GLOBAL;
  }
}

CaptureMode from_cuda(CUstreamCaptureMode mode) {
  switch (mode) {
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: return CaptureMode::thread_local_;
    case CU_STREAM_CAPTURE_MODE_RELAXED: return CaptureMode::relaxed;
    default: return CaptureMode::global;
  }
}

}  // namespace

Status CudaDriver::capture_begin(StreamHandle stream, CaptureMode mode) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  if (stream.native == nullptr)
    return Status(Code::stream_capture_unsupported, "a default stream cannot be captured");
  EMBER_TRY(on->outcome(api.cuStreamBeginCapture_v2(to_cuda(stream), to_cuda(mode)),
                        [&] { return "beginning to capture " + stream_text(stream.native); }));
  ++captures_here;
  return {};
}

Status CudaDriver::capture_end(StreamHandle stream, GraphHandle& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  CUgraph graph = nullptr;
  const CUresult result = api.cuStreamEndCapture(to_cuda(stream), &graph);
  // These two end nothing. (From the wrong thread it ends, too.)
  if (result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED && result != CUDA_ERROR_ILLEGAL_STATE)
    --captures_here;
  EMBER_TRY(
      on->outcome(result, [&] { return "ending the capture of " + stream_text(stream.native); }));
  out = {graph, stream.device, on->epoch()};
  return {};
}

Status CudaDriver::capture_status(StreamHandle stream, CaptureStatus& out,
                                  std::uint64_t& id) noexcept {
  ContextGuard on;
  if (!admits(stream, on)) [[unlikely]]
    return refuse(stream, on.admitted());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  if (stream.native != nullptr)
    EMBER_TRY(on->on_stream(
        on, to_cuda(stream),
        [&] {
          return api.cuStreamGetCaptureInfo_v2(to_cuda(stream), &status, &number, nullptr, nullptr,
                                               nullptr);
        },
        [&] { return "asking whether " + stream_text(stream.native) + " is captured"; }));
  switch (status) {
    case CU_STREAM_CAPTURE_STATUS_ACTIVE:
      out = CaptureStatus::active;
      id = number;
      break;
    case CU_STREAM_CAPTURE_STATUS_INVALIDATED: out = CaptureStatus::invalidated; break;
    default: out = CaptureStatus::none;
  }
  return {};
}

Status CudaDriver::capture_node(StreamHandle stream, std::uint64_t& node) noexcept {
  ContextGuard on;
  if (!admits(stream, on)) [[unlikely]]
    return refuse(stream, on.admitted());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* last = nullptr;
  std::size_t count = 0;
  if (stream.native != nullptr)
    EMBER_TRY(on->on_stream(
        on, to_cuda(stream),
        [&] {
          return api.cuStreamGetCaptureInfo_v2(to_cuda(stream), &status, nullptr, nullptr, &last,
                                               &count);
        },
        [&] { return "asking what " + stream_text(stream.native) + " was given last"; }));
  const bool told = status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1;
  node = told ? reinterpret_cast<std::uintptr_t>(last[0]) : 0;
  return {};
}

Status CudaDriver::capture_mode_exchange(CaptureMode& mode) noexcept {
  CUstreamCaptureMode exchanged = to_cuda(mode);
  if (const CUresult result = api.cuThreadExchangeStreamCaptureMode(&exchanged);
      result != CUDA_SUCCESS)
    return failure(result, "changing the thread's mode of captures");
  mode = from_cuda(exchanged);
  return {};
}

template <class Graph>
Status CudaDriver::admit_graph(const Graph& graph, ContextGuard& on) noexcept {
  EMBER_TRY(admit(graph.device, on));
  if (graph.native == nullptr) return Status(Code::invalid_handle, "a graph is null");
  return graph.epoch == on->epoch() ? Status() : refuse_old(graph.device, "graph");
}

Status CudaDriver::graph_node_count(GraphHandle graph, std::size_t& out) noexcept {
  ContextGuard on;
  EMBER_TRY(admit_graph(graph, on));
  EMBER_TRY(on->enter(on));
  std::size_t count = 0;
  EMBER_TRY(on->outcome(api.cuGraphGetNodes(to_cuda(graph), nullptr, &count),
                        [&] { return std::string("counting the nodes of a graph"); }));
  out = count;
  return {};
}

Status CudaDriver::graph_instantiate(GraphHandle graph, GraphExecHandle& out) noexcept {
  ContextGuard on;
  EMBER_TRY(admit_graph(graph, on));
  EMBER_TRY(on->enter(on));
  const RelaxedMode relaxed;
  CUgraphExec made = nullptr;
  constexpr unsigned long long kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  EMBER_TRY(on->outcome(api.cuGraphInstantiateWithFlags(&made, to_cuda(graph), kFlags),
                        [&] { return std::string("making a graph ready"); }));
  out = {made, graph.device, on->epoch()};
  return {};
}

Status CudaDriver::graph_launch(GraphExecHandle graph, StreamHandle stream) noexcept {
  ContextGuard on;
  EMBER_TRY(admit_graph(graph, on));
  if (graph.device != stream.device)
    return Status(Code::invalid_handle, "a graph of " + device_text(graph.device) +
                                            " cannot be replayed on a stream of " +
                                            device_text(stream.device));
  if (!is_of(stream, graph.epoch)) return refuse_old(stream.device, "stream");
  EMBER_TRY(on->enter(on));
  return on->enqueue(
      {"replay of a graph", stream.native},
      [&] { return api.cuGraphLaunch(to_cuda(graph), to_cuda(stream)); },
      [&] { return "replaying a graph on " + stream_text(stream.native); });
}

Status CudaDriver::graph_bind(GraphHandle graph, GraphExecHandle exec,
                              const GraphRebinding& binding) noexcept {
  ContextGuard on;
  EMBER_TRY(admit_graph(graph, on));
  if (exec.native == nullptr || exec.device != graph.device || exec.epoch != graph.epoch)
    return Status(Code::invalid_handle, "a graph that was made ready is of another graph");
  EMBER_TRY(on->enter(on));
  const RelaxedMode relaxed;
  const MutexLock lock(bound_graphs_.mutex);
  std::unique_ptr<GraphNodes>& nodes = bound_graphs_.all[graph.native];
  if (nodes == nullptr) nodes = std::make_unique<GraphNodes>(binding.all_nodes);
  return nodes->bind(to_cuda(exec), binding);
}

Status CudaDriver::graph_describe(GraphHandle graph, const std::string& path) noexcept {
  ContextGuard on;
  EMBER_TRY(admit_graph(graph, on));
  EMBER_TRY(on->enter(on));
  return on->outcome(api.cuGraphDebugDotPrint(to_cuda(graph), path.c_str(), 0),
                     [&] { return "writing a graph to '" + path + "'"; });
}

Status CudaDriver::graph_destroy(GraphHandle graph) noexcept {
  ContextGuard on;
  {
    const MutexLock lock(bound_graphs_.mutex);
    bound_graphs_.all.erase(graph.native);
  }
  EMBER_TRY(admit_graph(graph, on));
  return on->release(
      on, [&] { return api.cuGraphDestroy(to_cuda(graph)); },
      [&] { return std::string("destroying a graph"); });
}

Status CudaDriver::graph_exec_destroy(GraphExecHandle graph) noexcept {
  ContextGuard on;
  EMBER_TRY(admit_graph(graph, on));
  return on->release(
      on, [&] { return api.cuGraphExecDestroy(to_cuda(graph)); },
      [&] { return std::string("destroying a graph that was ready"); });
}

}  // namespace ember::inline v0::driver::cuda
