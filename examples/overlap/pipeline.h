// One device's share of the work: two streams and a few buffers that go round.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "digest.h"
#include "ember/cuda.h"
#include "examples/support/intervals.h"
#include "input.h"
#include "kernels.h"

namespace overlap {

using example::Interval;
using example::Timeline;

/// What is to be done, handed out chunk by chunk to whoever is free. Thread-safe.
class Work {
 public:
  struct Chunk {
    std::uint64_t offset;
    std::uint32_t bytes;
  };

  Work(const Input& input, std::uint32_t chunk_bytes) : input_(input), chunk_bytes_(chunk_bytes) {}

  const Input& input() const noexcept { return input_; }
  std::uint32_t chunk_bytes() const noexcept { return chunk_bytes_; }
  std::uint64_t bytes_done() const noexcept { return done_.load(std::memory_order_relaxed); }

  /// The next chunk; nothing when all have been taken.
  std::optional<Chunk> take();
  void finish(const Chunk& chunk) noexcept { done_ += chunk.bytes; }
  /// Hands out nothing more.
  void cancel() noexcept { cancelled_ = true; }

 private:
  const Input& input_;
  const std::uint32_t chunk_bytes_;
  std::atomic<std::uint64_t> next_{0};  // the offset of the next chunk
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> cancelled_{false};
};

/// Reads chunks into pinned memory, copies them to the device on one stream, and computes them on
/// another, so that the next chunk is copied while the present one is computed:
///
///     host          read 1 | read 2 | read 3 | ...
///     copy stream            copy 1 | copy 2 | copy 3 | ...
///     compute stream                  work 1 | work 2 | work 3 | ...
///
/// Events order the two streams; a buffer is filled again once its result has come back.
class Pipeline {
 public:
  /// Makes the streams and allocates the buffers, for `readers` threads.
  Pipeline(int device, int readers, Work& work);
  /// Waits for what is under way, which uses the buffers.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Takes chunks until there are none left. Call it from `readers` threads, numbered from 0: a
  /// fast device swallows more than one thread can read.
  void run(int reader);

  int device() const noexcept { return device_; }
  /// The following once all readers are done.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Of this device's chunks. CRCs are shifted to their places.
  const Digest& digest() const noexcept { return digest_; }
  /// When the copy stream and the compute stream were busy, in milliseconds.
  Timeline copying() const { return unite(copies_); }
  Timeline computing() const { return unite(computations_); }

 private:
  static constexpr int kSlotsPerReader = 3;  // one being read, one copied, one computed

  /// The way of one chunk at a time.
  struct Slot {
    Slot(std::uint32_t chunk_bytes, const ember::cuda::Stream& copy_stream,
         const ember::cuda::Stream& compute_stream);

    ember::cuda::PinnedBuffer staging, returned;
    ember::cuda::DeviceBuffer data, result;
    ember::cuda::Event copy_begin{true}, copied{true}, compute_begin{true}, computed{true};
    ember::cuda::Event done{false, /*blocking=*/true};
    std::optional<Work::Chunk> chunk;  ///< under way
  };

  void submit(Slot& slot);
  void collect(Slot& slot);

  const int device_;
  Work& work_;
  const ember::cuda::Stream copy_stream_;
  const ember::cuda::Stream compute_stream_;
  ember::cuda::Event start_{true};
  std::vector<Slot> slots_;

  std::mutex mutex_;  // guards submitting, and what follows
  std::uint64_t bytes_ = 0;
  Digest digest_;
  std::vector<Interval> copies_, computations_;
};

}  // namespace overlap
