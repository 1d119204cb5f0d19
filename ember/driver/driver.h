// The seam: everything ember asks of a machine with devices.
//
// There are two drivers, simulated (driver/sim) and CUDA (driver/cuda); docs/architecture.md says
// what a third would have to write. The rules that hold for every function:
//
//  - Thread-safe, callable from any thread, also while other calls are in progress, except that a
//    handle must not be used after the call that destroyed it began.
//  - No function throws. A failed call has changed nothing and leaves its out-parameters untouched,
//    unless its comment says otherwise.
//  - A function does not block unless its comment says so. "Enqueues" means that the work is done
//    later, in the order of the stream, and that the call returns at once.
//  - Device numbers are positions among the visible devices, 0 to device_count() - 1; anything else
//    is Code::invalid_device. A foreign handle is Code::invalid_handle where it can be told.
//  - A device_reset begins a new epoch of the device. Handles and epochs from before it are refused
//    with Code::context_is_destroyed, also by calls that are in progress while it happens: nothing
//    that was asked for in one epoch is done in the next. A stream handle whose `native` is null is
//    the device's default stream; its epoch may be kAnyEpoch. Work that names the memory of a peer
//    is of that one's epoch too.
//  - Calls that block are refused with Code::not_permitted on a thread that runs a host function or
//    a kernel's host implementation for the driver: they might wait for themselves.
//  - After asynchronous work on a device has faulted, calls for that device return the fault (a
//    sticky code, with the operation's name in the detail) until device_reset, or on CUDA until the
//    process ends. Releasing calls (free, *_destroy) still release.
//  - A driver is made at most once per process, lives until the process ends, and touches a device
//    only when a call needs that device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/handles.h"
#include "ember/driver/kernel.h"
#include "ember/driver/properties.h"
#include "ember/driver/rebinding.h"
#include "ember/driver/recent_launches.h"
#include "ember/driver/telemetry.h"
#include "ember/driver/work_times.h"

namespace ember::inline v0::driver {

/// What ipc_export_memory says of an allocation.
struct IpcExport {
  IpcHandle handle;
  int file = -1;           ///< has to come along to whoever opens it; the driver's, and stays open
  std::size_t offset = 0;  ///< of the pointer, in what is opened
  std::size_t extent = 0;  ///< bytes of what is opened; 0: the file's own size says it
  bool in_pieces = false;  ///< the rest is not set: ipc_export_pieces says more
};

/// Which ways there are for others to reach memory of a device.
struct MemorySharing {
  enum class Way : std::uint8_t {
    no,            ///< the device, or the machine, has no such way
    other_memory,  ///< not for this memory; there is for memory that is asked for in another way
    yes,
  };
  Way legacy_ipc = Way::no;  ///< cudaIpcGetMemHandle
  Way fd = Way::no;          ///< a descriptor of a file, which is sent to the other process
  Way fabric = Way::no;      ///< a handle that is good on other nodes of an NVLink fabric
  Way rdma = Way::no;        ///< network cards read and write it without the host
};

/// A number that only grows, in memory that processes share: what a stream of one waits for until a
/// stream of another has come to a point.
using Word = std::atomic<std::uint64_t>;
/// What a word holds when the work that was to raise it will never be done. As a signed number it
/// is behind all others that are used, so that a real device's wait passes, too.
inline constexpr std::uint64_t kWordLost = std::uint64_t{INT64_MAX};

class EMBER_TEST_API Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  // ---- The machine
  // -------------------------------------------------------------------------------

