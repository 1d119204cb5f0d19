// What the layers of the library need to know of captures in progress. Users have graphs/graph.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/driver/handles.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

namespace detail {
/// How many captures there are that this library began.
extern std::atomic<int> captures;
bool is_capturing(const driver::StreamHandle& stream) noexcept;
}  // namespace detail

/// Whether anything is captured: one load. While it is, no event is looked at that work may have
/// been recorded behind.
inline bool any_capture() noexcept { return detail::captures.load(std::memory_order_relaxed) != 0; }
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

/// What one capture was given, for observers, who are told of it by each replay: the work of the
/// capture's own stream as that of the stream it is replayed on, and the other streams and events
/// of the capture as ones of the graph's own, which nobody else uses.
class CaptureLog {
 public:
  /// A capture of `origin` begins: from now on activities of it are noted.
  explicit CaptureLog(const Stream& origin);
  ~CaptureLog();
  CaptureLog(const CaptureLog&) = delete;
  CaptureLog& operator=(const CaptureLog&) = delete;

  /// The driver's number of the capture.
  void begin(std::uint64_t id) noexcept;
  /// Nothing more is noted. The capture's streams, which were kept from being used for others, go.
  void end() noexcept;
  /// After the capture: shows each access of what was captured. False if some of the work did not
  /// say what it touches.
  bool visit(const std::function<void(const Access&)>& see) const;
  /// Puts them in the observers' queue as done on a stream; the caller holds its lock (Enqueueing).
  void record_replay(const Stream& on) noexcept;

  /// Notes it if the stream is part of a capture; false if it is none.
  static bool note(const Stream& stream, const Activity& activity) noexcept;

 private:
  struct Entry {
    Activity activity;
    std::size_t stream = 0;  // 0: the origin
    std::size_t event = 0;
    std::vector<Access> accesses;
    std::vector<std::vector<std::int64_t>> shapes;  // of accesses, which look at them
  };
  std::size_t number_of(const Stream& stream);
  std::size_t number_of(const void* event);
  void add(const Stream& stream, const Activity& activity);

  std::atomic<std::uint64_t> id_{0};
  std::vector<Stream> streams_;
  std::vector<const void*> events_;
  std::vector<Entry> entries_;
  /// Their addresses stand for streams and events.
  std::unique_ptr<char[]> stream_names_, event_names_;
  std::int64_t first_stream_id_ = 0;
  bool replayed_ = false;  // while somebody watched
};

}  // namespace ember::inline v0::cuda
