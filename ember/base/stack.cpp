#include "ember/base/stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/thread_exit.h"

namespace ember::inline v0 {
namespace detail {
std::atomic<int> stack_wishes{0};
std::atomic<std::uint64_t> stacks_unwound{0};
}

namespace {

// Note [Stacks taken before]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Unwinding twenty frames takes microseconds. A loop takes the same stacks again and again, so each
// thread keeps those it took. One is found by the depth of the call, and is good if every return
// address still stands where it stood: then the frames are the same, all the way up. That is read
// from the thread's own stack, above the current frame, which is always there. Of one depth there
// are as many as a function has operations; a loop takes them in the same order, so the one behind
// the last is looked at first. No two drive each other out as long as there is room: otherwise some
// programs would be slow, in some processes, by where their stacks happen to lie.
// Only where the return address lies below the frame's canonical address on the stack (x86-64);
// elsewhere every stack is unwound.

constexpr std::size_t kFrames = 24;
/// Of this file: capture_stack() or capture_stack_id(), and what they call.
constexpr std::size_t kOwnFrames = 2;
constexpr std::uint64_t kEmbedded = std::uint64_t{1} << 63;

struct Frames {
  std::size_t count = 0;
  std::array<std::uintptr_t, kFrames> code{};   // return addresses, innermost first
  std::array<std::uintptr_t, kFrames> place{};  // where each stands on the stack; 0: unknown
};

/// A stack is its innermost frame and the stack around it: what stacks have in common is there
/// once. A frame is a return address, or kEmbedded and the number of a whole stack of the language.
struct Node {
  std::uint32_t outer = 0;  ///< 0: none
  std::uint64_t frame = 0;
  friend bool operator==(const Node&, const Node&) = default;
};
struct HashOfNode {
  std::size_t operator()(const Node& node) const noexcept {
    std::uint64_t mixed = (node.frame ^ std::uint64_t{node.outer} << 40) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    return static_cast<std::size_t>(mixed * 0xBF58476D1CE4E5B9u);
  }
};
/// Nodes by their numbers, from 1. Nothing moves, so they are read without a lock.
class Nodes {
 public:
  /// The number of a new one; 0 when there are no more numbers.
  std::uint32_t add(const Node& node) {
    const std::uint64_t index = count_.fetch_add(1, std::memory_order_relaxed);
    if (index >= kMost) return 0;
    const Place place(index);
    std::atomic<Node*>& chunk = chunks_[place.chunk];
    Node* nodes = chunk.load(std::memory_order_acquire);
    if (nodes == nullptr) {
      auto* const made = static_cast<Node*>(::operator new(sizeof(Node) * (kFirst << place.chunk)));
      if (chunk.compare_exchange_strong(nodes, made, std::memory_order_acq_rel))
        nodes = made;
      else
        ::operator delete(made);  // another thread was faster
    }
    new (nodes + place.at) Node(node);
    return static_cast<std::uint32_t>(index + 1);
  }
  /// Null if there is none.
  const Node* find(std::uint64_t number) const noexcept {
    if (number == 0 || number > std::min(count_.load(std::memory_order_acquire), kMost))
      return nullptr;
    const Place place(number - 1);
    const Node* const nodes = chunks_[place.chunk].load(std::memory_order_acquire);
    return nodes != nullptr ? nodes + place.at : nullptr;
  }

 private:
  // Each chunk has twice as many as the one before.
  static constexpr std::uint64_t kFirst = 1024, kChunks = 22;
  static constexpr std::uint64_t kMost = kFirst * ((std::uint64_t{1} << kChunks) - 1);
  struct Place {
    explicit Place(std::uint64_t index) noexcept
        : chunk(static_cast<std::size_t>(std::bit_width((index + kFirst) / kFirst)) - 1),
          at(index + kFirst - (kFirst << chunk)) {}
    std::size_t chunk;
    std::uint64_t at;
  };
  std::atomic<std::uint64_t> count_{0};
  std::array<std::atomic<Node*>, kChunks> chunks_{};
};

/// In parts, so that threads whose stacks are new need not wait for each other.
struct Table {
  struct alignas(64) Part {
    Mutex mutex;
    std::unordered_map<Node, std::uint32_t, HashOfNode> numbers EMBER_GUARDED_BY(mutex);
  };
  std::array<Part, 64> parts;
  Nodes nodes;

  std::uint32_t number_of(const Node& node) {
    Part& part = parts[HashOfNode()(node) >> 58];
    const MutexLock lock(part.mutex);
    const auto known = part.numbers.find(node);
    if (known != part.numbers.end()) return known->second;
    const std::uint32_t number = nodes.add(node);
    if (number != 0) part.numbers.emplace(node, number);
    return number;
  }
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

std::uint32_t number_of(const Frames& frames) {
  Table& all = table();
  std::uint32_t number = 0;
  for (std::size_t i = frames.count; i-- > 0;) number = all.number_of({number, frames.code[i]});
  return number;
}

/// The frames of a number, innermost first.
std::vector<std::uint64_t> frames_of(std::uint64_t number) {
  std::vector<std::uint64_t> frames;
  for (const Node* node = table().nodes.find(number); node != nullptr;) {
    frames.push_back(node->frame);
    node = table().nodes.find(node->outer);
  }
  return frames;
}

/// Whether the return addresses stand where they stood.
bool still_there(const Frames& frames) noexcept {
  for (std::size_t i = 0; i < frames.count; ++i)
    if (on_stack(frames.place[i]) != frames.code[i]) return false;
  return true;
}

struct Kept {
  Frames frames;
  std::uint32_t number = 0;
};

/// Stacks of calls of one depth.
class OfDepth {
 public:
  /// The number of the one that stands there now, or 0.
  std::uint32_t find() noexcept {
    std::size_t at = likely_;
    for (std::size_t i = 0; i < stacks_.size(); ++i, ++at) {
      if (at >= stacks_.size()) at = 0;
      if (!still_there(stacks_[at].frames)) continue;
      likely_ = at + 1;
      return stacks_[at].number;
    }
    return 0;
  }
  void add(const Kept& stack) {
    if (stacks_.size() < kMost) {
      stacks_.push_back(stack);
      likely_ = 0;
      return;
    }
    stacks_[oldest_] = stack;
    likely_ = oldest_ = (oldest_ + 1) % kMost;
  }
  void clear() noexcept { stacks_.clear(), oldest_ = likely_ = 0; }

