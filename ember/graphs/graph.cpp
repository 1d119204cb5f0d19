#include "ember/graphs/graph.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/base/file_name.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/graphs/checks.h"
#include "ember/graphs/rebinding.h"
#include "ember/graphs/structure.h"
#include "ember/linalg/workspace.h"
#include "ember/memory/allocators.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "ember/memory/routing.h"
#include "ember/random/captured_draws.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/enqueueing.h"
#include "ember/runtime/event.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

struct detail::GraphState {
  GraphState(bool keep, const std::optional<GraphCheck>& check)
      : keep_graph(keep), validate(check) {}

  const bool keep_graph;
  const std::optional<GraphCheck> validate;
  bool debug = false;
  std::optional<Stream> capturing;        // the stream on which a capture is in progress
  std::optional<std::thread::id> thread;  // that has to end it
  std::optional<MemPoolId> pool;          // which it needs, from the beginning of a capture on
  int device = 0;
  driver::GraphHandle graph;
  driver::GraphExecHandle exec;
  detail::Rebindings rebindings;  // of `exec`
  std::unique_ptr<GraphChecks> checks;
  std::shared_ptr<CaptureLog> log;  // which tells the checks
  std::uint64_t capture = 0;        // the driver's number

  std::vector<Generator> registered;  // handles of states, which nobody else switches
  std::vector<std::shared_ptr<ember::detail::CapturedDraws>> draws;
  // Behind the last replay of a graph that draws, or before that behind what used the memory of
  // `draws` earlier: what that reads must not be written before.
  std::optional<Event> replayed;
  const void* replayed_on = nullptr;

  // Of replay(), instantiate() and reset(). Recursive: observers, whom a replay tells what it does,
  // may replay the graph themselves.
  std::recursive_mutex in_use;
  int replaying = 0;  // with `in_use`

  bool has_graph() const noexcept { return graph.native != nullptr; }
  bool has_exec() const noexcept { return exec.native != nullptr; }
};

