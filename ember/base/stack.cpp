#include "ember/base/stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/thread_exit.h"

namespace ember::inline v0 {
namespace detail {
std::atomic<int> stack_wishes{0};
}

namespace {

// Note [Stacks taken before]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Unwinding twenty frames takes microseconds. A loop takes the same stack again and again, so each
// thread keeps those it took last. One is found by the address and the depth of the call, and is
// good if every return address still stands where it stood: then the frames are the same, all the
// way up. That is read from the thread's own stack, above the current frame, which is always there.
// Only where the return address lies below the frame's canonical address on the stack (x86-64);
// elsewhere every stack is unwound.

constexpr std::size_t kFrames = 24;
/// Of this file: capture_stack() and what it calls.
constexpr std::size_t kOwnFrames = 2;
constexpr std::uint64_t kEmbedded = std::uint64_t{1} << 63;

struct Frames {
  std::size_t count = 0;
  std::array<std::uintptr_t, kFrames> code{};   // return addresses, innermost first
  std::array<std::uintptr_t, kFrames> place{};  // where each stands on the stack; 0: unknown
};

struct Table {
  Mutex mutex;
  std::map<std::vector<std::uintptr_t>, std::uint64_t> numbers EMBER_GUARDED_BY(mutex);
  std::deque<const std::vector<std::uintptr_t>*> stacks EMBER_GUARDED_BY(mutex);
};

Table& table() {
  static NoDestructor<Table> made;  // threads take stacks until the process ends
  return *made;
}

struct Taking {
  Frames& frames;
  std::size_t skip;
};

/// What stands at a place of the calling thread's stack. Reads other functions' frames, which the
/// sanitizers of addresses would call a mistake.
__attribute__((no_sanitize("address", "thread"))) std::uintptr_t on_stack(
    std::uintptr_t place) noexcept {
  return *reinterpret_cast<const std::uintptr_t*>(place);
}

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* argument) {
  auto& taking = *static_cast<Taking*>(argument);
  if (taking.skip > 0) {
    --taking.skip;
    return _URC_NO_REASON;
  }
  Frames& frames = taking.frames;
  if (frames.count == kFrames) return _URC_END_OF_STACK;
  const std::uintptr_t code = _Unwind_GetIP(context);
  if (code == 0) return _URC_END_OF_STACK;
  frames.code[frames.count] = code;
#if defined(__x86_64__)
  // Where the stack ended when this frame made its call.
  const std::uintptr_t place = _Unwind_GetCFA(context) - sizeof code;
  if (on_stack(place) == code) frames.place[frames.count] = place;
#endif
  ++frames.count;
  return _URC_NO_REASON;
}

std::uint64_t number_of(const Frames& frames) {
  const std::vector<std::uintptr_t> code(frames.code.begin(),
                                         frames.code.begin() + static_cast<long>(frames.count));
  Table& all = table();
  const MutexLock lock(all.mutex);
  const auto [at, is_new] = all.numbers.try_emplace(code, all.stacks.size() + 1);
  if (is_new) all.stacks.push_back(&at->first);
  return at->second;
}

/// Whether the return addresses stand where they stood.
bool still_there(const Frames& frames) noexcept {
  for (std::size_t i = 0; i < frames.count; ++i)
    if (on_stack(frames.place[i]) != frames.code[i]) return false;
  return true;
}

struct Kept {
  Frames frames;
  std::uint64_t number = 0;
};

/// The stacks that were taken last at calls of one depth.
struct OfDepth {
  std::uintptr_t depth = 0;
  std::size_t next = 0;
  std::array<Kept, 8> stacks;
};
using KeptStacks = std::array<OfDepth, 16>;
thread_local constinit KeptStacks* kept = nullptr;
thread_local constinit bool nothing_is_kept = false;

/// Null when the thread ends: what its destructors do has stacks, too, and they are taken anew.
KeptStacks* kept_stacks() {
  if (kept != nullptr || nothing_is_kept) return kept;
  nothing_is_kept = !at_thread_exit([]() noexcept {
    delete std::exchange(kept, nullptr);
    nothing_is_kept = true;
  });
  if (!nothing_is_kept) kept = new KeptStacks();
  return kept;
}

std::uint64_t native_stack(std::uintptr_t depth) {
  KeptStacks* const all = kept_stacks();
  OfDepth* const at = all != nullptr ? &(*all)[(depth >> 4) * 0x9E3779B97F4A7C15 >> 60] : nullptr;
  if (at != nullptr) {
    if (at->depth != depth) {
      for (Kept& stack : at->stacks) stack.number = 0;
      at->depth = depth;
    }
    for (const Kept& stack : at->stacks)
      if (stack.number != 0 && still_there(stack.frames)) return stack.number;
  }
  Frames frames;
  Taking taking{frames, kOwnFrames};
  _Unwind_Backtrace(&take_frame, &taking);
  const std::uint64_t number = number_of(frames);
  if (at == nullptr) return number;
  for (std::size_t i = 0; i < frames.count; ++i)
    if (frames.place[i] == 0) return number;  // cannot be known again
  at->stacks[at->next++ % at->stacks.size()] = {frames, number};
  return number;
}

void append_frame(std::string& text, std::uintptr_t code) {
  Dl_info info{};
  char place[64];
  // The call, not what comes after it.
  const auto* const call = reinterpret_cast<const void*>(code - 1);
  if (dladdr(call, &info) != 0 && info.dli_sname != nullptr) {
    int failed = 0;
    char* const readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failed);
    text.append("  ").append(failed == 0 ? readable : info.dli_sname);
    std::free(readable);
    std::snprintf(place, sizeof place, " + 0x%zx",
                  code - reinterpret_cast<std::uintptr_t>(info.dli_saddr));
  } else if (info.dli_fname != nullptr) {
    text.append("  ").append(info.dli_fname);
    // addr2line takes this one.
    std::snprintf(place, sizeof place, " + 0x%zx",
                  code - 1 - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  } else {
    std::snprintf(place, sizeof place, "  0x%zx", code);
  }
  text.append(place).append("\n");
}

}  // namespace

std::uint64_t capture_stack() noexcept {
  try {
    if (const std::uint64_t number = embedded_stack_number(); number != 0)
      return number | kEmbedded;
    return native_stack(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  } catch (...) {  // never worth failing for
    return 0;
  }
}

std::string stack_text(std::uint64_t number) {
  if (number == 0) return {};
  if ((number & kEmbedded) != 0) return embedded_stack(number & ~kEmbedded);
  std::vector<std::uintptr_t> code;
  {
    Table& all = table();
    const MutexLock lock(all.mutex);
    if (number > all.stacks.size()) return {};
    code = *all.stacks[number - 1];
  }
  std::string text;
  for (const std::uintptr_t at : code) append_frame(text, at);
  return text;
}

namespace {
constexpr std::string_view kMark = "{stack ";
}

std::string stack_mark(std::uint64_t number) {
  std::string mark(kMark);
  mark.append(std::to_string(number)).append("}");
  return mark;
}

std::string with_stack_text(std::string text) {
  for (std::size_t at = 0; (at = text.find(kMark, at)) != std::string::npos;) {
    const char* const end = text.data() + text.size();
    std::uint64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data() + at + kMark.size(), end, number);
    if (error != std::errc() || rest == end || *rest != '}') {
      at += kMark.size();
      continue;
    }
    std::string stack = ":\n" + stack_text(number);
    while (stack.ends_with('\n')) stack.pop_back();
    text.replace(at, static_cast<std::size_t>(rest + 1 - text.data()) - at, stack);
    at += stack.size();
  }
  return text;
}

}  // namespace ember::inline v0
