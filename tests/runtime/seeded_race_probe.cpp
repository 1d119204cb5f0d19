// For seeded_race_test.sh: two pieces of work touch the same memory, in runs of one host thread
// that a seed decides, with or without an order between them. Built for the thread sanitizer, which
// must tell the two apart whatever the order in which the seed has them run.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "ember/memory/memory.h"
#include "ember/runtime/event.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/threads.h"
#include "ember/runtime/work.h"

using namespace ember::cuda;

namespace {

constexpr std::size_t kCount = 16;
constexpr std::size_t kBytes = kCount * sizeof(int);

// Two functions, so that a report says which kernels they were.
void first_kernel(const Stream& stream, int* data) {
  launch(stream, "first", [data](const HostLaunch& on) {
    int* values = on.at(data, kCount);
    if (values == nullptr) return on.fault();
    for (std::size_t i = 0; i < kCount; ++i) ++values[i];
    return ember::Status();
  });
}
void second_kernel(const Stream& stream, int* data) {
  launch(stream, "second", [data](const HostLaunch& on) {
    int* values = on.at(data, kCount);
    if (values == nullptr) return on.fault();
    for (std::size_t i = 0; i < kCount; ++i) values[i] *= 2;
    return ember::Status();
  });
}

/// What a program has. All is idle when it begins.
struct Program {
  Stream a{0};
  Stream b{0};
  Stream c{0};
  DeviceBuffer memory = allocate(kBytes, a);
  DeviceBuffer other = allocate(kBytes, b);
  PinnedBuffer pinned = allocate_pinned(kBytes);
  int* data = memory.as<int>();
  int* host = pinned.as<int>();
  Event done{false};

