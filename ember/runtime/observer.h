// Watching what happens: a short list of observers, empty by default, above the seam, so that they
// see the same on simulated and on real devices. Logs, the stream sanitizer, timelines and tests
// are observers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include "ember/base/export.h"

namespace ember::inline v0::driver {
class WorkTimes;
}

namespace ember::inline v0::cuda {

namespace nvtx {
struct Attributes;
}

/// Memory that work reads or writes: from the first to the last byte that it may touch and, where
/// `sizes` is not empty, which bytes of these.
struct Access {
  enum class Memory : std::uint8_t {
    unknown,   ///< whoever reported it did not ask
    device,    ///< of any device
    pinned,    ///< page-locked host memory
    ordinary,  ///< other host memory
  };
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
  Memory memory = Memory::unknown;
  /// Of what is written: nobody knows which of these bytes are, such as by an index.
  bool partly = false;
  /// Bytes of one element, and how many of them lie how many elements apart in each dimension.
  /// Without `sizes` every byte counts. Valid during the notification.
  std::uint32_t item = 0;
  std::span<const std::int64_t> sizes = {}, strides = {};
  /// Which argument of the operation this is, for reports: "self", or kOutputArgument for what it
  /// returns. Lives as long as the program; null where nobody said.
  const char* argument = nullptr;
};
inline constexpr const char* kOutputArgument = "output";
/// `name` where pinned memory is handed out to a tensor, which gives nobody a pointer to it untold.
inline constexpr const char* kPinnedForTensor = "tensor";

/// `count` elements that work reads, or writes: what launch() of functions of your own, and
/// host_function(), are told for observers. `argument` is a literal: the name that reports give it.
template <class T>
Access reads(const T* first, std::size_t count, const char* argument = nullptr) noexcept {
  Access made{first, count * sizeof(T), false};
  made.argument = argument;
  return made;
}
template <class T>
Access writes(T* first, std::size_t count, const char* argument = nullptr) noexcept {
  Access made{first, count * sizeof(T), true};
  made.argument = argument;
  return made;
}
/// Work that is known to touch no memory that others see; an empty list says that nobody knows.
EMBER_API std::span<const Access> no_accesses() noexcept;

/// One thing that happened. Fields that a kind does not name are zero.
struct Activity {
  enum class Kind : std::uint8_t {
    initialized,          ///< the driver was made
    device_reset,         ///< device
    device_synchronized,  ///< device; the wait is over
    stream_created,       ///< device, stream, stream_id
    stream_ended,         ///< device, stream, stream_id: no Stream names it; its work goes on
    stream_synchronized,  ///< device, stream, stream_id; the wait is over
    stream_queried,       ///< device, stream, stream_id, done
    /// device and stream, stream_id or event, or device alone: what the calling thread waits for
    /// from now on. What is enqueued later it does not wait for.
    wait_began,
    event_created,         ///< device, event (at its first record)
    event_destroyed,       ///< device, event
    event_recorded,        ///< device, event, stream, stream_id
    event_waited,          ///< device (the stream's), event, stream, stream_id: a wait was enqueued
    event_synchronized,    ///< device, event; the wait is over
    event_queried,         ///< device, event, done
    kernel_launched,       ///< device, stream, stream_id, name; accesses if they are known
    copied,                ///< device, stream, stream_id, address (target), source, bytes; accesses
    filled,                ///< device, stream, stream_id, address, bytes; accesses
    host_function_queued,  ///< device, stream, stream_id; accesses if they are known
    host_accessed,         ///< name, accesses: the calling thread reads or writes memory
    host_exposed,      ///< name, address, bytes: the program got a pointer, whose use nobody sees
    peer_enabled,      ///< device, peer
    peer_disabled,     ///< device, peer
    memory_allocated,  ///< device, stream, address, bytes (rounded), requested; totals
    memory_free_requested,   ///< device, stream, address, bytes; totals
    memory_free_completed,   ///< device, stream, address, bytes: reusable from now on; totals
    memory_stream_recorded,  ///< device, stream (the other one), peer (its device), address
    segment_allocated,       ///< device, stream, address, bytes, ordered; totals
    segment_freed,           ///< the same; it goes back now: allocated again if that fails
    out_of_memory,           ///< device, stream, bytes (the segment wanted), requested; totals
    pinned_allocated,        ///< address, bytes: page-locked host memory obtained
    pinned_freed,            ///< the same; it goes back now: allocated again if that fails
    pinned_handed_out,       ///< address, bytes (rounded), requested, name: to a user or a tensor
    pinned_returned,         ///< address, bytes: by its user
    pinned_stream_recorded,  ///< device, stream, address
    marked,                  ///< domain, annotation
    range_pushed,            ///< domain, annotation: a range of the calling thread
    range_popped,            ///< domain: the innermost range of the calling thread there
    range_started,           ///< domain, annotation, range
    range_ended,             ///< domain, range; on any thread
    /// name: the program asked for a figure that depends on time, or on what else goes on
    figure_asked,
  };

