// Chapter 20's rule by itself, for callers that report what happens: memory is known by one
// pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ember/base/export.h"
#include "ember/runtime/observer.h"
#include "ember/sanitizer/conflict.h"

namespace ember::inline v0::cuda::sanitizer {

/// The sanitizer's engine without a device: the caller says what was done, and on which streams.
/// Not thread-safe.
class EMBER_API ByPointer {
 public:
  ByPointer();
  ~ByPointer();
  ByPointer(const ByPointer&) = delete;
  ByPointer& operator=(const ByPointer&) = delete;

  /// Work on a stream that reads and writes what lies at these addresses; what it runs into. Each
  /// is numbered: Operation::serial.
  std::vector<Conflict> launch(const void* stream, std::span<const void* const> read,
                               std::span<const void* const> written);
  /// The number of the work that was launched last.
  std::uint64_t launched() const noexcept;
  /// The numbers of those that later work may run into.
  std::vector<std::uint64_t> kept() const;
  /// Memory is new there, and whatever happened to what lay there is forgotten.
  void allocate(const void* data);
  /// Anything else that orders: streams, events and waits.
  void tell(const Activity& activity);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ember::inline v0::cuda::sanitizer
