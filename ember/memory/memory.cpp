#include "ember/memory/memory.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/memory/allocators.h"
#include "ember/memory/resource.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/work.h"

namespace ember::inline v0::cuda {

using memory::DeviceAllocator;

namespace {

/// Calls `function(allocator)` for every device's allocator, the current device's first, until one
/// answers true.
template <class Function>
bool any_allocator(const Function& function) {
  const int first = current_device();
  if (DeviceAllocator* allocator = memory::allocator_if_made(first))
    if (function(*allocator)) return true;
  for (int device = 0; device < memory::kMaxDevices; ++device) {
    if (device == first) continue;
    if (DeviceAllocator* allocator = memory::allocator_if_made(device))
      if (function(*allocator)) return true;
  }
  return false;
}

/// The allocator whose counters are asked for by a function of that name; null if nothing has been
/// counted yet.
DeviceAllocator* counted(const DeviceArg& device, const char* asked) {
  if (asked != nullptr) tell_figure_asked(asked);
  if (driver_if_made() == nullptr) return nullptr;
  return memory::allocator_if_made(device.existing());
}

}  // namespace

// ---- Device memory

DeviceBuffer allocate(std::size_t bytes, const Stream& stream) {
  DeviceBuffer buffer;
  DeviceAllocator& allocator = memory::allocator_of(stream.device_index());
  // Asked for first: memory may turn out to be younger than it says, but never older.
  buffer.epoch_ = allocator.device_epoch();
  const memory::BlockUse use = allocator.allocate(bytes, stream.handle().native);
  buffer.block_ = use.block;
  buffer.data_ = use.address;
  buffer.serial_ = use.serial;
  buffer.size_ = bytes;
  buffer.stream_.emplace(stream);
  return buffer;
}

void DeviceBuffer::refuse_if_gone() const {
  const int device = stream_->device_index();
  const DeviceAllocator* allocator = memory::allocator_if_made(device);
  if (allocator == nullptr || allocator->device_epoch() == epoch_) [[likely]]
    return;
  const std::string name = "cuda:" + std::to_string(device);
  throw AcceleratorError(Status(
      Code::context_is_destroyed,
      "a buffer of " + std::to_string(size_) + " bytes was allocated on " + name +
          " before it was reset, which took the memory. Allocate a new buffer after a reset"));
}

void DeviceBuffer::reset() noexcept {
  // If the device was reset, or the memory freed by its address, there is nothing left to do.
  if (void* const data = std::exchange(data_, nullptr); data != nullptr)
    if (DeviceAllocator* allocator = memory::allocator_if_made(stream_->device_index()))
      (void)allocator->free(block_, data, serial_);
  stream_.reset();
  size_ = 0;
  block_ = nullptr;
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(block_, other.block_);
  std::swap(serial_, other.serial_);
  std::swap(epoch_, other.epoch_);
}

void* caching_allocator_alloc(std::size_t bytes, DeviceArg device,
                              const std::optional<Stream>& stream) {
  const int index = device.existing();
  if (stream && stream->device_index() != index)
    throw ValueError("Expected a stream of device " + std::to_string(index) + ", but got: " +
                     stream->str() + " of device " + std::to_string(stream->device_index()));
  void* const native = stream ? stream->native() : current_native_stream(index);
  void* const address = memory::allocator_of(index).allocate(bytes, native).address;
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::host_exposed,
            .name = "caching_allocator_alloc",
            .address = address,
            .bytes = bytes};
  });
  return address;
}

void caching_allocator_delete(void* pointer) {
  if (pointer == nullptr || memory::in_forked_child()) return;
  const auto free = [pointer](DeviceAllocator& allocator) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): that is not the C library's free
    return allocator.free(pointer);
  };
  if (driver_if_made() != nullptr)
    if (any_allocator(free)) return;
  throw Error((memory::memory_changed() ? "Trying to free a pointer not allocated here: "
                                        : "invalid device pointer: ") +
              address_text(pointer) +
              ". Expected the start of device memory that was allocated here and not yet freed.");
}

void record_stream(const void* pointer, const Stream& stream) {
  if (pointer == nullptr || driver_if_made() == nullptr) return;
  any_allocator([&](DeviceAllocator& allocator) {
    return allocator.record_stream(pointer, stream.handle());
  });
}

DeviceBuffer clone(const DeviceBuffer& source, const Stream& stream) {
  const void* const from = source.data();
  DeviceBuffer copy = allocate(source.size(), stream);
  if (source.size() == 0) return copy;
  record_stream(from, stream);
  copy_async(copy.data(), from, source.size(), stream);
  return copy;
}

void empty_cache() {
  driver::Driver* driver = driver_if_made();
  if (driver == nullptr) return;
  Batch::hand_over();  // also where there is nothing to give back
  Status failure;
  // Also of devices that no memory was asked of yet: this is counted.
  for (int device = 0; device < std::min(driver->device_count(), memory::kMaxDevices); ++device) {
    Status status = memory::allocator_of(device).empty_cache();
    if (failure.ok()) failure = std::move(status);
  }
  check(failure);
}

