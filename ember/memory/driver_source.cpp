#include "ember/memory/driver_source.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/team.h"
#include "ember/memory/allocators.h"
#include "ember/memory/numa.h"
#include "ember/memory/pinned_block.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/device.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::memory {
namespace {

/// Gives each page a place in memory: that of the thread that comes first, which stays on some
/// processors until then, if there are any.
void touch(std::byte* data, std::size_t bytes, int threads,
           const std::vector<int>& processors) noexcept {
  constexpr std::size_t kPiece = 2 * kMiB;
  share(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), threads, [&](std::int64_t piece) {
    const numa::Bound here(processors);
    const std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
    const std::size_t end = std::min(begin + kPiece, bytes);
    for (std::size_t at = begin; at < end; at += PinnedPolicy::kPage)
      const_cast<volatile std::byte&>(data[at]) = std::byte{0};
  });
}

/// The processors that memory for a device is best touched by first; none where the memory was
/// given its place already, or it does not matter. A simulated device may seem to be where another
/// one is, which does no harm: memory that has no room there comes from elsewhere.
std::vector<int> place_near(driver::Driver& driver, void* data, std::size_t bytes) {
  driver::DeviceProperties device;
  if (!driver.device_properties(cuda::current_device(), device).ok()) return {};
  const int node = numa::node_of(device);
  if (node == numa::kNone || numa::prefer(data, bytes, node)) return {};
  return numa::processors_of(node);
}

// Where there is an allocator there is a driver, so this never makes one, which could throw.
driver::Driver& made() noexcept { return *cuda::driver_if_made(); }

// What the allocators ask of the driver must not disturb what others capture meanwhile.
using cuda::RelaxedCapture;

}  // namespace

template <class Source>
Status DriverEvents<Source>::event_create(int device, driver::EventHandle& out) noexcept {
  const RelaxedCapture relaxed;
  return made().event_create(device, {}, out);
}
template <class Source>
Status DriverEvents<Source>::event_destroy(driver::EventHandle event) noexcept {
  const RelaxedCapture relaxed;
  return made().event_destroy(event);
}
template <class Source>
Status DriverEvents<Source>::event_record(driver::EventHandle event,
                                          driver::StreamHandle stream) noexcept {
  const RelaxedCapture relaxed;
  return made().event_record(event, stream);
}
template <class Source>
Status DriverEvents<Source>::event_query(driver::EventHandle event) noexcept {
  const RelaxedCapture relaxed;
  return made().event_query(event);
}
template <class Source>
Status DriverEvents<Source>::event_synchronize(driver::EventHandle event) noexcept {
  const RelaxedCapture relaxed;
  return cuda::HostWait::event(cuda::WaitKind::memory, event);
}
template <class Source>
Status DriverEvents<Source>::device_synchronize(int device) noexcept {
  const RelaxedCapture relaxed;
  return cuda::HostWait::device(cuda::WaitKind::memory, device);
}
template <class Source>
std::uint32_t DriverEvents<Source>::device_epoch(int device) noexcept {
  return made().device_epoch(device);
}
template <class Source>
bool DriverEvents<Source>::epoch_ended(int device, std::uint32_t epoch) noexcept {
  return made().epoch_ended(device, epoch);
}
template <class Source>
bool DriverEvents<Source>::may_wait() noexcept {
  return made().may_wait();
}
template class DriverEvents<EventSource>;
template class DriverEvents<SegmentSource>;
template class DriverEvents<PinnedSource>;

Status DriverSegmentSource::allocate(std::uint32_t epoch, std::size_t bytes, void*& out) noexcept {
  const RelaxedCapture relaxed;
  return made().malloc(device_, epoch, bytes, out);
}
Status DriverSegmentSource::free(std::uint32_t epoch, void* pointer) noexcept {
  const RelaxedCapture relaxed;
  return cuda::HostWait::free(device_, epoch, pointer);
}
Status DriverSegmentSource::memory_info(driver::MemoryInfo& out) noexcept {
  const RelaxedCapture relaxed;
  return made().memory_info(device_, out);
}

