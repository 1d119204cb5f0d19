// Large copies between a device and ordinary host memory: through page-locked memory of our own, in
// pieces, so that the device's copies and the host's go on at the same time.
//
// CUDA does the same with one thread, and gets a third of what the link can take.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/cuda/api.h"

namespace ember::inline v0::driver::cuda {

/// The page-locked pieces of one device. Thread-safe.
class Staging {
 public:
  Staging();
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies smaller than this are left to CUDA, which then needs no help.
  static constexpr std::size_t kFrom = std::size_t{8} << 20;

  enum class Outcome { done, left_to_cuda };

  /// Enqueues the copy if it is one that is worth it: large, between device memory and ordinary
  /// host memory, and with a set of pieces at hand. As with CUDA's own copy the source may be
  /// changed when the call returns, and a target on the host is complete. The device's context is
  /// current.
  Outcome copy(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream,
               CUresult& result) noexcept;

  /// After a reset: the pieces are not page-locked any more. Nobody uses them.
  void forget() noexcept;

 private:
  static constexpr std::size_t kPiece = std::size_t{4} << 20;       ///< most bytes of one step
  static constexpr std::size_t kLargePiece = std::size_t{8} << 20;  ///< the same in long copies
  static constexpr std::size_t kPieces = 4;
  static constexpr std::size_t kMostSets = 2;  ///< copies at once; further ones are left to CUDA

  struct Set;
  Set* take() noexcept;
  void give_back(Set* set) noexcept;

  Mutex mutex_;
  std::vector<std::unique_ptr<Set>> all_ EMBER_GUARDED_BY(mutex_);
  std::vector<Set*> free_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::driver::cuda
