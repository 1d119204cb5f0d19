// Graphs: work that is captured once and replayed often. Chapter 7 of the documents; docs/graphs.md
// is the guide.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/export.h"
#include "ember/memory/pool_id.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/stream.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {
class Generator;
}

namespace ember::inline v0::cuda {

/// Which looks at work and waits for it, elsewhere than on what is captured, invalidate a capture
/// while it is in progress: those of every thread, those of the thread that captures, or none.
enum class CaptureErrorMode : std::uint8_t { global, thread_local_, relaxed };
/// "global", "thread_local" or "relaxed". Error `Unknown capture error mode. Expected ...`.
EMBER_API CaptureErrorMode capture_error_mode(std::string_view text);

class CaptureLog;

/// What becomes of mistakes with a graph that would stay silent (docs/graphs.md, "What is
/// checked"): nothing, a warning, or a GraphCheckError.
enum class GraphCheck : std::uint8_t { off, warn, error };
/// "off", "warn" or "error". ValueError otherwise.
EMBER_API GraphCheck graph_check(std::string_view text);

/// A mistake with a graph, where these are errors. The text says which operation it is about, and
/// where it was captured.
class EMBER_API GraphCheckError : public Error {
 public:
  /// `mistake` lives as long as the program.
  GraphCheckError(const char* mistake, const std::string& text) : Error(text), mistake_(mistake) {}
  /// Its name, such as "stale-memory".
  const char* mistake() const noexcept { return mistake_; }

 private:
  const char* mistake_;
};

/// What describe() says of a graph. Plain data.
struct EMBER_API GraphDescription {
  struct Memory {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;  ///< from the first to the last that may be touched
    bool writes = false;
    std::string argument;  ///< "self", "output", "target"; empty where nobody said
  };
  struct Node {
    std::string kind;  ///< "kernel", "copy", "fill", "host function", "event record", "event wait"
    std::string name;  ///< the kernel's, such as "add.float32"; else the kind
    int device = 0;
    std::size_t branch = 0;          ///< by the streams of the capture; 0: where it began
    std::size_t bytes = 0;           ///< that a copy or fill moves; else 0
    bool memory_known = false;       ///< whether `memory` is all that it touches
    std::vector<Memory> memory;      ///< what the launch declared
    std::vector<std::size_t> after;  ///< the nodes it waits for, which are earlier ones
    std::string stack;               ///< where it was captured, in lines
  };
  std::vector<Node> nodes;
  std::size_t branches = 0;
  /// A line for each node, and one for each piece of memory.
  std::string str() const;
};

/// A tensor that a graph was captured with, and the one that takes its place in a replay.
struct GraphBinding {
  Tensor captured, now;
};

namespace detail {
struct GraphState;
}

/// A graph of a device's work. What the streams of a capture are given, the one it began on and
/// those that were made to wait for its events, is noted with its arguments; replay() does it
/// again, with whatever lies at the same addresses then.
///
/// What the capture allocates comes from a private pool, which stays reserved until the graph is
/// reset: addresses are the same in every replay, and each overwrites what the last one computed.
/// Memory from elsewhere has to be kept alive by the program, except page-locked memory of ember's:
/// what the work of the capture is said to touch is handed to nobody else until then, whoever frees
/// it.
///
/// What the capture draws from random generators, each replay draws anew, as if the operations were
/// called then: it takes the generators' seeds and offsets of that moment, and moves the offsets
/// on.
///
/// What cannot be captured throws AcceleratorError, and makes the capture invalid: waits of the
/// host, numbers read on the host, copies of host memory that is not pinned.
///
/// Members may be called from any thread, but not by two threads at once on one object, except
/// replay(), instantiate() and reset(), which follow each other then. Movable, not copyable; one
/// that was moved from is as CUDAGraph() makes it.
class EMBER_API CUDAGraph {
 public:
  /// `keep_graph`: capture_end() keeps the graph as it was captured, and makes nothing ready.
  /// `validate`: what becomes of mistakes with this graph; nothing stands for EMBER_GRAPH_CHECK,
  /// and without that for a warning of memory that is gone.
  explicit CUDAGraph(bool keep_graph = false, const std::optional<GraphCheck>& validate = {});
  CUDAGraph(CUDAGraph&& other) noexcept;
  CUDAGraph& operator=(CUDAGraph&& other) noexcept;
  /// Ends a capture that is in progress, and does what reset() does.
  ~CUDAGraph();

  /// Lets the next capture draw from a generator of the device on which it begins, beside that
  /// device's default generator, which may be drawn from without it. What counts is the state that
  /// the generator has now, whichever generators share it. Holds until reset(). Error for a
  /// generator that is not for a CUDA device, once a graph is there, and `Cannot register the state
  /// during capturing stage. ...`. Does not block.
  void register_generator_state(const Generator& generator);

