// What ember's calls cost the host: current devices and streams, events, launches, memory. On real
// GPUs each stands beside the same calls asked of CUDA directly, measured in turns with it.
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/buffers.h"
#include "bench/program.h"
#include "bench/raw.h"
#include "bench/rows.h"
#include "ember/memory/memory.h"
#include "ember/nvtx/nvtx.h"
#include "ember/runtime/device.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/stream.h"
#include "ember/runtime/work.h"

namespace ember::bench {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = kKiB * kKiB;

/// What the rows need, on device 0.
struct Bench {
  Program& program;
  Raw* raw;  // null on simulated devices
  cuda::Stream stream{0};
  cuda::Stream second{0};

  void add(Row row) const { program.table().add(row); }
  static void drain() { cuda::synchronize(0); }

  /// A row in microseconds per call: ours, and the raw call in turns with it.
  template <class Ours, class RawCall>
  void compare(Row row, const Bursts& bursts, const Ours& ours, const RawCall& raw_call) const {
    const Bursts used = program.bursts(bursts);
    row.unit = "us";
    if (raw != nullptr) {
      const auto times = burst_medians(used, &Bench::drain, ours, [&] { raw_call(*raw); });
      row.ours = times[0];
      row.raw = times[1];
    } else {
      row.ours = burst_medians(used, &Bench::drain, ours)[0];
    }
    add(row);
  }

  /// The same where the raw call is so slow that it needs bursts of its own.
  template <class Ours, class RawCall>
  void contrast(Row row, const Ours& ours, const RawCall& raw_call) const {
    row.unit = "us";
    row.ours = burst_medians(program.bursts(kHostCalls), &Bench::drain, ours)[0];
    if (raw != nullptr)
      row.raw =
          burst_medians(program.bursts(kSlowCalls), &Bench::drain, [&] { raw_call(*raw); })[0];
    add(row);
  }