  /// "simulated" or "cuda".
  virtual const char* name() const noexcept = 0;
  /// True when kernels run their host implementation on this driver.
  virtual bool simulated() const noexcept = 0;
  /// Number of visible devices; zero on any trouble. Constant for the life of the driver.
  virtual int device_count() noexcept = 0;
  virtual Status device_properties(int device, DeviceProperties& out) noexcept = 0;
  /// Whether anything has used the device yet (on CUDA: whether its context exists). Never makes
  /// one.
  virtual bool device_active(int device) noexcept = 0;
  /// Makes the device ready (on CUDA: makes its context, and makes it the calling thread's current
  /// one). May block for a second the first time.
  virtual Status device_activate(int device) noexcept = 0;
  /// Blocks until all work enqueued on the device so far is done; reports a fault.
  virtual Status device_synchronize(int device) noexcept = 0;
  /// (optional) Tells a profiler that is attached to the process, and waits for that, to collect
  /// from now on what a device does, or no longer. Without one it does nothing.
  virtual Status device_profile(int device, bool on) noexcept;
  /// Whether the calling thread may wait for devices. False in a host function and in a kernel's
  /// host implementation, which would wait for themselves: functions that block answer
  /// Code::not_permitted there.
  virtual bool may_wait() noexcept = 0;
  /// How often the device has been reset: its epoch. Zero for a device that does not exist.
  virtual std::uint32_t device_epoch(int device) noexcept = 0;
  /// Whether a reset of the device has ended that epoch for good: work of it that was in progress
  /// has stopped, and no longer touches memory of the host or of other devices. False for the
  /// present epoch, and for kAnyEpoch.
  virtual bool epoch_ended(int device, std::uint32_t epoch) noexcept = 0;
  /// Begins a new epoch: drops every stream, event and allocation of the device and the work that
  /// waits in its queues, and clears its fault. Blocks until work in progress has stopped. Pinned
  /// host memory keeps its contents, but may no longer be pinned. A machine that cannot clear a
  /// fault (CUDA) returns it and changes nothing. Other threads may go on calling: a call for the
  /// device is done in the old epoch, or in the new one, or ends with the old fault or with
  /// Code::context_is_destroyed. Work of other devices that waits for dropped work, or copies from
  /// or to memory that is gone, faults there. (CUDA does not say what becomes of a wait that is
  /// already enqueued when the other device is reset: it may end as if the work had been done.) A
  /// failed reset changes nothing, except that host functions whose turn came meanwhile are
  /// dropped; one that the user interrupts (Code::interrupted, simulated devices) has begun the
  /// new epoch and no longer waits for what runs, and the next one gives up what it left.
  virtual Status device_reset(int device) noexcept = 0;
  /// What a sensor says now. May block for a tenth of a second the first time. Code::invalid_device
  /// as not_visible() words it; Code::not_supported, naming what is missing, for a sensor that the
  /// machine does not have. Works in a fault, and makes nothing on the device.
  virtual Status device_sensor(int device, Sensor sensor, std::int64_t& out) noexcept = 0;
  /// The processes that use the device, as far as the machine lets this one know. The same rules.
  virtual Status device_processes(int device, GpuProcesses& out) noexcept = 0;

  // ---- Memory
  // ------------------------------------------------------------------------------------

  /// Device memory, aligned to 512 bytes at least, contents undefined. `bytes` must be positive.
  /// Code::out_of_memory is an ordinary answer. May block: CUDA drains some devices, and simulated
  /// ones wait for the end of a device_reset that is about to free memory.
  virtual Status malloc(int device, std::uint32_t epoch, std::size_t bytes,
                        void*& out) noexcept = 0;
  /// Gives back what malloc returned in that epoch; Code::invalid_value for any other pointer.
  /// Blocks until work on the device that may use it is done, as cudaFree does.
  virtual Status free(int device, std::uint32_t epoch, void* pointer) noexcept = 0;
  /// The same in the epoch of the moment, for callers that no reset can meet.
  Status malloc(int device, std::size_t bytes, void*& out) noexcept {
    return malloc(device, device_epoch(device), bytes, out);
  }
  Status free(int device, void* pointer) noexcept {
    return free(device, device_epoch(device), pointer);
  }
  virtual Status memory_info(int device, MemoryInfo& out) noexcept = 0;
  /// Never fails for a pointer that is not a device's: that is Kind::unregistered.
  virtual Status pointer_info(const void* pointer, PointerInfo& out) noexcept = 0;
  /// (optional) How others may reach the device memory that a pointer points to. Does not block.
  /// Code::invalid_value for a pointer to anything else.
  virtual Status memory_sharing(const void* pointer, MemorySharing& out) noexcept;

