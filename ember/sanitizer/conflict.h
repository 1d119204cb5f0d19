// What the sanitizer finds: two accesses of the same memory that nothing orders, and reads of what
// was never written.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// One side of a conflict.
struct Side {
  Operation operation;
  bool writes = false;
  const void* address = nullptr;
  std::size_t bytes = 0;
  int argument = 0;                     ///< which of the operation's accesses
  const char* argument_name = nullptr;  ///< as in cuda::Access
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
