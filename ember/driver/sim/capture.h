// Captures in progress on simulated devices: what their streams are given becomes a graph.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/handles.h"
#include "ember/driver/sim/event.h"
#include "ember/driver/sim/graph.h"
#include "ember/driver/sim/stream.h"

namespace ember::inline v0::driver::sim {

/// All captures of a driver. Thread-safe; costs a load while there is none. What is refused
/// invalidates the capture, and says what was called.
class Captures {
 public:
  Captures() = default;
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  Status begin(Stream& stream, std::uint32_t epoch, CaptureMode mode);
  Status end(Stream& stream, std::unique_ptr<CapturedGraph>& out);
  /// `id` is set if it is active.
  CaptureStatus status(const Stream& stream, std::uint64_t& id);
  /// The number, from 1, of the node that the stream was given last; 0 if it waits for several.
  std::uint64_t node(const Stream& stream);

  /// What was given to a stream that is part of one.
  Status add(const Stream& stream, TaskKind kind, const Kernel& kernel, const Params& params,
             PeerMemory peer, EventHandle event = {});
  /// What an event stands for that is recorded on the stream.
  Status mark(const Stream& stream, std::shared_ptr<const CaptureMark>& out);
  /// The stream waits for an event that was recorded as `mark`, or (null) outside of captures. One
  /// that is part of none comes into the mark's.
  Status wait(Stream& stream, std::uint32_t epoch, const CaptureMark* mark);

  /// Refuses what cannot be done with a stream while it is part of a capture.
  Status refuse(const Stream& stream, const char* what);
  /// The same for an event that was recorded in one.
  Status refuse(const CaptureMark& mark, const char* what);
  /// The same for a device that has streams which are part of one of the calling thread.
  Status refuse(int device, const char* what);
  /// Refuses a look or a wait elsewhere, as the calling thread's mode says.
  Status refuse_unsafe(const char* what);
  /// The mode of the calling thread.
  static CaptureMode exchange_mode(CaptureMode mode) noexcept;

  /// The stream's handle was destroyed, or its device reset.
  void forget(Stream& stream);

 private:
  struct Member {
    Stream* stream;
    std::size_t branch;
    std::vector<std::size_t> after;  // what its next node waits for
  };
  struct Capture {
    std::uint64_t id = 0;
    CaptureMode mode{};
    std::thread::id thread;
    std::string invalid;  // by what it became so
    std::vector<Member> members;
    CapturedGraph graph;
  };

  Capture* find(const Stream& stream, Member*& member) EMBER_REQUIRES(mutex_);
  Capture* find(std::uint64_t id) EMBER_REQUIRES(mutex_);
  static Member& enter(Capture& capture, Stream& stream, std::uint32_t epoch);
  static void invalidate(Capture& capture, const std::string& what);
  static Status refused(Capture& capture, Code code, const std::string& what);
  static Status was_invalidated(const Capture& capture);
  static Status check_joined(const Capture& capture);
  void drop(const Capture& capture) EMBER_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Capture>> captures_ EMBER_GUARDED_BY(mutex_);
  std::uint64_t last_id_ EMBER_GUARDED_BY(mutex_) = 0;
  std::atomic<int> count_{0};
};

}  // namespace ember::inline v0::driver::sim
