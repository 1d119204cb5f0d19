// Memory of other processes' simulated devices, as a device of this machine has it.
//
// The owner's file is mapped behind addresses of its own, where workers find it; the device
// addresses in front of them are not accessible, as those of the arena are not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <span>

#include "ember/base/ref.h"
#include "ember/base/status.h"
#include "ember/driver/handles.h"

namespace ember::inline v0::driver::sim {

/// One mapped range. Goes with its last owner: the table, or a task that uses the memory.
class Imported : public RefCounted {
 public:
  Imported(std::byte* reserved, std::size_t span, std::byte* address, std::size_t bytes, int device,
           std::uint32_t epoch) noexcept
      : reserved_(reserved),
        span_(span),
        address_(address),
        bytes_(bytes),
        device_(device),
        epoch_(epoch) {}
  ~Imported();

  std::byte* address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }
  /// Of the device, when it was opened.
  std::uint32_t epoch() const noexcept { return epoch_; }
  bool contains(const void* pointer, std::size_t bytes) const noexcept {
    if (pointer < address_) return false;
    const auto before = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - address_);
    return before <= bytes_ && bytes <= bytes_ - before;
  }
  /// Where workers find an address in it.
  void* backing(const void* pointer) const noexcept {
    return static_cast<std::byte*>(const_cast<void*>(pointer)) + span_;
  }

 private:
  std::byte* const reserved_;  // span_ for the device addresses, and behind it span_ of the file
  const std::size_t span_;
  std::byte* const address_;
  const std::size_t bytes_;
  const int device_;
  const std::uint32_t epoch_;
};

/// Thread-safe.
class Imports {
 public:
  /// Maps the pieces behind each other: `bytes` from `in_front` on are the memory. The files stay
  /// the caller's. Code::invalid_value unless they are sealed against shrinking and long enough,
  /// since an access beyond a file's end would end the process, and several pieces are whole pages.
  Status open(int device, std::uint32_t epoch, std::span<const IpcPiece> pieces,
              std::size_t in_front, std::size_t bytes, void*& out);
  /// Nobody finds it any more; tasks that have found it keep it. Code::invalid_value unless it was
  /// opened for the device and begins there.
  Status close(int device, const void* pointer);

  /// Whether there are any: one load.
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  /// Whose memory an address is; -1 if it lies in no import.
  int device_of(const void* pointer) const noexcept;
  /// The import that an address lies in, or null.
  Ref<const Imported> find(const void* pointer) const;

 private:
  const Imported* look(const void* pointer) const noexcept;

  mutable std::shared_mutex mutex_;  // shared: accesses of workers are checked under it
  std::map<const std::byte*, Ref<const Imported>> by_address_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace ember::inline v0::driver::sim
