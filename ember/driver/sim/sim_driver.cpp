// Devices, memory and peers of the simulated driver; streams, events and work are in
// sim_driver_streams.cpp.

#include "ember/driver/sim/sim_driver.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "ember/base/env.h"
#include "ember/driver/open.h"
#include "ember/driver/sim/host_guard.h"
#include "ember/driver/sim/threaded_executor.h"
#include "ember/driver/simulation.h"

namespace ember::inline v0::driver {
namespace {

std::array<std::uint8_t, 16> simulated_uuid(int ordinal) {
  std::array<std::uint8_t, 16> uuid{'e', 'm', 'b', 'e', 'r', '-', 's', 'i', 'm', 'u', 'l', 'a'};
  uuid[15] = static_cast<std::uint8_t>(ordinal);
  return uuid;
}

}  // namespace

std::vector<std::string> simulated_uuids(const SimulatedSpec& spec) {
  std::vector<std::string> uuids;
  for (int i = 0; i < spec.count; ++i) {
    DeviceProperties properties;
    properties.uuid = simulated_uuid(i);
    uuids.push_back("GPU-" + properties.uuid_text());
  }
  return uuids;
}

std::vector<int> visible_simulated(const SimulatedSpec& spec) {
  return visible_devices(visible_text({Choice::Kind::simulated, spec}), simulated_uuids(spec));
}

namespace {

/// Is stopped at exit. Read by threads that take turns before there are devices.
std::atomic<sim::SimDriver*> the_made{nullptr};
sim::SimDriver* made() noexcept { return the_made.load(std::memory_order_acquire); }

/// Devices that are named must exist: a fault that cannot happen is a mistake.
Status check_devices(const Faults& faults, int count) {
  for (const Fault& fault : faults)
    if (fault.device >= count || fault.peer >= count)
      return Status(Code::invalid_value,
                    "EMBER_SIM_FAULTS='" + faults_text(faults) + "': '" + faults_text({fault}) +
                        "' names a device that does not exist; there are " + std::to_string(count));
  return {};
}

}  // namespace

int count_simulated(const SimulatedSpec& spec) {
  return static_cast<int>(visible_simulated(spec).size());
}

Status make_simulated(const SimulatedSpec& spec, const std::optional<Schedule>& schedule,
                      std::unique_ptr<Driver>& out) {
  sim::SimDriver::Run run;
  if (schedule) {
    run.schedule = *schedule;
  } else {
    EMBER_TRY(parse_schedule(env::get("EMBER_SIM_SCHEDULE"), run.schedule));
  }
  EMBER_TRY(parse_patience(env::get("EMBER_SIM_PATIENCE"), run.patience));
  EMBER_TRY(parse_faults(env::get("EMBER_SIM_FAULTS"), run.faults));
  EMBER_TRY(check_devices(run.faults, count_simulated(spec)));
  EMBER_TRY(sim::open_files(run.schedule, run.files));
  sim::SharedMachine* shared = nullptr;
  if (SimulatedSpec place = spec; !spec.machine.empty())
    EMBER_TRY(sim::join_machine(place, shared));
  auto driver = std::make_unique<sim::SimDriver>(spec, visible_simulated(spec), std::move(run));
  EMBER_TRY(driver->made());
  if (shared != nullptr) driver->share(*shared);
  // Work in flight must not run into the destruction of the program's static objects.
  if (made() == nullptr) std::atexit([] { made()->stop(); });
  sim::begin_turns([](sim::SimDriver& now) { the_made.store(&now, std::memory_order_release); },
                   *driver);
  out = std::move(driver);
  return {};
}

Status begin_simulated_run(const Schedule& schedule, void (*renew)(std::uint64_t seed)) {
  if (made() == nullptr) return Status(Code::not_supported, "there are no simulated devices");
  return made()->begin_run(schedule, renew);
}

Schedule simulated_schedule() {
  sim::SeededExecutor* seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->schedule() : Schedule();
}

Status set_simulated_faults(const Faults& faults) {
  if (made() == nullptr) return Status(Code::not_supported, "there are no simulated devices");
  EMBER_TRY(check_devices(faults, made()->device_count()));
  made()->set_faults(faults);
  return {};
}

std::uint64_t simulated_faults_happened() {
  return made() != nullptr ? made()->faults().happened() : 0;
}

void guard_host_memory() { sim::host_guard::enable(); }
std::uint64_t guarded_accesses() noexcept { return sim::host_guard::reported(); }

std::string simulated_log() {
  sim::SeededExecutor* seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->log() : std::string();
}

std::string simulated_replay_line() {
  sim::SeededExecutor* seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->replay_line() : std::string();
}

Progress simulated_progress() {
  sim::SeededExecutor* seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->progress() : Progress();
}

std::uint64_t simulated_points() {
  sim::SeededExecutor* seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->points() : 0;
}

bool limit_simulated_calls(double seconds) {
  return made() != nullptr && made()->limit_calls(seconds);
}

bool may_share(const Driver& driver, const SimulatedSpec& spec) noexcept {
  if (&driver != made()) return false;
  const SimulatedSpec& its = made()->spec();
  const sim::SharedMachine* shared = made()->shared();
  return its.count == spec.count && its.memory_bytes == spec.memory_bytes &&
         (shared == nullptr || shared->path() == sim::record_path(spec.folder, spec.machine));
}

Status share_simulated(SimulatedSpec& spec, Driver* driver) {
  sim::SimDriver* own = driver == made() ? made() : nullptr;
  const sim::SharedMachine* shared = own != nullptr ? own->shared() : nullptr;
  if (shared == nullptr) {
    if (own != nullptr) {  // what it has, whatever the environment says by now
      spec.count = own->spec().count;
      spec.memory_bytes = own->spec().memory_bytes;
    }
    sim::SharedMachine* joined = nullptr;
    EMBER_TRY(sim::join_machine(spec, joined));
    if (own != nullptr) own->share(*joined);
    shared = joined;
  }
  spec = shared->spec();
  // Such as by what cleans up /tmp: who came now would live on another machine of that name.
  if (!shared->file().still_there())
    return Status(Code::not_permitted, "simulated machine '" + spec.machine + "': its record " +
                                           shared->path() +
                                           " was removed, so no other process can join it");
  return {};
}

Status find_simulated(SimulatedSpec& spec) {
  Status status = sim::look_at(spec, [&](const sim::RecordFile& file) {
    spec.count = file.spec().count;
    spec.memory_bytes = file.spec().memory_bytes;
  });
  if (status.code() != Code::not_ready) return status;
  return Status(Code::invalid_value, "EMBER_SIM_MACHINE='" + spec.machine +
                                         "': there is no such machine yet; EMBER_DEVICES='sim:N' "
                                         "or 'sim:N@SIZE' makes one");
}

void leave_simulated() { sim::leave_machines(); }

namespace sim {

SeededExecutor* seeded_executor() noexcept {
  return made() != nullptr ? made()->seeded() : nullptr;
}

SimDriver::SimDriver(const SimulatedSpec& spec, std::vector<int> visible, Run run)
    // Never destroyed: workers use it until the process ends.
    : machine_(*new Machine(static_cast<int>(visible.size()),
                            static_cast<std::size_t>(spec.memory_bytes))),
      spec_(spec),
      process_(getpid()) {
  if (run.files.swarm && run.faults.empty()) {
    machine_.faults.set(run.files.faults);
  } else {
    set_faults(run.faults);
    run.files.faults = run.faults;
  }
  if (run.schedule.seeded()) {
    const bool drawn = run.files.swarm.has_value();
    auto made = std::make_unique<SeededExecutor>(machine_, run.schedule, std::move(run.files),
                                                 run.patience);
    seeded_ = made.get();
    if (drawn) std::fprintf(stderr, "ember: the run is %s\n", seeded_->replay_line().c_str());
    machine_.executor = std::move(made);
    log_file_ = env::get("EMBER_SIM_LOG").value_or("");
    made_ = machine_.arena.follow_runs(seeded_->schedule().seed);
  } else {
    machine_.executor =
        std::make_unique<ThreadedExecutor>(machine_, static_cast<int>(visible.size()));
  }
  for (std::size_t i = 0; i < visible.size(); ++i) {
    devices_.push_back(std::make_unique<DeviceState>(machine_, static_cast<int>(i), visible[i]));
    DeviceState& device = *devices_.back();
    const MutexLock lock(device.mutex);
    device.streams.push_back(&device.default_stream);
  }
}

void SimDriver::stop() noexcept {
  if (getpid() != process_) return;  // a forked child has no workers to wait for
  machine_.exit.stop();
  // A kernel that never ends is cut off, as it is when a process with a GPU exits.
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(200);
  while (machine_.running.load() > 0 && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (seeded_ != nullptr && !log_file_.empty()) {
    if (const Status status = write_log(log_file_, seeded_->log()); !status.ok())
      std::fprintf(stderr, "ember: %s\n", status.detail().c_str());
  }
  if (const std::size_t left = seeded_ != nullptr ? seeded_->left() : 0; left != 0)
    std::fprintf(stderr, "ember: the process ends %zu decisions before what it replays did\n",
                 left);
  if (const std::size_t passed = seeded_ != nullptr ? seeded_->progress().unfollowed : 0;
      passed != 0)
    std::fprintf(stderr, "ember: %zu steps of %s were not ready when it was their turn\n", passed,
                 seeded_->replay_line().c_str());
  print_unnoticed_faults("the process");
}

// A program that waits for nothing would end as if all was well; a GPU's assertion prints, too.
void SimDriver::print_unnoticed_faults(const char* what_ends) noexcept {
  for (int i = 0; i < device_count(); ++i)
    if (const Status fault = machine_.health_of(i).unnoticed_fault(); !fault.ok())
      std::fprintf(stderr, "ember: %s ends without having seen this fault of cuda:%d: %s\n",
                   what_ends, i, fault.text().c_str());
}

Status SimDriver::begin_run(const Schedule& schedule, void (*renew)(std::uint64_t seed)) noexcept {
  EMBER_TRY(refuse_on_worker("beginning a run"));
  if (seeded_ == nullptr || !schedule.seeded())
    return Status(
        Code::not_permitted,
        (seeded_ == nullptr && !schedule.seeded()
             ? "runs begin with a seed, and no seed decides where the devices were made with "
               "'threads'"
             : "a run of schedule '" + schedule_text(schedule) +
                   "' was asked for, and the devices were made with '" +
                   schedule_text(seeded_ != nullptr ? seeded_->schedule() : Schedule()) +
                   "': threads and seeds cannot follow each other in a process") +
            (seeded_ == nullptr ? ". Choose a schedule that a seed decides before the first use "
                                  "of a device: sim.schedule(\"random:1\"), or "
                                  "EMBER_SIM_SCHEDULE=random:1"
                                : ""));
  Schedule next = schedule;
  ScheduleFiles files;
  EMBER_TRY(open_files(next, files));
  if (faults_asked_) files.faults.clear();
  for (int device = 0; device < device_count(); ++device) EMBER_TRY(drain(device));
  print_unnoticed_faults("the run");
  if (captures_.any()) return Status(Code::stream_capture_unsupported, "beginning a run");
  for (int device = 0; device < device_count(); ++device) {
    machine_.health_of(device).begin_run();
    for (Stream* stream : streams_of(device)) stream->timeline().forget_dropped();
  }
  {
    const MutexLock lock(machine_.peers_mutex);
    for (Machine::Peers& peers : machine_.peers)
      for (std::atomic<bool>& allowed : peers.allowed) allowed = false;
  }
  for (int device = 0; device < device_count(); ++device) trim_ordered(device);
  machine_.arena.begin_run(next.seed);
  renew(next.seed);
  streams_.renew();
  events_.renew();
  // What the last run drew is forgotten, too.
  if (!faults_asked_) machine_.faults.set(files.faults);
  seeded_->begin_run(next, std::move(files));
  return {};
}

Status SimDriver::check_device(int device) const noexcept {
  if (device >= 0 && static_cast<std::size_t>(device) < devices_.size()) return {};
  return Status(Code::invalid_device, "device " + std::to_string(device) +
                                          " was asked for, expected 0 to " +
                                          std::to_string(devices_.size() - 1));
}

Status SimDriver::enter(int device) noexcept {
  EMBER_TRY(check_device(device));
  if (!at(device).active.load(std::memory_order_relaxed)) EMBER_TRY(make_context(device));
  if (calls_end_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    EMBER_TRY(check_calls_end());
  return machine_.health_of(device).fault();
}

Status SimDriver::check_calls_end() noexcept {
  const std::int64_t end = calls_end_.load(std::memory_order_relaxed);
  if (end == 0 || on_worker() || clock_time(Executor::Clock::now()) < end) return {};
  call_refused_ = true;
  return Status(Code::not_permitted, "the program had not ended when its time was over");
}

bool SimDriver::limit_calls(double seconds) noexcept {
  // 2^62 ns are 146 years.
  const double most = 4.6e9;
  calls_end_ = seconds > 0 ? clock_time(Executor::Clock::now()) +
                                 static_cast<std::int64_t>(std::min(seconds, most) * 1e9)
                           : 0;
  return call_refused_.exchange(false);
}

Status SimDriver::make_context(int device) noexcept {
  const MutexLock lock(machine_.peers_mutex);
  if (Status status = machine_.arena.make_context(device); !status.ok())
    return Status(status.code(), "cuda:" + std::to_string(device) +
                                     " has no room for the context " +
                                     "of this process: " + status.detail());
  at(device).active = true;
  return {};
}

void SimDriver::share(SharedMachine& machine) {
  const MutexLock lock(machine_.peers_mutex);
  if (machine_.shared.load() != nullptr) return;
  for (int device = 0; device < device_count(); ++device) {
    const int ordinal = at(device).ordinal;
    machine_.arena.share(device, machine, ordinal);
    RecordMeters& meters = machine.meters(ordinal);
    machine_.activity_of(device).busy.move_to(meters.busy);
    machine_.activity_of(device).memory.move_to(meters.memory);
  }
  machine_.shared.store(&machine);
}

Status SimDriver::device_properties(int device, DeviceProperties& out) noexcept {
  EMBER_TRY(check_device(device));
  // The shape of a Hopper GPU, so that code which sizes its work by the device does the same here.
  DeviceProperties properties;
  properties.name = "Simulated GPU";
  properties.simulated = true;
  properties.major = 9;
  properties.minor = 0;
  properties.multi_processor_count = 132;
  properties.total_memory = static_cast<std::size_t>(spec_.memory_bytes);
  properties.max_threads_per_multi_processor = 2048;
  properties.max_threads_per_block = 1024;
  properties.regs_per_multiprocessor = 65536;
  properties.warp_size = 32;
  properties.L2_cache_size = std::size_t{60} << 20;
  properties.shared_memory_per_block = std::size_t{48} << 10;
  properties.shared_memory_per_block_optin = std::size_t{227} << 10;
  properties.shared_memory_per_multiprocessor = std::size_t{228} << 10;
  properties.clock_rate = 1'000'000;  // so that `sleep` counts nanoseconds
  properties.pci_bus_id = at(device).ordinal + 1;
  properties.uuid = simulated_uuid(at(device).ordinal);
  out = std::move(properties);
  return {};
}

bool SimDriver::device_active(int device) noexcept {
  return check_device(device).ok() && at(device).active;
}

Status SimDriver::device_activate(int device) noexcept { return enter(device); }
// No profiler knows of these devices.
Status SimDriver::device_profile(int device, bool /*on*/) noexcept { return enter(device); }

std::vector<Stream*> SimDriver::streams_of(int device) {
  DeviceState& state = at(device);
  std::vector<Stream*> streams;
  {
    const MutexLock lock(state.mutex);
    streams = state.streams;
  }
  // Those that are waited for one after the other are, in each run, in the same order.
  if (seeded_ != nullptr) seeded_->sort(streams);
  return streams;
}

Status SimDriver::drain(int device) noexcept {
  for (Stream* stream : streams_of(device)) {
    const Point tail = stream->tail();
    if (machine_.executor->wait(tail) != Timeline::Waited::reached) return Code::shutting_down;
  }
  return {};
}

Status SimDriver::outcome(int device, std::uint32_t epoch) const noexcept {
  Status fault = machine_.health_of(device).fault();
  if (machine_.health_of(device).epoch() == epoch) return fault;
  return Status(Code::context_is_destroyed, "cuda:" + std::to_string(device) +
                                                " was reset, and its work perhaps dropped, before "
                                                "it was seen to be done");
}

Status SimDriver::await(Point point, int device, std::uint32_t epoch) noexcept {
  if (point.timeline != nullptr) {
    const Timeline::Waited waited = machine_.executor->wait_interruptibly(point);
    if (waited == Timeline::Waited::interrupted)
      return Status(Code::interrupted, "a wait for cuda:" + std::to_string(device));
    if (waited != Timeline::Waited::reached) return Code::shutting_down;
  }
  return outcome(device, epoch);
}

Status SimDriver::device_synchronize(int device) noexcept {
  EMBER_TRY(check_device(device));
  EMBER_TRY(refuse_on_worker("synchronizing a device"));
  EMBER_TRY(check_calls_end());
  EMBER_TRY(captures_.refuse(device, "synchronizing a device"));
  EMBER_TRY(captures_.refuse_unsafe("synchronizing a device"));
  const std::uint32_t epoch = device_epoch(device);
  std::vector<Point> tails;
  for (Stream* stream : streams_of(device)) tails.push_back(stream->tail());
  for (const Point& tail : tails) {
    Status status = await(tail, device, epoch);
    if (status.code() == Code::interrupted || status.code() == Code::shutting_down) return status;
  }
  return outcome(device, epoch);
}

bool SimDriver::may_wait() noexcept { return !on_worker(); }

std::uint32_t SimDriver::device_epoch(int device) noexcept {
  return check_device(device).ok() ? machine_.health_of(device).epoch() : 0;
}

bool SimDriver::epoch_ended(int device, std::uint32_t epoch) noexcept {
  return check_device(device).ok() && epoch < at(device).oldest.load(std::memory_order_acquire);
}

Status SimDriver::device_reset(int device) noexcept {
  EMBER_TRY(check_device(device));
  EMBER_TRY(refuse_on_worker("resetting a device"));
  if (machine_.faults.lost(device)) return machine_.health_of(device).fault();
  DeviceState& state = at(device);
  const MutexLock one_at_a_time(state.reset_mutex);
  state.resetting.store(std::this_thread::get_id(), std::memory_order_relaxed);
  Status status = reset(device, state);
  state.resetting.store({}, std::memory_order_relaxed);
  return status;
}

Status SimDriver::reset(int device, DeviceState& state) noexcept {
  std::uint32_t epoch = 0;
  {
    // Access that is granted from here on is the new epoch's.
    const MutexLock lock(machine_.peers_mutex);
    epoch = machine_.health_of(device).begin_epoch();
    for (std::size_t other = 0; other < devices_.size(); ++other) {
      machine_.peers[static_cast<std::size_t>(device)].allowed[other] = false;
      machine_.peers[other].allowed[device] = false;
    }
    state.active = false;
    machine_.arena.end_context(device);
  }
  machine_.arena.begin_epoch(device, epoch);
  ordered_.begin_epoch(device, epoch);
  // Work of the new epoch may be queued behind these tails already. What waits for other streams
  // gives up.
  std::vector<Point> tails;
  for (Stream* stream : streams_of(device)) tails.push_back(stream->settled_tail());
  for (Stream* stream : streams_of(device)) captures_.forget(*stream);
  for (int other = 0; other < device_count(); ++other)
    for (Stream* stream : streams_of(other)) machine_.executor->epoch_began(*stream);
  for (const Point& tail : tails) {
    const Timeline::Waited waited = machine_.executor->wait_interruptibly(tail);
    // What the epochs before this one have left goes with the next reset.
    if (waited == Timeline::Waited::interrupted)
      return Status(Code::interrupted, "a reset of cuda:" + std::to_string(device));
    if (waited != Timeline::Waited::reached) return Code::shutting_down;
  }
  state.oldest.store(epoch, std::memory_order_release);
  const auto end_lives = [&](auto& table) {
    std::vector<void*> natives;
    table.for_each([&](void* native, auto& object) {
      if (object.device() == device && object.epoch() != epoch) natives.push_back(native);
    });
    for (void* native : natives) table.release(native);
  };
  end_lives(streams_);
  end_lives(events_);
  machine_.arena.clear_earlier_epochs(device);
  return {};
}

Status SimDriver::malloc(int device, std::uint32_t epoch, std::size_t bytes, void*& out) noexcept {
  EMBER_TRY(enter(device));
  if (bytes == 0) return Status(Code::invalid_value, "malloc of 0 bytes, expected a positive size");
  EMBER_TRY(machine_.faults.next(Fault::What::alloc));
  return allocate_past_resets(device,
                              [&] { return machine_.arena.allocate(device, epoch, bytes, out); });
}

Status SimDriver::free(int device, std::uint32_t epoch, void* pointer) noexcept {
  EMBER_TRY(check_device(device));
  EMBER_TRY(machine_.arena.check_free(device, epoch, pointer));
  if (ordered_.has(pointer, epoch))
    return Status(Code::invalid_value, "the memory was freed on a stream already");
  EMBER_TRY(refuse_on_worker("freeing device memory"));
  (void)drain(device);  // when exiting, nothing runs any more
  return machine_.arena.free(device, epoch, pointer);
}

Status SimDriver::malloc_async(StreamHandle handle, std::size_t bytes, void*& out) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (bytes == 0)
    return Status(Code::invalid_value, "malloc_async of 0 bytes, expected a positive size");
  EMBER_TRY(machine_.faults.next(Fault::What::alloc));
  const std::uint32_t epoch =
      handle.epoch != kAnyEpoch ? handle.epoch : device_epoch(handle.device);
  Point freed;
  if (void* const pointer =
          ordered_.take(handle.device, epoch, bytes, stream->timeline(), &freed)) {
    if (freed.timeline != &stream->timeline()) stream->follow(freed);
    out = pointer;
    return {};
  }
  Status status = machine_.arena.allocate(handle.device, epoch, bytes, out);
  if (status.code() != Code::out_of_memory) return status;
  trim_ordered(handle.device);
  return allocate_past_resets(
      handle.device, [&] { return machine_.arena.allocate(handle.device, epoch, bytes, out); });
}

Status SimDriver::free_async(StreamHandle handle, void* pointer) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, stream));
  const Point tail = stream->tail();
  const std::uint32_t epoch = handle.epoch != kAnyEpoch ? handle.epoch : tail.epoch;
  EMBER_TRY(machine_.arena.check_free(handle.device, epoch, pointer));
  PointerInfo info;
  (void)machine_.arena.find(pointer, info);
  if (ordered_.put({handle.device, epoch, info.bytes, pointer, tail})) return {};
  return Status(Code::invalid_value, "the memory was freed on a stream already");
}

