// The last operations enqueued on a device, so that a fault, which CUDA reports at some later call,
// can be traced to the operations that may have caused it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ember::inline v0::driver::cuda {

/// Lock-free: adding is one atomic increment and a few stores, some nanoseconds. It is a
/// diagnostic: an entry can be lost or mixed up if its thread is interrupted inside add() for as
/// long as others need to add kKept more.
class RecentWork {
 public:
  static constexpr std::size_t kKept = 16;

  /// Operations of a device are numbered 1, 2, 3, ... in the order in which they were added.
  using Number = std::uint64_t;

  struct Operation {
    const char* name;  ///< of a kernel, or "copy" and the like; lives as long as the program
    const void* stream;
    std::size_t bytes = 0;   ///< of a copy or fill; 0 where it means nothing
    bool is_kernel = false;  ///< its name is the user's and is shown in quotes
  };

  Number add(const Operation& operation) noexcept {
    const Number number = newest_.fetch_add(1, std::memory_order_relaxed) + 1;
    Slot& slot = slots_[number % kKept];
    slot.number.store(0, std::memory_order_relaxed);
    slot.name.store(operation.name, std::memory_order_release);
    slot.stream.store(operation.stream, std::memory_order_release);
    slot.bytes.store(operation.bytes, std::memory_order_release);
    slot.is_kernel.store(operation.is_kernel, std::memory_order_release);
    slot.number.store(number, std::memory_order_release);
    return number;
  }
  /// Takes back an operation that was not enqueued after all.
  void retract(Number number) noexcept;

  /// The newest operation so far; what a synchronization that starts now will have waited for.
  Number newest() const noexcept { return newest_.load(std::memory_order_relaxed); }
  /// Forgets operations up to `number`, of one stream or of all: they ended without a fault.
  void finished(Number number) noexcept;
  void finished(Number number, const void* stream) noexcept;

  /// "'b' on stream 0x7f10, copy of 64 bytes on the default stream", newest first; "" when nothing
  /// is left.
  std::string text() const;

 private:
  // A slot is a sequence lock: its number is zero while the fields change, and a reader that sees
  // the same number before and after has read one whole operation. The orders make that true: who
  // reads a new field then also sees the zero that was stored before it.
  struct Slot {
    std::atomic<Number> number{0};  ///< 0: empty, or being written
    std::atomic<const char*> name{nullptr};
    std::atomic<const void*> stream{nullptr};
    std::atomic<std::size_t> bytes{0};
    std::atomic<bool> is_kernel{false};
  };
  bool read(const Slot& slot, Number& number, Operation& out) const noexcept;

  // Alone on its cache line: every operation writes it, and what lies beside it in a Device is read
  // by every operation.
  alignas(64) std::atomic<Number> newest_{0};
  std::array<Slot, kKept> slots_;
};

}  // namespace ember::inline v0::driver::cuda
