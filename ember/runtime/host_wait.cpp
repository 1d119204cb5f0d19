#include "ember/runtime/host_wait.h"

#include <array>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/thread_exit.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

struct detail::Budget {
  Budget(std::uint64_t most_waits, std::uint32_t which) noexcept
      : most(most_waits), kinds(which == 0 ? (1U << kWaitKinds) - 1 : which) {}

  const std::uint64_t most;
  const std::uint32_t kinds;
  std::array<std::atomic<std::uint64_t>, kWaitKinds> used{};
  std::atomic<bool> said{false};   // that there were too many
  std::atomic<bool> ended{false};  // its owner is gone, perhaps on another thread

  bool counts(WaitKind kind) const noexcept {
    return (kinds >> static_cast<unsigned>(kind) & 1) != 0;
  }
  std::uint64_t sum() const noexcept {
    std::uint64_t all = 0;
    for (const auto& one : used) all += one.load(std::memory_order_relaxed);
    return all;
  }
  std::string text() const {
    std::string text = std::to_string(sum()) + " waits of the host in a scope whose budget is " +
                       std::to_string(most) + ":";
    const char* separator = " ";
    for (std::size_t i = 0; i < kWaitKinds; ++i) {
      const std::uint64_t count = used[i].load(std::memory_order_relaxed);
      if (count == 0) continue;
      text.append(separator).append(std::to_string(count)).append(" of kind ");
      text.append(wait_kind_name(static_cast<WaitKind>(i)));
      separator = ", ";
    }
    return text;
  }
};

namespace {

constexpr const char* kNames[kWaitKinds] = {"copy",     "stream", "event",  "device",
                                            "pageable", "launch", "memory", "library"};

constinit std::atomic<int> debug_mode{0};

struct Waits {
  int within = 0;  // how many HostWaits there are now
  std::array<std::uint64_t, kWaitKinds> counts{};
  std::vector<std::shared_ptr<detail::Budget>> budgets;
};

Waits& waits() { return PerThread<Waits>::get(); }

/// Counts a wait for the thread and its budgets, and gives the outermost of those that it is too
/// many for.
std::shared_ptr<detail::Budget> count(WaitKind kind) noexcept {
  Waits& here = waits();
  const auto index = static_cast<std::size_t>(kind);
  ++here.counts[index];
  std::shared_ptr<detail::Budget> overdrawn;
  if (here.budgets.empty()) [[likely]]
    return overdrawn;
  std::erase_if(here.budgets, [](const auto& budget) { return budget->ended.load(); });
  for (const auto& budget : here.budgets) {
    if (!budget->counts(kind)) continue;
    budget->used[index].fetch_add(1, std::memory_order_relaxed);
    if (!overdrawn && budget->sum() > budget->most) overdrawn = budget;
  }
  return overdrawn;
}

/// Chapter 16's points.
bool is_checked(WaitKind kind) noexcept {
  return kind == WaitKind::copy || kind == WaitKind::stream;
}

driver::Driver& made() noexcept { return *driver_if_made(); }

}  // namespace

HostWait::Admitted::Admitted(WaitKind kind, const char* what) {
  if (!active_driver().may_wait())
    throw AcceleratorError(Status(
        Code::not_permitted,
        std::string(what) + " called from a host function or a kernel would wait for itself"));
  if (const auto overdrawn = count(kind)) {
    overdrawn->said = true;
    throw Error(std::string(what) + ": " + overdrawn->text());
  }
  constexpr const char* kText = "called a synchronizing CUDA operation";
  if (const int mode = debug_mode.load(std::memory_order_relaxed); mode != 0 && is_checked(kind))
      [[unlikely]] {
    if (mode == 2) throw Error(kText);
    warn(Warning::user, kText);
  }
  ++waits().within;
}

HostWait::Admitted::~Admitted() { --waits().within; }

const char* wait_kind_name(WaitKind kind) noexcept {
  return kNames[static_cast<std::size_t>(kind)];
}

WaitKind wait_kind(std::string_view name) {
  std::string all;
  for (std::size_t i = 0; i < kWaitKinds; ++i) {
    if (name == kNames[i]) return static_cast<WaitKind>(i);
    all.append(i == 0 ? "" : ", ").append(kNames[i]);
  }
  throw ValueError("kinds: got '" + std::string(name) + "', expected some of " + all);
}

