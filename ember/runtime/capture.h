// What the layers of the library need to know of captures in progress. Users have graphs/graph.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/driver/handles.h"
#include "ember/driver/rebinding.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

namespace detail {
/// How many captures there are that this library began.
extern std::atomic<int> captures;
/// How many captures look at work: those in progress, and those whose watchers go on.
extern std::atomic<int> work_watched;
/// How many observers want to know of a replay as a whole, and not of the work that it holds.
extern std::atomic<int> order_observers;
/// Does what after_call() left for the calling thread.
void finish_call();
bool is_capturing(const driver::StreamHandle& stream) noexcept;
}  // namespace detail

/// Whether anything is captured: one load. While it is, no event is looked at that work may have
/// been recorded behind.
inline bool any_capture() noexcept { return detail::captures.load(std::memory_order_relaxed) != 0; }
/// Whether work is to be noted, for a capture or for a watcher of one: one load.
inline bool work_noted() noexcept {
  return detail::work_watched.load(std::memory_order_relaxed) != 0;
}
/// Whether a stream is part of a capture that this library began, valid or not.
inline bool is_captured(const driver::StreamHandle& stream) noexcept {
  return any_capture() && detail::is_capturing(stream);
}

/// The driver's number of the capture that a stream is part of; 0 if it is part of none, or of one
/// that is invalid.
std::uint64_t capture_of(const driver::StreamHandle& stream) noexcept;

/// Throws AcceleratorError `operation not permitted when stream is capturing` that names the call,
/// if the stream is part of a capture, which is invalid from then on.
void refuse_captured(const driver::StreamHandle& stream, const char* what);
/// The same for the calling thread's current stream of a device.
void refuse_captured(int device, const char* what);

/// While it lives, what its thread asks of the driver disturbs no capture: for what the library
/// does on its own behalf, such as looking at events. Nothing while there is no capture.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept : active_(any_capture()) {
    if (active_) [[unlikely]]
      exchange();
  }
  ~RelaxedCapture() {
    if (active_) [[unlikely]]
      exchange();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() noexcept;

  bool active_;
  driver::CaptureMode mode_ = driver::CaptureMode::relaxed;
};

/// Whether an activity enqueues work that a graph holds.
inline bool is_work(Activity::Kind kind) noexcept {
  using Kind = Activity::Kind;
  return kind == Kind::kernel_launched || kind == Kind::copied || kind == Kind::filled ||
         kind == Kind::host_function_queued;
}

/// Looks at work on behalf of a capture. Called under a lock, by the thread that enqueues: neither
/// may work be enqueued, nor may captures begin or end. What there is to say of it comes after the
/// call: after_call().
class WorkWatcher {
 public:
  WorkWatcher() = default;
  WorkWatcher(const WorkWatcher&) = delete;
  WorkWatcher& operator=(const WorkWatcher&) = delete;
  virtual ~WorkWatcher() = default;
  /// The capture was given this. `activity.stack` says where.
  virtual void captured(const Activity& activity) noexcept = 0;
  /// This was enqueued, and is part of no capture; `activity.stack` is not set.
  virtual void beside(const Stream& stream, const Activity& activity) noexcept = 0;
};

/// For WorkWatcher: `act` is called once the calling thread's call has enqueued its work, and
/// holds no lock. It may warn or throw.
void after_call(std::function<void()> act);

/// What a capture became invalid by, and where that was called.
struct SpoiledBy {
  std::string what;
  std::uint64_t stack = 0;
};

/// What one capture was given, for observers, who are told of it by each replay: the work of the
/// capture's own stream as that of the stream it is replayed on, and the other streams and events
/// of the capture as ones of the graph's own, which nobody else uses.
class CaptureLog {
 public:
  /// What the capture was given, in order.
  struct Entry {
    Activity activity;       ///< its spans are not valid
    std::size_t stream = 0;  ///< 0: the one on which the capture began
    std::size_t event = 0;
    bool external = false;   ///< `activity.event` is the program's, which replays record, too
    std::uint64_t node = 0;  ///< of work, and of external events: as Driver::capture_node has it
    std::vector<Access> accesses;
    std::vector<std::vector<std::int64_t>> shapes;  ///< of accesses, which look at them
  };

  /// A capture of `origin` begins: from now on activities of it are noted. `watcher` outlives the
  /// log; null for none.
  explicit CaptureLog(const Stream& origin, WorkWatcher* watcher = nullptr);
  ~CaptureLog();
  CaptureLog(const CaptureLog&) = delete;
  CaptureLog& operator=(const CaptureLog&) = delete;

  /// The driver's number of the capture.
  void begin(std::uint64_t id) noexcept;
  /// Nothing more is noted. The capture's streams, which were kept from being used for others, go.
  /// The watcher goes on being told of work beside it, if it is to, until stop_watching().
  void end(bool watch_on = false) noexcept;
  void stop_watching() noexcept;

  /// Of a capture that has ended.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// What the streams were, by number.
  const std::vector<std::string>& stream_names() const noexcept { return stream_texts_; }
  /// The event that a replay records last, as observers see it.
  const void* end_event() const noexcept { return &event_names_[events_.size()]; }
  /// Whether replays record or wait for events of the program's, which observers of order need.
  bool has_external_events() const noexcept { return !external_.empty(); }
  /// By which call the capture became invalid, if that is known.
  SpoiledBy spoiled_by() const;
  /// After the capture: shows each access of what was captured. False if some of the work did not
  /// say what it touches.
  bool visit(const std::function<void(const Access&)>& see) const;
  /// Puts them in the observers' queue as done on a stream; the caller holds its lock (Enqueueing).
  /// `memory`: what the replay uses in place of what was captured.
  void record_replay(const Stream& on, std::span<const driver::Rebound> memory) noexcept;

  /// Notes it if the stream is part of a capture; false if it is none.
  /// Else watchers are told of it.
  static bool note(const Stream& stream, const Activity& activity) noexcept;
  /// The same of an event that a replay records or waits for as the program's. It is kept with the
  /// log.
  static void note_external(const Stream& stream, const Activity& activity,
                            const std::shared_ptr<const void>& event) noexcept;
  /// Notes by what captures became invalid that are so now.
  static void note_spoiled(const std::string& what) noexcept;
  /// By what the capture of the thread's current stream became invalid; empty if it is in none.
  static std::string spoiled_capture() noexcept;

 private:
  std::size_t number_of(const Stream& stream);
  std::size_t number_of(const void* event);
  bool is_recorded_behind_all(std::size_t i) const noexcept;
  void add(const Stream& stream, const Activity& activity, bool external = false);

  std::atomic<std::uint64_t> id_{0};
  WorkWatcher* const watcher_;
  bool watching_ = true;
  SpoiledBy spoiled_;
  std::vector<Stream> streams_;
  std::vector<std::string> stream_texts_;
  std::vector<const void*> events_;
  std::vector<std::shared_ptr<const void>> external_;
  std::size_t tail_ = 0;  // entries behind which the first stream holds all of the capture
  std::vector<Entry> entries_;
  /// Their addresses stand for streams and events.
  std::unique_ptr<char[]> stream_names_, event_names_;
  std::int64_t first_stream_id_ = 0;
  bool replayed_ = false;  // while somebody watched
};

}  // namespace ember::inline v0::cuda
