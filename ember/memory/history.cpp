#include "ember/memory/history.h"

#include <array>
#include <chrono>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/stack.h"
#include "ember/memory/allocators.h"
#include "ember/memory/scopes.h"
#include "ember/memory/tracking.h"

namespace ember::inline v0::memory {

using Action = cuda::MemoryEvent::Action;

namespace detail {
constinit std::atomic<std::uint32_t> tracking{0};
}

namespace {

constexpr std::array<const char*, 9> kActions = {
    "alloc",         "free_requested", "free_completed",
    "segment_alloc", "segment_free",   "segment_map",
    "segment_unmap", "snapshot",       "oom"};

constinit Mutex changing;  // tracking is written under it
constinit HistoryWish wished EMBER_GUARDED_BY(changing);

std::uint64_t time_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

void track_scopes() noexcept {
  if (tracking().scopes) return;
  detail::tracking.fetch_or(Tracking{.scopes = true}.word(), std::memory_order_seq_cst);
}

Caller& caller() noexcept {
  static thread_local constinit Caller mine;
  return mine;
}

Caller take_caller(bool allocates) noexcept {
  const Tracking now = tracking();
  Caller made;
  if (allocates && now.scopes) made.tag = Scopes::current_tag();
  const auto least = allocates ? Tracking::Context::state : Tracking::Context::all;
  if (now.history && now.context >= least) made.stack = capture_stack_id(now.native);
  if (now.entries) made.time_ns = time_now_ns();
  return made;
}

HistoryWish history_wish() {
  const MutexLock lock(changing);
  return wished;
}

std::uint64_t add_entry(EventLog& log, Action action, const cuda::MemoryEvent& event,
                        std::uint64_t after) noexcept {
  const std::uint64_t began = caller().time_ns;  // none: entries were asked for since
  return log.add(action, event, began != 0 ? began : time_now_ns(), after);
}

}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {
namespace {

using memory::Tracking;

Tracking::Context context_of(const std::optional<std::string>& name) {
  if (!name) return Tracking::Context::none;
  if (*name == "state") return Tracking::Context::state;
  if (*name == "alloc") return Tracking::Context::alloc;
  if (*name == "all") return Tracking::Context::all;
  throw Error("expected context to be 'state', 'alloc', 'all', or None");
}

std::uint32_t bits_of(const std::vector<std::string>& actions) {
  std::uint32_t bits = 0;
  for (const std::string& action : actions) {
    std::uint32_t number = 0;
    while (number < memory::kActions.size() && action != memory::kActions[number]) ++number;
    if (number == memory::kActions.size()) {
      std::string text = "skip_actions: got '" + action + "', expected one of";
      for (const char* known : memory::kActions) text.append(" ").append(known);
      throw ValueError(text);
    }
    bits |= std::uint32_t{1} << number;
  }
  return bits;
}

}  // namespace

const char* action_name(MemoryEvent::Action action) noexcept {
  return memory::kActions[static_cast<std::size_t>(action) % memory::kActions.size()];
}

void record_memory_history(const MemoryHistoryOptions& options) {
  if (options.enabled && *options.enabled != "state" && *options.enabled != "all")
    throw Error("expected state to be 'state', 'all', or None");
  Tracking next;
  next.context = context_of(options.context);
  if (options.stacks != "python" && options.stacks != "all")
    throw Error("expected stacks to be 'python', or 'all'");
  memory::HistoryWish wish;
  wish.skipped = bits_of(options.skip_actions);
  if (options.enabled) {
    next.history = true;
    next.entries = true;
    next.native = options.stacks == "all";
  } else {
    next = {};
  }
  wish.clear = options.clear_history || !options.enabled;
  if (options.enabled) wish.most = *options.enabled == "all" ? options.max_entries : 1;

  const MutexLock lock(memory::changing);
  std::uint32_t before = memory::detail::tracking.load(std::memory_order_relaxed);
  do {
    next.scopes = Tracking::of(before).scopes;
  } while (!memory::detail::tracking.compare_exchange_weak(before, next.word()));
  const bool took = Tracking::of(before).context != Tracking::Context::none;
  const bool takes = next.context != Tracking::Context::none;
  if (took != takes) want_stacks(takes);
  memory::wished = wish;
  memory::wished.clear = false;  // an allocator that is made later has nothing to forget
  for (int device = 0; device < memory::kMaxDevices; ++device)
    if (memory::DeviceAllocator* made = memory::allocator_if_made(device)) made->apply(wish);
}

}  // namespace ember::inline v0::cuda