Status SimDriver::memory_trim(int device, std::uint32_t epoch) noexcept {
  EMBER_TRY(check_device(device));
  if (epoch != device_epoch(device)) return Code::context_is_destroyed;
  trim_ordered(device);
  return {};
}

// What a reset takes meanwhile is found to be gone.
void SimDriver::trim_ordered(int device) noexcept {
  for (const OrderedMemory::Piece& piece : ordered_.take_unused(device)) {
    piece.freed.see();
    (void)machine_.arena.free(device, piece.epoch, piece.pointer);
  }
}

Status SimDriver::range_reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& base,
                                std::size_t& unit) noexcept {
  EMBER_TRY(enter(device));
  EMBER_TRY(machine_.arena.reserve(device, epoch, bytes, base));
  unit = Arena::kUnit;
  return {};
}

Status SimDriver::range_map(int device, std::uint32_t epoch, void* start,
                            std::size_t bytes) noexcept {
  EMBER_TRY(enter(device));
  EMBER_TRY(machine_.faults.next(Fault::What::alloc));
  return allocate_past_resets(device,
                              [&] { return machine_.arena.map(device, epoch, start, bytes); });
}

Status SimDriver::range_unmap(int device, std::uint32_t epoch, void* start,
                              std::size_t bytes) noexcept {
  EMBER_TRY(check_device(device));
  return machine_.arena.unmap(device, epoch, start, bytes);
}

