// Ranges and marks for profilers: chapter 18 of the documents, and what NVTX has beside it.
//
// NVTX is the protocol by which tools such as Nsight Systems learn what a program is doing. No
// tool, and nothing else, is loaded unless the environment names one (tools set
// NVTX_INJECTION64_PATH when they start a program); a call then costs a few nanoseconds. Simulated
// devices have no part in it: ranges are the host's.
//
// What is reported here reaches ember's own observer (runtime/observer.h) as well, also in a build
// without NVTX's header. No function blocks, initialises CUDA or throws, unless it says so; all may
// be called by any thread at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "ember/base/export.h"

namespace ember::inline v0::cuda::nvtx {

/// What range_push and range_pop return when there is no tool that follows ranges. (The number is
/// NVTX's.)
inline constexpr int kNoTool = -2;

/// A number beside a range or a mark. Its type reaches the tool.
using Payload = std::variant<std::monostate, std::uint64_t, std::int64_t, std::uint32_t,
                             std::int32_t, double, float>;

namespace detail {
struct DomainState;
struct StringState;
}  // namespace detail

/// A message that is registered in a domain (Domain::registered): a tool knows its text already,
/// and is told its number alone, which suits ranges that come again and again. Plain data; good for
/// as long as the program runs.
class EMBER_API RegisteredString {
 public:
  /// None.
  RegisteredString() noexcept = default;

  /// "" for none. Lives as long as the program.
  const char* text() const noexcept;

  friend bool operator==(RegisteredString, RegisteredString) noexcept = default;

 private:
  friend class Domain;
  explicit RegisteredString(const detail::StringState* state) noexcept : state_(state) {}
  const detail::StringState* state_ = nullptr;  // never freed
};

/// What a range or a mark says.
struct Attributes {
  const char* message = "";    ///< UTF-8, ends with a null character; not kept beyond the call
  std::uint32_t category = 0;  ///< of Domain::category; 0 is none
  std::optional<std::uint32_t> color = {};  ///< 0xAARRGGBB; the tool chooses where there is none
  Payload payload = {};
  /// Said in place of `message`, if there is one. In another domain than its own it is text.
  RegisteredString registered = {};
};

/// A range that any thread may end. Plain data; 0 where nobody watches.
using RangeId = std::uint64_t;

/// Ranges and marks of one library or part of a program: each domain has stacks of its own, one for
/// each thread, and categories of its own. A domain lives as long as the program.
class EMBER_API Domain {
 public:
  /// The domain of everything that names none: the functions below.
  Domain() noexcept = default;
  /// The domain of that name, made at its first use. ValueError for an empty name.
  explicit Domain(const std::string& name);

  /// "" for the one without a name. Lives as long as the program.
  const char* name() const noexcept;

  /// Reports something that happens now.
  void mark(const Attributes& attributes) const noexcept;
  void mark(const char* message) const noexcept;
  void mark(RegisteredString message) const noexcept { mark(said(message)); }

  /// Begins a range of the calling thread, inside those that it has begun and not ended. Returns
  /// its depth, from 0 on; negative (kNoTool) when no tool follows ranges.
  int range_push(const Attributes& attributes) const noexcept;
  int range_push(const char* message) const noexcept;
  int range_push(RegisteredString message) const noexcept { return range_push(said(message)); }
  /// Ends the innermost range of the calling thread in this domain. Returns its depth; negative
  /// when there is none, or no tool.
  int range_pop() const noexcept;

  /// Begins a range that any thread may end. Ranges of this kind may overlap.
  RangeId range_start(const Attributes& attributes) const noexcept;
  RangeId range_start(const char* message) const noexcept;
  RangeId range_start(RegisteredString message) const noexcept {
    return range_start(said(message));
  }
  /// Ends it. A number that belongs to no range is the tool's affair.
  void range_end(RangeId range) const noexcept;

  /// The number of the category with that name in this domain: given out at the first use of the
  /// name, from 1 on, and told to the tool. ValueError for an empty name.
  std::uint32_t category(const std::string& name) const;

  /// A message of this domain that the tool learns now, and once: the same text gives the same
  /// string. It is kept until the program ends, so a text that is made anew for each range is
  /// better given as it is.
  RegisteredString registered(const std::string& text) const;

