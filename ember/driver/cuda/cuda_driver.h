// The driver for real GPUs: every function of the seam as calls of the CUDA driver API. Memory,
// streams and work are in files of their own, the machine and its peers in cuda_driver.cpp; what
// one device is lies in device.h.
//
// Nothing here throws, except that running out of host memory while a detail is written ends the
// program, as everywhere in ember.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/driver/cuda/allocations.h"
#include "ember/driver/cuda/device.h"
#include "ember/driver/cuda/graph_nodes.h"
#include "ember/driver/cuda/memory_pools.h"
#include "ember/driver/driver.h"

namespace ember::inline v0::driver::cuda {

class CudaDriver final : public Driver {
 public:
  /// Makes the driver for all visible devices; load_api() must have succeeded. Wakes none of them.
  static Status make(std::unique_ptr<CudaDriver>& out) noexcept;

  const char* name() const noexcept override { return "cuda"; }
  bool simulated() const noexcept override { return false; }
  int device_count() noexcept override { return static_cast<int>(devices_.size()); }
  Status device_properties(int device, DeviceProperties& out) noexcept override;
  bool device_active(int device) noexcept override;
  Status device_activate(int device) noexcept override;
  Status device_synchronize(int device) noexcept override;
  Status device_profile(int device, bool on) noexcept override;
  bool may_wait() noexcept override;
  std::uint32_t device_epoch(int device) noexcept override;
  bool epoch_ended(int device, std::uint32_t epoch) noexcept override;
  Status device_reset(int device) noexcept override;
  Status device_sensor(int device, Sensor sensor, std::int64_t& out) noexcept override;
  Status device_processes(int device, GpuProcesses& out) noexcept override;

  using Driver::free;
  using Driver::malloc;
  Status malloc(int device, std::uint32_t epoch, std::size_t bytes, void*& out) noexcept override;
  Status free(int device, std::uint32_t epoch, void* pointer) noexcept override;
  Status memory_info(int device, MemoryInfo& out) noexcept override;
  Status range_reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& base,
                       std::size_t& unit) noexcept override;
  Status range_map(int device, std::uint32_t epoch, void* start,
                   std::size_t bytes) noexcept override;
  Status range_unmap(int device, std::uint32_t epoch, void* start,
                     std::size_t bytes) noexcept override;
  Status range_release(int device, std::uint32_t epoch, void* base) noexcept override;
  Status pointer_info(const void* pointer, PointerInfo& out) noexcept override;
  Status memory_sharing(const void* pointer, MemorySharing& out) noexcept override;
  Status pinned_malloc(std::size_t bytes, void*& out) noexcept override;
  Status pinned_free(void* pointer) noexcept override;
  Status host_register(void* pointer, std::size_t bytes) noexcept override;
  Status host_unregister(void* pointer) noexcept override;

  Status stream_priorities(int device, PriorityRange& out) noexcept override;
  Status stream_create(int device, int priority, StreamHandle& out) noexcept override;
  Status stream_destroy(StreamHandle stream) noexcept override;
  Status stream_query(StreamHandle stream) noexcept override;
  Status stream_synchronize(StreamHandle stream) noexcept override;

  Status event_create(int device, EventOptions options, EventHandle& out) noexcept override;
  Status event_destroy(EventHandle event) noexcept override;
  Status event_record(EventHandle event, StreamHandle stream, EventScope scope) noexcept override;
  Status event_wait(StreamHandle stream, EventHandle event, EventScope scope) noexcept override;
  Status event_query(EventHandle event) noexcept override;
  Status event_synchronize(EventHandle event) noexcept override;
  Status event_elapsed(EventHandle start, EventHandle end, float& milliseconds) noexcept override;

