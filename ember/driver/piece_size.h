// How much of a batch is handed over at once.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ember::inline v0::driver {

/// Pieces of a stream's batch grow, so that the device has something to do early, and a long
/// program is handed over in few calls.
class PieceSize {
 public:
  static constexpr std::size_t kLeast = 8;
  static constexpr std::size_t kMost = 256;

  /// Whether so many kernels are a piece.
  bool reached(std::size_t kernels) const noexcept { return kernels >= size_; }
  /// One was handed over because it was full: the device is busy for a while.
  void grow() noexcept { size_ = std::min(2 * size_, kMost); }
  /// One was handed over because somebody asked or waits: it begins anew.
  void begin() noexcept { size_ = kLeast; }

 private:
  std::size_t size_ = kLeast;
};

}  // namespace ember::inline v0::driver
