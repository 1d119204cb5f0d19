// Where the allocators get raw memory and events from: the driver (driver_source.h) or, in tests
// and benchmarks, something that needs no device.
//
// The rules of the seam hold (driver.h): thread-safe, nothing throws, a failed call has changed
// nothing. While the allocators hold the ledger's lock they make no call but epoch().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/status.h"
#include "ember/driver/handles.h"
#include "ember/driver/telemetry.h"

namespace ember::inline v0::memory {

class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual Status event_create(int device, driver::EventHandle& out) noexcept = 0;
  virtual Status event_destroy(driver::EventHandle event) noexcept = 0;
  virtual Status event_record(driver::EventHandle event, driver::StreamHandle stream) noexcept = 0;
  /// not_ready while work before the record is pending.
  virtual Status event_query(driver::EventHandle event) noexcept = 0;
  /// Blocks until the record is reached.
  virtual Status event_synchronize(driver::EventHandle event) noexcept = 0;
  /// Blocks until all work enqueued on the device so far is done. Memory that was used on a stream
  /// which no longer exists is never used again where this is not possible.
  virtual Status device_synchronize(int /*device*/) noexcept { return Code::not_supported; }
  /// How often the device was reset.
  virtual std::uint32_t device_epoch(int /*device*/) noexcept { return 0; }
  /// Whether a reset has ended that epoch of the device, and all work in it has stopped.
  virtual bool epoch_ended(int device, std::uint32_t epoch) noexcept {
    return epoch < device_epoch(device);
  }
  /// False on a thread that work on a device waits for, such as in a host function: calls that
  /// block answer not_permitted there.
  virtual bool may_wait() noexcept { return true; }
};

/// Raw memory of one device.
class SegmentSource : public EventSource {
 public:
  /// How often the device was reset.
  virtual std::uint32_t epoch() noexcept { return 0; }
  /// Memory aligned to kMinBlock. out_of_memory is an ordinary answer, and so is
  /// context_is_destroyed: the epoch has passed. May block.
  virtual Status allocate(std::uint32_t epoch, std::size_t bytes, void*& out) noexcept = 0;
  /// Gives back what allocate returned. May block until the device no longer uses it.
  virtual Status free(std::uint32_t epoch, void* pointer) noexcept = 0;
  virtual Status memory_info(driver::MemoryInfo& out) noexcept = 0;

  // For segments that grow; not_supported where there are none. Chunks are multiples of 2 MiB.

  /// Addresses for more than the device's memory.
  virtual Status reserve(std::uint32_t /*epoch*/, void*& /*base*/,
                         std::size_t& /*bytes*/) noexcept {
    return Code::not_supported;
  }
  /// Gives back what reserve gave; there is no chunk any more.
  virtual Status release(std::uint32_t /*epoch*/, void* /*base*/) noexcept {
    return Code::not_supported;
  }
  /// Puts a chunk of memory behind reserved addresses. out_of_memory is an ordinary answer. May
  /// block.
  virtual Status map(std::uint32_t /*epoch*/, void* /*start*/, std::size_t /*bytes*/) noexcept {
    return Code::not_supported;
  }
  /// Gives a chunk back, which no work uses any longer.
  virtual Status unmap(std::uint32_t /*epoch*/, void* /*start*/, std::size_t /*bytes*/) noexcept {
    return Code::not_supported;
  }
  /// Blocks until all work enqueued on the stream so far is done.
  virtual Status stream_synchronize(driver::StreamHandle /*stream*/) noexcept {
    return Code::not_supported;
  }

  // For pools that sleep.

  /// Page-locked memory of the host, from the allocator of that. out_of_memory is an ordinary
  /// answer. May block.
  virtual Status host_allocate(std::size_t /*bytes*/, void*& /*out*/) noexcept {
    return Code::not_supported;
  }
  /// What host_allocate gave.
  virtual void host_free(void* /*pointer*/) noexcept {}
  struct HostCopy {
    void* device = nullptr;
    void* host = nullptr;    ///< as host_allocate gave it
    std::size_t offset = 0;  ///< in that
    std::size_t bytes = 0;
  };
  /// Copies all of them, to the host or from there, behind no other work, and blocks until that is
  /// done. After a failure some may have been; nothing is copied any more, or host_free waits for
  /// it.
  virtual Status copy(std::uint32_t /*epoch*/, const std::vector<HostCopy>& /*copies*/,
                      bool /*to_host*/) noexcept {
    return Code::not_supported;
  }

  /// Who holds memory of the device, this process among them.
  virtual Status processes(std::vector<driver::GpuProcess>& /*out*/) noexcept {
    return Code::not_supported;
  }
};

/// Memory of one device, as it is asked for and given back.
struct RawMemory {
  int device = 0;
  std::uint32_t epoch = 0;  ///< of the device
  void* stream = nullptr;   ///< whose work it is for: native handle
  std::size_t bytes = 0;
  void* address = nullptr;
};

/// Where the segments of a pool come from, and go back to: the device (DeviceMemory) the
/// device's pool in the order of streams (OrderedDeviceMemory), or functions of the program's
/// (user_memory.h). Lives as long as allocators do. Called without the ledger's
/// lock.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Fills in the address, which is a multiple of kMinBlock. out_of_memory is an ordinary answer,
  /// and so is context_is_destroyed: the epoch has passed. May block.
  virtual Status allocate(RawMemory& memory) noexcept = 0;
  /// What allocate returned. May block until the device no longer uses it.
  virtual Status give_back(const RawMemory& memory) noexcept = 0;
  /// Gives back to the device what it keeps for itself. May block.
  virtual Status trim(int /*device*/, std::uint32_t /*epoch*/) noexcept { return {}; }
  /// Throws what its failure means to who asked for memory.
  [[noreturn]] virtual void fail(const Status& status) const { throw AcceleratorError(status); }
  /// Why there is no memory left, for the error's text, if it is not the device that has none.
  virtual std::string refusal() const { return {}; }
  /// Whether it is cudaMallocAsync, of which the documents have another text for that error.
  virtual bool is_ordered() const noexcept { return false; }
};

/// The device's own.
class DeviceMemory final : public MemorySource {
 public:
  explicit DeviceMemory(SegmentSource& source) noexcept : source_(source) {}
  Status allocate(RawMemory& memory) noexcept override {
    return source_.allocate(memory.epoch, memory.bytes, memory.address);
  }
  Status give_back(const RawMemory& memory) noexcept override {
    return source_.free(memory.epoch, memory.address);
  }

 private:
  SegmentSource& source_;
};

/// Raw page-locked host memory.
class PinnedSource : public EventSource {
 public:
  /// How often devices were reset, all together: memory from before may no longer be page-locked.
  virtual std::uint32_t epoch() noexcept { return 0; }
  virtual Status allocate(std::size_t bytes, void*& out) noexcept = 0;
  virtual Status free(void* pointer) noexcept = 0;
};

}  // namespace ember::inline v0::memory