  Status launch(StreamHandle stream, const Kernel& kernel, const Params& params,
                PeerMemory peer) noexcept override;
  Status launch_needs(const Kernel& kernel, const Params& params,
                      KernelNeeds& out) noexcept override;
  Status copy(StreamHandle stream, void* target, const void* source, std::size_t bytes,
              PeerMemory peer) noexcept override;
  Status fill(StreamHandle stream, void* target, std::uint32_t pattern, unsigned width,
              std::size_t count) noexcept override;
  Status host_function(StreamHandle stream, void (*function)(void*), void (*destroy)(void*),
                       void* argument) noexcept override;

  Status time_next(StreamHandle stream, WorkTimes* times) noexcept override;
  Status times_collect() noexcept override;
  Status times_pause() noexcept override;

  Status peer_possible(int device, int peer, bool& out) noexcept override;
  Status peer_enable(int device, int peer) noexcept override;
  Status peer_disable(int device, int peer) noexcept override;
  Status blas_handle(StreamHandle stream, std::uint8_t math, void* workspace, std::size_t bytes,
                     void*& out) noexcept override;

  Status capture_begin(StreamHandle stream, CaptureMode mode) noexcept override;
  Status capture_end(StreamHandle stream, GraphHandle& out) noexcept override;
  Status capture_status(StreamHandle stream, CaptureStatus& out,
                        std::uint64_t& id) noexcept override;
  Status capture_node(StreamHandle stream, std::uint64_t& node) noexcept override;
  Status capture_mode_exchange(CaptureMode& mode) noexcept override;
  Status graph_node_count(GraphHandle graph, std::size_t& out) noexcept override;
  Status graph_instantiate(GraphHandle graph, GraphExecHandle& out) noexcept override;
  Status graph_launch(GraphExecHandle graph, StreamHandle stream) noexcept override;
  Status graph_bind(GraphHandle graph, GraphExecHandle exec,
                    const GraphRebinding& binding) noexcept override;
  Status graph_describe(GraphHandle graph, const std::string& path) noexcept override;
  Status graph_destroy(GraphHandle graph) noexcept override;
  Status graph_exec_destroy(GraphExecHandle graph) noexcept override;

  Status batch_begin() noexcept override;
  Status batch_end() noexcept override;

  Status ipc_export_memory(void* pointer, IpcExport& out) noexcept override;
  Status ipc_export_pieces(void* pointer, std::size_t bytes, std::vector<IpcPiece>& out,
                           std::size_t& in_front) noexcept override;
  Status ipc_open_pieces(int device, std::span<const IpcPiece> pieces, std::size_t in_front,
                         std::size_t bytes, void*& out) noexcept override;
  Status ipc_open_memory(int device, const IpcHandle& handle, int file, std::size_t offset,
                         std::size_t bytes, void*& out) noexcept override;
  Status ipc_close_memory(int device, void* pointer) noexcept override;
  Status ipc_export_event(EventHandle event, IpcHandle& out) noexcept override;
  Status ipc_open_event(int device, const IpcHandle& handle, EventHandle& out) noexcept override;
  Status words_open(void* memory, std::size_t bytes) noexcept override;
  Status words_close(void* memory) noexcept override;
  Status word_write(StreamHandle stream, Word* word, std::uint64_t value) noexcept override;
  Status word_wait(StreamHandle stream, Word* word, std::uint64_t value,
                   Ref<const Context> keep) noexcept override;
  Status record_launches(int count, StackNumber stack) noexcept override;
  Status recent_launches(int device, std::vector<RecentLaunch>& out) noexcept override;
  Status malloc_async(StreamHandle stream, std::size_t bytes, void*& out) noexcept override;
  Status free_async(StreamHandle stream, void* pointer) noexcept override;
  Status memory_trim(int device, std::uint32_t epoch) noexcept override;

 private:
  /// The nodes of graphs that were given other memory.
  struct BoundGraphs {
    Mutex mutex;
    std::unordered_map<void*, std::unique_ptr<GraphNodes>> all EMBER_GUARDED_BY(mutex);
  };

