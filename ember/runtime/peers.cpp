// Which devices may touch each other's memory, as far as it was needed, and whether what they write
// there arrives.
#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/mutex.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/device.h"
#include "ember/runtime/enqueueing.h"
#include "ember/runtime/host_wait.h"
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

/// Where a seed decides, each run is to do the same, so each finds out anew.
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
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::peer_enabled, .device = device, .peer = peer};
  });
  return true;
}

// Note [Peer access that lies]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// There are machines on which access between devices is possible, is allowed, and delivers wrong
// bytes (such as with an IOMMU that translates them). So the first use of a pair copies a pattern
// there and back, and compares. It waits for nothing of the user's: it has a stream of its own, and
// the memory stays for the next pair, since freeing it would wait for the device. Where a seed
// decides, it is no part of the schedule: a host that waits lets other work run meanwhile, so that
// a wait that is missing beside the first copy of a pair would hardly ever be seen.

struct Scratch {
  void* memory = nullptr;
  std::uint32_t epoch = 0;
};

struct Trial {
  Mutex mutex;  // one pair at a time
  std::array<Scratch, kMost> scratch EMBER_GUARDED_BY(mutex);
  std::array<std::array<bool, kMost>, kMost> warned EMBER_GUARDED_BY(mutex){};
};
constinit Trial trial;

constexpr std::size_t kPatternBytes = 4096;
using Pattern = std::array<unsigned char, kPatternBytes>;

/// Other bytes for each pair and direction, so that what was left there by another one is no match.
Pattern pattern_of(int from, int to) noexcept {
  Pattern pattern;
  std::uint32_t state = static_cast<std::uint32_t>(from * kMost + to + 1) * 2654435761U;
  for (unsigned char& byte : pattern) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return pattern;
}

Status scratch_on(driver::Driver& machine, int device, std::uint32_t epoch, void*& out)
    EMBER_REQUIRES(trial.mutex) {
  Scratch& kept = trial.scratch[static_cast<std::size_t>(device)];
  if (kept.memory == nullptr || kept.epoch != epoch) {
    void* made = nullptr;
    EMBER_TRY(machine.malloc(device, epoch, kPatternBytes, made));
    kept = {made, epoch};
  }
  out = kept.memory;
  return {};
}

enum class Arrives : std::uint8_t { yes, no, unknown };

/// One copy of a trial, of which observers are told as of others: what they do not see, they cannot
/// say to be in order.
Status try_copy(driver::Driver& machine, const Stream& stream, driver::PeerMemory peer,
                const Access& to, const Access& from) {
  Enqueueing call{Enqueueing::MayWait()};
  EMBER_TRY(machine.copy(stream.handle(), const_cast<void*>(to.address), from.address,
                         kPatternBytes, peer));
  const std::array<Access, 2> accesses{from, to};
  if (call.watched())
    call.record(stream, {.kind = Activity::Kind::copied,
                         .address = to.address,
                         .source = from.address,
                         .bytes = kPatternBytes,
                         .accesses = accesses,
                         .accesses_known = true});
  return {};
}

/// Copies a pattern from memory of one device to that of another, on a stream of `stream`'s device,
/// and compares what has arrived.
Status try_way(driver::Driver& machine, const Stream& stream, driver::PeerMemory peer,
               const Pattern& pattern, void* from, void* to, bool& arrives) {
  const Pattern nothing{};
  Pattern arrived{};
  const auto device = [](void* memory, bool writes) {
    return Access{memory, kPatternBytes, writes, Access::Memory::device};
  };
  const auto host = [](const Pattern& memory, bool writes) {
    return Access{memory.data(), kPatternBytes, writes, Access::Memory::ordinary};
  };
  const auto copy_all = [&]() -> Status {
    EMBER_TRY(try_copy(machine, stream, peer, device(to, true), host(nothing, false)));
    EMBER_TRY(try_copy(machine, stream, peer, device(from, true), host(pattern, false)));
    EMBER_TRY(try_copy(machine, stream, peer, device(to, true), device(from, false)));
    return try_copy(machine, stream, peer, host(arrived, true), device(to, false));
  };
  // Those that came before a failure are waited for, too: the next trial uses the memory again.
  const Status copied = copy_all();
  Status waited;
  detail::told_wait(stream, [&] { waited = HostWait::stream(WaitKind::library, stream.handle()); });
  EMBER_TRY(copied);
  EMBER_TRY(waited);
  arrives = arrived == pattern;
  return {};
}