Status DriverSegmentSource::reserve(std::uint32_t epoch, void*& base, std::size_t& bytes) noexcept {
  const RelaxedCapture relaxed;
  driver::MemoryInfo info;
  EMBER_TRY(made().memory_info(device_, info));
  const std::size_t wanted = round_up(info.total + info.total / 8, kLargeRound);
  void* range = nullptr;
  std::size_t unit = 0;
  EMBER_TRY(made().range_reserve(device_, epoch, wanted, range, unit));
  if (kLargeRound % unit != 0) {
    (void)made().range_release(device_, epoch, range);
    return Status(Code::not_supported, "chunks of " + std::to_string(unit) + " bytes");
  }
  base = range;
  bytes = wanted;
  return {};
}
Status DriverSegmentSource::release(std::uint32_t epoch, void* base) noexcept {
  const RelaxedCapture relaxed;
  return made().range_release(device_, epoch, base);
}
Status DriverSegmentSource::map(std::uint32_t epoch, void* start, std::size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  return made().range_map(device_, epoch, start, bytes);
}
Status DriverSegmentSource::unmap(std::uint32_t epoch, void* start, std::size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  return made().range_unmap(device_, epoch, start, bytes);
}
Status DriverSegmentSource::stream_synchronize(driver::StreamHandle stream) noexcept {
  const RelaxedCapture relaxed;
  return cuda::HostWait::stream(cuda::WaitKind::memory, stream);
}

Status DriverSegmentSource::host_allocate(std::size_t bytes, void*& out) noexcept {
  try {
    out = pinned_allocator().allocate(bytes)->data;
  } catch (const AcceleratorError& error) {
    // The text's second line says what came.
    const std::string_view text = error.what();
    const std::size_t first = std::min(text.find('\n'), text.size() - 1) + 1;
    return Status(error.code(),
                  "page-locked memory of " + format_bytes(bytes) + ": " +
                      std::string(text.substr(first, text.find('\n', first) - first)));
  } catch (const std::exception& error) {
    return Status(Code::out_of_memory, error.what());
  }
  return {};
}
void DriverSegmentSource::host_free(void* pointer) noexcept {
  PinnedAllocator* const allocator = pinned_allocator_if_made();
  if (allocator != nullptr) (void)allocator->free(pointer);
}

// On a stream of its own, which waits for nobody's work.
Status DriverSegmentSource::copy(std::uint32_t epoch, const std::vector<HostCopy>& copies,
                                 bool to_host) noexcept {
  if (copies.empty()) return {};
  const RelaxedCapture relaxed;
  driver::StreamHandle stream;
  EMBER_TRY(made().stream_create(device_, 0, stream));
  Status status = stream.epoch == epoch ? Status() : Status(Code::context_is_destroyed);
  for (const HostCopy& each : copies) {
    if (!status.ok()) break;
    std::byte* const host = static_cast<std::byte*>(each.host) + each.offset;
    status = to_host ? made().copy(stream, host, each.device, each.bytes)
                     : made().copy(stream, each.device, host, each.bytes);
  }
  Status waited = cuda::HostWait::stream(cuda::WaitKind::memory, stream);
  // What nobody can wait for now keeps the host's memory from being used again until it is over.
  if (!waited.ok() && !is_sticky(waited.code()) &&
      !cuda::HostWait::device(cuda::WaitKind::memory, device_).ok())
    for (const HostCopy& each : copies)
      (void)pinned_allocator().record_event(each.host, nullptr, stream);
  (void)made().stream_destroy(stream);
  return status.ok() ? std::move(waited) : std::move(status);
}

Status DriverSegmentSource::processes(std::vector<driver::GpuProcess>& out) noexcept {
  driver::GpuProcesses found;
  EMBER_TRY(made().device_processes(device_, found));
  out = std::move(found.processes);
  return {};
}