Status SimDriver::range_release(int device, std::uint32_t epoch, void* base) noexcept {
  EMBER_TRY(check_device(device));
  return machine_.arena.release_range(device, epoch, base);
}

Status SimDriver::memory_info(int device, MemoryInfo& out) noexcept {
  EMBER_TRY(enter(device));
  out = machine_.arena.info(device);
  return {};
}

Status SimDriver::pointer_info(const void* pointer, PointerInfo& out) noexcept {
  PointerInfo info;
  if (!machine_.arena.find(pointer, info)) (void)machine_.pinned.find(pointer, info);
  out = info;
  return {};
}

Status SimDriver::pinned_malloc(std::size_t bytes, void*& out) noexcept {
  if (bytes == 0)
    return Status(Code::invalid_value, "pinned_malloc of 0 bytes, expected a positive size");
  EMBER_TRY(machine_.faults.next(Fault::What::pinned));
  return machine_.pinned.allocate(bytes, out);
}

Status SimDriver::pinned_free(void* pointer) noexcept {
  EMBER_TRY(refuse_on_worker("freeing pinned memory"));
  if (PointerInfo info; machine_.pinned.find(pointer, info))
    for (int i = 0; i < device_count(); ++i) (void)drain(i);
  return machine_.pinned.free(pointer);
}

