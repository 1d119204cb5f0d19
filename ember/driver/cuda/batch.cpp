#include "ember/driver/cuda/batch.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/device.h"

namespace ember::inline v0::driver::cuda {
namespace {

constexpr std::size_t kAlignment = alignof(std::max_align_t);

class Hash {
 public:
  void add(std::uint64_t word) noexcept {
    value_ = std::rotl((value_ ^ word) * 0x9E3779B97F4A7C15, 29);
  }
  template <class T>
  void add(T* pointer) noexcept {
    add(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer)));
  }
  /// Of bytes that come in whole words.
  void add(const std::vector<std::byte>& bytes) noexcept {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      add(word);
    }
  }
  std::uint64_t value() const noexcept { return value_ ^ (value_ >> 32); }

 private:
  std::uint64_t value_ = 0;
};

/// Not in the table of api.h, since only batches need it.
using UpdateExec = CUresult (*)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*);
UpdateExec find_update() noexcept {
  // It is open since load_api(), and stays so.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<UpdateExec>(dlsym(library, "cuGraphExecUpdate_v2"));
}

/// Makes a ready graph the one that was captured. Fails where the two are not of one form.
CUresult update(CUgraphExec exec, CUgraph captured) noexcept {
  static const UpdateExec call = find_update();
  CUgraphExecUpdateResultInfo info{};
  return call != nullptr ? call(exec, captured, &info) : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

}  // namespace

bool Batches::Piece::same_shape(const Piece& other) const noexcept {
  return std::equal(kernels.begin(), kernels.end(), other.kernels.begin(), other.kernels.end(),
                    [](const Kept& a, const Kept& b) { return a.same(b); });
}

bool Batches::OfStream::has_seen(std::uint64_t hash) const noexcept {
  return std::find(seen.begin(), seen.end(), hash) != seen.end();
}

// ---- Streams

void Batches::add(CUstream stream) noexcept {
  auto made = std::make_unique<OfStream>();
  made->stream = stream;
  const MutexLock lock(mutex_);
  streams_[stream] = std::move(made);
  last_ = nullptr;
}

void Batches::remove(CUstream stream) noexcept {
  Contexts gone;
  const MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  for (Graph& graph : found->second->graphs) destroy(graph);
  drop(found->second->piece);
  streams_.erase(found);
  last_ = nullptr;
  gone = take_left();
}

Batches::OfStream* Batches::find(CUstream stream) noexcept {
  if (last_ != nullptr && last_->stream == stream) return last_;
  auto found = streams_.find(stream);
  if (found == streams_.end()) {
    if (stream != nullptr) return nullptr;
    found = streams_.emplace(stream, std::make_unique<OfStream>()).first;  // the default one
  }
  last_ = found->second.get();
  return last_;
}

// ---- Keeping and handing over

bool Batches::keep(CUstream stream, const Kernel& kernel, const Params& params,
                   RecentWork::Number number) noexcept {
  Contexts gone;
  const MutexLock lock(mutex_);
  OfStream* const of = find(stream);
  if (of == nullptr) return false;
  Piece& piece = of->piece;
  const std::size_t offset = piece.arguments.size();
  piece.arguments.resize(offset + (params.size() + kAlignment - 1) / kAlignment * kAlignment);
  if (params.size() != 0)
    std::memcpy(piece.arguments.data() + offset, params.data(), params.size());
  piece.kernels.push_back(
      {kernel.cuda.run, kernel.name.c_str(), kernel.context, offset, params.size(), number});
  any_.store(true, std::memory_order_relaxed);
  if (!of->size.reached(piece.kernels.size())) return true;
  hand_over(*of);
  of->size.grow();
  gone = take_left();
  return true;
}

void Batches::hand_over() noexcept {
  Contexts gone;
  const MutexLock lock(mutex_);
  any_.store(false, std::memory_order_relaxed);
  for (const auto& [stream, of] : streams_) {
    if (!of->piece.kernels.empty()) hand_over(*of);
    of->size.begin();
  }
  gone = take_left();
}

void Batches::hand_over(OfStream& of) noexcept {
  if (!device_.faulted() && !replay(of)) launch_each(of);
  drop(of.piece);
}

void Batches::launch_each(const OfStream& of) noexcept {
  const RelaxedMode relaxed(captures_here.load(std::memory_order_relaxed) != 0);
  for (const Kept& kernel : of.piece.kernels) {
    const CudaLaunch on(of.stream, device_.index(), kernel.context.get());
    if (Status status = kernel.run(of.piece.params(kernel), on); !status.ok()) fail(kernel, status);
  }
}

void Batches::fail(const Kept& kernel, const Status& status) noexcept {
  Status failure = device_.launch_failed(kernel.number, kernel.name, status);
  if (device_.faulted() || failed()) return;  // which everybody is told, or the first one was
  failure_ = std::move(failure);
  failed_.store(true, std::memory_order_relaxed);
}