namespace {

using detail::GraphState;

driver::CaptureMode to_driver(CaptureErrorMode mode) noexcept {
  switch (mode) {
    case CaptureErrorMode::thread_local_: return driver::CaptureMode::thread_local_;
    case CaptureErrorMode::relaxed: return driver::CaptureMode::relaxed;
    default: return driver::CaptureMode::global;
  }
}

/// Whether an allocation is for work of a capture, whose number is set once it has begun.
StreamFilter streams_of(std::shared_ptr<const std::atomic<std::uint64_t>> capture, int device) {
  const std::uint32_t epoch = device_epoch(device);
  return [capture = std::move(capture), device, epoch](const void* stream) {
    if (stream == nullptr) return false;
    driver::CaptureStatus status{};
    std::uint64_t id = 0;
    const driver::StreamHandle handle{const_cast<void*>(stream), device, epoch};
    return active_driver().capture_status(handle, status, id).ok() &&
           status == driver::CaptureStatus::active && id == *capture;
  };
}

// A capture may come to streams of any device, so its pool is there on each.

/// None in the child of a fork.
template <class Do>
void for_each_allocator(const Do& act) noexcept {
  driver::Driver* const machine = driver_if_made();
  const int devices = machine != nullptr ? machine->device_count() : 0;
  for (int device = 0; device < devices; ++device)
    if (memory::DeviceAllocator* allocator = memory::allocator_if_made(device)) act(*allocator);
}

/// Of two at once for one pool, the first one succeeds.
void begin_routes(const MemPoolId& pool,
                  const std::shared_ptr<const std::atomic<std::uint64_t>>& capture, int devices) {
  for (int device = 0; device < devices; ++device) {
    try {
      begin_allocate_to_pool(pool, streams_of(capture, device), device);
    } catch (...) {
      for (int begun = 0; begun < device; ++begun) {
        end_allocate_to_pool(pool, begun);
        release_pool(pool, begun);
      }
      throw;
    }
  }
}

void end_routes(const MemPoolId& pool) noexcept {
  for_each_allocator([&](auto& allocator) { (void)allocator.end_route(pool); });
}

void release(GraphState& state) noexcept {
  if (!state.pool) return;
  for_each_allocator([&](auto& allocator) { (void)allocator.release_pool(*state.pool); });
  state.pool.reset();
}

void drop_graph(GraphState& state) noexcept {
  if (!state.has_graph()) return;
  if (driver::Driver* machine = driver_if_made()) (void)machine->graph_destroy(state.graph);
  state.graph = {};
}

void drop_exec(GraphState& state) noexcept {
  if (!state.has_exec()) return;
  if (driver::Driver* machine = driver_if_made()) (void)machine->graph_exec_destroy(state.exec);
  state.exec = {};
  state.rebindings.forget();
}

void end_draws(GraphState& state) noexcept {
  for (const auto& draws : state.draws) draws->end();
  std::erase_if(state.draws, [](const auto& draws) { return !draws->any(); });
  if (state.draws.empty()) state.replayed.reset();
}

void note_replay(GraphState& state, const Stream& stream) {
  if (state.draws.empty()) return;
  if (!state.replayed) state.replayed.emplace();
  state.replayed->record(stream);
  state.replayed_on = stream.handle().native;
}

/// Before the capture begins, and before its allocations go to its pool.
void note_draws(GraphState& state, const Stream& stream) {
  const Device device(Device::Type::cuda, state.device);
  for (const Generator& each : state.registered)
    if (each.device() != device)
      throw Error("a generator for " + each.device().str() +
                  " was registered with a graph whose capture begins on " + device.str());
  const auto note = [&](const Generator& generator) {
    for (const auto& draws : state.draws)
      if (draws->is_of(generator)) return;
    state.draws.push_back(ember::detail::CapturedDraws::note(generator));
  };
  note(default_generator(device));
  for (const Generator& each : state.registered) note(each);
  note_replay(state, stream);
}

/// What a replay on this stream draws.
void draw(GraphState& state, const Stream& stream) {
  if (state.draws.empty()) return;
  if (state.replayed && state.replayed_on != stream.handle().native) state.replayed->wait(stream);
  for (const auto& draws : state.draws) draws->replay();
}

void drop(GraphState& state) noexcept {
  for (const auto& draws : state.draws) draws->end();  // if the capture could not be ended
  state.draws.clear();
  state.replayed.reset();
  drop_exec(state);
  drop_graph(state);
  state.log.reset();  // tells the checks
  state.checks.reset();
  release(state);
}

/// Ends the capture whatever comes of it.
Status end(GraphState& state) noexcept {
  driver::Driver* const machine = driver_if_made();
  if (machine == nullptr) return Code::not_initialized;
  Status status = machine->capture_end(state.capturing->handle(), state.graph);
  end_routes(*state.pool);
  linalg::drop_workspaces(state.capture);
  end_draws(state);
  state.log->end(status.ok() && state.checks->watches_on());
  if (!status.ok()) status = detail::explain(status, *state.log);
  state.capturing.reset();
  if (!status.ok()) drop(state);
  return status;
}

void make_ready(GraphState& state) {
  driver::GraphExecHandle made;
  check(active_driver().graph_instantiate(state.graph, made));
  drop_exec(state);
  state.exec = made;
}

/// Gives the next replay the memory that it is to have.
void rebind(GraphState& state, std::span<const GraphBinding> bind) {
  if (bind.empty() && state.rebindings.memory().empty()) [[likely]]
    return;
  try {
    state.rebindings.bind(bind, *state.log, state.graph, state.exec);
  } catch (const AcceleratorError&) {
    make_ready(state);  // some work may have changed
    throw;
  }
}

/// A graph that was moved from is a new one as soon as it is used.
GraphState& state_or_new(std::unique_ptr<GraphState>& state) {
  if (state == nullptr) state = std::make_unique<GraphState>(false, std::nullopt);
  return *state;
}

/// Of one thread at a time, with what observers do who are told of it.
class Replaying {
 public:
  explicit Replaying(GraphState& state) : state_(state), lock_(state.in_use) { ++state.replaying; }
  ~Replaying() { --state_.replaying; }
  Replaying(const Replaying&) = delete;
  Replaying& operator=(const Replaying&) = delete;

 private:
  GraphState& state_;
  std::lock_guard<std::recursive_mutex> lock_;
};

/// Ends a capture of which nothing is to stay.
Status give_up(GraphState& state) noexcept {
  try {
    settle_deferred();  // a part of it, which would be done if it were settled later
  } catch (...) {
    // What it was to be is not wanted.
  }
  return end(state);
}

bool has_captured(const std::unique_ptr<GraphState>& state) noexcept {
  return state != nullptr && (state->has_graph() || state->has_exec());
}

}  // namespace

CaptureErrorMode capture_error_mode(std::string_view text) {
  if (text == "global") return CaptureErrorMode::global;
  if (text == "thread_local") return CaptureErrorMode::thread_local_;
  if (text == "relaxed") return CaptureErrorMode::relaxed;
  throw Error("Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got " +
              std::string(text));
}

CUDAGraph::CUDAGraph(bool keep_graph, const std::optional<GraphCheck>& validate)
    : state_(std::make_unique<GraphState>(keep_graph, validate)) {}
CUDAGraph::CUDAGraph(CUDAGraph&& other) noexcept = default;

