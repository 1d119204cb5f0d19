// Happens-before: from what observers see, which accesses of the same memory nothing orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ember/runtime/observer.h"
#include "ember/sanitizer/clock.h"
#include "ember/sanitizer/conflict.h"
#include "ember/sanitizer/shadow.h"

namespace ember::inline v0::cuda::sanitizer {

/// How threads of the host are ordered.
enum class Threads : std::uint8_t {
  /// By what was seen first: as one. What orders them (mutexes, joins) cannot be seen.
  as_one,
  /// By waits for devices only, as streams are.
  apart,
};

/// Fed with activities, one after the other, in the order of Observer::notice(). Knows nothing of
/// devices, and calls nothing of ember's. Not thread-safe.
///
/// Note [What orders what]
/// Work of a stream comes after the work that the stream holds, after what it waited for, and after
/// what the thread that enqueues it knows to be over. A thread knows of what it did itself, and of
/// what streams and events held when it began to wait for them. An event holds what its stream held
/// at the record. The default stream of a device is a stream like any other: ember's streams do not
/// wait for it. A copy of ordinary host memory may be over when the call returns, but nothing
/// promises it, except that what it reads was read. Accesses of the same bytes by one operation are
/// one: a write if any of them is.
class Engine {
 public:
  explicit Engine(Threads threads = Threads::as_one) : threads_(threads) {}

  /// From now on, reads of bytes that were never written conflict, in device memory that is
  /// allocated from now on. An operation whose accesses are unknown counts as a write of all memory
  /// that there is. `doubts`: reads of bytes that may not have been written conflict as well, as
  /// `possible`.
  void expect_writes(bool doubts = false) noexcept {
    expects_writes_ = true;
    doubts_writes_ = doubts;
  }
  /// Accesses of the host to pinned memory are seen by other means (EMBER_SANITIZER=guard): nothing
  /// of it is unwatched.
  void host_is_guarded() noexcept { host_is_guarded_ = true; }

  /// What happened; adds what conflicts with it to `out`.
  void observe(const Activity& activity, std::vector<Conflict>& out);

  /// Operations with accesses that are known; those without, which nobody checked; pointers to host
  /// memory that the program got, whose use nobody sees: also those to pinned memory that devices
  /// use, as long as no access of the host's to it was told.
  std::uint64_t checked() const noexcept { return serial_ - unchecked_; }
  std::uint64_t unchecked() const noexcept { return unchecked_; }
  std::uint64_t exposed() const noexcept { return exposed_; }
  /// The work or the host's access that was observed last. Valid until the next is observed.
  struct Placed {
    std::uint64_t serial = 0;       ///< counts them, from 1
    Epoch epoch;                    ///< its own
    Epoch source;                   ///< of what a copy reads of ordinary memory: the host's
    const Clock* before = nullptr;  ///< itself, and all that comes before it by waits
  };
  const Placed& placed() const noexcept { return placed_; }
  /// What the thread knows to be over.
  const Clock& host_knows(std::uint32_t thread) { return host_of(thread).known.by_waits; }
  /// Adds what comes before the next use of memory that now goes back to the allocator of a stream,
  /// or, without one, of page-locked memory: what the thread knows to be over, the stream's work,
  /// and that of streams which record_stream() named for `freed`, if that is an allocation.
  void add_before_reuse(std::uint32_t thread, int device, const void* stream, const void* freed,
                        Clock& out);
  /// Reads of bytes that were, or may have been, never written, as an operation of that name.
  void check_read(const Access& access, const char* name, std::vector<Conflict>& out);
  /// Accesses that are kept, for tests of how memory is bounded: about.
  std::size_t entries() const noexcept { return entries_; }
  /// Serial numbers of the operations whose accesses are kept, so that they may be named again.
  std::set<std::uint64_t> kept();

 private:
  struct Stream {
    Actor actor = 0;
    Known known;
    std::vector<std::uint64_t> seen;  // versions of the hosts' knowledge that it has joined
  };
  struct Host {
    Actor actor = 0;
    std::uint64_t version = 1;
    Known known;
  };
  struct Event {
    int device = -1;
    Known known;  // when it was recorded
  };
  /// What a wait that has begun is for.
  struct Wait {
    Known one;  // the stream or event
    Known all;  // everything on the device
  };
  using Handle = std::pair<int, const void*>;

  Stream& stream_of(int device, const void* native);
  Host& host_of(std::uint32_t thread);
  /// The stream, which now knows what the thread knows that uses it.
  Stream& enqueue_on(const Activity& activity);
  Operation operation(const Activity& activity, bool host, Epoch epoch) const;
  /// What an operation accesses, each piece of memory once: written if any of its arguments is
  /// written. Valid until the next call.
  std::span<Entry> entries_of(const Activity& activity, const Operation& operation);
  void work(const Activity& activity, std::vector<Conflict>& out);
  void host_work(const Activity& activity, std::vector<Conflict>& out);
  /// `entry.operation` is how the access is remembered.
  void access(const Entry& entry, const Operation& operation, const Known& known,
              std::vector<Conflict>& out);
  /// The allocation of an access, where its written bytes are known.
  Allocation* followed(const Access& access);
  void check_written(const Activity& activity, const Operation& operation,
                     std::vector<Conflict>& out);
  /// Work of a device, or the host as far as it is told, uses pinned memory.
  void note_use(Allocation& pinned, const Operation& operation);
  /// Makes a change to what is known of pinned memory, and counts it if it is unwatched from now
  /// on.
  template <class Change>
  void note_pinned(Allocation& pinned, const Change& change);
  void expose(const Activity& activity);
  void learn(const Activity& activity, const Known& known);
  void begin_wait(const Activity& activity);
  void end_wait(const Activity& activity);
  void free(const Activity& activity);
  void follow_frees(const Activity& activity);
  void hand_out_pinned(const Activity& activity, std::vector<Conflict>& out);
  void reset(const Activity& activity);
  void prune();

  const Threads threads_;
  Actor actors_ = 0;
  std::map<Handle, Stream> streams_;
  Stream* last_stream_ = nullptr;
  Handle last_handle_;
  std::map<std::uint32_t, Host> hosts_;
  std::map<const void*, Event> events_;
  std::map<std::uint32_t, Wait> waits_;
  Shadow shadow_;
  std::vector<Entry> accessed_;  // by the operation that is being looked at
  Placed placed_;
  std::uint64_t serial_ = 0, unchecked_ = 0, exposed_ = 0;
  std::size_t entries_ = 0, prune_at_ = 256;
  bool expects_writes_ = false;
  bool doubts_writes_ = false;
  bool host_is_guarded_ = false;
  std::uint64_t last_unchecked_ = 0;  // serial number
};

}  // namespace ember::inline v0::cuda::sanitizer