  friend bool operator==(Domain, Domain) noexcept = default;

 private:
  static Attributes said(RegisteredString message) noexcept {
    return {.message = message.text(), .registered = message};
  }
  /// NVTX's handle of a string of this domain; null of others, and without a tool.
  void* handle_of(RegisteredString message) const noexcept;

  detail::DomainState* state_ = nullptr;  // never freed
};

/// Whether NVTX was compiled in. If not, tools see nothing; observers see everything all the same.
EMBER_API bool is_compiled_in() noexcept;

// ---- In the domain without a name

/// Reports something that happens now.
inline void mark(const Attributes& attributes) noexcept { Domain().mark(attributes); }
inline void mark(const char* message) noexcept { Domain().mark(message); }
inline void mark(RegisteredString message) noexcept { Domain().mark(message); }

/// Begins a range of the calling thread: Domain::range_push.
inline int range_push(const Attributes& attributes) noexcept {
  return Domain().range_push(attributes);
}
inline int range_push(const char* message) noexcept { return Domain().range_push(message); }
inline int range_push(RegisteredString message) noexcept { return Domain().range_push(message); }
/// Ends the calling thread's innermost range: Domain::range_pop.
inline int range_pop() noexcept { return Domain().range_pop(); }

/// Begins a range that any thread may end: Domain::range_start.
inline RangeId range_start(const Attributes& attributes) noexcept {
  return Domain().range_start(attributes);
}
inline RangeId range_start(const char* message) noexcept { return Domain().range_start(message); }
inline RangeId range_start(RegisteredString message) noexcept {
  return Domain().range_start(message);
}
/// Ends it: Domain::range_end.
inline void range_end(RangeId range) noexcept { Domain().range_end(range); }

/// The number of a category: Domain::category.
inline std::uint32_t category(const std::string& name) { return Domain().category(name); }

/// A message that the tool learns once: Domain::registered.
inline RegisteredString registered(const std::string& text) { return Domain().registered(text); }

// ---- Guards

/// A range of the calling thread for as long as the guard lives. The thread that made it destroys
/// it, in the reverse order of making.
class [[nodiscard]] ScopedRange {
 public:
  explicit ScopedRange(const Attributes& attributes, Domain domain = {}) noexcept
      : domain_(domain) {
    domain_.range_push(attributes);
  }
  explicit ScopedRange(const char* message, Domain domain = {}) noexcept : domain_(domain) {
    domain_.range_push(message);
  }
  explicit ScopedRange(RegisteredString message, Domain domain = {}) noexcept : domain_(domain) {
    domain_.range_push(message);
  }
  ~ScopedRange() { domain_.range_pop(); }
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;

 private:
  const Domain domain_;
};

/// A range that goes where it is moved, also to other threads, and ends with its last owner.
class [[nodiscard]] UniqueRange {
 public:
  /// None.
  UniqueRange() noexcept = default;
  explicit UniqueRange(const Attributes& attributes, Domain domain = {}) noexcept
      : domain_(domain), range_(domain.range_start(attributes)) {}
  explicit UniqueRange(const char* message, Domain domain = {}) noexcept
      : domain_(domain), range_(domain.range_start(message)) {}
  explicit UniqueRange(RegisteredString message, Domain domain = {}) noexcept
      : domain_(domain), range_(domain.range_start(message)) {}
  UniqueRange(UniqueRange&& other) noexcept
      : domain_(other.domain_), range_(std::exchange(other.range_, std::nullopt)) {}
  UniqueRange& operator=(UniqueRange&& other) noexcept {
    UniqueRange taken(std::move(other));
    std::swap(domain_, taken.domain_);
    std::swap(range_, taken.range_);
    return *this;
  }
  ~UniqueRange() { end(); }

  /// Ends the range now. Nothing if that has happened, or if it was moved away.
  void end() noexcept {
    if (range_) domain_.range_end(*std::exchange(range_, std::nullopt));
  }

 private:
  Domain domain_;
  std::optional<RangeId> range_;
};

}  // namespace ember::inline v0::cuda::nvtx