Status SimDriver::host_register(void* pointer, std::size_t bytes) noexcept {
  if (machine_.arena.owner(pointer) >= 0)
    return Status(Code::invalid_value, "registering memory of a device: expected host memory");
  return machine_.pinned.add(pointer, bytes);
}

Status SimDriver::host_unregister(void* pointer) noexcept {
  EMBER_TRY(refuse_on_worker("unregistering host memory"));
  if (PointerInfo info; machine_.pinned.find(pointer, info))
    for (int i = 0; i < device_count(); ++i) (void)drain(i);
  return machine_.pinned.remove(pointer);
}

Status SimDriver::peer_possible(int device, int peer, bool& out) noexcept {
  EMBER_TRY(check_device(device));
  EMBER_TRY(check_device(peer));
  out = device != peer;
  return {};
}

Status SimDriver::peer_enable(int device, int peer) noexcept {
  EMBER_TRY(enter(device));
  EMBER_TRY(enter(peer));
  if (device == peer)
    return Status(Code::invalid_device,
                  "device " + std::to_string(device) + " is not a peer of its own");
  const MutexLock lock(machine_.peers_mutex);
  machine_.peers[static_cast<std::size_t>(device)].allowed[peer] = true;
  return {};
}

Status SimDriver::peer_disable(int device, int peer) noexcept {
  EMBER_TRY(enter(device));
  EMBER_TRY(check_device(peer));
  if (!machine_.peers[static_cast<std::size_t>(device)].allowed[peer].exchange(false))
    return Status(
        Code::peer_access_not_enabled,
        "device " + std::to_string(device) + " has no access to device " + std::to_string(peer));
  return {};
}

}  // namespace sim
}  // namespace ember::inline v0::driver
