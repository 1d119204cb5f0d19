// Memory of devices, and page-locked host memory. Chapters 8, 9, 12 and 14 of the documents.
//
// Device memory comes from a caching allocator, one per device: freed memory is kept for reuse by
// later work on the same stream. So freeing needs no wait, and memory that work in a stream still
// uses may be freed at once, as long as only that stream uses it; other streams must be noted with
// record_stream(). All functions are thread-safe, and none of them waits for work on a device
// unless its comment says so.
//
// With PYTORCH_NO_CUDA_MEMORY_CACHING set, every allocation is one of the device's own, of exactly
// the size asked for, all counters stay zero, and freeing waits for the device.
//
// In a host function, and in a kernel's host implementation, nothing may wait for a device. There
// memory can be freed (if that had to wait, a later call elsewhere does it); allocating works as
// long as there is memory that needs no wait (else OutOfMemoryError, which says so; CUDA permits no
// call to obtain more: AcceleratorError); emptying a cache is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ember/base/export.h"
#include "ember/memory/counters.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::memory {
struct Block;
struct PinnedBlock;
}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {

// ---- Device memory

/// Owns memory of one device; frees it when it goes. Movable, not copyable. A buffer that outlives
/// a reset of its device no longer has memory: it is refused wherever the memory is asked for, and
/// its destructor does nothing. Nor does that of one that lives on in a forked child, or whose
/// memory was freed by its address.
/// Members may be called from any thread, but not while another thread moves or destroys the
/// buffer.
class [[nodiscard]] EMBER_API DeviceBuffer {
 public:
  /// Empty: no memory, no device, no stream.
  DeviceBuffer() noexcept = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer() { reset(); }

  /// Null if the size is zero. Aligned to 512 bytes. AcceleratorError `context is destroyed` if the
  /// device was reset after the memory was allocated.
  void* data() const {
    if (data_ != nullptr) refuse_if_gone();
    return data_;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  /// The bytes asked for; the block behind it may be larger.
  std::size_t size() const noexcept { return size_; }
  /// `cuda` without an index if the buffer is empty.
  Device device() const noexcept {
    return {Device::Type::cuda, stream_ ? stream_->device_index() : -1};
  }
  /// The stream whose work may use it without further notice. Nothing if the buffer is empty.
  const std::optional<Stream>& stream() const noexcept { return stream_; }

  /// Frees the memory and makes the buffer empty.
  void reset() noexcept;
  void swap(DeviceBuffer& other) noexcept;

 private:
  friend DeviceBuffer allocate(std::size_t bytes, const Stream& stream);
  void refuse_if_gone() const;

  std::optional<Stream> stream_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  memory::Block* block_ = nullptr;
  std::uint64_t serial_ = 0;  // which use of the block
  std::uint32_t epoch_ = 0;   // how often the device had been reset
};

/// Memory for work on a stream, on the stream's device; contents undefined. Sizes are bytes from 0
/// to 2^60 - 1. May block while the device is asked for more memory, and, when there is none left,
/// until other streams have finished with memory that was freed. Throws OutOfMemoryError (the text
/// says what held the memory; everything stays usable) and AcceleratorError. Initialises.
EMBER_API DeviceBuffer allocate(std::size_t bytes, const Stream& stream = current_stream());

/// The same for callers that keep the address: freed with caching_allocator_delete. Null for zero
/// bytes. Without a stream, the current one of the device; ValueError if the stream is another
/// device's.
EMBER_API void* caching_allocator_alloc(std::size_t bytes, DeviceArg device = {},
                                        const std::optional<Stream>& stream = {});

/// Frees what caching_allocator_alloc (or a buffer) has at exactly this address; null is ignored.
/// Error `invalid device pointer: 0x...` for anything else (`Trying to free a pointer not allocated
/// here: 0x...` after change_current_allocator), and nothing is changed. Does nothing in
/// a forked child, whose parent's memory it cannot free.
EMBER_API void caching_allocator_delete(void* pointer);

/// Notes that work on a stream, of any device, uses the memory that contains `pointer`: once freed,
/// it is not reused before the work is done that the stream holds at that time. Ignored for the
/// memory's own stream, for null, and for memory that is not from here. A buffer from before a
/// reset of its device is refused.
EMBER_API void record_stream(const void* pointer, const Stream& stream);
inline void record_stream(const DeviceBuffer& buffer, const Stream& stream) {
  record_stream(buffer.data(), stream);
}

/// A new buffer with the same bytes, for work on `stream`: the copy is enqueued there, after what
/// the stream holds now. The source is noted as used by the stream. Errors as allocate() and
/// DeviceBuffer::data().
EMBER_API DeviceBuffer clone(const DeviceBuffer& source, const Stream& stream = current_stream());

/// Gives all cached memory that is not in use back to the devices. Waits for work on other streams
/// that uses freed memory; what a device in fault used of another one's stays until it is reset.
/// Nothing before initialisation. AcceleratorError if a device does not take some of it back; that
/// part stays cached; `operation not permitted` in a host function, which it would wait for.
EMBER_API void empty_cache();

/// (free, total) bytes of the whole device, whoever uses them. Initialises.
EMBER_API std::pair<std::size_t, std::size_t> mem_get_info(DeviceArg device = {});

/// Limits what this process's allocator may hold of a device to `fraction` of the device's memory;
/// beyond that, allocations fail with OutOfMemoryError without asking the device. What is held
/// already is kept. ValueError `Invalid fraction value: x. Allowed range: 0~1`. Initialises.
EMBER_API void set_per_process_memory_fraction(double fraction, DeviceArg device = {});
/// 1 unless set. Initialises.
EMBER_API double get_per_process_memory_fraction(DeviceArg device = {});

/// Settings of the caching allocators, `option:value,option:value`: chapter 11 of the documents.
/// What is not named stays as it is, except max_split_size_mb, roundup_power2_divisions and
/// garbage_collection_threshold, which begin at their defaults. Holds for what is allocated from
/// now on; per_process_memory_fraction for devices of which no memory was asked yet, and backend
/// until any was, with a ValueError for another one after that. Warns of
/// options that have no effect here. ValueError for anything that is no setting: nothing has
/// changed then. Thread-safe; does not block or initialise.
EMBER_API void set_allocator_settings(std::string_view settings);
/// The text that was set last: by the call above, else by EMBER_ALLOC_CONF, PYTORCH_ALLOC_CONF or
/// PYTORCH_CUDA_ALLOC_CONF, the first one that is set. ValueError if that is no setting.
EMBER_API std::string get_allocator_settings();

/// "native", or "cudaMallocAsync" with that setting; "pluggable" after change_current_allocator()
/// (pluggable.h). ValueError if the settings are none.
EMBER_API const char* get_allocator_backend();

/// Told of a device that has no memory left, before OutOfMemoryError is thrown: what was asked for,
/// and how much the device has, in all and free, in bytes.
using OutOfMemoryObserver =
    std::function<void(int device, std::size_t requested, std::size_t total, std::size_t free)>;

/// Adds an observer, for as long as the process runs. Observers are called in the order in which
/// they were added, on the thread that allocates and without a lock of the allocator's: one may ask
/// for counters, and free memory. What one throws is thrown in place of OutOfMemoryError.
/// ValueError for an empty function. Any thread may call it at any time; does not block or
/// initialise.
EMBER_API void attach_out_of_memory_observer(OutOfMemoryObserver observer);

// ---- Counters: 0, or nothing to do, before initialisation, which they never cause.
// AcceleratorError for devices that don't exist.

/// Bytes handed out and not yet freed (rounded sizes), and the most there ever were.
EMBER_API std::size_t memory_allocated(DeviceArg device = {});
EMBER_API std::size_t max_memory_allocated(DeviceArg device = {});
/// Bytes held of the device, in use or cached, and the most there ever were.
EMBER_API std::size_t memory_reserved(DeviceArg device = {});
EMBER_API std::size_t max_memory_reserved(DeviceArg device = {});
/// Every peak of the device becomes the current value.
EMBER_API void reset_peak_memory_stats(DeviceArg device = {});
/// What was allocated and freed so far, and how often things happened, is counted from zero again.
EMBER_API void reset_accumulated_memory_stats(DeviceArg device = {});
/// Everything that is counted, of one moment.
EMBER_API MemoryCounters memory_counters(DeviceArg device = {});

// ---- Page-locked ("pinned") host memory, which devices copy from and to without the CPU. A reset
// of a device may leave what was allocated before it no longer page-locked: its contents stay, it
// can be used and freed, and it is not handed out again.

class PinnedBuffer;
namespace detail {
/// allocate_pinned(), of which observers are told that name: null, or kPinnedForTensor.
PinnedBuffer allocate_pinned_for(const char* user, std::size_t bytes);
}  // namespace detail

/// Owns pinned memory; frees it when it goes. Movable, not copyable.
class [[nodiscard]] EMBER_API PinnedBuffer {
 public:
  /// Empty.
  PinnedBuffer() noexcept = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    PinnedBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~PinnedBuffer() { reset(); }

  /// Null if the size is zero.
  void* data() const noexcept { return data_; }
  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }
  /// The bytes asked for; the block behind it may be larger.
  std::size_t size() const noexcept { return size_; }
  /// By this, pinned_record_event knows views of the buffer at any address.
  const void* context() const noexcept { return context_; }

  /// Frees the memory and makes the buffer empty.
  void reset() noexcept;
  void swap(PinnedBuffer& other) noexcept;

 private:
  friend PinnedBuffer detail::allocate_pinned_for(const char* user, std::size_t bytes);

  void* data_ = nullptr;
  std::size_t size_ = 0;
  const void* context_ = nullptr;
};

/// Pinned memory, contents undefined, at a multiple of 64 bytes. It takes less than an eighth more
/// than asked for, or less than 64 bytes more, and shares what is page-locked at once with other
/// small buffers. May block. ValueError for 2^60 bytes and more,
/// AcceleratorError when there is none. Initialises.
EMBER_API PinnedBuffer allocate_pinned(std::size_t bytes);

/// The same for callers that keep the address. Null for zero bytes.
EMBER_API void* pinned_alloc(std::size_t bytes);
/// Error `invalid pinned pointer: 0x...` unless pinned memory in use begins here; null is ignored.
EMBER_API void pinned_delete(void* pointer);

/// Notes that work on a stream uses pinned memory: once freed, it is not reused before that work is
/// done. The memory is found by `context`, or else by its exact start. False if there is no such
/// memory in use; both may be anything.
EMBER_API bool pinned_record_event(const void* pointer, const void* context, const Stream& stream);
inline bool pinned_record_event(const PinnedBuffer& buffer, const Stream& stream) {
  return pinned_record_event(buffer.data(), buffer.context(), stream);
}

/// Unlocks and gives back cached pinned memory that no work uses. Nothing before initialisation.
/// Does not wait for such work, unless memory was noted for a stream that was destroyed before the
/// memory was freed: then for all work of that stream's device.
EMBER_API void pinned_empty_cache();
/// Zeros before initialisation. Thread-safe, does not wait for work.
/// (PyTorch: torch.cuda.host_memory_stats)
EMBER_API PinnedCounters pinned_counters();
/// Peaks of pinned memory begin at what there is now. Thread-safe, does not block; nothing before
/// initialisation. (PyTorch: torch.cuda.reset_peak_host_memory_stats)
EMBER_API void reset_peak_pinned_counters();
/// `allocated`, `freed`, and what counts and times calls of the driver begin at zero. Thread-safe,
/// does not block; nothing before initialisation.
/// (PyTorch: torch.cuda.reset_accumulated_host_memory_stats)
EMBER_API void reset_accumulated_pinned_counters();

}  // namespace ember::inline v0::cuda
