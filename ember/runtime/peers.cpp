// Which devices may touch each other's memory, as far as it was needed.
#include <atomic>

#include "ember/runtime/device.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

/// What was found out about two devices, and in which epochs of theirs: a reset takes access away.
class Verdict {
 public:
  constexpr Verdict() = default;
  Verdict(bool usable, std::uint32_t epoch, std::uint32_t peer_epoch) noexcept
      : bits_(std::uint64_t{epoch} << 32 | (std::uint64_t{peer_epoch} << 2 & 0xffffffff) |
              (usable ? kUsable : kImpossible)) {}
  bool usable() const noexcept { return (bits_ & 3) == kUsable; }
  /// Whether it is the one that would be reached now.
  bool holds(std::uint32_t epoch, std::uint32_t peer_epoch) const noexcept {
    return (bits_ & 3) != 0 && bits_ == Verdict(usable(), epoch, peer_epoch).bits_;
  }

 private:
  static constexpr std::uint64_t kUsable = 1;
  static constexpr std::uint64_t kImpossible = 2;
  std::uint64_t bits_ = 0;  // zero: nothing is known
};

// As many as EMBER_DEVICES allows and more than a machine has; beyond, the driver is asked each
// time.
constexpr int kMost = 64;
constinit std::atomic<Verdict> known[kMost][kMost] = {};

/// Another run finds out for itself.
void forget_all(std::uint64_t) {
  for (auto& device : known)
    for (std::atomic<Verdict>& verdict : device) verdict.store({}, std::memory_order_relaxed);
}

void watch_runs() {
  static std::atomic<bool> watching{false};
  if (sim::seeded() && !watching.exchange(true)) on_run_begun(&forget_all);
}

bool enable(int device, int peer) {
  driver::Driver& machine = active_driver();
  watch_runs();
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
  known[device][peer].store({}, std::memory_order_relaxed);
  known[peer][device].store({}, std::memory_order_relaxed);
}

bool use_peer_access(int device, int peer) {
  if (device == peer) return false;
  const bool noted = device < kMost && peer < kMost;
  // Asked before access is: should a reset come in between, the verdict is an old one.
  const std::uint32_t epoch = device_epoch(device);
  const std::uint32_t peer_epoch = device_epoch(peer);
  if (noted) {
    const Verdict verdict = known[device][peer].load(std::memory_order_relaxed);
    if (verdict.holds(epoch, peer_epoch)) [[likely]]
      return verdict.usable();
  }
  const bool usable = enable(device, peer) && enable(peer, device);
  if (noted) {
    known[device][peer].store({usable, epoch, peer_epoch}, std::memory_order_relaxed);
    known[peer][device].store({usable, peer_epoch, epoch}, std::memory_order_relaxed);
  }
  return usable;
}

}  // namespace ember::inline v0::cuda