CUDAGraph& CUDAGraph::operator=(CUDAGraph&& other) noexcept {
  CUDAGraph taken(std::move(other));
  std::swap(state_, taken.state_);
  return *this;
}

CUDAGraph::~CUDAGraph() {
  if (state_ == nullptr) return;
  if (state_->capturing) (void)give_up(*state_);
  drop(*state_);
}

void CUDAGraph::register_generator_state(const Generator& generator) {
  GraphState& state = state_or_new(state_);
  if (state.capturing)
    throw Error(
        "Cannot register the state during capturing stage. Generators are registered before the "
        "capture begins.");
  if (state.has_graph() || state.has_exec())
    throw Error("register_generator_state() was called on a CUDAGraph that is captured already.");
  if (!generator.device().is_cuda())
    throw Error("register_generator_state() expected a generator for a CUDA device, got one for " +
                generator.device().str());
  state.registered.push_back(generator.graphsafe_get_state());
}

void CUDAGraph::capture_begin(const std::optional<MemPoolId>& pool, CaptureErrorMode mode) {
  GraphState& state = state_or_new(state_);
  if (state.capturing)
    throw Error("capture_begin() called on a CUDAGraph that is capturing already.");
  if (state.has_graph() || state.has_exec())
    throw Error(
        "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a "
        "new instance.");
  settle_deferred();
  driver::Driver& machine = active_driver();
  const Stream stream = current_stream();
  if (stream.handle().native == nullptr)
    throw Error(
        "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to "
        "replay them on the default stream.)");
  state.device = stream.device_index();
  if (!memory::allocator_of(state.device).keeps())
    throw Error(
        "CUDA graphs need the caching allocator, since replays use what the capture has freed. "
        "PYTORCH_NO_CUDA_MEMORY_CACHING or backend:cudaMallocAsync is set, or the program chose "
        "another allocator (change_current_allocator).");
  const detail::CheckLevels levels = detail::check_levels(state.validate);
  const MemPoolId id = pool ? *pool : MemPoolId(memory::new_pool_number(), 0);
  // Before the capture, so that its first allocation comes from there.
  const auto number = std::make_shared<std::atomic<std::uint64_t>>(0);
  try {
    note_draws(state, stream);
    begin_routes(id, number, machine.device_count());
  } catch (...) {
    end_draws(state);
    throw;
  }
  state.pool = id;
  auto checks = std::make_unique<detail::GraphChecks>(levels, id, pool.has_value());
  auto log = std::make_shared<CaptureLog>(stream, checks.get());
  driver::CaptureStatus status{};
  std::uint64_t capture = 0;
  Status begun = machine.capture_begin(stream.handle(), to_driver(mode));
  if (begun.ok()) begun = machine.capture_status(stream.handle(), status, capture);
  if (!begun.ok()) {
    end_draws(state);
    end_routes(id);
    release(state);
    check(begun);
  }
  for (const auto& draws : state.draws) draws->begin(capture);
  *number = capture;
  log->begin(capture);
  state.checks = std::move(checks);
  state.log = std::move(log);
  state.capture = capture;
  state.capturing = stream;
  state.thread.reset();
  if (mode != CaptureErrorMode::relaxed) state.thread = std::this_thread::get_id();
}

void CUDAGraph::capture_end() {
  GraphState& state = state_or_new(state_);
  if (!state.capturing) throw Error("capture_end() called before capture_begin().");
  if (current_stream() != *state.capturing)
    throw Error("Capture must end on the same stream it began on.");
  if (state.thread && *state.thread != std::this_thread::get_id())
    check(Status(Code::stream_capture_wrong_thread,
                 "a capture has to end on the thread it began on, unless it is a relaxed one"));
  settle_deferred();
  check(end(state));
  state.checks->ended(*state.log, state.device);
  std::size_t nodes = 0;
  check(active_driver().graph_node_count(state.graph, nodes));
  if (nodes == 0 && !detail::CallCapture::any())
    warn(Warning::user,
         "The CUDA Graph is empty. This usually means that the graph was attempted to be captured "
         "on wrong device or stream.");
  if (state.keep_graph) return;
  try {
    make_ready(state);
  } catch (...) {
    drop(state);
    throw;
  }
}

void CUDAGraph::abandon_capture() noexcept {
  if (state_ == nullptr || !state_->capturing) return;
  if (give_up(*state_).ok()) drop(*state_);
}

void CUDAGraph::instantiate() {
  GraphState& state = state_or_new(state_);
  const std::lock_guard alone(state.in_use);
  if (!state.keep_graph)
    throw Error("instantiate() is intended to be called by the user only when keep_graph=true");
  if (!state.has_graph())
    throw Error("capture_end() must have been called before calling instantiate");
  make_ready(state);
}