void set_sync_debug_mode(int mode) {
  if (mode < 0 || mode > 2) throw Error("invalid value of debug_mode, expected one of 0,1,2");
  debug_mode.store(mode, std::memory_order_relaxed);
  warn(Warning::user,
       "set_sync_debug_mode is a prototype: it shows copies that block and waits for streams, not "
       "every wait (ember.cuda.WaitBudget counts all of them)");
}

void set_sync_debug_mode(std::string_view mode) {
  if (mode == "default") return set_sync_debug_mode(0);
  if (mode == "warn") return set_sync_debug_mode(1);
  if (mode == "error") return set_sync_debug_mode(2);
  throw Error("invalid value of debug_mode, expected one of `default`, `warn`, `error`");
}

int get_sync_debug_mode() noexcept { return debug_mode.load(std::memory_order_relaxed); }

std::array<std::uint64_t, kWaitKinds> host_waits() noexcept {
  tell_figure_asked("host_waits");
  return waits().counts;
}

namespace {

std::uint32_t bits_of(std::initializer_list<WaitKind> kinds) noexcept {
  std::uint32_t bits = 0;
  for (const WaitKind kind : kinds) bits |= 1U << static_cast<unsigned>(kind);
  return bits;
}

}  // namespace

WaitBudget::WaitBudget(std::uint64_t most, std::initializer_list<WaitKind> kinds)
    : WaitBudget(most, bits_of(kinds)) {}

WaitBudget::WaitBudget(std::uint64_t most, std::uint32_t kinds)
    : budget_(std::make_shared<detail::Budget>(most, kinds)) {
  auto& budgets = waits().budgets;
  std::erase_if(budgets, [](const auto& budget) { return budget->ended.load(); });
  budgets.push_back(budget_);
}

WaitBudget::~WaitBudget() {
  budget_->ended = true;
  if (budget_->sum() > budget_->most && !budget_->said) warn(Warning::user, budget_->text());
}

std::uint64_t WaitBudget::used() const noexcept { return budget_->sum(); }

std::uint64_t WaitBudget::used(WaitKind kind) const noexcept {
  return budget_->used[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
}

void WaitBudget::check() const {
  if (budget_->sum() <= budget_->most) return;
  budget_->said = true;
  throw Error(budget_->text());
}

HostWait::HostWait(WaitKind kind, const char* what)
    : what_((settle_deferred(), what)), admitted_(kind, what) {}

void HostWait::check_captured(const Status& status) const {
  if (status.code() != Code::stream_capture_unsupported && status.code() != Code::captured_event)
    return check(status);
  throw AcceleratorError(Status(
      status.code(), std::string(what_) + " waits for work, which cannot be captured into a graph" +
                         (status.detail().empty() ? "" : ": " + status.detail())));
}

void HostWait::stream(const driver::StreamHandle& stream) const {
  check_captured(active_driver().stream_synchronize(stream));
}
void HostWait::event(const driver::EventHandle& event) const {
  check_captured(active_driver().event_synchronize(event));
}
void HostWait::device(int device) const {
  check_captured(active_driver().device_synchronize(device));
}
void HostWait::reset(int device) const { check(active_driver().device_reset(device)); }

// Where there is something to give back there is a driver.
Status HostWait::stream(WaitKind kind, const driver::StreamHandle& stream) noexcept {
  (void)count(kind);
  return made().stream_synchronize(stream);
}
Status HostWait::event(WaitKind kind, const driver::EventHandle& event) noexcept {
  (void)count(kind);
  return made().event_synchronize(event);
}
Status HostWait::device(WaitKind kind, int device) noexcept {
  (void)count(kind);
  return made().device_synchronize(device);
}
Status HostWait::free(int device, std::uint32_t epoch, void* pointer) noexcept {
  (void)count(WaitKind::memory);
  return made().free(device, epoch, pointer);
}
Status HostWait::pinned_free(void* pointer) noexcept {
  (void)count(WaitKind::memory);
  return made().pinned_free(pointer);
}
Status HostWait::host_unregister(void* pointer) noexcept {
  (void)count(WaitKind::memory);
  return made().host_unregister(pointer);
}

bool HostWait::counts_pageable() noexcept {
  const Waits& here = waits();
  if (here.within != 0) return false;
  for (const auto& budget : here.budgets)
    if (!budget->ended && budget->counts(WaitKind::pageable)) return true;
  return false;
}

}  // namespace ember::inline v0::cuda
