// Events: points in the work of a stream. Chapter 4 of the documents.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ember/base/export.h"
#include "ember/driver/handles.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

namespace detail {

/// What an interprocess event does where the driver has no handles of events: the state that all
/// processes share. Internal.
class SharedEvent {
 public:
  SharedEvent() = default;
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;
  virtual ~SharedEvent() = default;
  virtual void record(const Stream& stream) = 0;
  virtual void wait(const Stream& stream) const = 0;
  virtual bool query() const = 0;
  virtual void synchronize() const = 0;
  virtual std::array<std::uint8_t, 64> handle() = 0;
};

/// In ipc/, which lies above. AcceleratorError if there is no room for another one.
std::unique_ptr<SharedEvent> make_shared_event();

}  // namespace detail

/// An event. It is made on the device of the first stream that records it. Movable, not copyable.
/// Members may be called from any thread, but not by two threads at once on one object, except the
/// const ones.
class EMBER_API Event {
 public:
  /// `enable_timing`: can be used with elapsed_time. `blocking`: synchronize() sleeps instead of
  /// spinning. `interprocess`: can be shared; ValueError together with timing. `external`: in a
  /// capture, record() and wait() become work of the graph instead of joining streams: each replay
  /// records the event, or waits for what it stands for then. So times can be taken within a graph,
  /// and work outside of it can wait for a part of it, or the other way round. The event lives as
  /// long as the graph.
  explicit Event(bool enable_timing = false, bool blocking = false, bool interprocess = false,
                 bool external = false);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// The event now stands for all work enqueued on the stream so far. Waits already enqueued keep
  /// the earlier record. Error `Event device D does not match recording stream's device S.`.
  void record(const Stream& stream);
  void record() { record(current_stream()); }
  /// Records the first time only.
  void record_once(const Stream& stream);
  /// Later work of the stream (of any device) waits for the record. Nothing if never recorded.
  /// Returns at once.
  void wait(const Stream& stream) const;
  void wait() const { wait(current_stream()); }
  /// True if never recorded, or all work it stands for is done.
  bool query() const;
  /// Blocks until the work it stands for is done. Nothing if never recorded. AcceleratorError if
  /// the device faulted or was reset, and `operation not permitted` in a host function or a
  /// kernel's host implementation.
  void synchronize() const;
  /// Milliseconds from this event to `end`. ValueError `Both events must be created with argument
  /// 'enable_timing=True'.`, ValueError `Both events must be recorded before calculating elapsed
  /// time.`, Error `Both events must be completed before calculating elapsed time.`;
  /// AcceleratorError for events of different devices.
  double elapsed_time(const Event& end) const;

  /// 64 bytes by which other processes of the machine open the event; made first, on the current
  /// device, if it was not recorded yet. AcceleratorError `invalid resource handle` unless it is an
  /// interprocess event. Does not block. (ipc/events.cpp)
  std::array<std::uint8_t, 64> ipc_handle();
  /// Another process's event, or this one's once more, as one of `device`. It stands for the record
  /// that was made last, by whichever process. Error `cudaIpcEventHandle_t expects byte-like object
  /// of size 64, but got N` for other sizes, and for a device that is not CUDA; Error that says why
  /// if a simulated device's event cannot be opened, AcceleratorError of a real one's. May block
  /// for two seconds. Initialises. (ipc/events.cpp)
  ///
  /// If a process ends that was to do what the event stands for, those that wait for an event of
  /// simulated devices fault, and query() and synchronize() are Errors; of real devices they wait
  /// for ever, as CUDA does.
  static Event from_ipc_handle(Device device, std::span<const std::uint8_t> handle);

  /// Nothing until the first record.
  std::optional<Device> device() const noexcept;
  bool is_created() const noexcept { return created_; }
  /// The machine's own handle: a cudaEvent_t on real devices. Null until the first record.
  void* native() const noexcept { return handle_.native; }
  const driver::EventHandle& handle() const noexcept { return handle_; }
  /// `<torch.cuda.Event 0x...>` or `<torch.cuda.Event uninitialized>`
  std::string str() const;

 private:
  void create(int device);
  bool becomes_work_on(const Stream& stream) const noexcept;
  void destroy() noexcept;

  std::unique_ptr<detail::SharedEvent> shared_;
  std::unique_ptr<driver::IpcHandle> opened_by_;  // as good in a third process
  driver::EventOptions options_;
  bool external_ = false;
  std::shared_ptr<const void> owner_;  // of an external one's handle, with graphs
  driver::EventHandle handle_;
  bool created_ = false;
  bool recorded_ = false;
};

}  // namespace ember::inline v0::cuda

namespace ember::inline v0 {

/// A device-neutral event: the CUDA event with default flags, for code that is told the kind of
/// device at run time. Error when made for a kind of device that has no streams.
class EMBER_API GenericEvent {
 public:
  explicit GenericEvent(Device::Type type);
  Device::Type device_type() const noexcept { return Device::Type::cuda; }
  std::optional<Device> device() const noexcept { return event_.device(); }
  void record(const cuda::Stream& stream) { event_.record(stream); }
  void record_once(const cuda::Stream& stream) { event_.record_once(stream); }
  void block(const cuda::Stream& stream) const { event_.wait(stream); }
  bool query() const { return event_.query(); }
  void synchronize() const { event_.synchronize(); }

 private:
  cuda::Event event_;
};

}  // namespace ember::inline v0