  /// (optional) A range of device addresses without memory behind it, of the epoch. `unit`: chunks
  /// begin at multiples of it in the range, and have multiples of it; so must `bytes`.
  /// Code::out_of_memory where there are no addresses left.
  virtual Status range_reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& base,
                               std::size_t& unit) noexcept;
  /// (optional) Puts a chunk of memory behind part of a reserved range that has none; its contents
  /// are undefined. The device reaches it, and so does each that has peer access to it, now or
  /// later. Work may use chunks that follow each other as one allocation. Code::out_of_memory if
  /// there is no memory. May block.
  virtual Status range_map(int device, std::uint32_t epoch, void* start,
                           std::size_t bytes) noexcept;
  /// (optional) Gives the memory of a whole chunk back; `start` and `bytes` as range_map had them.
  /// Does not wait: no work may use it any longer.
  virtual Status range_unmap(int device, std::uint32_t epoch, void* start,
                             std::size_t bytes) noexcept;
  /// (optional) Gives the addresses back, which have no memory any more (Code::invalid_value).
  virtual Status range_release(int device, std::uint32_t epoch, void* base) noexcept;

  /// Page-locked host memory that every device can reach. `bytes` must be positive. May block.
  virtual Status pinned_malloc(std::size_t bytes, void*& out) noexcept = 0;
  /// Blocks until copies that may use it are done.
  virtual Status pinned_free(void* pointer) noexcept = 0;
  /// Page-locks memory that the caller owns and keeps alive until host_unregister.
  virtual Status host_register(void* pointer, std::size_t bytes) noexcept = 0;
  /// Blocks until copies that may use it are done.
  virtual Status host_unregister(void* pointer) noexcept = 0;

  // ---- Streams
  // -----------------------------------------------------------------------------------

  virtual Status stream_priorities(int device, PriorityRange& out) noexcept = 0;
  /// A stream without implicit ordering to the default stream. `priority` is clamped to the range.
  virtual Status stream_create(int device, int priority, StreamHandle& out) noexcept = 0;
  /// Work already enqueued is still done. The default stream cannot be destroyed.
  virtual Status stream_destroy(StreamHandle stream) noexcept = 0;
  /// ok when all work enqueued so far is done, not_ready otherwise.
  virtual Status stream_query(StreamHandle stream) noexcept = 0;
  /// Blocks until all work enqueued so far is done; reports a fault.
  virtual Status stream_synchronize(StreamHandle stream) noexcept = 0;

  // ---- Events
  // ------------------------------------------------------------------------------------

  virtual Status event_create(int device, EventOptions options, EventHandle& out) noexcept = 0;
  /// Waits that are already enqueued keep what they wait for.
  virtual Status event_destroy(EventHandle event) noexcept = 0;
  /// The event now stands for all work enqueued on the stream so far; both must be of one device
  /// (Code::invalid_handle otherwise). Recording again does not disturb earlier waits.
  virtual Status event_record(EventHandle event, StreamHandle stream,
                              EventScope scope = EventScope::internal) noexcept = 0;
  /// Later work of the stream (of any device) waits for the record made before this call; nothing
  /// happens if there was none.
  virtual Status event_wait(StreamHandle stream, EventHandle event,
                            EventScope scope = EventScope::internal) noexcept = 0;
  /// ok when never recorded or reached, not_ready otherwise.
  virtual Status event_query(EventHandle event) noexcept = 0;
  /// Blocks until the last record is reached.
  virtual Status event_synchronize(EventHandle event) noexcept = 0;
  /// Milliseconds between two reached records of timed events of one device. not_ready when one is
  /// still pending, invalid_handle when one has no timing, was never recorded or is another
  /// device's.
  virtual Status event_elapsed(EventHandle start, EventHandle end,
                               float& milliseconds) noexcept = 0;

  // ---- Work
  // --------------------------------------------------------------------------------------

  /// Enqueues a kernel. `params` is copied, and the kernel's context owned for as long as Context
  /// says. Allocates nothing on a warm stream. Code::invalid_value for more than Params::kCapacity
  /// bytes.
  virtual Status launch(StreamHandle stream, const Kernel& kernel, const Params& params,
                        PeerMemory peer) noexcept = 0;
  Status launch(StreamHandle stream, const Kernel& kernel, const Params& params) noexcept {
    return launch(stream, kernel, params, {});
  }
  /// What the implementation that this machine would run asks for with these arguments; a failure
  /// if it cannot be launched with them. Enqueues nothing.
  virtual Status launch_needs(const Kernel& kernel, const Params& params,
                              KernelNeeds& out) noexcept = 0;
  /// Enqueues a copy between any two places; the direction follows from the addresses. With
  /// ordinary (not pinned) host memory on one side the call may block until the copy is done; with
  /// pinned memory it does not. Zero bytes do nothing. A copy to or from another device needs no
  /// peer access, and waits for nothing there, not even on default streams.
  virtual Status copy(StreamHandle stream, void* target, const void* source, std::size_t bytes,
                      PeerMemory peer) noexcept = 0;
  Status copy(StreamHandle stream, void* target, const void* source, std::size_t bytes) noexcept {
    return copy(stream, target, source, bytes, {});
  }
  /// Enqueues writing `count` times the lowest `width` bytes (1, 2 or 4) of `pattern`; `target`
  /// must be a multiple of `width`.
  virtual Status fill(StreamHandle stream, void* target, std::uint32_t pattern, unsigned width,
                      std::size_t count) noexcept = 0;
  /// Enqueues a call of a host function, on a thread of the driver's. `destroy(argument)` follows
  /// the call, or stands in its place where the call is dropped (by a fault or a reset); it is made
  /// exactly once if this function succeeds, and not at all if it fails or the process ends before.
  /// (After a fault of CUDA's it is made in the next call that waits for the device or resets it.)
  /// Neither may wait for a device.
  virtual Status host_function(StreamHandle stream, void (*function)(void*), void (*destroy)(void*),
                               void* argument) noexcept = 0;

  /// (optional) The machine's time in nanoseconds, on the clock on which time_next() notes when
  /// work ran: the one of std::chrono::steady_clock, unless a seed decides. It never goes back.
  /// Never fails.
  virtual std::int64_t now() noexcept;
  /// (optional) The next kernel, copy, fill or host function that the calling thread enqueues, on
  /// that stream, notes in `times` when it runs, and owns a share of it from then on; until then it
  /// is the caller's to keep alive. Null takes that back. Where this is not offered
  /// (Code::not_supported; the detail may say what is missing) timed events are used instead.
  virtual Status time_next(StreamHandle stream, WorkTimes* times) noexcept;
  /// (optional) What came of work is noted when this returns, if a wait for its device had shown
  /// before that it is over; what became of other work may be. Code::not_supported, and why, if the
  /// last time_next() was refused. Waits for no device.
  virtual Status times_collect() noexcept;
  /// (optional) Nobody asks for times until the next time_next(): what it costs to take them ends.
  virtual Status times_pause() noexcept;

  // ---- Peers
  // -------------------------------------------------------------------------------------

  /// Whether `device` could access memory of `peer` once allowed. A device is not its own peer.
  virtual Status peer_possible(int device, int peer, bool& out) noexcept = 0;
  /// Lets work on `device` touch memory of `peer`. Repeating it is a success; a device as its own
  /// peer is Code::invalid_device.
  virtual Status peer_enable(int device, int peer) noexcept = 0;
  /// Code::peer_access_not_enabled when there is nothing to take back.
  virtual Status peer_disable(int device, int peer) noexcept = 0;

  // ---- Libraries (optional)
  // -----------------------------------------------------------------------------------

  /// A cublasHandle_t of the calling thread's and of no other, for the stream, with a workspace (if
  /// one is given) and with the bits of GemmArgs::math. It is the same one for a device until its
  /// reset. May block for a second the first time; Code::not_supported where there is no cuBLAS.
  virtual Status blas_handle(StreamHandle stream, std::uint8_t math, void* workspace,
                             std::size_t bytes, void*& out) noexcept;

  // ---- Capture and graphs (optional)
  // -------------------------------------------------------------

  // What a capture holds is noted, with all that a launch takes along (driver/kernel.h), and done
  // by each replay. In a capture
  //
  //  - an event that is recorded stands for what its stream was given before; who waits for it is
  //    of the capture from then on. To wait for an event from outside is
  //    Code::stream_capture_isolation, or Code::stream_capture_merge if another capture recorded
  //    it.
  //  - a stream that is part of it cannot be queried or waited for, nor can events that were
  //    recorded in it, nor its devices; ordinary host memory cannot be copied from or to, and words
  //    not be written or waited for: Code::stream_capture_unsupported, or Code::captured_event.
  //  - memory, streams and events are made, given back and destroyed as ever.
  //
  // Whatever is refused invalidates the capture: what follows is Code::stream_capture_invalidated,
  // until capture_end. The rule for looks and waits on other streams is the calling thread's, see
  // capture_mode_exchange. A reset of the device ends its captures.

  /// From here on work enqueued on the stream is noted and not done.
  /// Code::stream_capture_unsupported for a default stream, Code::illegal_state for a stream that
  /// is part of a capture.
  virtual Status capture_begin(StreamHandle stream, CaptureMode mode) noexcept;
  /// Ends the capture on the stream it began on (Code::stream_capture_unmatched otherwise, which
  /// invalidates it). Other failures leave no capture and no graph behind:
  /// Code::stream_capture_wrong_thread on another thread than it began on, unless it began relaxed,
  /// Code::stream_capture_invalidated, Code::stream_capture_unjoined for a
  /// branch that never joined, Code::illegal_state without a capture.
  virtual Status capture_end(StreamHandle stream, GraphHandle& out) noexcept;
  /// `id` tells captures apart and is never 0; it is set only when the status is `active`.
  virtual Status capture_status(StreamHandle stream, CaptureStatus& out,
                                std::uint64_t& id) noexcept;
  /// The piece of work that the stream, which is part of a capture, was given last, as a number
  /// that no other piece of the capture has; 0 if that cannot be told, as where it waits for work
  /// of several streams.
  virtual Status capture_node(StreamHandle stream, std::uint64_t& node) noexcept;
  /// Changes the calling thread's mode and returns the previous one through `mode`. A thread begins
  /// as `global`: while it has a capture of its own that is not relaxed, or another thread has one
  /// that is global, its looks and waits (queries and synchronizing) are refused and invalidate
  /// those captures. As `thread_local_` only its own count, as `relaxed` none.
  virtual Status capture_mode_exchange(CaptureMode& mode) noexcept;
  /// Kernels, copies, fills and host functions, and on CUDA what libraries have added.
  virtual Status graph_node_count(GraphHandle graph, std::size_t& out) noexcept;
  /// The executable owns what it needs of the graph, which may be destroyed.
  virtual Status graph_instantiate(GraphHandle graph, GraphExecHandle& out) noexcept;
  /// Enqueues one replay, on a stream of the device on which the capture began. Its branches run
  /// beside each other; replays of one executable do not overlap. Code::context_is_destroyed if a
  /// device whose memory it touches was reset since the capture; a replay that is captured is
  /// Code::stream_capture_unsupported on simulated devices.
  virtual Status graph_launch(GraphExecHandle graph, StreamHandle stream) noexcept;
  /// From now on replays of `exec`, which was made ready of `graph`, use other memory in the nodes
  /// that are named (driver/rebinding.h), of the same device, as far as the caller knows fit for
  /// them; the others are left as they are. Replays in progress go on with what they had.
  /// Code::not_supported for work whose addresses cannot be changed. After a failure the executable
  /// is good for being destroyed only.
  virtual Status graph_bind(GraphHandle graph, GraphExecHandle exec,
                            const GraphRebinding& binding) noexcept;
  /// Writes the graph to a file, as text for Graphviz.
  virtual Status graph_describe(GraphHandle graph, const std::string& path) noexcept;
  virtual Status graph_destroy(GraphHandle graph) noexcept;
  /// Replays in progress are still done.
  virtual Status graph_exec_destroy(GraphExecHandle graph) noexcept;

  // ---- Batches (optional)
  // -------------------------------------------------------------------------------------

  /// Until batch_end(), kernels that the calling thread launches may be kept instead of being
  /// enqueued, and are handed over several at once, in their order; on streams that stream_create
  /// made and default ones. Nobody sees a difference but that they start later:
  ///
  ///  - any other call for the device that enqueues, looks, waits, resets, hands out or gives back
  ///    something, from whatever thread, hands over first what is kept for its streams. (A driver
  ///    may hand over less where nothing depends on it.)
  ///  - work that is captured is not kept.
  ///  - what a launch takes along it takes along for as long as it is kept. Where it fails once it
  ///    is handed over, the next call that enters the device says so, once, and names the kernel.
  ///
  /// Calls do not nest. A driver that does not offer it enqueues at once.
  virtual Status batch_begin() noexcept;
  /// Hands over what is kept of the calling thread's, and whatever else the driver likes.
  virtual Status batch_end() noexcept;

  // ---- Between processes (optional)
  // --------------------------------------------------------------

  /// What another process needs to reach the allocation at `pointer`. Code::not_supported where
  /// that cannot be.
  virtual Status ipc_export_memory(void* pointer, IpcExport& out) noexcept;
  /// The memory behind `bytes` from `pointer` on, which lie in chunks; `in_front`: bytes of the
  /// first piece before `pointer`. The files are the caller's to close, each once however often it
  /// is named. The memory lasts as long as a file of it is open or it is mapped somewhere; on
  /// simulated devices its contents are somebody else's once the chunk is given back.
  virtual Status ipc_export_pieces(void* pointer, std::size_t bytes, std::vector<IpcPiece>& out,
                                   std::size_t& in_front) noexcept;
  /// Maps `bytes` of another process's allocation, from `offset` on, as memory of `device`: work,
  /// copies and the device's own rules take it as they take memory from malloc, and nothing beyond
  /// it. `file` is the descriptor that came along, which stays the caller's, or -1. The memory goes
  /// with a reset of the device, and has to be closed all the same. May block.
  virtual Status ipc_open_memory(int device, const IpcHandle& handle, int file, std::size_t offset,
                                 std::size_t bytes, void*& out) noexcept;
  /// The same for memory in pieces, which are all of the sizes that ipc_export_pieces gave; the
  /// files stay the caller's.
  virtual Status ipc_open_pieces(int device, std::span<const IpcPiece> pieces, std::size_t in_front,
                                 std::size_t bytes, void*& out) noexcept;
  /// Closes what these two gave; once for each time. Code::invalid_value for anything else.
  /// What tasks of simulated devices have in hand stays until they are done; on CUDA it blocks
  /// until work that may use the memory is done.
  virtual Status ipc_close_memory(int device, void* pointer) noexcept;
  virtual Status ipc_export_event(EventHandle event, IpcHandle& out) noexcept;
  virtual Status ipc_open_event(int device, const IpcHandle& handle, EventHandle& out) noexcept;

  /// Makes host memory fit for words, and takes that back before the memory goes. Other processes
  /// may have the same memory. Nothing on simulated devices. May block.
  virtual Status words_open(void* memory, std::size_t bytes) noexcept;
  virtual Status words_close(void* memory) noexcept;
  /// Enqueues raising a word, in memory that words_open was given, to `value`, and waking those
  /// that wait for it in any process. It is never lowered. The memory must stay until that is done.
  /// Work that simulated devices drop raises the word to kWordLost.
  virtual Status word_write(StreamHandle stream, Word* word, std::uint64_t value) noexcept;
  /// Later work of the stream waits until a word is at least `value`. A driver whose own threads
  /// look at the word owns `keep` until they no longer do; a device of its own needs the memory,
  /// opened, until the stream has passed. A wait that kWordLost ends is a fault on simulated
  /// devices.
  virtual Status word_wait(StreamHandle stream, Word* word, std::uint64_t value,
                           Ref<const Context> keep) noexcept;

  // ---- Recent launches (optional)
  // ------------------------------------------------------------

  /// From now on the last `count` operations of each stream are kept, 0 to kMostRecentLaunches; 0:
  /// none. `stack` is called by each operation, on its thread and without a lock.
  virtual Status record_launches(int count, StackNumber stack) noexcept;
  /// What is kept of a device's streams, each stream's oldest first, and how far they came. Works
  /// in a fault.
  virtual Status recent_launches(int device, std::vector<RecentLaunch>& out) noexcept;

  // ---- Memory in the order of streams (optional): cudaMallocAsync
  // ------------------------------------------------------------

  /// Memory as malloc gives it, from a pool of the device's, for work that is enqueued on the
  /// stream from now on; and for other work that comes after such. Code::out_of_memory is an
  /// ordinary answer, also where memory_trim would help. Blocks only for the end of a
  /// device_reset, as malloc does.
  virtual Status malloc_async(StreamHandle stream, std::size_t bytes, void*& out) noexcept;
  /// Gives back to the pool what malloc_async returned, once all work is done that was enqueued on
  /// the stream so far, which may be another stream of the device. Code::invalid_value for any
  /// other pointer. free() takes such memory as well, once no work uses it any longer.
  virtual Status free_async(StreamHandle stream, void* pointer) noexcept;
  /// Gives back to the device what the pool keeps and no work uses any longer.
  virtual Status memory_trim(int device, std::uint32_t epoch) noexcept;
};

}  // namespace ember::inline v0::driver