  /// Captures what the current stream is given from now on. `pool`: that of graph_pool_handle(), or
  /// of another graph, whose memory may then be used again, so that the two have to be replayed in
  /// the order of their captures and not at once; without one, a pool of its own. Error `CUDA
  /// graphs must be captured on a non-default stream. ...`, `This CUDAGraph instance already owns a
  /// captured graph. To capture a new graph, create a new instance.`, `beginAllocateToPool: already
  /// recording to mempool_id`; Error for a registered generator of another device, and with
  /// PYTORCH_NO_CUDA_MEMORY_CACHING; ValueError for an EMBER_GRAPH_CHECK that is none. Initialises.
  void capture_begin(const std::optional<MemPoolId>& pool = {},
                     CaptureErrorMode mode = CaptureErrorMode::global);
  /// Ends that, and makes the graph ready. Error `capture_end() called before capture_begin().` and
  /// `Capture must end on the same stream it began on.`, AcceleratorError on another thread unless
  /// the capture is relaxed, which change nothing; AcceleratorError if the capture became invalid,
  /// or a stream was not joined to the one it began on: then there is neither a capture nor a
  /// graph, and the object may capture anew. Warns of an empty graph.
  void capture_end();
  /// Ends a capture that is in progress, whatever the current stream, and drops what it captured.
  /// Nothing without one. Does not block.
  void abandon_capture() noexcept;
  /// Makes a kept graph ready, also once more. Error without keep_graph or a graph.
  void instantiate();
  /// Enqueues the work on the current stream of the graph's device. Replays of one graph follow
  /// each other, also on several streams. Error `Called CUDAGraph::replay without a preceding
  /// successful capture.`; AcceleratorError `context is destroyed` after a reset of the device;
  /// GraphCheckError, before anything is enqueued, if that was asked for. Waits for other threads'
  /// calls on the graph, not for work.
  void replay();
  /// The same with other tensors in the place of some that the capture read or wrote, in this
  /// replay alone: of the same dtype, shape, strides and device, at an address that is the same
  /// modulo 16, and without an overlap that the captured ones did not have. Replays that are bound
  /// alike cost no more than others; where a binding differs from that of the replay before, each
  /// piece of work that it concerns is changed, at a fraction of a launch. Error, before anything
  /// is enqueued, that names the pair and what differs, for a tensor that the graph does not use,
  /// and if some captured work does not declare what it touches; AcceleratorError
  /// (`not supported`) that names the work, if that keeps addresses where they cannot be changed:
  /// host functions, and on real devices calls of libraries, such as large matrix products, and
  /// kernels of the program's own. The next replay is as ever then.
  void replay(std::span<const GraphBinding> bind);
  void replay(std::initializer_list<GraphBinding> bind) {
    replay(std::span(bind.begin(), bind.size()));
  }
  /// Drops the graph; its memory is given back with the next empty_cache(), but for what is still
  /// in use. Replays in progress are done. A capture may follow. Error during a capture, and in an
  /// observer that is told of a replay.
  void reset();
  /// The id of its pool. Error `Called CUDAGraph::pool() without a preceding successful capture.`
  MemPoolId pool() const;

  /// Before capturing: the graph is kept for debug_dump().
  void enable_debug_mode() noexcept;
  /// Writes the graph to a file, as text for Graphviz. Warns, and writes nothing, without
  /// enable_debug_mode() or keep_graph. Error without a graph.
  void debug_dump(const std::string& path);

  /// The captured work: nodes, what they wait for, which bytes at which addresses they read and
  /// write, and where each was captured. Error without a graph. Does not block; looks up the names
  /// of stacks, which takes microseconds for each node.
  GraphDescription describe() const;

  /// The machine's own handles: on real devices a cudaGraph_t (keep_graph only), and a
  /// cudaGraphExec_t. Error where there is none.
  void* raw_cuda_graph() const;
  void* raw_cuda_graph_exec() const;

  /// Internal: what was captured, once that has ended; null without a graph.
  const CaptureLog* log() const noexcept;

 private:
  std::unique_ptr<detail::GraphState> state_;
};

/// While it lives, its thread's work is captured: waits for the device, empties the caches, makes a
/// stream current (one for all, unless given) and begins a capture. end(), or else the destructor,
/// ends the capture, and makes the former stream current again.
///
///     cuda::CUDAGraph step;
///     auto capture = cuda::graph(step);
///     y.copy_(x * 2);
///     capture.end();
///     step.replay();
class [[nodiscard]] EMBER_API GraphCapture {
 public:
  explicit GraphCapture(CUDAGraph& graph, const std::optional<MemPoolId>& pool = {},
                        const std::optional<Stream>& stream = {},
                        CaptureErrorMode mode = CaptureErrorMode::global);
  /// Without an end() before, a failure is a warning only, and there is no graph.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  /// Throws what capture_end() does. Nothing the second time.
  void end();

 private:
  CUDAGraph* graph_;
  std::optional<StreamGuard> on_;
};
inline GraphCapture graph(CUDAGraph& graph, const std::optional<MemPoolId>& pool = {},
                          const std::optional<Stream>& stream = {},
                          CaptureErrorMode mode = CaptureErrorMode::global) {
  return GraphCapture(graph, pool, stream, mode);
}

/// The stream on which graph() captures unless told otherwise: made at the first call, on the
/// current device, and anew once that was reset.
EMBER_API Stream default_capture_stream();

}  // namespace ember::inline v0::cuda