namespace {

driver::StreamHandle stream_of(const RawMemory& memory) noexcept {
  return {memory.stream, memory.device, memory.epoch};
}

/// Nothing else says that the memory, which went when it was freed, is nobody's from then on.
void tell_of_wait(cuda::Activity::Kind kind, int device) noexcept {
  if (!cuda::observed() || cuda::inside_notice()) return;
  cuda::Activity activity;
  activity.kind = kind;
  activity.device = device;
  cuda::detail::record(activity);
}

}  // namespace

Status OrderedDeviceMemory::allocate(RawMemory& memory) noexcept {
  const RelaxedCapture relaxed;
  return made().malloc_async(stream_of(memory), memory.bytes, memory.address);
}

Status OrderedDeviceMemory::give_back(const RawMemory& memory) noexcept {
  const RelaxedCapture relaxed;
  Status status = made().free_async(stream_of(memory), memory.address);
  if (status.code() != Code::invalid_handle) return status;
  (void)cuda::HostWait::device(cuda::WaitKind::memory, memory.device);  // a fault ends work, too
  return cuda::HostWait::free(memory.device, memory.epoch, memory.address);
}

Status OrderedDeviceMemory::trim(int device, std::uint32_t epoch) noexcept {
  const RelaxedCapture relaxed;
  tell_of_wait(cuda::Activity::Kind::wait_began, device);
  const Status waited = cuda::HostWait::device(cuda::WaitKind::memory, device);
  if (waited.ok()) tell_of_wait(cuda::Activity::Kind::device_synchronized, device);
  Status status = made().memory_trim(device, epoch);
  return status.code() == Code::context_is_destroyed ? Status() : status;
}

std::uint32_t DriverPinnedSource::epoch() noexcept {
  driver::Driver& driver = made();
  std::uint32_t resets = 0;
  for (int i = 0; i < driver.device_count(); ++i) resets += driver.device_epoch(i);
  return resets;
}
Status DriverPinnedSource::allocate(std::size_t bytes, void*& out) noexcept {
  const RelaxedCapture relaxed;
  driver::Driver& driver = made();
  bool active = false;
  for (int i = 0; i < driver.device_count() && !active; ++i) active = driver.device_active(i);
  // If the device has a fault, the driver may still find another one.
  if (!active) (void)driver.device_activate(cuda::current_device());
  if (!settings().pinned_use_cuda_host_register) return driver.pinned_malloc(bytes, out);
  try {
    return map_and_register(bytes, out);
  } catch (const std::bad_alloc&) {
    return Code::out_of_memory;
  }
}

Status DriverPinnedSource::map_and_register(std::size_t bytes, void*& out) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Code::out_of_memory;
  try {
    touch(static_cast<std::byte*>(data), bytes,
          static_cast<int>(settings().pinned_num_register_threads),
          place_near(made(), data, bytes));
    const MutexLock lock(mutex_);
    mapped_.emplace(data, bytes);
  } catch (...) {
    (void)munmap(data, bytes);
    throw;
  }
  if (Status status = made().host_register(data, bytes); !status.ok()) {
    {
      const MutexLock lock(mutex_);
      mapped_.erase(data);
    }
    (void)munmap(data, bytes);
    return status;
  }
  out = data;
  return {};
}

Status DriverPinnedSource::free(void* pointer) noexcept {
  const RelaxedCapture relaxed;
  std::size_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    if (const auto found = mapped_.find(pointer); found != mapped_.end()) bytes = found->second;
  }
  if (bytes == 0) return cuda::HostWait::pinned_free(pointer);
  Status status = cuda::HostWait::host_unregister(pointer);
  // After a reset it may no longer be page-locked.
  if (!status.ok() && status.code() != Code::host_memory_not_registered) return status;
  {
    const MutexLock lock(mutex_);
    mapped_.erase(pointer);
  }
  (void)munmap(pointer, bytes);
  return {};
}

}  // namespace ember::inline v0::memory
