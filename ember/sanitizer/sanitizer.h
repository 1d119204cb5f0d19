// The stream sanitizer: finds work on the same memory that nothing orders, on every kind of device,
// in one run and whatever the timing. Chapter 20 of the documents; docs/sanitizer.md explains it,
// and docs/first-stream-bug.md begins with a bug.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/export.h"
#include "ember/sanitizer/conflict.h"

namespace ember::inline v0::cuda {

/// What the operation throws that ran into a race, once it is enqueued: `detected N errors`.
class EMBER_API SanitizerError : public Error {
 public:
  explicit SanitizerError(std::vector<sanitizer::Conflict> conflicts);
  const std::vector<sanitizer::Conflict>& conflicts() const noexcept { return *conflicts_; }

 private:
  std::shared_ptr<const std::vector<sanitizer::Conflict>> conflicts_;
};

struct SanitizerOptions {
  /// Operations that run into a race throw SanitizerError; otherwise they go on.
  bool raise = false;
  /// Shows each race on stderr.
  bool print = true;
  /// A file to which a line of JSON is added for each race; empty for none.
  std::string json_path = {};
  /// Reads of device memory that was never written since its allocation are reported, too, on
  /// simulated devices.
  bool unwritten = true;
  /// Races that are not reported: one of their two operations has such a name; a `*` at the end
  /// stands for any rest.
  std::vector<std::string> suppressed = {};
  /// Threads of the host are not taken as one: what one of them knows to be over another one does
  /// not. For programs whose threads do not hand memory to each other.
  bool threads_apart = false;
};

/// What was looked at, and what was found. Plain data.
struct SanitizerSummary {
  std::uint64_t checked = 0;    ///< operations whose accesses are known
  std::uint64_t unchecked = 0;  ///< launches and host functions that say nothing of their accesses
  std::uint64_t exposed = 0;    ///< pointers to host memory that the program got, used unseen
  std::uint64_t races = 0;      ///< certain, each once; of these:
  std::uint64_t reuses = 0;     ///< with an earlier life of the memory, freed while it was in use
  std::uint64_t uses_after_free = 0;
  std::uint64_t by_query = 0;   ///< ordered only by a query that happened to answer "done"
  std::uint64_t possible = 0;   ///< strided accesses that may not meet
  std::uint64_t unwritten = 0;  ///< reads of bytes that were never written; on simulated devices
  std::uint64_t suppressed = 0;
  /// Which launches those are: names, each once, at most 32. "host function" and "copy" without
  /// one.
  std::vector<std::string> unchecked_names = {};
  /// Something was reported, however certain.
  bool found() const noexcept {
    return races != 0 || by_query != 0 || possible != 0 || unwritten != 0;
  }
  /// Nothing was found, and nothing went unchecked.
  bool clean() const noexcept { return unchecked == 0 && exposed == 0 && !found(); }
  /// "1 race in 12 operations; 0 unchecked launches".
  EMBER_API std::string str() const;
  /// All of it as one line of JSON, without its end: what EMBER_SANITIZER_SUMMARY appends to its
  /// file when the process ends. `process` is its number, `clean` what clean() says.
  EMBER_API std::string json() const;
};

/// Watches everything from its construction to its destruction:
///
///     ember::cuda::Sanitizer sanitizer({.raise = true});
///     run();
///     std::cout << sanitizer.summary().str();
///
/// A race is reported once, however often the two places in the program run into each other.
/// Several may watch at once. Members are thread-safe; construction and destruction may wait for a
/// thread that is being told something.
class EMBER_API Sanitizer {
 public:
  /// ValueError if the file of `json_path` cannot be opened.
  explicit Sanitizer(SanitizerOptions options = {});
  ~Sanitizer();
  Sanitizer(const Sanitizer&) = delete;
  Sanitizer& operator=(const Sanitizer&) = delete;

  SanitizerSummary summary() const;
  /// All that was found so far, in order.
  std::vector<sanitizer::Conflict> conflicts() const;
  /// For each of these, chapter 20's text.
  std::vector<std::string> reports() const;

 private:
  class Watcher;
  std::unique_ptr<Watcher> watcher_;
};

/// Watches from now on until the process ends, as EMBER_SANITIZER=1 does from the first use of a
/// device. Does nothing if that is so already.
EMBER_API void enable_sanitizer(SanitizerOptions options);
/// The same, and what completes a race throws.
EMBER_API void enable_sanitizer();
/// The sanitizer of enable_sanitizer(); null before.
EMBER_API Sanitizer* enabled_sanitizer() noexcept;

}  // namespace ember::inline v0::cuda