Status Batches::take_failure() noexcept {
  const MutexLock lock(mutex_);
  failed_.store(false, std::memory_order_relaxed);
  return std::exchange(failure_, Status());
}

// ---- Graphs

bool Batches::replay(OfStream& of) noexcept {
  const Piece& piece = of.piece;
  if (piece.kernels.size() < PieceSize::kLeast) return false;
  Hash hash;
  for (const Kept& kernel : piece.kernels) {
    hash.add(kernel.run);
    hash.add(kernel.context.get());
    hash.add(kernel.size);
  }
  const std::uint64_t shape = hash.value();

  Graph* same = nullptr;   // with the same arguments
  Graph* older = nullptr;  // of the same shape, used least recently
  for (Graph& graph : of.graphs) {
    if (graph.shape != shape || !graph.piece.same_shape(piece)) continue;
    if (graph.piece.arguments == piece.arguments) same = &graph;
    if (older == nullptr || graph.used < older->used) older = &graph;
  }
  if (same == nullptr) {
    hash.add(piece.arguments);
    const std::uint64_t whole = hash.value();
    const bool shape_came = of.has_seen(shape);
    const bool whole_came = of.has_seen(whole);
    if (!shape_came) of.note(shape);
    if (!whole_came) of.note(whole);
    if (older == nullptr && !shape_came) return false;
    if (older != nullptr && !whole_came) {
      same = older;
    } else if (of.graphs.size() < kMostGraphs) {
      same = &of.graphs.emplace_back();
    } else {
      same = &*std::min_element(of.graphs.begin(), of.graphs.end(),
                                [](const Graph& a, const Graph& b) { return a.used < b.used; });
      destroy(*same);
    }
    same->shape = shape;
    if (!prepare(*same, piece)) {
      destroy(*same);
      of.graphs.erase(of.graphs.begin() + (same - of.graphs.data()));
      return false;
    }
  }
  same->used = ++of.turn;
  const CUresult result = api.cuGraphLaunch(same->exec, of.stream);
  if (result == CUDA_SUCCESS) [[likely]]
    return true;
  if (!is_sticky(to_code(result))) return false;
  (void)device_.enter_fault(to_code(result));
  return true;
}

bool Batches::prepare(Graph& graph, const Piece& piece) noexcept {
  const RelaxedMode relaxed;
  const CUgraph captured = capture(piece);
  if (captured == nullptr) return false;
  CUresult result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  if (graph.exec != nullptr) {
    result = update(graph.exec, captured);
    // An implementation may choose another kernel for other arguments.
    if (result != CUDA_SUCCESS) (void)api.cuGraphExecDestroy(std::exchange(graph.exec, nullptr));
  }
  if (graph.exec == nullptr) result = api.cuGraphInstantiateWithFlags(&graph.exec, captured, 0);
  (void)api.cuGraphDestroy(captured);
  if (result != CUDA_SUCCESS) {
    graph.exec = nullptr;
    return false;
  }
  drop(graph.piece);
  graph.piece = piece;
  return true;
}

CUgraph Batches::capture(const Piece& piece) noexcept {
  if (capturing_ == nullptr &&
      api.cuStreamCreateWithPriority(&capturing_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    capturing_ = nullptr;
    return nullptr;
  }
  if (api.cuStreamBeginCapture_v2(capturing_, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
    return nullptr;
  bool all = true;
  for (const Kept& kernel : piece.kernels) {
    const CudaLaunch on(capturing_, device_.index(), kernel.context.get());
    all = all && kernel.run(piece.params(kernel), on).ok();
  }
  CUgraph graph = nullptr;
  if (api.cuStreamEndCapture(capturing_, &graph) != CUDA_SUCCESS) return nullptr;
  if (all) return graph;
  (void)api.cuGraphDestroy(graph);
  return nullptr;
}

// A replay in progress is still done.
void Batches::destroy(Graph& graph) noexcept {
  if (graph.exec != nullptr) (void)api.cuGraphExecDestroy(std::exchange(graph.exec, nullptr));
  drop(graph.piece);
}

void Batches::drop(Piece& piece) noexcept {
  for (Kept& kernel : piece.kernels)
    if (kernel.context) [[unlikely]]
      left_.push_back(std::move(kernel.context));
  piece.kernels.clear();
  piece.arguments.clear();
}

Batches::Contexts Batches::take_left() noexcept { return std::exchange(left_, {}); }

void Batches::forget() noexcept {
  Contexts gone;
  std::unordered_map<CUstream, std::unique_ptr<OfStream>> streams;  // goes behind the lock, too
  const MutexLock lock(mutex_);
  streams = std::exchange(streams_, {});
  last_ = nullptr;
  capturing_ = nullptr;
  failure_ = Status();
  any_.store(false, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  gone = take_left();
}

}  // namespace ember::inline v0::driver::cuda
