// The one place that every wait of the library passes.
#pragma once

#include <cstdint>

#include "ember/base/embedding.h"
#include "ember/base/status.h"
#include "ember/driver/handles.h"
#include "ember/runtime/sync_debug.h"

namespace ember::inline v0::cuda {

/// A thread of the host is about to wait for a device: made before anything is enqueued whose end
/// is waited for, and kept until the wait is over. Only this class calls the driver's functions
/// that wait for work; the test `layering` sees to that. Making one counts the wait, asks the mode
/// of chapter 16 and the thread's budgets, and gives Python's lock back if the thread has it, so no
/// lock of ember's may be held that a thread with Python's lock may want.
class HostWait {
 public:
  /// AcceleratorError `operation not permitted` in a host function or a kernel's host
  /// implementation, whose thread would wait for itself. Error if the mode or a budget forbids it.
  /// `what` names the call in errors: a literal.
  HostWait(WaitKind kind, const char* what);
  ~HostWait() = default;
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

  // Each blocks, and reports a fault.
  void stream(const driver::StreamHandle& stream) const;
  void event(const driver::EventHandle& event) const;
  void device(int device) const;
  void reset(int device) const;

  // For what cannot throw, such as destructors and allocators, which hold locks: the wait is
  // counted and made, and Python's lock stays where it is. In a host function the driver refuses
  // it.
  static Status stream(WaitKind kind, const driver::StreamHandle& stream) noexcept;
  static Status event(WaitKind kind, const driver::EventHandle& event) noexcept;
  static Status device(WaitKind kind, int device) noexcept;
  static Status free(int device, std::uint32_t epoch, void* pointer) noexcept;
  static Status pinned_free(void* pointer) noexcept;
  static Status host_unregister(void* pointer) noexcept;

  /// Whether a budget of the calling thread counts waits of WaitKind::pageable, and the thread is
  /// not within another wait, of which they would be a part.
  static bool counts_pageable() noexcept;

 private:
  struct Admitted {
    Admitted(WaitKind kind, const char* what);
    ~Admitted();
    Admitted(const Admitted&) = delete;
    Admitted& operator=(const Admitted&) = delete;
  };
  /// Throws what the driver answered; says which call it was that a capture does not allow.
  void check_captured(const Status& status) const;

  const char* const what_;
  const Admitted admitted_;
  const UnexpectedWait unlocked_;  // after all that may fail
};

}  // namespace ember::inline v0::cuda
