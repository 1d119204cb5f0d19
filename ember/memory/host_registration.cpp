#include "ember/memory/host_registration.h"

#include "ember/base/error.h"
#include "ember/base/stack.h"
#include "ember/memory/allocators.h"
#include "ember/memory/free_watch.h"
#include "ember/runtime/device.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

HostRegistration::HostRegistration(void* pointer, std::size_t bytes) {
  driver::Driver& driver = active_driver();
  check(driver.device_activate(current_device()));
  check(driver.host_register(pointer, bytes));
  pointer_ = pointer;
  bytes_ = bytes;
}

HostRegistration::~HostRegistration() {
  if (pointer_ == nullptr || memory::in_forked_child()) return;
  if (!HostWait::host_unregister(pointer_).ok() || !memory::any_free_watched()) return;
  memory::tell_gone(
      {reinterpret_cast<std::uintptr_t>(pointer_), bytes_, "unregistered", capture_stack()});
}

}  // namespace ember::inline v0::cuda
