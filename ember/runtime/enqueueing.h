// Enqueueing work so that observers see the order of the queue: Note [One order] in observer.cpp.
#pragma once

#include "ember/base/error.h"
#include "ember/driver/handles.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::driver {
class Driver;
}

namespace ember::inline v0::cuda {

namespace detail {
class Timing;
}

/// Around a call of the driver's that enqueues on a stream, and the record of it. While somebody
/// watches it holds the stream's lock: two threads are seen in the order in which their work was
/// queued. Costs a load and a branch when nobody watches.
///
///     Enqueueing call(stream.handle());
///     check(machine.fill(...));
///     if (call.watched()) call.record(stream, {.kind = Activity::Kind::filled, ...});
///     call.done();
class Enqueueing {
 public:
  explicit Enqueueing(const driver::StreamHandle& stream)
      : watched_(observed()), noted_(work_noted()) {
    if (watched_) [[unlikely]]
      begin(&stream);
  }
  /// Without a lock, for a call that may wait for work that others enqueue: it comes where it
  /// ended.
  struct MayWait {};
  explicit Enqueueing(MayWait) : watched_(observed()), noted_(work_noted()) {
    if (watched_) [[unlikely]]
      begin(nullptr);
  }
  ~Enqueueing() {
    if (watched_) [[unlikely]]
      end();
  }
  Enqueueing(const Enqueueing&) = delete;
  Enqueueing& operator=(const Enqueueing&) = delete;

  /// Whether anybody wants a record: observers now, those of a graph's replays later, or a graph
  /// that looks for mistakes.
  bool watched() const noexcept { return watched_ || noted_; }
  /// Before a call that enqueues work: what record() tells then says when the work runs, if an
  /// observer wants to know.
  void time(driver::Driver& machine, const driver::StreamHandle& stream) noexcept {
    if (watched_ && detail::timed_observers.load(std::memory_order_relaxed) != 0 &&
        !is_captured(stream)) [[unlikely]]
      begin_timing(machine, stream);
  }
  /// What was enqueued on `stream`; fills in the fields that name it. Work that was captured is not
  /// told, but noted for the graph's replays.
  void record(const Stream& stream, Activity activity) noexcept;
  /// Of a replay: what the graph holds.
  void record(const Stream& on, CaptureLog& replayed,
              std::span<const driver::Rebound> memory) const noexcept {
    if (watched_) replayed.record_replay(on, memory);
  }
  /// Tells it, and throws what an observer has to say of it (fail_operation), or a graph
  /// (after_call).
  void done() {
    if (watched()) [[unlikely]]
      tell();
  }

 private:
  void begin(const driver::StreamHandle* stream) noexcept;
  void begin_timing(driver::Driver& machine, const driver::StreamHandle& stream) noexcept;
  void unlock() noexcept;
  void end() noexcept;
  void tell();

  bool watched_;
  bool noted_;
  bool may_wait_ = false;
  int lock_ = -1;
  std::int64_t began_ = 0;  // of a call that may wait, if an observer wants times
  detail::Timing* timing_ = nullptr;
};

namespace detail {

/// Calls `wait()`, and tells what it began to wait for (device, stream or event of what `make`
/// makes) and that the wait is over (`over`): also where a fault or a reset has dropped the work,
/// of which nothing is left then. Not where nobody waited, or not to the end.
template <class Make, class Wait>
void told_wait(const Make& make, Activity::Kind over, const Wait& wait) {
  const auto tell = [&](Activity::Kind kind) {
    notify([&] {
      Activity what = make();
      what.kind = kind;
      return what;
    });
  };
  tell(Activity::Kind::wait_began);
  try {
    wait();
  } catch (const AcceleratorError& error) {
    const Code code = error.code();
    if (code != Code::interrupted && code != Code::not_permitted &&
        code != Code::stream_capture_unsupported && code != Code::captured_event)
      tell(over);
    throw;
  }
  tell(over);
}
/// Of what a stream holds now.
template <class Wait>
void told_wait(const Stream& stream, const Wait& wait) {
  told_wait(
      [&]() -> Activity {
        return {.device = stream.device_index(),
                .stream = stream.handle().native,
                .stream_id = stream.stream_id()};
      },
      Activity::Kind::stream_synchronized, wait);
}

}  // namespace detail

}  // namespace ember::inline v0::cuda
