// The memory behind tensors: one allocation on one device, shared by all views of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "ember/base/export.h"
#include "ember/base/ref.h"
#include "ember/memory/memory.h"
#include "ember/runtime/device.h"

namespace ember::inline v0 {

/// Memory that somebody else keeps for a storage. Its destructor gives it back, on whichever thread
/// lets the last tensor go, and must not wait for a device.
class EMBER_API ForeignMemory {
 public:
  ForeignMemory() = default;
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;
  virtual ~ForeignMemory() = default;
  /// Work on a stream uses the memory: it is not to be given back before that is done.
  virtual void record_stream(const cuda::Stream& stream);
  /// Throws if the memory must not be used any more.
  virtual void require_alive() const;
};

/// Owns, or shares with a foreign owner, the bytes of one or more tensors. Never moves.
class EMBER_API Storage : public FindableRefCounted {
 public:
  /// Uninitialised memory on an existing device (`cuda` must have an index); device memory belongs
  /// to the device's current stream. `pinned` for page-locked memory of the CPU: ValueError
  /// elsewhere. May block as allocate() does. OutOfMemoryError; Error for 2^60 bytes and more.
  static Ref<Storage> allocate(Device device, std::size_t bytes, bool pinned = false);
  /// Memory of somebody else on an existing device; `release` is called when the last tensor goes,
  /// and never if this throws. ValueError for null where there are bytes.
  static Ref<Storage> adopt(Device device, void* data, std::size_t bytes,
                            std::function<void()> release);
  /// The same; `memory` goes with the last tensor, and if this throws.
  static Ref<Storage> adopt_foreign(Device device, void* data, std::size_t bytes,
                                    std::unique_ptr<ForeignMemory> memory);
  static void dispose(Storage* storage) noexcept;

  /// Null if there are no bytes.
  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  /// In which epoch of its device it was made (runtime.h); zero on the CPU.
  std::uint32_t epoch() const noexcept { return epoch_; }
  /// AcceleratorError `context is destroyed` if the device was reset since: the memory is gone, and
  /// others' may lie there. Blocks nothing.
  void require_alive() const {
    if (device_.is_cuda()) require_epoch();
    if (foreign_) [[unlikely]]
      foreign_->require_alive();
  }
  /// Null unless somebody else keeps the memory.
  ForeignMemory* foreign() const noexcept { return foreign_.get(); }
  /// Whether this is memory from the caching pinned allocator.
  bool from_pinned_allocator() const noexcept { return pinned_.data() != nullptr; }
  /// Work on a stream uses the memory: see cuda::record_stream and cuda::pinned_record_event.
  void record_stream(const cuda::Stream& stream) const;

 private:
  Storage(Device device, std::size_t bytes) noexcept : device_(device), bytes_(bytes) {}
  Storage(Device device, std::size_t bytes, const cuda::Stream& stream)
      : device_(device),
        bytes_(bytes),
        buffer_(cuda::allocate(bytes, stream)),
        data_(buffer_.data()) {}
  Storage(Device device, std::size_t bytes, cuda::PinnedBuffer pinned) noexcept
      : device_(device), bytes_(bytes), pinned_(std::move(pinned)), data_(pinned_.data()) {}
  ~Storage();
  template <class... Args>
  static Ref<Storage> make(Args&&... args);
  void require_epoch() const;

  Device device_;
  bool from_malloc_ = false;
  std::uint32_t epoch_ = 0;
  std::size_t bytes_ = 0;
  cuda::DeviceBuffer buffer_;
  cuda::PinnedBuffer pinned_;
  void* data_ = nullptr;
  std::unique_ptr<ForeignMemory> foreign_;
};

}  // namespace ember::inline v0
