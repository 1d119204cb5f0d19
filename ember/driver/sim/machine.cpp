#include "ember/driver/sim/machine.h"

#include <cstdio>
#include <string>
#include <utility>

namespace ember::inline v0::driver::sim {

std::uint32_t Health::begin_epoch() noexcept {
  const MutexLock lock(mutex_);
  const std::uint32_t epoch = this->epoch() + 1;
  fault_ = Status();
  state_.store(state_of(epoch), std::memory_order_release);
  return epoch;
}

void Health::fail(Status status, std::uint32_t epoch) {
  const MutexLock lock(mutex_);
  if (!fault_.ok() || epoch != this->epoch()) return;
  fault_ = std::move(status);
  noticed_ = false;
  state_.store(state_of(epoch) | kFailed, std::memory_order_release);
}

void Health::begin_run() {
  const MutexLock lock(mutex_);
  fault_ = Status();
  state_.store(state_of(this->epoch()), std::memory_order_release);
}

Status Health::fault() const {
  if (!failed()) return {};
  const MutexLock lock(mutex_);
  noticed_ = true;
  return fault_;
}

Status Health::unnoticed_fault() const {
  const MutexLock lock(mutex_);
  return noticed_ ? Status() : fault_;
}

namespace {

Status illegal_access(int device, const void* pointer, std::size_t bytes,
                      const std::string& reason) {
  char text[100];
  std::snprintf(text, sizeof text, "access to %zu bytes at %p from cuda:%d: ", bytes, pointer,
                device);
  return Status(Code::illegal_address, text + reason);
}

}  // namespace

TaskMemory::~TaskMemory() {
  if (others_.none()) return;
  for (std::size_t other = 0; other < others_.size(); ++other)
    if (others_[other]) machine_.arena.leave(static_cast<int>(other));
}

Status TaskMemory::locate(const void* pointer, std::size_t bytes, std::uint32_t epoch, Use use,
                          void*& out) {
  const Unseen look;
  const int owner = machine_.arena.owner(pointer);
  const auto note = [&] {
    if (machine_.journal != nullptr && use == Use::writes) [[unlikely]]
      machine_.journal->note(out, bytes);
  };
  if (owner < 0) {
    out = const_cast<void*>(pointer);
    note();
    return {};
  }
  const auto number = static_cast<std::size_t>(owner);
  if (owner != device_ && !others_[number]) {
    machine_.arena.enter(owner);
    others_[number] = true;
  }
  const Health& health = machine_.health_of(owner);
  if (epoch != kAnyEpoch && epoch != health.epoch())
    return illegal_access(device_, pointer, bytes,
                          "that was memory of cuda:" + std::to_string(owner) + " before its reset");
  if (bytes != 0 && !machine_.arena.contains(pointer, bytes))
    return illegal_access(device_, pointer, bytes, "that does not lie within one allocation");
  if (owner != device_ && health.failed())
    return illegal_access(device_, pointer, bytes,
                          "that is memory of cuda:" + std::to_string(owner) +
                              ", which is in a fault; there " + health.fault().detail());
  if (machine_.arena.is_own(pointer)) {
    if (bytes != 0 && machine_.arena.follows_runs())
      machine_.arena.touch(pointer, bytes, use == Use::writes);
    out = machine_.arena.backing(pointer);
    note();
    return {};
  }
  Ref<const Imported> imported = machine_.arena.imports().find(pointer);
  if (!imported)
    return illegal_access(device_, pointer, bytes, "that was memory of another process");
  out = imported->backing(pointer);
  if (imported_.empty() || !(imported_.back() == imported))
    imported_.push_back(std::move(imported));
  return {};
}

void* DeviceLaunch::resolve(void* pointer, const Touch& touch) const noexcept {
  const std::size_t bytes = touch.bytes;
  const Unseen look;
  if (traffic_ != nullptr) [[unlikely]] {
    std::size_t touched = touch.sizes.empty() ? bytes : touch.item;
    for (const std::int64_t size : touch.sizes) touched *= static_cast<std::size_t>(size);
    traffic_->add(pointer, touched, touch.writes);
  }
  const int owner = machine_.arena.owner(pointer);
  if (owner < 0) {
    if (bytes == 0 || machine_.pinned.contains(pointer, bytes)) {
      if (machine_.journal != nullptr) [[unlikely]]
        machine_.journal->note(pointer, bytes);
      return pointer;
    }
    fault_ = illegal_access(device(), pointer, bytes,
                            "that is neither device memory nor pinned host memory");
    return nullptr;
  }
  if (!machine_.may_access(device(), owner)) {
    fault_ =
        illegal_access(device(), pointer, bytes, "that is memory of a device without peer access");
    return nullptr;
  }
  activity_.touch();
  void* place = nullptr;
  // A fault stays, whatever is found after it.
  if (Status status =
          memory_.locate(pointer, bytes, owner == peer_.device ? peer_.epoch : kAnyEpoch,
                         TaskMemory::Use::writes, place);
      !status.ok())
    fault_ = std::move(status);
  return place;
}

}  // namespace ember::inline v0::driver::sim