std::pair<std::size_t, std::size_t> mem_get_info(DeviceArg device) {
  tell_figure_asked("mem_get_info");
  driver::MemoryInfo info;
  check(active_driver().memory_info(device.existing(), info));
  return {info.free, info.total};
}

void set_per_process_memory_fraction(double fraction, DeviceArg device) {
  if (!(fraction >= 0 && fraction <= 1)) {  // also when it is not a number
    throw ValueError("Invalid fraction value: " + number_text(fraction, 15) +
                     ". Allowed range: 0~1");
  }
  const int index = device.existing();
  const std::size_t total = get_device_properties(index).total_memory;
  memory::allocator_of(index).set_fraction(fraction, total);
}

double get_per_process_memory_fraction(DeviceArg device) {
  return memory::allocator_of(device.existing()).fraction();
}

void set_allocator_settings(std::string_view settings) { memory::change_settings(settings); }

std::string get_allocator_settings() { return memory::settings().text; }

const char* get_allocator_backend() {
  if (memory::memory_changed()) return "pluggable";
  return memory::settings().ordered ? "cudaMallocAsync" : "native";
}

// ---- Counters

std::size_t memory_allocated(DeviceArg device) {
  DeviceAllocator* allocator = counted(device, "memory_allocated");
  return allocator != nullptr ? static_cast<std::size_t>(allocator->allocated()) : 0;
}

std::size_t max_memory_allocated(DeviceArg device) {
  DeviceAllocator* allocator = counted(device, "max_memory_allocated");
  return allocator != nullptr ? static_cast<std::size_t>(allocator->max_allocated()) : 0;
}

std::size_t memory_reserved(DeviceArg device) {
  DeviceAllocator* allocator = counted(device, "memory_reserved");
  return allocator != nullptr ? static_cast<std::size_t>(allocator->reserved()) : 0;
}

std::size_t max_memory_reserved(DeviceArg device) {
  DeviceAllocator* allocator = counted(device, "max_memory_reserved");
  return allocator != nullptr ? static_cast<std::size_t>(allocator->max_reserved()) : 0;
}

void reset_peak_memory_stats(DeviceArg device) {
  if (DeviceAllocator* allocator = counted(device, nullptr)) allocator->reset_peaks();
}

void reset_accumulated_memory_stats(DeviceArg device) {
  if (DeviceAllocator* allocator = counted(device, nullptr)) allocator->reset_accumulated();
}

MemoryCounters memory_counters(DeviceArg device) {
  DeviceAllocator* allocator = counted(device, "memory_counters");
  if (allocator != nullptr) return allocator->counters();
  MemoryCounters counters;
  if (const std::size_t size = memory::settings().max_split_size;
      size != memory::Settings::kUnlimited)
    counters.max_split_size = static_cast<std::int64_t>(size);
  return counters;
}

// ---- Pinned memory

PinnedBuffer allocate_pinned(std::size_t bytes) {
  return detail::allocate_pinned_for(nullptr, bytes);
}

PinnedBuffer detail::allocate_pinned_for(const char* user, std::size_t bytes) {
  PinnedBuffer buffer;
  buffer.size_ = bytes;
  if (const memory::PinnedBlock* block =
          memory::pinned_allocator().allocate(bytes, memory::PinnedPolicy::kUnit, user)) {
    buffer.data_ = block->data;
    buffer.context_ = block;
  }
  return buffer;
}

void PinnedBuffer::reset() noexcept {
  void* const data = std::exchange(data_, nullptr);
  if (data != nullptr)
    if (memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made())
      (void)allocator->free(data);
  size_ = 0;
  context_ = nullptr;
}

void PinnedBuffer::swap(PinnedBuffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(context_, other.context_);
}

void* pinned_alloc(std::size_t bytes) {
  const memory::PinnedBlock* block = memory::pinned_allocator().allocate(bytes);
  return block != nullptr ? block->data : nullptr;
}

void* detail::pinned_alloc(std::size_t bytes, std::size_t alignment) {
  const memory::PinnedBlock* block = memory::pinned_allocator().allocate(bytes, alignment);
  return block != nullptr ? block->data : nullptr;
}

void pinned_delete(void* pointer) {
  if (pointer == nullptr || memory::in_forked_child()) return;
  memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made();
  if (allocator != nullptr && allocator->free(pointer)) return;
  // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): that is not the C library's free
  throw Error("invalid pinned pointer: " + address_text(pointer) +
              ". Expected the start of pinned memory that was allocated here and not yet freed.");
}

bool pinned_record_event(const void* pointer, const void* context, const Stream& stream) {
  memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made();
  return allocator != nullptr && allocator->record_event(pointer, context, stream.handle());
}

void pinned_empty_cache() {
  if (memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made())
    check(allocator->empty_cache());
}

PinnedCounters pinned_counters() {
  tell_figure_asked("host_memory_stats");
  memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made();
  return allocator != nullptr ? allocator->counters() : PinnedCounters();
}

void reset_peak_pinned_counters() {
  if (memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made())
    allocator->reset_peaks();
}

void reset_accumulated_pinned_counters() {
  if (memory::PinnedAllocator* allocator = memory::pinned_allocator_if_made())
    allocator->reset_accumulated();
}

}  // namespace ember::inline v0::cuda
