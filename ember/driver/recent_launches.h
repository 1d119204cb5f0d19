// The last operations of each stream, kept so that a fault can be traced to the call that enqueued
// what has failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0::driver {

/// What is known of an operation that was enqueued.
enum class LaunchState : std::uint8_t {
  unfinished,  ///< not known to be finished
  finished,
  dropped,  ///< by a fault or a reset, or it is what has failed
};

struct RecentLaunch {
  const char* name = "";  ///< a kernel's, or "copy" and the like; lives as long as the program
  const void* stream = nullptr;  ///< native handle; null is the default stream
  std::uint64_t number = 0;      ///< counts the stream's operations, from 1
  std::size_t bytes = 0;         ///< of a copy or fill
  std::uint64_t stack = 0;       ///< where it was enqueued (base/stack.h); 0 if that is unknown
  std::uint32_t epoch = 0;       ///< of the device
  LaunchState state = LaunchState::unfinished;
};

/// How an operation is asked where the calling thread stands: capture_stack() of the core.
using StackNumber = std::uint64_t (*)() noexcept;

inline constexpr int kMostRecentLaunches = 65536;

/// The last few operations of one stream, in its order. Not thread-safe.
class LaunchRing {
 public:
  /// Notes one more, whose number is the greatest so far, and keeps `most`, which is positive.
  void add(const RecentLaunch& launch, int most) {
    const auto room = static_cast<std::size_t>(most);
    if (kept_.size() != room) resize(room);
    kept_[next_++ % room] = launch;
  }
  /// What is kept, oldest first.
  std::vector<RecentLaunch> list() const;
  /// The operation with that number, or null.
  const RecentLaunch* find(std::uint64_t number) const noexcept;

 private:
  void resize(std::size_t room);

  std::vector<RecentLaunch> kept_;
  std::uint64_t next_ =
      0;  // how many were added since the last change of size, and those kept then
};

/// "the default stream", "stream 0x100000002".
std::string stream_name(const void* native);

/// "number 3 of stream 0x100000002", with a mark that becomes the stack's text where the error is
/// raised (stack_mark() in base/stack.h).
std::string launch_place(const void* stream, std::uint64_t number, std::uint64_t stack);

/// Parses EMBER_RECORD_LAUNCHES: 0 to 65536; nothing or an empty text is 0. Otherwise
/// Code::invalid_value with a detail that names the variable, the value and what was expected, and
/// `out` is untouched.
EMBER_API Status parse_record_launches(const std::optional<std::string>& text, int& out);

}  // namespace ember::inline v0::driver