  /// The device with this number. `argument` is the name under which the caller knows it.
  Status find(int device, Device*& out, const char* argument = "device") noexcept {
    if (!exists(device)) [[unlikely]]
      return refuse_number(device, argument);
    out = devices_[static_cast<std::size_t>(device)].get();
    return {};
  }
  bool exists(int device) const noexcept {
    // One comparison: a negative number is a large unsigned one.
    return static_cast<std::size_t>(device) < devices_.size();
  }
  Status refuse_number(int device, const char* argument) const noexcept;
  /// Admits a call for a graph that is of the device's present epoch.
  template <class Graph>
  Status admit_graph(const Graph& graph, ContextGuard& on) noexcept;
  /// What other libraries know a device by.
  Status find_by_uuid(int device, std::array<std::uint8_t, 16>& out) noexcept;

  /// The first half of a call with a handle or a number: finds its device, passes the gate and
  /// refuses what is from before a reset, or cannot be a handle.
  template <class HandleOrNumber>
  Status admit(const HandleOrNumber& which, ContextGuard& out) noexcept {
    if (admits(which, out)) [[likely]]
      return {};
    return refuse(which, out.admitted());
  }
  // The questions apart from the answers: a Status for each would be half of what they cost.
  bool admits(int number, ContextGuard& out) noexcept {
    return exists(number) && devices_[static_cast<std::size_t>(number)]->admits(out);
  }
  bool admits(StreamHandle stream, ContextGuard& out) noexcept {
    return admits(stream.device, out) && is_of(stream, out->epoch());
  }
  bool admits(EventHandle event, ContextGuard& out) noexcept {
    return event.native != nullptr && admits(event.device, out) && event.epoch == out->epoch();
  }
  /// Whether a stream is of that epoch of its device.
  static bool is_of(StreamHandle stream, std::uint32_t epoch) noexcept {
    return stream.epoch == epoch || (stream.native == nullptr && stream.epoch == kAnyEpoch);
  }
  /// The pool of a device, whose context is current, for memory in the order of streams.
  static Status pool_of(ContextGuard& on, const PoolCalls& calls, CUmemoryPool& out) noexcept;
  /// Why something is refused, though its device admitted the call or not.
  Status refuse(int number, bool admitted) const noexcept;
  Status refuse(StreamHandle stream, bool admitted) const noexcept;
  Status refuse(EventHandle event, bool admitted) const noexcept;
  static Status refuse_old(int device, const char* kind) noexcept;

  /// How most calls with a stream, an event or a device number begin: admitted, not in a fault,
  /// current.
  template <class HandleOrNumber>
  Status enter(const HandleOrNumber& which, ContextGuard& out) noexcept {
    EMBER_TRY(admit(which, out));
    return out->enter(out);
  }

  /// The same for a call that touches memory of a peer, if there is one: passes that one's gate
  /// too, and refuses memory from before a reset of it.
  Status admit_peer(PeerMemory peer, ContextGuard& out) noexcept {
    if (peer.device == -1) [[likely]]
      return {};
    EMBER_TRY(admit(peer.device, out));
    if (peer.epoch == kAnyEpoch || peer.epoch == out->epoch()) return {};
    return refuse_old(peer.device, "memory");
  }

  /// A call that blocks until work is done: wait(guard), which is admitted, does.
  template <class HandleOrNumber, class Wait>
  Status wait_for(const HandleOrNumber& which, const Wait& wait) noexcept {
    Device* on = nullptr;
    EMBER_TRY(find(device_of(which), on));
    const std::uint32_t since = on->epoch();
    Status status;
    {
      ContextGuard guard;
      status = admit(which, guard);
      if (status.ok()) status = wait(guard);
      if (status.ok()) status = on->all_done(since);
    }
    // Here and not in every call: what a host function owns may need locks for its end, and who
    // waits for a device must hold none of those anyway.
    if (!status.ok()) on->host_calls().destroy_dropped();
    return status;
  }
  static int device_of(int number) noexcept { return number; }
  template <class Handle>
  static int device_of(const Handle& handle) noexcept {
    return handle.device;
  }

