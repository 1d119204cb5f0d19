#include "ember/driver/sim/machine.h"

#include <cstdio>
#include <string>

namespace ember::driver::sim {

void Health::fail(Status status) {
  const MutexLock lock(mutex_);
  if (!fault_.ok()) return;
  fault_ = std::move(status);
  failed_.store(true, std::memory_order_release);
}

Status Health::fault() const {
  if (!failed()) return {};
  const MutexLock lock(mutex_);
  return fault_;
}

void Health::end_reset() noexcept {
  const MutexLock lock(mutex_);
  fault_ = Status();
  failed_ = false;
  resetting_ = false;
}

void* DeviceLaunch::resolve(void* pointer, std::size_t bytes) const noexcept {
  const int owner = machine_.arena.owner(pointer);
  const char* reason = nullptr;
  if (owner < 0) {
    if (bytes == 0 || machine_.pinned.contains(pointer, bytes)) return pointer;
    reason = "that is neither device memory nor pinned host memory";
  } else if (!machine_.may_access(device(), owner)) {
    reason = "that is memory of a device without peer access";
  } else {
    if (bytes == 0 || machine_.arena.contains(pointer, bytes))
      return machine_.arena.backing(pointer);
    reason = "that does not lie within one allocation";
  }
  char text[200];
  std::snprintf(text, sizeof text, "access to %zu bytes at %p from cuda:%d: %s", bytes, pointer,
                device(), reason);
  fault_ = Status(Code::illegal_address, text);
  return nullptr;
}

}  // namespace ember::driver::sim
