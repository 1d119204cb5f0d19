// Streams: in-order queues of work on one device. Chapter 3 of the documents.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ember/base/export.h"
#include "ember/base/ref.h"
#include "ember/driver/handles.h"
#include "ember/runtime/batch.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda {

class Event;

namespace detail {

/// What the Stream values of one stream share. Lives in the stream pool (stream_pool.cpp).
struct EMBER_API StreamState : FindableRefCounted {
  driver::StreamHandle handle;
  std::int64_t id = 0;
  int priority = 0;
  bool pooled = false;  ///< goes back to the pool with its last owner
  bool is_default = false;
  bool immortal() const noexcept { return is_default; }
  static void dispose(StreamState* state) noexcept;
};

}  // namespace detail

/// A stream, as a value: copies name the same stream. A stream made here is distinct from every
/// other stream that is alive; when its last value dies, its queue is used again for a later one.
/// Work that is still queued then is done all the same. All members are thread-safe and, unless
/// they say otherwise, do not block.
class [[nodiscard]] EMBER_API Stream {
 public:
  /// A stream of `device` (nothing or negative: the current device). `priority`: 0 is the least,
  /// smaller numbers are more urgent; numbers outside priority_range() are moved to its nearest
  /// end. Throws AcceleratorError (no such device, no resources). Initialises.
  explicit Stream(DeviceArg device = {}, int priority = 0);
  // Moving copies: there is no stream that is none.
  Stream(const Stream&) noexcept = default;
  Stream& operator=(const Stream&) noexcept = default;
  ~Stream() = default;

  /// The live stream with that id on that device: the inverse of stream_id(). Error if there is
  /// none.
  static Stream from_id(std::int64_t stream_id, int device_index);

  Device device() const noexcept { return {Device::Type::cuda, state_->handle.device}; }
  int device_index() const noexcept { return state_->handle.device; }
  /// 0 for the default stream, odd for streams made here, the handle itself for external ones.
  std::int64_t stream_id() const noexcept { return state_->id; }
  int priority() const noexcept { return state_->priority; }
  /// The machine's own handle: a cudaStream_t on real devices. Null is the default stream. In a
  /// batch (runtime/batch.h) the operations so far are handed over first.
  void* native() const noexcept {
    Batch::hand_over();
    return state_->handle.native;
  }
  const driver::StreamHandle& handle() const noexcept { return state_->handle; }

  /// Whether all work enqueued so far is done. Throws AcceleratorError if the device has faulted.
  bool query() const;
  /// Blocks until all work enqueued so far is done. Throws AcceleratorError if some of it faulted,
  /// and `operation not permitted` in a host function or a kernel's host implementation.
  void synchronize() const;
  /// Whether it is part of a capture, also of one that is invalid (graphs/graph.h), or that another
  /// library began.
  bool is_capturing() const noexcept;
  /// Later work of this stream waits for all work that `other`, of any device, holds now. Returns
  /// at once.
  void wait_stream(const Stream& other) const;
  /// The same as event.wait(*this), event.record(*this), and recording a new plain event.
  void wait_event(const Event& event) const;
  void record_event(Event& event) const;
  Event record_event() const;

  /// (least, greatest), such as (0, -3): what this library supports, at most what the device has.
  static std::pair<int, int> priority_range(DeviceArg device = {});

  /// `<torch.cuda.Stream device=cuda:0 cuda_stream=0x...>`
  std::string str() const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept {
    return a.state_->id == b.state_->id && a.state_->handle.device == b.state_->handle.device;
  }

 protected:
  explicit Stream(Ref<detail::StreamState> state) noexcept : state_(std::move(state)) {}

 private:
  friend class StreamGuard;
  friend class StreamRef;
  friend class MultiStreamGuard;
  friend Stream current_stream(DeviceArg);
  friend Stream default_stream(DeviceArg);
  friend void set_stream(const Stream&);
  Ref<detail::StreamState> state_;
};

/// What str() returns.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             const Stream& stream) {
  return out << stream.str();
}

/// A stream without a share in it: one pointer, trivially copyable, for what only hands streams on.
/// Becomes a Stream wherever one is expected; whoever holds it sees that the Stream it was made of,
/// or a copy of that, lives on. Members as those of Stream.
class StreamRef {
 public:
  StreamRef(const Stream& stream) noexcept : state_(stream.state_.get()) {}
  operator Stream() const noexcept { return Stream(Ref<detail::StreamState>(state_)); }

  Device device() const noexcept { return {Device::Type::cuda, state_->handle.device}; }
  int device_index() const noexcept { return state_->handle.device; }
  std::int64_t stream_id() const noexcept { return state_->id; }
  void* native() const noexcept {
    Batch::hand_over();
    return state_->handle.native;
  }
  bool query() const { return Stream(*this).query(); }
  void synchronize() const { Stream(*this).synchronize(); }

  friend bool operator==(StreamRef a, StreamRef b) noexcept { return a.state_ == b.state_; }
  friend bool operator==(const Stream& a, StreamRef b) noexcept { return a == Stream(b); }

 private:
  detail::StreamState* state_;
};

/// A foreign handle (a cudaStream_t made elsewhere) as a stream. The owner keeps it alive and valid
/// for `device`; nothing is checked here. Otherwise a stream like any other.
class EMBER_API ExternalStream : public Stream {
 public:
  explicit ExternalStream(void* native, DeviceArg device = {});
};

/// The calling thread's current stream on a device (nothing or negative: the current device). A new
/// thread starts on the default streams. Initialises.
EMBER_API Stream current_stream(DeviceArg device = {});

/// Whether the current stream of the current device is part of a capture, also of one that is
/// invalid (graphs/graph.h). Does not initialise: false before.
EMBER_API bool is_current_stream_capturing();

/// The default stream of a device. Initialises.
EMBER_API Stream default_stream(DeviceArg device = {});

/// Makes a stream current on its device, and that device current and ready for use, for the calling
/// thread.
EMBER_API void set_stream(const Stream& stream);

}  // namespace ember::inline v0::cuda

template <>
struct std::hash<ember::cuda::Stream> {
  std::size_t operator()(const ember::cuda::Stream& stream) const noexcept {
    const auto id = static_cast<std::size_t>(stream.stream_id());
    return id * 67 + static_cast<std::size_t>(stream.device_index());
  }
};
