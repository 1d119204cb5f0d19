// Where a thread stands, as a number that is cheap to take and becomes text in reports only.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/export.h"

namespace ember::inline v0 {

/// A number for where the calling thread stands: in the code of the language that ember is used
/// from, if it stands there, else in native code, at most 24 frames. Equal stacks have equal
/// numbers. 0 if it is unknown. A stack that the thread had before costs some 100 ns, unless it has
/// had more than 64 others of that depth, or of 32 other depths, in between. Waits for nothing.
EMBER_API std::uint64_t capture_stack() noexcept;

/// What a number stands for, one or more lines, innermost call first for native code and last for
/// Python, as is usual there; empty for 0. Thread-safe.
EMBER_API std::string stack_text(std::uint64_t number);

/// A number of 32 bits for where the calling thread stands, for the histories that keep many. As
/// capture_stack(); with `native`, the native code's frames come before those of the language,
/// where it stands in both. Equal stacks have equal numbers, but they are not those of
/// capture_stack(). 0 if it is unknown. Waits for nothing.
EMBER_API std::uint32_t capture_stack_id(bool native) noexcept;
/// The frames of such a number, innermost call first; none for 0. Where there are frames of the
/// language, native code's are those of the calls that were made from it last. Looks names up:
/// takes microseconds for each frame of native code. Thread-safe; may wait for the language's lock.
EMBER_API std::vector<StackFrame> stack_frames(std::uint32_t id);

/// Stands for a stack in the detail of a Status, which may be made where no text can be (a worker
/// may not wait for Python's lock). The error that is raised from it has the text there.
std::string stack_mark(std::uint64_t number);
/// The text with stacks in place of their marks.
std::string with_stack_text(std::string text);

namespace detail {
EMBER_API extern std::atomic<int> stack_wishes;
/// For tests: how many stacks were unwound, since the thread had not had them before.
EMBER_TEST_API extern std::atomic<std::uint64_t> stacks_unwound;
}  // namespace detail
/// Whether anybody wants stacks: to skip what only serves to take them.
inline bool stacks_wanted() noexcept {
  return detail::stack_wishes.load(std::memory_order_relaxed) != 0;
}
/// One more, or one less, wants them.
inline void want_stacks(bool wanted) noexcept { detail::stack_wishes += wanted ? 1 : -1; }

}  // namespace ember::inline v0
