#include "ember/driver/sim/scheduler.h"

#include <algorithm>

namespace ember::inline v0::driver::sim {

void PriorityScheduler::begin(const Task& task) {
  if (!task.computes) return;
  Device& device = devices_[static_cast<std::size_t>(task.device)];
  const MutexLock lock(device.mutex);
  if (device.running < kSlotsPerDevice && device.waiting.empty()) {
    ++device.running;
    return;
  }
  Waiter self;
  self.priority = task.priority;
  const auto place =
      std::find_if(device.waiting.begin(), device.waiting.end(),
                   [&](const Waiter* other) { return other->priority > self.priority; });
  const auto mine = device.waiting.insert(place, &self);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!self.chosen) {
    if (self.chosen_now.wait_until(device.mutex, until) || self.chosen) continue;
    device.waiting.erase(mine);
    ++device.running;
    return;
  }
}

void PriorityScheduler::end(const Task& task) {
  if (!task.computes) return;
  Device& device = devices_[static_cast<std::size_t>(task.device)];
  const MutexLock lock(device.mutex);
  --device.running;
  if (device.waiting.empty() || device.running >= kSlotsPerDevice) return;
  Waiter* next = device.waiting.front();
  device.waiting.pop_front();
  ++device.running;
  next->chosen = true;
  next->chosen_now.notify_one();
}

}  // namespace ember::inline v0::driver::sim