void CUDAGraph::replay() { replay(std::span<const GraphBinding>()); }

void CUDAGraph::replay(std::span<const GraphBinding> bind) {
  GraphState& state = state_or_new(state_);
  const Replaying alone(state);
  if (!state.has_exec() && state.has_graph() && state.keep_graph) make_ready(state);
  if (!state.has_exec())
    throw Error("Called CUDAGraph::replay without a preceding successful capture.");
  settle_deferred();
  driver::Driver& machine = active_driver();
  const Stream stream = current_stream(state.device);
  refuse_captured(stream.handle(), "CUDAGraph.replay");
  rebind(state, bind);
  const bool untold =
      state.checks->before_replay(*state.log, stream) && !state.log->has_external_events();
  draw(state, stream);
  if (untold) {
    check(machine.graph_launch(state.exec, stream.handle()));
    detail::throw_failure();
  } else {
    Enqueueing call(stream.handle());
    check(machine.graph_launch(state.exec, stream.handle()));
    call.record(stream, *state.log, state.rebindings.memory());
    call.done();
  }
  note_replay(state, stream);
  state.checks->after_replay();
}

void CUDAGraph::reset() {
  if (state_ == nullptr) return;
  const std::lock_guard alone(state_->in_use);
  if (state_->capturing) throw Error("reset() called on a CUDAGraph that is capturing.");
  if (state_->replaying != 0)
    throw Error(
        "reset() called on a CUDAGraph by an observer of its replay, expected it to be called "
        "when the replay is over");
  drop(*state_);
  state_->registered.clear();
}

MemPoolId CUDAGraph::pool() const {
  if (!has_captured(state_))
    throw Error("Called CUDAGraph::pool() without a preceding successful capture.");
  return *state_->pool;
}

void CUDAGraph::enable_debug_mode() noexcept { state_or_new(state_).debug = true; }

void CUDAGraph::debug_dump(const std::string& path) {
  require_file_name(path, "path");
  GraphState& state = state_or_new(state_);
  if (!state.debug && !state.keep_graph)
    return warn(Warning::user,
                "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()");
  if (!state.has_graph())
    throw Error("Called CUDAGraph::debug_dump without a preceding successful capture.");
  check(active_driver().graph_describe(state.graph, path));
}

GraphDescription CUDAGraph::describe() const {
  if (!has_captured(state_))
    throw Error("Called CUDAGraph::describe without a preceding successful capture.");
  return detail::describe(*state_->log);
}

void* CUDAGraph::raw_cuda_graph() const {
  if (state_ == nullptr || !state_->keep_graph)
    throw Error(
        "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with "
        "keep_graph=true");
  if (!state_->has_graph())
    throw Error(
        "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
  return state_->graph.native;
}

void* CUDAGraph::raw_cuda_graph_exec() const {
  if (state_ == nullptr || !state_->has_exec())
    throw Error(
        "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called");
  return state_->exec.native;
}

const CaptureLog* CUDAGraph::log() const noexcept {
  return state_ != nullptr ? state_->log.get() : nullptr;
}

// ---- In a scope

namespace {

struct CaptureStream {
  Mutex mutex;
  std::optional<Stream> stream EMBER_GUARDED_BY(mutex);
};

}  // namespace

Stream default_capture_stream() {
  static NoDestructor<CaptureStream> shared;
  const MutexLock lock(shared->mutex);
  std::optional<Stream>& stream = shared->stream;
  if (!stream || stream->handle().epoch != device_epoch(stream->device_index())) stream = Stream();
  return *stream;
}

GraphCapture::GraphCapture(CUDAGraph& graph, const std::optional<MemPoolId>& pool,
                           const std::optional<Stream>& stream, CaptureErrorMode mode)
    : graph_(&graph) {
  const Stream on = stream ? *stream : default_capture_stream();
  synchronize();
  empty_cache();
  pinned_empty_cache();
  on_.emplace(on);
  graph.capture_begin(pool, mode);
}

void GraphCapture::end() {
  CUDAGraph* const graph = std::exchange(graph_, nullptr);
  if (graph == nullptr) return;
  struct Leave {
    std::optional<StreamGuard>& on;
    ~Leave() { on.reset(); }
  } const leave{on_};
  try {
    graph->capture_end();
  } catch (...) {  // also of a current stream that is another one now
    graph->abandon_capture();
    throw;
  }
}

GraphCapture::~GraphCapture() {
  try {
    end();
  } catch (const std::exception& error) {
    warn(Warning::user, std::string("a capture failed: ") + error.what());
  }
}

}  // namespace ember::inline v0::cuda
