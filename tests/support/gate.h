// Handshakes between a test and work on a stream.
#pragma once

#include "ember/runtime/stream.h"
#include "tests/support/kernels.h"

namespace ember::test {

/// Holds a stream: queues a kernel that spins until open() is called (at the latest by the
/// destructor). What is queued behind it cannot be done before.
class Gate {
 public:
  explicit Gate(const cuda::Stream& stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Blocks until the kernel runs.
  void await_running() const;
  void open() noexcept;

 private:
  GateFlags* flags_;
};

}  // namespace ember::test