 private:
  static constexpr std::size_t kMost = 64;
  std::vector<Kept> stacks_;
  std::size_t likely_ = 0;
  std::size_t oldest_ = 0;  // if there are so many
};

class KeptStacks {
 public:
  OfDepth& of(std::uintptr_t depth) noexcept {
    for (std::size_t i = 0; i < kDepths; ++i)
      if (depths_[i] == depth) return stacks_[i];
    const std::size_t at = oldest_++ % kDepths;
    depths_[at] = depth;
    stacks_[at].clear();
    return stacks_[at];
  }

 private:
  static constexpr std::size_t kDepths = 32;
  std::array<std::uintptr_t, kDepths> depths_{};
  std::array<OfDepth, kDepths> stacks_;
  std::size_t oldest_ = 0;
};
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

// Not in line, so that there are as many frames of this file.
[[gnu::noinline]] std::uint32_t native_stack(std::uintptr_t depth) {
  KeptStacks* const all = kept_stacks();
  OfDepth* const at = all != nullptr ? &all->of(depth) : nullptr;
  if (at != nullptr)
    if (const std::uint32_t number = at->find(); number != 0) return number;
  detail::stacks_unwound.fetch_add(1, std::memory_order_relaxed);
  Frames frames;
  Taking taking{frames, kOwnFrames};
  _Unwind_Backtrace(&take_frame, &taking);
  const std::uint32_t number = number_of(frames);
  if (at == nullptr) return number;
  for (std::size_t i = 0; i < frames.count; ++i)
    if (frames.place[i] == 0) return number;  // cannot be known again
  at->add({frames, number});
  return number;
}

/// The number of a stack of the language within native code; each thread keeps those of late.
std::uint32_t joined(const Node& node) {
  struct Known {
    Node node;
    std::uint32_t number = 0;
  };
  static thread_local constinit std::array<Known, 16> known{};
  Known& at = known[HashOfNode()(node) >> 60];
  if (at.number == 0 || at.node != node) at = {node, table().number_of(node)};
  return at.number;
}

struct Place {
  std::string file;           ///< of the program or library; empty if it is unknown
  std::string symbol;         ///< readable; empty if it has none
  std::uintptr_t offset = 0;  ///< from the symbol, else of the call in the file: addr2line takes it
};

Place place_of(std::uintptr_t code) {
  Dl_info info{};
  Place place;
  // The call, not what comes after it.
  const auto* const call = reinterpret_cast<const void*>(code - 1);
  if (dladdr(call, &info) == 0) return place;
  if (info.dli_fname != nullptr) place.file = info.dli_fname;
  if (info.dli_sname == nullptr) {
    place.offset = code - 1 - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    return place;
  }
  int failed = 0;
  char* const readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failed);
  place.symbol = failed == 0 ? readable : info.dli_sname;
  std::free(readable);
  place.offset = code - reinterpret_cast<std::uintptr_t>(info.dli_saddr);
  return place;
}

std::string hex(std::uintptr_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", number);
  return text;
}

void append_frame(std::string& text, std::uintptr_t code) {
  const Place place = place_of(code);
  const std::string& named = place.symbol.empty() ? place.file : place.symbol;
  text.append("  ").append(named);
  text.append(named.empty() ? hex(code) : " + " + hex(place.offset)).append("\n");
}

/// Where the program or library begins that the code belongs to; null if that is unknown.
const void* file_of(const void* code) {
  Dl_info info{};
  return code != nullptr && dladdr(code, &info) != 0 ? info.dli_fbase : nullptr;
}

StackFrame frame_of(std::uintptr_t code) {
  Place place = place_of(code);
  if (place.symbol.empty()) place.symbol = hex(place.file.empty() ? code : place.offset);
  return {std::move(place.file), 0, std::move(place.symbol)};
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
  std::string text;
  for (const std::uint64_t at : frames_of(number)) append_frame(text, at);
  return text;
}

std::uint32_t capture_stack_id(bool native) noexcept {
  try {
    const std::uint64_t embedded = embedded_stack_number();
    const std::uint32_t frames =
        native || embedded == 0
            ? native_stack(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)))
            : 0;
    if (embedded == 0) return frames;
    return joined({frames, embedded | kEmbedded});
  } catch (...) {  // never worth failing for
    return 0;
  }
}

std::vector<StackFrame> stack_frames(std::uint32_t id) {
  // The language's frames are the innermost of them, as one node.
  std::vector<StackFrame> made, embedded;
  const void* stop = nullptr;
  for (const std::uint64_t frame : frames_of(id)) {
    if ((frame & kEmbedded) != 0) {
      embedded = embedded_frames(frame & ~kEmbedded);
      stop = file_of(embedded_interpreter());
    } else if (stop != nullptr && file_of(reinterpret_cast<const void*>(frame - 1)) == stop) {
      break;
    } else {
      made.push_back(frame_of(frame));
    }
  }
  made.insert(made.end(), std::make_move_iterator(embedded.begin()),
              std::make_move_iterator(embedded.end()));
  return made;
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
