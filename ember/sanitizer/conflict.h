// What the sanitizer finds: two accesses of the same memory that nothing orders, and reads of what
// was never written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ember/base/export.h"
#include "ember/runtime/observer.h"
#include "ember/sanitizer/clock.h"

namespace ember::inline v0::cuda::sanitizer {

/// Something that accessed memory. Plain data.
struct Operation {
  Activity::Kind kind = Activity::Kind::kernel_launched;
  Epoch epoch;
  std::uint64_t serial = 0;      ///< counts operations, in the order in which they were seen
  bool host = false;             ///< a thread of the host did it, not a stream
  int device = -1;               ///< the stream's
  const void* stream = nullptr;  ///< native handle
  std::int64_t stream_id = 0;
  std::uint32_t thread = 0;    ///< who enqueued it, or did it
  const char* name = nullptr;  ///< lives as long as the program
  std::uint64_t stack = 0;     ///< stack_text() in base/stack.h
};

/// Which arguments of an operation are the same bytes.
struct Arguments {
  int first = 0;                ///< the first one's place among the operation's accesses
  const char* names = nullptr;  ///< "self, other"; null where none has one, as an output alone
  bool output = false;          ///< the operation returns it

  Arguments() = default;
  /// What ember's operations write as "self" or "out" they return.
  Arguments(int place, const Access& access) noexcept : first(place) {
    if (access.argument == nullptr) return;
    const std::string_view name = access.argument;
    output = access.writes && (name == kOutputArgument || name == "self" || name == "out");
    if (name != kOutputArgument) names = access.argument;
  }
  /// Adds those of another access.
  void join(const Arguments& other);
  /// A number where nobody said how the argument is called; empty for an output alone.
  EMBER_API std::string text() const;
};

/// One side of a conflict.
struct Side {
  Operation operation;
  bool writes = false;
  const void* address = nullptr;
  std::size_t bytes = 0;
  Arguments arguments;
};

struct Conflict {
  enum class Kind : std::uint8_t {
    race,            ///< two accesses
    reuse,           ///< one of memory's earlier life: it was freed while it was in use
    use_after_free,  ///< `before` is the free
    never_written,   ///< bytes that `now` reads were not, since their allocation; no `before`
  };
  enum class Certainty : std::uint8_t {
    certain,
    by_query,  ///< ordered only by a query that happened to answer "done"
    possible,  ///< whether strided accesses meet took too long to find out
  };
  Kind kind = Kind::race;
  Certainty certainty = Certainty::certain;
  Side now, before;
  /// Of never_written: the first of these bytes.
  const void* missing = nullptr;
  std::size_t missing_bytes = 0;
  /// The allocation that the memory belongs to: 0 if nobody saw it being made.
  const void* allocation = nullptr;
  std::size_t allocation_bytes = 0;
  std::uint64_t allocation_stack = 0, free_stack = 0;
};

}  // namespace ember::inline v0::cuda::sanitizer