  Kind kind = Kind::initialized;
  int device = -1;
  int peer = -1;
  const void* stream = nullptr;  ///< native handle; null is the default stream
  std::int64_t stream_id = 0;
  const void* event = nullptr;  ///< native handle
  const char* name = nullptr;   ///< lives as long as the program
  const void* address = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
  std::size_t requested = 0;
  std::span<const Access> accesses = {};  ///< valid during the notification
  bool accesses_known = false;            ///< `accesses` are all; with none it touches nothing
  bool done = false;                      ///< what a query answered
  bool for_capture = false;               ///< of memory_allocated: its stream is part of a capture
  bool ordered = false;      ///< of a segment: it comes and goes in its stream's order, unawaited
  std::uint32_t thread = 0;  ///< who did it: threads are 1, 2, 3, ...
  std::uint64_t order = 0;   ///< counts what happened, in the order in which it is told
  /// Where the thread stood (stack_text() in base/stack.h): 0 unless an observer wants_stacks().
  std::uint64_t stack = 0;
  /// When it was done, in nanoseconds on a clock that never goes back: the one of
  /// std::chrono::steady_clock, or of the run where a seed decides. 0 unless an observer
  /// wants_times().
  std::int64_t time = 0;
  /// Of copies from or to ordinary host memory, in which the calling thread may wait until all is
  /// done: when the call began. 0 of others, and as `time`.
  std::int64_t began = 0;
  /// Of kernels, copies, fills and host functions: where it stands when they run
  /// (driver/work_times.h); of real devices once collect_times() is called. Null unless an observer
  /// wants_times(). Lives during the notification, and as long as there is a Ref to it.
  driver::WorkTimes* times = nullptr;
  std::uint64_t total_allocated = 0;  ///< bytes in use on the device after the change
  std::uint64_t total_reserved = 0;   ///< bytes the allocator holds on the device after the change
  const char* domain = nullptr;  ///< lives as long as the program; "" is the one without a name
  /// What a mark or a range says (nvtx/nvtx.h); valid during the notification.
  const nvtx::Attributes* annotation = nullptr;
  /// Called when nobody needs the annotation any more.
  void (*release)(const nvtx::Attributes* annotation) noexcept = nullptr;
  /// Tells ranges of range_start apart; 0 for one that began while nobody watched.
  std::uint64_t range = 0;
  /// Of work that was enqueued: its number in its stream's queue, from 1; 0 where the machine does
  /// not say (real devices), and where nothing was enqueued (a copy of no bytes, the record of an
  /// event without timing).
  std::uint64_t ticket = 0;
  /// In a run that a seed decides (docs/order.md): the task that it is there, such as s2.14, and
  /// the host's point at which that was there. Zero for an enqueued wait.
  std::uint32_t run_stream = 0;
  std::uint64_t run_task = 0;
  std::uint64_t run_point = 0;
};

/// The text of a kind: "kernel_launched".
EMBER_API const char* activity_name(Activity::Kind kind) noexcept;

namespace detail {
struct ObserverList;
}

/// Told what happens. Notifications come one at a time, in one order for all observers: that of the
/// queue for work of one stream, whichever threads enqueue it, and what a thread did before another
/// thread went on comes before what that one does next. Whoever did something tells it before its
/// call returns, unless another thread is telling; then that one does, and nobody waits for it.
class EMBER_API Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  /// Takes it out of the list. A class whose notice() uses members calls remove_observer() in its
  /// own destructor, before these go.
  virtual ~Observer();
  /// Called after the thing was done, without a lock of ember's; but a graph that is replayed is in
  /// use until the replay has been told, so that other threads' calls of the graph wait. What the
  /// observer itself does through ember is not reported. It must not change the list of observers.
  virtual void notice(const Activity& activity) noexcept = 0;
  /// Whether activities are to say where their thread stood, which costs some 100 ns each. Asked
  /// once, when the observer is added.
  virtual bool wants_stacks() const noexcept { return false; }
  /// Whether activities are to say when they were done, and when work ran. Asked once, when the
  /// observer is added.
  virtual bool wants_times() const noexcept { return false; }

