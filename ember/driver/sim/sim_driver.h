// The simulated driver: the seam on top of the pieces in this folder.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/driver/driver.h"
#include "ember/driver/sim/capture.h"
#include "ember/driver/sim/event.h"
#include "ember/driver/sim/graph.h"
#include "ember/driver/sim/handle_table.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/ordered_memory.h"
#include "ember/driver/sim/seeded_executor.h"
#include "ember/driver/sim/stream.h"

namespace ember::inline v0::driver::sim {

class SimDriver final : public Driver {
 public:
  /// What a seeded run needs, see SeededExecutor.
  struct Run {
    Schedule schedule;
    Faults faults;
    ScheduleFiles files;
    int patience = 0;
  };

  SimDriver(const SimulatedSpec& spec, std::vector<int> visible, Run run);

  const char* name() const noexcept override { return "simulated"; }
  bool simulated() const noexcept override { return true; }
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

  std::int64_t now() noexcept override;
  Status time_next(StreamHandle stream, WorkTimes* times) noexcept override;
  /// A task notes its times before anybody can see that it is over.
  Status times_collect() noexcept override { return {}; }

  Status peer_possible(int device, int peer, bool& out) noexcept override;
  Status peer_enable(int device, int peer) noexcept override;
  Status peer_disable(int device, int peer) noexcept override;

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
  Status word_write(StreamHandle stream, Word* word, std::uint64_t value) noexcept override;
  Status word_wait(StreamHandle stream, Word* word, std::uint64_t value,
                   Ref<const Context> keep) noexcept override;
  Status record_launches(int count, StackNumber stack) noexcept override;
  Status recent_launches(int device, std::vector<RecentLaunch>& out) noexcept override;
  Status malloc_async(StreamHandle stream, std::size_t bytes, void*& out) noexcept override;
  Status free_async(StreamHandle stream, void* pointer) noexcept override;
  Status memory_trim(int device, std::uint32_t epoch) noexcept override;
  Status range_reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& base,
                       std::size_t& unit) noexcept override;
  Status range_map(int device, std::uint32_t epoch, void* start,
                   std::size_t bytes) noexcept override;
  Status range_unmap(int device, std::uint32_t epoch, void* start,
                     std::size_t bytes) noexcept override;
  Status range_release(int device, std::uint32_t epoch, void* base) noexcept override;

  /// See limit_simulated_calls().
  bool limit_calls(double seconds) noexcept;
  /// Whether making it went well; it must not be used otherwise.
  const Status& made() const noexcept { return made_; }
  /// What it was made of: all devices, whatever is visible.
  const SimulatedSpec& spec() const noexcept { return spec_; }
  /// Makes the devices those of a machine that processes share, with what they hold; it must have
  /// as many. Once for each driver: a second call does nothing.
  void share(SharedMachine& machine);
  /// That machine, or null.
  const SharedMachine* shared() const noexcept { return machine_.shared.load(); }

  // See driver/simulation.h.
  Status begin_run(const Schedule& schedule, void (*renew)(std::uint64_t seed)) noexcept;
  /// Null where no seed decides.
  SeededExecutor* seeded() noexcept { return seeded_; }
  /// What is to go wrong, in place of what was asked for or drawn before.
  void set_faults(const Faults& faults) {
    machine_.faults.set(faults);
    faults_asked_ = !faults.empty();
  }
  FaultPlan& faults() noexcept { return machine_.faults; }

  /// Starts no more tasks, and gives running ones a moment: for the end of the process.
  void stop() noexcept;

 private:
  struct DeviceState {
    DeviceState(Machine& machine, int index, int position)
        : ordinal(position), default_stream(machine, index) {}
    const int ordinal;  // among all devices of the machine, before CUDA_VISIBLE_DEVICES
    std::atomic<bool> active{false};
    std::atomic<std::uint32_t> oldest{0};  // the first epoch of which work may be in progress
    Stream default_stream;
    Mutex reset_mutex;                         // held for the length of a reset
    std::atomic<std::thread::id> resetting{};  // who holds it
    Mutex mutex;
    std::vector<Stream*> streams EMBER_GUARDED_BY(mutex);  // all ever made, the default one first
  };

