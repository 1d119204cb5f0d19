// Page-locking host memory that somebody else owns.
#pragma once

#include <cstddef>
#include <utility>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

/// Page-locks a range of host memory for as long as it lives: devices copy from and to it as from
/// and to pinned memory. The memory has to outlive it. Movable, not copyable. AcceleratorError if
/// the range cannot be locked, or is locked already. Initialises. Its end blocks until copies that
/// may use the memory are done, so it must not come in a host function: there the memory stays
/// locked.
class [[nodiscard]] EMBER_API HostRegistration {
 public:
  /// Locks nothing.
  HostRegistration() noexcept = default;
  [[nodiscard]] HostRegistration(void* pointer, std::size_t bytes);
  HostRegistration(HostRegistration&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostRegistration& operator=(HostRegistration&& other) noexcept {
    HostRegistration taken(std::move(other));
    std::swap(pointer_, taken.pointer_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }
  ~HostRegistration();

  /// Where the range begins; null if there is none.
  void* data() const noexcept { return pointer_; }

 private:
  void* pointer_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ember::inline v0::cuda
