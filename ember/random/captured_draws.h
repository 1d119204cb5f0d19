// What a capture draws from a generator. Its kernels cannot be given the numbers' place by value,
// since every replay draws others: they read seed and offset in memory of the graph's own, which
// each replay writes first, and count from there. Chapter 7 of the documents.
#pragma once

#include <cstdint>
#include <memory>

#include "ember/base/mutex.h"
#include "ember/base/ref.h"
#include "ember/memory/memory.h"
#include "ember/random/generator.h"

namespace ember::inline v0::detail {

/// The draws of one capture from one state. Thread-safe.
class CapturedDraws {
 public:
  /// Notes with the state that a capture is about to begin which may draw from it, on the
  /// generator's device and its current stream. Allocates, so it comes before allocations go to
  /// the capture's pool: what that hands out may have been written by an earlier operation of the
  /// capture, which every replay does again, after seed and offset were written.
  static std::shared_ptr<CapturedDraws> note(const Generator& generator);
  CapturedDraws(Ref<GeneratorState> state, int device);
  CapturedDraws(const CapturedDraws&) = delete;
  CapturedDraws& operator=(const CapturedDraws&) = delete;

  int device() const noexcept { return device_; }
  /// Whether it belongs to the capture; with the state's mutex held.
  bool captures(std::uint64_t capture) const noexcept { return capture_ == capture; }
  bool is_of(const Generator& generator) const;
  /// The driver's number of the capture.
  void begin(std::uint64_t capture);
  /// The capture is over.
  void end();
  bool any() const;

  /// For Generator::draw: by how much the offset moves is a multiple of four.
  PhiloxSource draw(std::uint64_t increment);
  /// Before a replay on the current stream of the device, which is to come after the last one's
  /// work: takes from the generator what the capture drew, and enqueues writing where that begins.
  /// AcceleratorError `context is destroyed` after a reset of the device.
  void replay();

 private:
  const Ref<GeneratorState> state_;
  const int device_;
  const std::uint32_t epoch_;
  const cuda::DeviceBuffer memory_;
  std::uint64_t capture_ = 0;  // guarded by the state's mutex
  mutable Mutex mutex_;
  std::uint64_t drawn_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::detail