  /// Keeps a launch of a thread that is in a batch, if it can be.
  Status keep_launch(StreamHandle stream, const Kernel& kernel, const Params& params,
                     PeerMemory peer, bool& kept) noexcept;

  /// For work that needs a context and does not care whose: enters a device that has one, device 0
  /// only if none has.
  Status enter_any(ContextGuard& out) noexcept;
  Device* any_active() noexcept;

  /// Page-locks host memory in the context of a device that was entered, and notes it.
  Status register_with(Device& device, void* pointer, std::size_t bytes,
                       Allocations::Kind kind) noexcept;
  /// Ends that, once no copy uses the memory any more.
  Status unregister(void* pointer, const Allocations::Entry& entry) noexcept;

  std::vector<std::unique_ptr<Device>> devices_;  ///< constant once made
  Allocations allocations_;

  /// Another process's allocation, which CUDA opens once for each process.
  struct Opened {
    int device = 0;
    std::uint32_t epoch = 0;
    IpcHandle handle;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    int users = 0;
  };
  /// The one with that handle, opened now if need be.
  Status open_once(ContextGuard& on, const IpcHandle& handle, Opened*& out) noexcept
      EMBER_REQUIRES(opened_mutex_);

  /// A range of addresses of a device.
  struct Range {
    int device = 0;
    std::size_t bytes = 0;
    std::size_t unit = 0;
  };
  // Held while CUDA maps and sets access: so every chunk has the access of the peers of now.
  Mutex ranges_mutex_;
  std::map<void*, Range> ranges_ EMBER_GUARDED_BY(ranges_mutex_);
  std::atomic<bool> any_range_{false};  // there was one
  /// A range with another process's chunks, by the address that was handed out.
  struct OpenedPieces {
    int device = 0;
    std::uint32_t epoch = 0;
    void* base = nullptr;
  };
  std::map<void*, OpenedPieces> opened_pieces_ EMBER_GUARDED_BY(ranges_mutex_);
  /// False if there is none; else it is closed, as `status` says.
  bool close_pieces(ContextGuard& on, void* pointer, Status& status) noexcept;
  CUresult release_pieces(const OpenedPieces& closed) noexcept;
  /// cuMemcpyAsync; but memory of ranges goes between devices without access by another call.
  CUresult copy_async(void* target, const void* source, std::size_t bytes,
                      CUstream stream) noexcept;
  std::set<std::pair<int, int>> peers_ EMBER_GUARDED_BY(ranges_mutex_);  // (device, peer): enabled
  /// Lets `device` reach all chunks of `peer`, or no longer.
  CUresult set_access(Device& device, int peer, bool allowed) noexcept
      EMBER_REQUIRES(ranges_mutex_);
  CUresult put_chunk(Device& on, CUdeviceptr start, std::size_t bytes) noexcept
      EMBER_REQUIRES(ranges_mutex_);
  CUresult map_chunk(Device& on, CUdeviceptr start, std::size_t bytes,
                     CUmemGenericAllocationHandle chunk) noexcept EMBER_REQUIRES(ranges_mutex_);
  /// After a reset of the device: neither its memory in ranges nor their addresses end with its
  /// context.
  void drop_ranges(int device) noexcept;

  // Held while CUDA opens and closes: of two threads that need the same, one opens it.
  Mutex opened_mutex_;
  std::list<Opened> opened_ EMBER_GUARDED_BY(opened_mutex_);

  BoundGraphs bound_graphs_;

  void destroy_left_events(Device& on) noexcept;
  Mutex left_mutex_;
  std::vector<EventHandle> left_events_ EMBER_GUARDED_BY(left_mutex_);
};

}  // namespace ember::inline v0::driver::cuda
