// Handshakes between a test and work on a stream.
#pragma once

#include "ember/driver/driver.h"
#include "ember/runtime/stream.h"
#include "tests/support/kernels.h"

namespace ember::test {

/// Holds a stream: queues a kernel that spins until open() is called (at the latest by the
/// destructor). What is queued behind it cannot be done before. Where a seed decides the order, one
/// task runs at a time and none may spin: the stream waits for a word there.
class Gate {
 public:
  explicit Gate(const cuda::Stream& stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Blocks until the kernel runs. Where a seed decides there is none, and it does nothing.
  void await_running() const;
  void open() noexcept;

 private:
  GateFlags* flags_ = nullptr;
  driver::Word* word_ = nullptr;  // in place of the flags, where a seed decides
};

}  // namespace ember::test