  template <class Ours>
  void alone(Row row, const Bursts& bursts, const Ours& ours) const {
    row.unit = "us";
    row.ours = burst_medians(program.bursts(bursts), &Bench::drain, ours)[0];
    add(row);
  }
};

/// A row without figures yet.
Row row(const char* group, const std::string& name, const char* goal = "") {
  Row made;
  made.group = group;
  made.name = name;
  made.goal = goal;
  return made;
}

// ---- Current devices and streams

void current(const Bench& bench) {
  const char* group = "Current device and streams";
  bench.alone(row(group, rows::kCurrentStream), kHostCalls,
              [] { const cuda::Stream stream = cuda::current_stream(); });
  bench.alone(row(group, rows::kStreamGuard, "<= 0.03"), kHostCalls,
              [&] { const cuda::StreamGuard guard(bench.stream); });
  bench.compare(
      row(group, rows::kDeviceGuard, "<= 0.03"), kHostCalls,
      [] { const cuda::DeviceGuard guard(0); }, [](Raw& raw) { raw.device(0); });
  if (bench.program.devices() > 1)
    bench.compare(
        row(group, rows::kOtherDeviceGuard), kDeviceCalls, [] { const cuda::DeviceGuard guard(1); },
        [](Raw& raw) { raw.device(1); });
  bench.alone(row(group, rows::kRangePush, "<= 0.04"), kHostCalls, [] {
    cuda::nvtx::range_push("a range that nobody sees");
    cuda::nvtx::range_pop();
  });
  bench.contrast(
      row(group, rows::kNewStream), [] { const cuda::Stream stream(0); },
      [](Raw& raw) { raw.new_stream(); });
}

// ---- Events

void events(const Bench& bench) {
  const char* group = "Events";
  cuda::Event event;
  event.record(bench.stream);
  Bench::drain();
  bench.compare(
      row(group, rows::kEventRecord, "<= 1.08 x raw"), kDeviceCalls,
      [&] { event.record(bench.stream); }, [](Raw& raw) { raw.event_record(); });
  bench.compare(
      row(group, rows::kEventQuery), kDeviceCalls, [&] { (void)event.query(); },
      [](Raw& raw) { raw.event_query(); });
  bench.compare(
      row(group, rows::kEventWait), kDeviceCalls, [&] { event.wait(bench.second); },
      [](Raw& raw) { raw.event_wait(); });
  bench.compare(
      row(group, rows::kNewEvent), kDeviceCalls,
      [&] {
        cuda::Event fresh;
        fresh.record(bench.stream);
      },
      [](Raw& raw) { raw.new_event(); });
}

// ---- Work

void work(const Bench& bench) {
  const char* group = "Work";
  const bool simulated = bench.program.simulated();
  bench.compare(
      row(group, rows::kLaunch, simulated ? "<= 0.2" : "<= 1.08 x raw"), kDeviceCalls,
      [&] { cuda::launch(bench.stream, empty_kernel, EmptyArgs{}); },
      [](Raw& raw) { raw.launch(); });
  bench.compare(
      row(group, rows::kUserLaunch), kDeviceCalls,
      [&] { cuda::launch(bench.stream, user_kernel, EmptyArgs{}); },
      [](Raw& raw) { raw.launch_user(); });
  const DeviceBytes target(0, 4 * kKiB);
  const DeviceBytes source(0, 4 * kKiB);
  bench.compare(
      row(group, rows::kFill), kDeviceCalls,
      [&] { cuda::fill_async(target.get(), 0, 4 * kKiB, bench.stream); },
      [&](Raw& raw) { raw.fill(target.get(), 4 * kKiB); });
  bench.compare(
      row(group, rows::kSmallCopy), kDeviceCalls,
      [&] { cuda::copy_async(target.get(), source.get(), 4 * kKiB, bench.stream); },
      [&](Raw& raw) { raw.copy(target.get(), source.get(), 4 * kKiB); });
}

/// What ember's launches have beside the least that a raw one needs, and what that costs a raw one.
void launch_parts(const Bench& bench) {
  if (bench.raw == nullptr) return;
  const struct {
    const char* name;
    RawLaunch with;
  } parts[] = {{rows::kLaunchAnyDevice, RawLaunch::any_device},
               {rows::kLaunchDefault, RawLaunch::default_stream},
               {rows::kLaunchParameters, RawLaunch::parameters}};
  for (const auto& part : parts) {
    // The least in turns with it, for machines that are not equally fast all the time.
    const auto times = burst_medians(
        bench.program.bursts(kDeviceCalls), &Bench::drain, [&] { bench.raw->launch(part.with); },
        [&] { bench.raw->launch(); });
    Row made = row("Raw launches, beside the least one", part.name);
    made.unit = "us";
    made.ours = times[0];
    made.raw = times[1];
    bench.add(made);
  }
}

/// A thread that sleeps until it is asked something, and answers: what the host takes for what a
/// simulated device does.
class Partner {
 public:
  Partner() : thread_([this] { answer(); }) {}
  ~Partner() {
    ask(kLeave);
    thread_.join();
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  void round_trip() {
    std::unique_lock lock(mutex_);
    ask_locked(kQuestion);
    changed_.wait(lock, [&] { return said_ == kAnswer; });
  }

 private:
  enum Said { kNothing, kQuestion, kAnswer, kLeave };

  void ask(Said what) {
    const std::lock_guard lock(mutex_);
    ask_locked(what);
  }
  void ask_locked(Said what) {
    said_ = what;
    changed_.notify_all();
  }
  void answer() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return said_ == kQuestion || said_ == kLeave; });
      if (said_ == kLeave) return;
      ask_locked(kAnswer);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Said said_ = kNothing;
  std::thread thread_;
};

/// Microseconds of one round trip of each kind, so long after the last one that whoever answers is
/// asleep: medians. This thread is awake all the time: it is the other's waking that is measured.
template <class Ours, class Theirs>
std::array<double, 2> after_a_while(std::chrono::microseconds pause, int rounds, const Ours& ours,
                                    const Theirs& theirs) {
  const auto once = [&](const auto& round_trip) {
    for (const auto since = Clock::now(); Clock::now() - since < pause;) {
    }
    const auto start = Clock::now();
    round_trip();
    return microseconds(Clock::now() - start);
  };
  std::array<std::vector<double>, 2> times;
  for (int i = 0; i < rounds; ++i) {
    times[0].push_back(once(ours));
    times[1].push_back(once(theirs));
  }
  return {median(std::move(times[0])), median(std::move(times[1]))};
}

