#include "ember/memory/driver_source.h"

#include <utility>

#include "ember/runtime/capture.h"
#include "ember/runtime/device.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::memory {
namespace {

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

Status DriverSegmentSource::processes(std::vector<driver::GpuProcess>& out) noexcept {
  driver::GpuProcesses found;
  EMBER_TRY(made().device_processes(device_, found));
  out = std::move(found.processes);
  return {};
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
  return driver.pinned_malloc(bytes, out);
}
Status DriverPinnedSource::free(void* pointer) noexcept {
  const RelaxedCapture relaxed;
  return cuda::HostWait::pinned_free(pointer);
}

}  // namespace ember::inline v0::memory
