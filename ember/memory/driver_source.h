// Raw memory and events from the process's driver.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "ember/base/mutex.h"
#include "ember/memory/segment_source.h"

namespace ember::inline v0::memory {

/// What concerns events is the same for all sources.
template <class Source>
class DriverEvents : public Source {
 public:
  Status event_create(int device, driver::EventHandle& out) noexcept final;
  Status event_destroy(driver::EventHandle event) noexcept final;
  Status event_record(driver::EventHandle event, driver::StreamHandle stream) noexcept final;
  Status event_query(driver::EventHandle event) noexcept final;
  Status event_synchronize(driver::EventHandle event) noexcept final;
  Status device_synchronize(int device) noexcept final;
  std::uint32_t device_epoch(int device) noexcept final;
  bool epoch_ended(int device, std::uint32_t epoch) noexcept final;
  bool may_wait() noexcept final;
};

class DriverEventSource final : public DriverEvents<EventSource> {};

class DriverSegmentSource final : public DriverEvents<SegmentSource> {
 public:
  explicit DriverSegmentSource(int device) noexcept : device_(device) {}
  std::uint32_t epoch() noexcept override { return device_epoch(device_); }
  Status allocate(std::uint32_t epoch, std::size_t bytes, void*& out) noexcept override;
  Status free(std::uint32_t epoch, void* pointer) noexcept override;
  Status memory_info(driver::MemoryInfo& out) noexcept override;
  /// As many as PyTorch takes: 1.125 times the device's memory.
  Status reserve(std::uint32_t epoch, void*& base, std::size_t& bytes) noexcept override;
  Status release(std::uint32_t epoch, void* base) noexcept override;
  Status map(std::uint32_t epoch, void* start, std::size_t bytes) noexcept override;
  Status unmap(std::uint32_t epoch, void* start, std::size_t bytes) noexcept override;
  Status stream_synchronize(driver::StreamHandle stream) noexcept override;
  Status host_allocate(std::size_t bytes, void*& out) noexcept override;
  void host_free(void* pointer) noexcept override;
  Status copy(std::uint32_t epoch, const std::vector<HostCopy>& copies,
              bool to_host) noexcept override;
  Status processes(std::vector<driver::GpuProcess>& out) noexcept override;

 private:
  int device_;
};

/// cudaMallocAsync: memory that comes and goes in the order of its stream, from a pool of the
/// device's, which keeps it.
class OrderedDeviceMemory final : public MemorySource {
 public:
  Status allocate(RawMemory& memory) noexcept override;
  /// In the order of the stream, without a wait. If that is no more, waits for the device.
  Status give_back(const RawMemory& memory) noexcept override;
  bool is_ordered() const noexcept override { return true; }
  /// Waits for the device, so that all that was freed is free.
  Status trim(int device, std::uint32_t epoch) noexcept override;
};

/// Page-locking needs some device. Where none has been used yet, that is the calling thread's
/// current one: a program that keeps to its device never wakes device 0.
class DriverPinnedSource final : public DriverEvents<PinnedSource> {
 public:
  std::uint32_t epoch() noexcept override;
  /// From the driver or, with pinned_use_cuda_host_register, from the system: touched page by page
  /// by several threads, which takes most of the time, and then page-locked. On the current
  /// device's NUMA node, where there are several.
  Status allocate(std::size_t bytes, void*& out) noexcept override;
  Status free(void* pointer) noexcept override;

 private:
  Status map_and_register(std::size_t bytes, void*& out);

  Mutex mutex_;
  std::unordered_map<void*, std::size_t> mapped_ EMBER_GUARDED_BY(mutex_);  // and their bytes
};

}  // namespace ember::inline v0::memory