/// Work that counts once it is done.
void round_trips(const Bench& bench) {
  const char* group = "There and back";
  constexpr Bursts kRoundTrips{.calls = 50, .rounds = 21, .warm_up = 50};
  const auto launch_and_wait = [&] {
    cuda::launch(bench.stream, empty_kernel, EmptyArgs{});
    bench.stream.synchronize();
  };
  bench.compare(row(group, "launch an empty kernel and wait for it"), kRoundTrips, launch_and_wait,
                [](Raw& raw) {
                  raw.launch();
                  raw.stream_synchronize();
                });
  if (bench.program.simulated()) {
    const int rounds = bench.program.bursts({.calls = 1, .rounds = 501}).rounds;
    Partner partner;
    // Just asleep; and so long asleep that its core has gone idle too. What waking costs is up to
    // the host, so the goal is what two threads need there at best.
    for (const int pause : {30, 300}) {
      Row asleep = row(group, "the same, the worker asleep for " + std::to_string(pause) + " us",
                       "<= 1.1 x raw");
      const auto times = after_a_while(std::chrono::microseconds(pause), rounds, launch_and_wait,
                                       [&] { partner.round_trip(); });
      asleep.unit = "us";
      asleep.ours = times[0];
      asleep.raw = times[1];
      bench.add(asleep);
    }
  }

  // Two streams that wait for each other all the time.
  constexpr Bursts kPingPong{.calls = 50, .rounds = 21};
  cuda::Event ping;
  cuda::Event pong;
  Row exchange = row(group, "events, recorded and waited for by two streams in turn");
  exchange.unit = "M/s";
  exchange.ours = 2 / completion_medians(bench.program.bursts(kPingPong), &Bench::drain, [&] {
                    ping.record(bench.stream);
                    ping.wait(bench.second);
                    pong.record(bench.second);
                    pong.wait(bench.stream);
                  })[0];
  bench.add(exchange);

  const DeviceBytes target(0, 4 * kKiB);
  const DeviceBytes source(0, 4 * kKiB);
  Row copies = row(group, "copies of 4 KiB on the device");
  copies.unit = "M/s";
  const Bursts bursts = bench.program.bursts({.calls = 200, .rounds = 21});
  const auto ours = [&] { cuda::copy_async(target.get(), source.get(), 4 * kKiB, bench.stream); };
  const auto raw = [&] { bench.raw->copy(target.get(), source.get(), 4 * kKiB); };
  if (bench.raw != nullptr) {
    const auto times = completion_medians(bursts, &Bench::drain, ours, raw);
    copies.ours = 1 / times[0];
    copies.raw = 1 / times[1];
  } else {
    copies.ours = 1 / completion_medians(bursts, &Bench::drain, ours)[0];
  }
  bench.add(copies);
}

// ---- Memory

void memory(const Bench& bench) {
  const char* group = "Memory";
  for (const std::size_t bytes : {std::size_t{512}, kMiB, 64 * kMiB})
    bench.contrast(
        row(group, rows::allocate_free(bytes), "<= 0.10"),
        [&] { const auto buffer = cuda::allocate(bytes, bench.stream); },
        [&](Raw& raw) { raw.malloc_free(bytes); });
  for (const std::size_t bytes : {std::size_t{512}, kMiB, 64 * kMiB})
    bench.contrast(
        row(group, rows::allocate_free_raw(bytes), "<= 0.10"),
        [&] { cuda::caching_allocator_delete(cuda::caching_allocator_alloc(bytes)); },
        // What CUDA itself has for allocating often.
        [&](Raw& raw) { raw.malloc_free_async(bytes); });
  for (const int threads : {1, 2, 4, 8}) {
    Row mix = row(group, rows::mix(threads),
                  threads == 1   ? "<= 0.15"
                  : threads == 8 ? "<= 0.35"
                                 : "");
    mix.unit = "us";
    Mix work{.threads = threads};
    if (bench.program.quick()) work = {threads, 200, 2'000, 1};
    mix.ours = mix_median(
        work, [](std::size_t bytes) { return cuda::caching_allocator_alloc(bytes); },
        [](void* memory) { cuda::caching_allocator_delete(memory); });
    bench.add(mix);
  }
  bench.alone(row(group, rows::kMemoryAllocated, "<= 0.05"), kHostCalls,
              [] { (void)cuda::memory_allocated(); });
}

int run(int count, char** arguments) {
  Program program(count, arguments);
  std::unique_ptr<Raw> raw;
  if (!program.simulated())
    raw = make_raw(0);
  else
    program.table().note("raw call", "two threads with a condition variable, for a round trip");
  const Bench bench{program, raw.get()};
  Bench::drain();
  program.measure("current device and streams", [&] { current(bench); });
  program.measure("events", [&] { events(bench); });
  program.measure("work", [&] { work(bench); });
  program.measure("raw launches", [&] { launch_parts(bench); });
  program.measure("there and back", [&] { round_trips(bench); });
  program.measure("memory", [&] { memory(bench); });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
