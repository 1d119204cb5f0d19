// Which devices may touch each other's memory, as far as it was needed.
#include <atomic>

#include "ember/runtime/device.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::cuda {
namespace {

enum class Peers : std::uint8_t { unknown, usable, impossible };

// As many as EMBER_DEVICES allows and more than a machine has; beyond, the driver is asked each
// time.
constexpr int kMost = 64;
constinit std::atomic<Peers> known[kMost][kMost] = {};

void forget_device(int device) {
  if (device >= kMost) return;
  for (int other = 0; other < kMost; ++other) {
    known[device][other].store(Peers::unknown, std::memory_order_relaxed);
    known[other][device].store(Peers::unknown, std::memory_order_relaxed);
  }
}

bool enable(int device, int peer) {
  driver::Driver& machine = active_driver();
  bool possible = false;
  if (!machine.peer_possible(device, peer, possible).ok() || !possible) return false;
  const Status status = machine.peer_enable(device, peer);
  if (!status.ok() && status.code() != Code::peer_access_already_enabled) return false;
  notify({.kind = Activity::Kind::peer_enabled, .device = device, .peer = peer});
  return true;
}

}  // namespace

void detail::forget_peer(int device, int peer) noexcept {
  if (device >= kMost || peer >= kMost) return;
  known[device][peer].store(Peers::unknown, std::memory_order_relaxed);
  known[peer][device].store(Peers::unknown, std::memory_order_relaxed);
}

bool use_peer_access(int device, int peer) {
  if (device == peer) return false;
  const bool noted = device < kMost && peer < kMost;
  if (noted) {
    const Peers state = known[device][peer].load(std::memory_order_relaxed);
    if (state != Peers::unknown) [[likely]]
      return state == Peers::usable;
  }
  static const bool hooked = (on_device_reset(&forget_device), true);
  static_cast<void>(hooked);
  const bool usable = enable(device, peer) && enable(peer, device);
  if (noted) {
    const Peers state = usable ? Peers::usable : Peers::impossible;
    known[device][peer].store(state, std::memory_order_relaxed);
    known[peer][device].store(state, std::memory_order_relaxed);
  }
  return usable;
}

}  // namespace ember::cuda
