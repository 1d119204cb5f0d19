// What the layers above the runtime need of it and users don't.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "ember/base/export.h"
#include "ember/driver/driver.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

namespace detail {
EMBER_TEST_API extern std::atomic<driver::Driver*> the_driver;
EMBER_TEST_API driver::Driver& initialize();
/// Adds the observers that the environment asks for, once: EMBER_SANITIZER and
/// TORCH_CUDA_SANITIZER. ValueError for a value that makes no sense. In sanitizer/, which lies
/// above.
void watch_as_asked();
/// The same for EMBER_TIMELINE. In timeline/, which lies above.
void record_as_asked();
}  // namespace detail

/// The driver; made at the first call (see init() for the errors).
inline driver::Driver& active_driver() {
  driver::Driver* made = detail::the_driver.load(std::memory_order_acquire);
  if (made != nullptr) [[likely]]
    return *made;
  return detail::initialize();
}

/// Whether nothing writes the memory of the devices that were made but what observers are told of,
/// so that what was never written is known. False before the first use of a device.
bool tells_all_writes() noexcept;

/// The driver if there is one: for destructors, which must not make one. Null in a forked child.
inline driver::Driver* driver_if_made() noexcept {
  return detail::the_driver.load(std::memory_order_acquire);
}

/// How often an existing device was reset: what is kept for a device is kept with its epoch, and
/// good for nothing once that has passed.
inline std::uint32_t device_epoch(int device) { return active_driver().device_epoch(device); }

/// launch() on the calling thread's current stream of an existing device, with memory of one of its
/// epochs (or kAnyEpoch, if there is none) and of a peer: refused if that has passed. Looks at the
/// stream where it is, where launch(current_stream(device), ...) would make an owner of it.
void launch_on_current(int device, std::uint32_t epoch, driver::PeerMemory peer,
                       const driver::Kernel& kernel, const driver::Params& params,
                       std::span<const Access> accesses);

/// copy_async() with memory of one epoch of the stream's device (or kAnyEpoch) and of a peer:
/// refused if that has passed.
void copy_in_epoch(const Stream& stream, std::uint32_t epoch, driver::PeerMemory peer, void* target,
                   const void* source, std::size_t bytes);

/// The same for a copy whose end nobody waits for: with host memory that is not pinned it is a wait
/// of WaitKind::pageable.
void copy_without_wait(const Stream& stream, std::uint32_t epoch, driver::PeerMemory peer,
                       void* target, const void* source, std::size_t bytes);

class HostWait;
/// stream.synchronize() for work that was enqueued in that epoch: refused if it has passed, since a
/// reset may have dropped the work.
void synchronize_in_epoch(const HostWait& wait, const Stream& stream, std::uint32_t epoch);

/// The native handle of the calling thread's current stream on an existing device, without owning
/// the stream: null is the default one.
void* current_native_stream(int device);

/// Whether the calling thread is inside Observer::notice(): what it does there is not reported.
bool inside_notice() noexcept;

/// Makes `driver` the process's driver, in place of what EMBER_DEVICES asks for: for tests that
/// wrap one. Only before the first use.
EMBER_TEST_API void install_driver(std::unique_ptr<driver::Driver> driver);

/// Calls `hook()` once, on the thread that makes the driver, right after it was made; never if
/// there is a driver already. What it throws is thrown to whoever asked for the driver, which
/// stays; init() then calls it again, until it does not throw.
void on_initialized(void (*hook)());

/// Where a variable asks for what has stacks in its reports, they are wanted from now on: for
/// languages that note where a call comes from before they make it, and do not know yet that it
/// will be the first use of a device. Until then.
EMBER_API void want_stacks_of_first_use();

/// Calls `hook(seed)` whenever a run begins after the first (sim::begin_run), on the thread that
/// begins it, when the last run's work is done: what is kept between calls starts afresh there. A
/// hook must not throw, nor enqueue work.
void on_run_begun(void (*hook)(std::uint64_t seed));

/// From now on, or until then, runs begin by begin_owned_run() alone: sim::begin_run() is refused.
void own_runs(bool owned) noexcept;
void begin_owned_run(const std::string& schedule);

}  // namespace ember::inline v0::cuda
