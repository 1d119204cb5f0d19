#include "ember/memory/host_registration.h"

#include "ember/base/error.h"
#include "ember/memory/allocators.h"
#include "ember/runtime/device.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

HostRegistration::HostRegistration(void* pointer, std::size_t bytes) {
  driver::Driver& driver = active_driver();
  check(driver.device_activate(current_device()));
  check(driver.host_register(pointer, bytes));
  pointer_ = pointer;
}

HostRegistration::~HostRegistration() {
  if (pointer_ == nullptr || memory::in_forked_child()) return;
  (void)HostWait::host_unregister(pointer_);
}

}  // namespace ember::inline v0::cuda