  DeviceState& at(int device) { return *devices_[static_cast<std::size_t>(device)]; }
  Status check_device(int device) const noexcept;
  /// The same, as telemetry words it.
  Status check_visible(int device) const noexcept;
  /// The device exists and is healthy; marks it as used. Code::out_of_memory if other processes
  /// leave no room for a context.
  Status enter(int device) noexcept;
  Status check_calls_end() noexcept;
  Status make_context(int device) noexcept;
  /// The stream of a live handle, whether its device is healthy or not.
  Status find(StreamHandle handle, Stream*& out) noexcept;
  /// The same, and the device is healthy.
  Status enter(StreamHandle handle, Stream*& out) noexcept;
  /// The same for a kernel, copy, fill or host function, which may be asked to fail.
  Status enter(StreamHandle handle, Fault::What call, Stream*& out) noexcept;
  Status find(EventHandle handle, Event*& out) noexcept;
  Status enter(EventHandle handle, Event*& out) noexcept;
  Status find(GraphHandle graph, std::shared_ptr<const CapturedGraph>& out) noexcept;
  Status find(GraphExecHandle graph, std::shared_ptr<GraphExec>& out) noexcept;
  /// Refuses a look or a wait of the host for what is, or must not disturb what is, captured.
  Status refuse_in_capture(const Stream& stream, const char* what);
  Status refuse_in_capture(const Event::Record& record, const char* what);
  /// What work becomes on a stream that is part of a capture. A host function is the capture's
  /// from then on.
  Status capture_work(Stream& stream, Task::Kind kind, const Kernel& kernel, const Params& params,
                      PeerMemory peer = {});
  /// Blocks until everything submitted to the device so far is done; Code::shutting_down when that
  /// will not happen any more. For calls that give something back: the user cannot interrupt it.
  Status drain(int device) noexcept;
  /// Blocks until a point on a stream of a device is reached; then reports the device's fault, or
  /// that the device left that epoch meanwhile, so that the work may have been dropped. The user
  /// may interrupt it.
  Status await(Point point, int device, std::uint32_t epoch) noexcept;
  /// How a wait or a look ends that began in that epoch.
  Status outcome(int device, std::uint32_t epoch) const noexcept;
  /// What a query is answered. Programs poll: no virtual call where threads decide.
  bool query(const Point& point) {
    return seeded_ == nullptr ? point.reached() : seeded_->query(point);
  }
  /// What time_next() was given by the calling thread, once.
  WorkTimes* take_times() noexcept;
  /// Whether a kernel that the calling thread launches is held, as it is in a batch.
  bool holds() const noexcept;
  /// Gives back to the arena what was freed in the order of streams and no work uses any longer.
  void trim_ordered(int device) noexcept;
  /// Its reset_mutex is held.
  Status reset(int device, DeviceState& state) noexcept;
  /// What `allocate` says; if that is out_of_memory, what it says once no reset of the device is on
  /// its way, since that frees what there was before. Neither a worker waits, for which the reset
  /// may wait, nor what a reset calls itself.
  template <class Allocate>
  Status allocate_past_resets(int device, const Allocate& allocate) noexcept {
    Status status = allocate();
    DeviceState& state = at(device);
    if (status.code() != Code::out_of_memory || on_worker() ||
        state.resetting.load(std::memory_order_relaxed) == std::this_thread::get_id())
      return status;
    {
      const UnexpectedWait until_its_end;
      const MutexLock none_on_its_way(state.reset_mutex);
    }
    return allocate();
  }
  void print_unnoticed_faults(const char* what_ends) noexcept;
  std::vector<Stream*> streams_of(int device);
  template <class Handle>
  Status not_found(const char* what, const Handle& handle) noexcept;
  /// What creating a handle ends with.
  template <class Table, class Handle>
  Status keep_unless_reset(const char* what, Table& table, const Handle& made,
                           Handle& out) noexcept;
  /// One end of a copy.
  struct Place {
    PointerInfo::Kind kind{};
    int owner = -1;           // of device memory
    std::uint32_t epoch = 0;  // in which the owner gave it out
  };
  /// Refuses memory of a peer that was reset since.
  Status check_peer(PeerMemory peer) const noexcept;
  /// What work finds at an address that the caller knows as the stream's device's memory, or the
  /// peer's. A device address must lie in an allocation.
  Status classify(const StreamHandle& handle, PeerMemory peer, const char* argument,
                  const void* pointer, std::size_t bytes, Place& out) const;
  /// In which epoch work has to be enqueued that touches these: where memory of the stream's own
  /// device is among them, in that memory's.
  static std::uint32_t epoch_for(const StreamHandle& handle, const Place& a, const Place& b);

  Machine& machine_;
  OrderedMemory ordered_;
  const SimulatedSpec spec_;
  std::atomic<bool> faults_asked_{false};  // by the program or its environment
  SeededExecutor* seeded_ = nullptr;       // the machine's executor, if it is one
  Status made_;                            // what making() answers
  std::string log_file_;                   // EMBER_SIM_LOG
  const pid_t process_;
  std::atomic<std::int64_t> calls_end_{0};  // on the machine's clock; 0: never
  std::atomic<bool> call_refused_{false};
  std::atomic<bool> timed_{false};  // anybody ever asked for times
  std::vector<std::unique_ptr<DeviceState>> devices_;
  HandleTable<Stream> streams_;
  HandleTable<Event> events_;
  Captures captures_;
  Mutex graphs_mutex_;
  std::unordered_map<void*, std::shared_ptr<const CapturedGraph>> graphs_
      EMBER_GUARDED_BY(graphs_mutex_);
  std::unordered_map<void*, std::shared_ptr<GraphExec>> graph_execs_
      EMBER_GUARDED_BY(graphs_mutex_);
};

/// The executor of the process's simulated devices, where a seed decides.
SeededExecutor* seeded_executor() noexcept;
/// Calls `publish`, from which on seeded_executor() may be there, and has host threads look again
/// that wait where no seed decided.
void begin_turns(void (*publish)(SimDriver&), SimDriver& driver);

}  // namespace ember::inline v0::driver::sim
