#include "ember/driver/sim/machine.h"

#include <cstdio>
#include <string>

namespace ember::inline v0::driver::sim {

std::uint32_t Health::begin_epoch() noexcept {
  const MutexLock lock(mutex_);
  const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  // First the epoch: a task of the last one must not be let in by the fault's going.
  epoch_.store(epoch, std::memory_order_release);
  fault_ = Status();
  failed_.store(false, std::memory_order_release);
  return epoch;
}

void Health::fail(Status status, std::uint32_t epoch) {
  const MutexLock lock(mutex_);
  if (!fault_.ok() || epoch != epoch_.load(std::memory_order_relaxed)) return;
  fault_ = std::move(status);
  failed_.store(true, std::memory_order_release);
}

Status Health::fault() const {
  if (!failed()) return {};
  const MutexLock lock(mutex_);
  return fault_;
}

namespace {

Status illegal_access(int device, const void* pointer, std::size_t bytes, const char* reason) {
  char text[200];
  std::snprintf(text, sizeof text, "access to %zu bytes at %p from cuda:%d: %s", bytes, pointer,
                device, reason);
  return Status(Code::illegal_address, text);
}

}  // namespace

Status Machine::locate(int device, const void* pointer, std::size_t bytes, void*& out) const {
  const Unseen look;
  const int owner = arena.owner(pointer);
  if (owner < 0) {
    out = const_cast<void*>(pointer);
    return {};
  }
  if (bytes != 0 && !arena.contains(pointer, bytes))
    return illegal_access(device, pointer, bytes, "that does not lie within one allocation");
  if (owner != device && health_of(owner).failed()) {
    char reason[64];
    std::snprintf(reason, sizeof reason, "that is memory of cuda:%d, which is in a fault", owner);
    return illegal_access(device, pointer, bytes, reason);
  }
  out = arena.backing(pointer);
  return {};
}

void* DeviceLaunch::resolve(void* pointer, std::size_t bytes) const noexcept {
  const Unseen look;
  const int owner = machine_.arena.owner(pointer);
  if (owner < 0) {
    if (bytes == 0 || machine_.pinned.contains(pointer, bytes)) return pointer;
    fault_ = illegal_access(device(), pointer, bytes,
                            "that is neither device memory nor pinned host memory");
    return nullptr;
  }
  if (!machine_.may_access(device(), owner)) {
    fault_ =
        illegal_access(device(), pointer, bytes, "that is memory of a device without peer access");
    return nullptr;
  }
  void* place = nullptr;
  fault_ = machine_.locate(device(), pointer, bytes, place);
  return place;
}

}  // namespace ember::inline v0::driver::sim
