// What the layers above the runtime need of it and users don't.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "ember/driver/driver.h"
#include "ember/runtime/observer.h"

namespace ember::cuda {

namespace detail {
extern std::atomic<driver::Driver*> the_driver;
driver::Driver& initialize();
}  // namespace detail

/// The driver; made at the first call (see init() for the errors).
inline driver::Driver& active_driver() {
  driver::Driver* made = detail::the_driver.load(std::memory_order_acquire);
  if (made != nullptr) [[likely]]
    return *made;
  return detail::initialize();
}

/// The driver if there is one: for destructors, which must not make one. Null in a forked child.
inline driver::Driver* driver_if_made() noexcept {
  return detail::the_driver.load(std::memory_order_acquire);
}

/// launch() on the calling thread's current stream of an existing device. Looks at the stream where
/// it is, where launch(current_stream(device), ...) would make an owner of it.
void launch_on_current(int device, const driver::Kernel& kernel, const driver::Params& params,
                       std::span<const Access> accesses);

/// The native handle of the calling thread's current stream on an existing device, without owning
/// the stream: null is the default one.
void* current_native_stream(int device);

/// Makes `driver` the process's driver, in place of what EMBER_DEVICES asks for: for tests that
/// wrap one. Only before the first use.
void install_driver(std::unique_ptr<driver::Driver> driver);

/// Calls `hook()` once, on the thread that makes the driver, right after it was made; never if
/// there is a driver already. What it throws is thrown to whoever asked for the driver, which
/// stays; init() then calls it again, until it does not throw.
void on_initialized(void (*hook)());

/// Calls `hook(device)` whenever a device is reset, after the driver has dropped what it held.
void on_device_reset(void (*hook)(int device));

}  // namespace ember::cuda
