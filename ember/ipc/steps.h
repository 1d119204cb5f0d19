// The numbered steps of the protocol between processes, at each of which tests end one of them.
#pragma once

#include <atomic>

#include "ember/base/export.h"

namespace ember::inline v0::ipc {

enum class Step : int {
  none = 0,
  // The owner.
  sent,          ///< a handle was made
  request_came,  ///< nothing was done for it yet
  lease_noted,   ///< and the reply not sent
  reply_sent,
  give_back_came,  ///< and not done yet
  give_back_done,
  // Whoever receives.
  before_connect,
  connected,
  request_sent,
  reply_came,  ///< nothing mapped yet
  mapped,      ///< and the wait not enqueued
  received,
  released,          ///< the last tensor went
  work_done,         ///< and the memory not unmapped
  before_give_back,  ///< unmapped
  gave_back,
  // Whoever passes it on.
  before_forward,
  forwarded,
  count
};

/// For tests: the step at which this process ends itself with SIGKILL, or none.
EMBER_TEST_API extern std::atomic<int> killed_at;
/// For tests, which link the library's internals: the step at which a thread waits until this is
/// another one. Not one of those that come with the service's lock: give_back_came and _done,
/// before_give_back.
EMBER_TEST_API extern std::atomic<int> held_at;

[[noreturn]] void kill_here() noexcept;
inline void at(Step step) noexcept {
  if (killed_at.load(std::memory_order_relaxed) == static_cast<int>(step)) [[unlikely]]
    kill_here();
  if (held_at.load(std::memory_order_relaxed) == static_cast<int>(step)) [[unlikely]]
    held_at.wait(static_cast<int>(step));
}

}  // namespace ember::inline v0::ipc