/// While it lives, what its thread records is not told to observers, since a lock is held, and what
/// it enqueues is in no schedule.
class Untold {
 public:
  Untold() noexcept
      : before_(detail::mark_enqueueing(true)), unscheduled_(driver::set_unscheduled(true)) {}
  ~Untold() {
    (void)driver::set_unscheduled(unscheduled_);
    (void)detail::mark_enqueueing(before_);
    detail::deliver();
  }
  Untold(const Untold&) = delete;
  Untold& operator=(const Untold&) = delete;

 private:
  bool before_;
  bool unscheduled_;
};

/// Whether bytes arrive in both directions; unknown if that cannot be tried now, such as with no
/// memory left or in a fault.
Arrives try_both_ways(driver::Driver& machine, int device, std::uint32_t epoch, int peer,
                      std::uint32_t peer_epoch) EMBER_REQUIRES(trial.mutex) {
  const RelaxedCapture relaxed;  // of other threads
  void* here = nullptr;
  void* there = nullptr;
  if (!scratch_on(machine, device, epoch, here).ok() ||
      !scratch_on(machine, peer, peer_epoch, there).ok())
    return Arrives::unknown;
  driver::StreamHandle made;
  if (!machine.stream_create(device, 0, made).ok()) return Arrives::unknown;
  bool to = false;
  bool back = false;
  bool tried = false;
  {
    const ExternalStream stream(made.native, device);
    const driver::PeerMemory memory{peer, peer_epoch};
    // After a reset, what lies at the addresses is somebody else's.
    tried = made.epoch == epoch && stream.handle() == made &&
            try_way(machine, stream, memory, pattern_of(device, peer), here, there, to).ok() &&
            try_way(machine, stream, memory, pattern_of(peer, device), there, here, back).ok();
  }
  (void)machine.stream_destroy(made);
  if (!tried) return Arrives::unknown;
  return to && back ? Arrives::yes : Arrives::no;
}

/// Whether the calling thread is capturing work of the device, where nothing may be tried.
bool capturing(driver::Driver& machine, int device) {
  driver::CaptureStatus status{};
  std::uint64_t id = 0;
  const driver::StreamHandle current = current_stream(device).handle();
  return machine.capture_status(current, status, id).ok() && status != driver::CaptureStatus::none;
}

/// For a pair with access: what is known of it from now on.
Arrives try_pair(int device, std::uint32_t epoch, int peer, std::uint32_t peer_epoch) {
  driver::Driver& machine = active_driver();
  if (!machine.may_wait() || capturing(machine, device) || capturing(machine, peer))
    return Arrives::unknown;
  bool warns = false;
  {
    const Untold untold;
    const MutexLock lock(trial.mutex);
    const Arrives arrives = try_both_ways(machine, device, epoch, peer, peer_epoch);
    if (arrives != Arrives::no) return arrives;
    bool& warned = trial.warned[static_cast<std::size_t>(std::min(device, peer))]
                               [static_cast<std::size_t>(std::max(device, peer))];
    warns = !std::exchange(warned, true);
  }
  for (const auto& [from, to] : {std::pair{device, peer}, std::pair{peer, device}})
    if (machine.peer_disable(from, to).ok())
      notify([from = from, to = to]() -> Activity {
        return {.kind = Activity::Kind::peer_disabled, .device = from, .peer = to};
      });
  if (warns)
    warn(Warning::user, "peer access between cuda:" + std::to_string(device) +
                            " and cuda:" + std::to_string(peer) +
                            " delivers wrong bytes, so copies between them go through the host");
  return Arrives::no;
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
  bool usable = enable(device, peer) && enable(peer, device);
  bool certain = true;
  if (usable && noted) {
    const Arrives arrives = try_pair(device, epoch, peer, peer_epoch);
    certain = arrives != Arrives::unknown;  // otherwise the next use tries again
    usable = arrives != Arrives::no;
  }
  if (noted && certain) {
    known[device][peer].store({usable, epoch, peer_epoch}, std::memory_order_relaxed);
    known[peer][device].store({usable, peer_epoch, epoch}, std::memory_order_relaxed);
  }
  return usable;
}

}  // namespace ember::inline v0::cuda
