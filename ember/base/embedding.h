// Hooks for the language that ember is used from: warnings, call stacks, waits, interrupts. Without
// them warnings go to stderr and call stacks are empty; the Python package installs Python's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/export.h"

namespace ember::inline v0 {

enum class Warning : unsigned char { user, future };

/// One call of a stack.
struct StackFrame {
  std::string file;  ///< of the source; of the program or library for native code
  int line = 0;      ///< 0 if it is unknown
  std::string name;  ///< the function's
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

/// What a language puts in. Each may be null; none may throw.
struct Embedding {
  /// Shows a warning to the code that made the call. Called without a lock of ember's, on the
  /// thread of that call.
  void (*warn)(Warning kind, const char* text) noexcept = nullptr;
  /// Where the calling thread stands in the language's code, one or more lines; empty if unknown.
  std::string (*call_stack)() noexcept = nullptr;
  /// Around a wait for a device in a call that the language did not expect to wait: gives the lock
  /// of its interpreter back, if the thread holds it, and takes it again.
  void* (*begin_wait)() noexcept = nullptr;
  void (*end_wait)(void* begun) noexcept = nullptr;
  /// Whether the user wants the calling thread, which waits for a simulated device, to go on
  /// without (Ctrl-C). Asked some fifty times a second, without a lock of ember's.
  bool (*interrupted)() noexcept = nullptr;
  /// A number for where the calling thread stands, cheaper than call_stack(), and what it stands
  /// for, for ever; 0 if that is unknown, or could only be found out by waiting for a lock.
  std::uint64_t (*stack_number)() noexcept = nullptr;
  std::string (*stack_of_number)(std::uint64_t number) noexcept = nullptr;
  /// The same as frames, innermost call first.
  std::vector<StackFrame> (*frames_of_number)(std::uint64_t number) noexcept = nullptr;
  /// Any address of the interpreter's code: in stacks of both kinds of code the native calls end
  /// where those of the interpreter begin.
  const void* (*interpreter)() noexcept = nullptr;
};

/// From now on. `embedding` must live for ever.
EMBER_API void embed(const Embedding& embedding) noexcept;

/// Shows a warning: on stderr, each text once, unless the language does it.
EMBER_API void warn(Warning kind, const std::string& text) noexcept;

/// See Embedding::call_stack; empty without it.
EMBER_API std::string call_stack() noexcept;

/// See Embedding::stack_number; 0 and empty without it.
std::uint64_t embedded_stack_number() noexcept;
std::string embedded_stack(std::uint64_t number) noexcept;
std::vector<StackFrame> embedded_frames(std::uint64_t number) noexcept;
/// See Embedding::interpreter; null without it.
const void* embedded_interpreter() noexcept;

/// See Embedding::interrupted; false without it.
EMBER_API bool interrupted() noexcept;

/// While it lives, the thread may wait for a device.
class EMBER_API UnexpectedWait {
 public:
  UnexpectedWait() noexcept;
  ~UnexpectedWait();
  UnexpectedWait(const UnexpectedWait&) = delete;
  UnexpectedWait& operator=(const UnexpectedWait&) = delete;

 private:
  void (*end_)(void*) noexcept = nullptr;
  void* begun_ = nullptr;
};

}  // namespace ember::inline v0