  void first() const { first_kernel(a, data); }
  void second() const { second_kernel(b, data); }
};

struct Case {
  const char* name;
  bool race;
  std::function<void(Program&)> run;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"nothing", true, [](Program& p) { p.first(), p.second(); }},
      {"stream", false, [](Program& p) { p.first(), second_kernel(p.a, p.data); }},
      {"event", false,
       [](Program& p) {
         p.first();
         p.done.record(p.a);
         p.done.wait(p.b);
         p.second();
       }},
      {"timed_event", false,
       [](Program& p) {
         Event timed(true);
         p.first();
         timed.record(p.a);
         timed.wait(p.b);
         p.second();
       }},
      {"synchronize", false, [](Program& p) { p.first(), p.a.synchronize(), p.second(); }},
      {"event_synchronize", false,
       [](Program& p) {
         p.first();
         p.done.record(p.a);
         p.done.synchronize();
         p.second();
       }},
      {"device", false, [](Program& p) { p.first(), synchronize(0), p.second(); }},
      {"query", false,
       [](Program& p) {
         p.first();
         while (!p.a.query()) {
         }
         p.second();
       }},
      {"two_waits", false,  // by way of a stream that does nothing itself
       [](Program& p) {
         p.first();
         p.c.wait_stream(p.a);
         p.b.wait_stream(p.c);
         p.second();
       }},
      {"after_the_wait", false,  // an event that stands for a wait
       [](Program& p) {
         p.first();
         first_kernel(p.c, p.other.as<int>());
         p.c.wait_stream(p.a);
         p.done.record(p.c);
         p.done.wait(p.b);
         p.second();
       }},
      {"wait_of_another", true,
       [](Program& p) {
         p.first();
         p.c.wait_stream(p.a);
         first_kernel(p.c, p.other.as<int>());
         p.second();
       }},
      {"event_too_early", true,
       [](Program& p) {
         first_kernel(p.a, p.other.as<int>());
         p.done.record(p.a);
         p.first();
         p.done.wait(p.b);
         p.second();
       }},
      {"wait_too_late", true,
       [](Program& p) {
         p.first();
         p.second();
         p.b.wait_stream(p.a);
         first_kernel(p.b, p.other.as<int>());
       }},
      {"synchronize_of_another", true,
       [](Program& p) {
         p.first();
         first_kernel(p.c, p.other.as<int>());
         p.c.synchronize();
         p.second();
       }},
      {"fill", true,
       [](Program& p) {
         p.first();
         fill_async(p.data, 1, kBytes, p.b);
       }},
      {"copy", true,
       [](Program& p) {
         p.first();
         copy_async(p.other.data(), p.data, kBytes, p.b);
       }},
      {"copy_waits", false,
       [](Program& p) {
         p.first();
         p.b.wait_stream(p.a);
         copy_async(p.other.data(), p.data, kBytes, p.b);
       }},
      {"host_function", true,
       [](Program& p) {
         copy_async(p.host, p.data, kBytes, p.a);
         host_function([host = p.host] { ++host[0]; }, p.b);
       }},
      {"host_function_waits", false,
       [](Program& p) {
         copy_async(p.host, p.data, kBytes, p.a);
         p.b.wait_stream(p.a);
         host_function([host = p.host] { ++host[0]; }, p.b);
         p.b.synchronize();
         ++p.host[0];
       }},
      {"read_at_once", true,
       [](Program& p) {
         copy_async(p.host, p.data, kBytes, p.a);
         if (p.host[0] == 4711) std::puts("4711");
       }},
      {"written_at_once", true,
       [](Program& p) {
         copy_async(p.data, p.host, kBytes, p.a);
         p.host[0] = 1;
       }},
      {"written_before", false,
       [](Program& p) {
         p.host[0] = 1;
         copy_async(p.data, p.host, kBytes, p.a);
         p.a.synchronize();
         p.host[0] = 2;
       }},
      {"reused", true,  // without record_stream
       [](Program& p) {
         {
           const DeviceBuffer freed = allocate(4096, p.a);
           second_kernel(p.b, freed.as<int>());
         }
         first_kernel(p.a, allocate(4096, p.a).as<int>());
       }},
      {"reused_recorded", false,
       [](Program& p) {
         {
           const DeviceBuffer freed = allocate(4096, p.a);
           second_kernel(p.b, freed.as<int>());
           record_stream(freed, p.b);
         }
         first_kernel(p.a, allocate(4096, p.a).as<int>());
       }},
      {"reused_in_order", false,
       [](Program& p) {
         first_kernel(p.a, allocate(4096, p.a).as<int>());
         second_kernel(p.a, allocate(4096, p.a).as<int>());
       }},
      {"reused_elsewhere", false,  // which memory in the order of streams may be, once it is idle
       [](Program& p) {
         {
           const DeviceBuffer freed = allocate(4096, p.a);
           first_kernel(p.a, freed.as<int>());
         }
         second_kernel(p.c, p.other.as<int>());
         second_kernel(p.b, allocate(4096, p.b).as<int>());
       }},
      {"host_threads", true,
       [](Program& p) {
         ember::sim::thread one([&] { ++p.host[0]; });
         ember::sim::thread two([&] { ++p.host[0]; });
       }},
      {"host_threads_lock", false,
       [](Program& p) {
         ember::sim::mutex mutex;
         const auto count = [&] {
           const std::lock_guard lock(mutex);
           ++p.host[0];
           p.first();
           p.a.synchronize();
         };
         ember::sim::thread one(count);
         ember::sim::thread two(count);
       }},
      {"host_threads_tell", false,
       [](Program& p) {
         ember::sim::mutex mutex;
         ember::sim::condition changed;
         bool told = false;
         ember::sim::thread one([&] {
           p.first();
           p.a.synchronize();
           const std::lock_guard lock(mutex);
           told = true;
           changed.notify_one();
         });
         std::unique_lock lock(mutex);
         changed.wait(lock, [&] { return told; });
         p.second();
       }},
      // What they share is the simulator's: the stack, variables of the thread, the queue's memory.
      {"apart", false,
       [](Program& p) {
         for (int i = 0; i < 100; ++i) {
           for (const Stream* stream : {&p.a, &p.b})
             host_function(
                 [] {
                   thread_local int calls = 0;
                   int local[64] = {};
                   std::memset(local, ++calls, sizeof local);
                 },
                 *stream);
           first_kernel(p.a, p.data);
           second_kernel(p.b, p.other.as<int>());
         }
       }},
  };
  return all;
}

void run(const Case& what) {
  Program program;
  fill_async(program.data, 0, kBytes, program.a);
  fill_async(program.other.data(), 0, kBytes, program.b);
  std::memset(program.host, 0, kBytes);
  synchronize(0);
  what.run(program);
  synchronize(0);
}

}  // namespace

/// Usage: seeded_race_probe
///          prints the cases: "race NAME" or "none NAME"
///        seeded_race_probe NAME SEEDS
///          one run for each of the seeds 1 to SEEDS; prints which kernels ran, in their order
int main(int count, char** arguments) {
  if (count < 3) {
    for (const Case& each : cases()) std::printf("%s %s\n", each.race ? "race" : "none", each.name);
    return 0;
  }
  const std::string name = arguments[1];
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const auto seeds = static_cast<std::uint64_t>(std::strtoul(arguments[2], nullptr, 10));
  for (const Case& each : cases()) {
    if (name != each.name) continue;
    if (seeds == 1) run(each);  // of the schedule that the environment names
    for (std::uint64_t seed = 1; seeds > 1 && seed <= seeds; ++seed) {
      ember::sim::begin_run(seed);
      run(each);
    }
    std::string ran = "ran:";
    std::istringstream log(ember::sim::log());
    for (std::string line; std::getline(log, line);)
      for (const char* kernel : {" first", " second"})
        if (line.ends_with(kernel)) ran += kernel;
    std::puts(ran.c_str());
    return 0;
  }
  std::fprintf(stderr, "no case '%s'\n", name.c_str());
  return 2;
}
