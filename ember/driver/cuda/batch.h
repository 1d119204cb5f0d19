// Launches of one device that are kept, and handed over several at once: Driver::batch_begin.
//
// Note [Batches]
//
// What is kept of a launch is what it was asked with: the implementation, its arguments byte by
// byte and its context. A piece of eight kernels or more is handed over
//
//  - by one launch of a graph that is at hand, if the same kernels came before with the very same
//    arguments: nothing is done for each kernel but comparing them. So it is in a loop, whose
//    memory comes from the same places each time. (Arguments that state their layout have no byte
//    that nobody writes: Params, and tests/sweep/arguments_test.cpp.)
//  - else, if the same kernels came before (its shape), by a graph that is made of it: the
//    implementations run on a stream of this class that captures, so that kernels of libraries are
//    in it as well, and the ready graph of that shape is brought up to date in place. A second one
//    is made where the same arguments came before, as in programs that take turns with two buffers.
//  - else one by one, like fewer kernels than eight: a shape that never comes again costs no graph.
//
// A graph is one chain, in the order of the launches, and is used on one stream only, since CUDA
// lets replays of one graph follow each other, which nobody asked for between streams.
//
// What is kept is handed over first by each call that passes the device's gate (Device::admits),
// the one place that every call passes but the launches that are kept themselves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/status.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/recent_work.h"
#include "ember/driver/kernel.h"
#include "ember/driver/piece_size.h"

namespace ember::inline v0::driver::cuda {

class Device;

/// Thread-safe; destroys no context of a kernel under its lock.
class Batches {
 public:
  /// Ready graphs that are kept for a stream; the one used least recently goes.
  static constexpr std::size_t kMostGraphs = 32;

  explicit Batches(Device& device) noexcept : device_(device) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// A stream is there whose launches may be kept. Those of others are not: somebody else may give
  /// them work that this driver is not told of.
  void add(CUstream stream) noexcept;
  /// It is about to be destroyed; nothing is kept for it.
  void remove(CUstream stream) noexcept;

  /// Keeps a launch that was noted under `number`, if the stream is one of those. What is kept of
  /// the stream may be handed over. The device's context is current.
  bool keep(CUstream stream, const Kernel& kernel, const Params& params,
            RecentWork::Number number) noexcept;
  /// Whether anything is kept: one load.
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// Hands over what is kept for all streams. The device's context is current.
  void hand_over() noexcept;

  /// Whether something failed when it was handed over: one load.
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// What the first of that was, once.
  Status take_failure() noexcept;

  /// After a reset, with which streams and graphs went: forgets all that is kept.
  void forget() noexcept;

 private:
  struct Kept {
    CudaImplementation::Run run;
    const char* name;
    Ref<const Context> context;
    std::size_t offset, size;  ///< of its arguments, in the piece's
    RecentWork::Number number;

    bool same(const Kept& other) const noexcept {
      return run == other.run && context.get() == other.context.get() && size == other.size;
    }
  };
  /// Launches in their order, and their arguments one behind the other, without gaps in between
  /// that are not zero.
  struct Piece {
    std::vector<Kept> kernels;
    std::vector<std::byte> arguments;

    Params params(const Kept& kernel) const noexcept {
      return {arguments.data() + kernel.offset, kernel.size};
    }
    bool same_shape(const Piece& other) const noexcept;
  };
  struct Graph {
    std::uint64_t shape = 0;
    Piece piece;
    CUgraphExec exec = nullptr;
    std::uint64_t used = 0;  ///< in which turn of the stream's
  };
  struct OfStream {
    CUstream stream = nullptr;
    Piece piece;
    PieceSize size;
    std::vector<Graph> graphs;
    std::uint64_t turn = 0;
    std::array<std::uint64_t, 128> seen{};  ///< hashes of pieces and of shapes, the last ones
    std::size_t next_seen = 0;

    bool has_seen(std::uint64_t hash) const noexcept;
    void note(std::uint64_t hash) noexcept { seen[next_seen++ % seen.size()] = hash; }
  };

  OfStream* find(CUstream stream) noexcept EMBER_REQUIRES(mutex_);
  void hand_over(OfStream& of) noexcept EMBER_REQUIRES(mutex_);
  /// By a graph; false if there is none, and nothing was enqueued.
  bool replay(OfStream& of) noexcept EMBER_REQUIRES(mutex_);
  void launch_each(const OfStream& of) noexcept EMBER_REQUIRES(mutex_);
  /// The piece as a graph of CUDA's; null if that cannot be.
  CUgraph capture(const Piece& piece) noexcept EMBER_REQUIRES(mutex_);
  /// Makes `graph` ready to be replayed as the piece; false if that cannot be.
  bool prepare(Graph& graph, const Piece& piece) noexcept EMBER_REQUIRES(mutex_);
  void destroy(Graph& graph) noexcept EMBER_REQUIRES(mutex_);
  void drop(Piece& piece) noexcept EMBER_REQUIRES(mutex_);
  void fail(const Kept& kernel, const Status& status) noexcept EMBER_REQUIRES(mutex_);
  /// What is to go once the lock is free.
  using Contexts = std::vector<Ref<const Context>>;
  Contexts take_left() noexcept EMBER_REQUIRES(mutex_);

  Device& device_;
  std::atomic<bool> any_{false};
  std::atomic<bool> failed_{false};
  // Held while a piece is handed over: who comes behind it on its stream waits.
  Mutex mutex_;
  Status failure_ EMBER_GUARDED_BY(mutex_);
  std::unordered_map<CUstream, std::unique_ptr<OfStream>> streams_ EMBER_GUARDED_BY(mutex_);
  OfStream* last_ EMBER_GUARDED_BY(mutex_) = nullptr;  // found last
  CUstream capturing_ EMBER_GUARDED_BY(mutex_) = nullptr;
  Contexts left_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::driver::cuda
