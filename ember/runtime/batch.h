// Batches: small operations that are handed to the device several at once, so that a launch each is
// not what limits them. docs/graphs.md says where it pays.
#pragma once

#include <atomic>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

namespace detail {
/// How many threads are in a batch: what everybody else looks at.
EMBER_API extern std::atomic<int> batching_threads;
EMBER_API void hand_over_here() noexcept;
}  // namespace detail

/// While it lives, operations of the calling thread may be kept instead of being enqueued, and are
/// handed to the device in growing pieces (of 8, 16, 32, ... 256 kernels), each as a graph that is
/// used again when the same operations come again. Results, order, errors and what observers are
/// told are the same as without; operations may start later, the last ones at the end of the batch.
///
/// What is kept is handed over before anything that could tell: waits and queries of the host (from
/// any thread), copies, fills, events that are recorded or waited for, host functions, kernels of
/// the program's own (launch()), replays, the begin of a capture, memory that is asked of the
/// device or given back to it, and where a stream's or a tensor's own handle is given out
/// (Stream::native(), Tensor::data_ptr()). Operations that are captured, and those on
/// external streams, are not kept. Neither are any where a seed decides the order of work, while
/// recent launches are kept, or with CUDA_LAUNCH_BLOCKING.
///
/// What ember is not told of it cannot hand over for: a program that looks at pinned memory until a
/// kernel has written it, or uses a handle or a pointer that it was given before, calls hand_over()
/// first. An operation that fails only when it is handed over is reported by the next call for the
/// device, by its name.
///
/// One thread's, on its stack; batches nest, and the outermost counts. Initialises; throws
/// AcceleratorError as that does. The constructor and the destructor do not block.
class [[nodiscard]] EMBER_API Batch {
 public:
  Batch();
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Hands over what the calling thread has in hand. Does not block.
  static void hand_over() noexcept {
    if (detail::batching_threads.load(std::memory_order_relaxed) != 0) [[unlikely]]
      detail::hand_over_here();
  }
};

/// While it lives, what the calling thread enqueues is not kept; what was kept is handed over
/// first.
class [[nodiscard]] OutsideBatch {
 public:
  OutsideBatch() noexcept {
    if (detail::batching_threads.load(std::memory_order_relaxed) != 0) [[unlikely]]
      leave();
  }
  ~OutsideBatch() {
    if (left_) [[unlikely]]
      enter();
  }
  OutsideBatch(const OutsideBatch&) = delete;
  OutsideBatch& operator=(const OutsideBatch&) = delete;

 private:
  void leave() noexcept;
  void enter() noexcept;
  bool left_ = false;
};

}  // namespace ember::inline v0::cuda