 private:
  friend struct detail::ObserverList;
  std::atomic<bool> listed_{false};
  bool stacks_ = false;
  bool times_ = false;
  std::uint64_t since_ = 0;  // what was recorded later is for it
};

/// Adds one to the list: it is told what happens from now on, after those that are in the list.
/// Error if it is there already, and from within notice(). Thread-safe.
EMBER_API void add_observer(Observer& observer);
/// Takes one out, if it is in the list. When the call returns, no notification to it is in
/// progress, for which it may wait: it may be destroyed. Error from within its own notice().
/// Thread-safe.
EMBER_API void remove_observer(Observer& observer);
/// The same for one place in the list that holds one observer: puts `observer` there (null empties
/// it), and returns what was there.
EMBER_API Observer* set_observer(Observer* observer);
/// Has it noted when work ran (Activity::times), of all work of which a wait for its device has
/// shown that it is over. Simulated devices note that by themselves. Waits for no device. Error
/// from within notice(). Thread-safe.
EMBER_API void collect_times();

/// For notice(): the call of `thread` that is being told, or that thread's next one that enqueues
/// work, throws `error` once it is done.
EMBER_API void fail_operation(std::uint32_t thread, std::exception_ptr error) noexcept;

namespace detail {
EMBER_API extern std::atomic<int> observers;
/// How many of them want times.
extern std::atomic<int> timed_observers;
/// The observers, and one more where declared accesses are checked (declared.h).
EMBER_API extern std::atomic<int> accesses_wanted;
EMBER_API void notify_slow(const Activity& activity) noexcept;
/// Where the thread stands is noted for what it records until release_place(): where records are
/// made under a lock, this comes before it.
void note_place() noexcept;
void release_place() noexcept;
/// Puts an activity in the queue, to be told by deliver(). May be called under locks of ember's.
void record(const Activity& activity) noexcept;
/// Tells what is in the queue, unless another thread does.
void deliver() noexcept;
/// Whether the calling thread holds a stream's lock (enqueueing.h), under which nothing is told,
/// from now on; and whether it did.
bool mark_enqueueing(bool now) noexcept;
/// Throws what fail_operation() left for the calling thread.
void throw_failure();
/// For the child of a fork.
void renew_observer_locks() noexcept;
void renew_enqueueing_locks() noexcept;
}  // namespace detail

/// True while somebody watches: to skip work that only serves notifications.
inline bool observed() noexcept { return detail::observers.load(std::memory_order_relaxed) != 0; }

/// True while somebody looks at what launches declare: to skip putting accesses together.
inline bool accesses_wanted() noexcept {
  return detail::accesses_wanted.load(std::memory_order_relaxed) != 0;
}

/// Reports an activity, which `make` makes. Costs one load and a branch when nobody watches: an
/// activity made before would be 200 bytes to be cleared.
template <class Make>
void notify(const Make& make) noexcept {
  if (observed()) [[unlikely]]
    detail::notify_slow(make());
}

/// Reports that the program asked for a figure that another run may answer otherwise; `name` is the
/// function's, a literal.
inline void tell_figure_asked(const char* name) noexcept {
  notify([&]() -> Activity { return {.kind = Activity::Kind::figure_asked, .name = name}; });
}

/// The host reads, or writes, memory that work on devices may use: what the library cannot see,
/// since the program uses pointers of its own. For observers; nothing happens to the memory.
inline void host_reads(const void* first, std::size_t bytes) noexcept {
  if (!observed()) [[likely]]
    return;
  const Access access{first, bytes, false};
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::host_accessed,
            .name = "host_reads",
            .accesses = {&access, 1},
            .accesses_known = true};
  });
}
inline void host_writes(const void* first, std::size_t bytes) noexcept {
  if (!observed()) [[likely]]
    return;
  const Access access{first, bytes, true};
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::host_accessed,
            .name = "host_writes",
            .accesses = {&access, 1},
            .accesses_known = true};
  });
}

}  // namespace ember::inline v0::cuda
