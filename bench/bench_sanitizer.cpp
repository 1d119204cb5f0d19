// What the stream sanitizer adds to a call, after a million operations and at a depth of twenty
// calls: each row beside the same calls with nobody watching. "Raw" is the call that nobody
// watches.
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>

#include "bench/program.h"
#include "ember/ember.h"

namespace ember::bench {
namespace {

/// Resident memory of the process in MiB; 0 where the kernel does not say.
double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * 4096 / (1 << 20);
}

/// Calls `work()` below so many frames.
template <class Work>
[[gnu::noinline]] void at_depth(int depth, const Work& work) {
  if (depth > 0)
    at_depth(depth - 1, work);
  else
    work();
  asm volatile("" ::: "memory");  // or the call would be a jump
}

void drain() { cuda::synchronize(0); }

struct Watched {
  double without = 0, with = 0;
};

template <class Work>
Watched measure(Program& program, const Work& work) {
  const Bursts bursts = program.bursts(kDeviceCalls);
  Watched times;
  at_depth(20, [&] { times.without = burst_medians(bursts, drain, work)[0]; });
  cuda::Sanitizer sanitizer;
  at_depth(20, [&] {
    for (int i = 0; i < (program.quick() ? 1000 : 1'000'000); ++i) {
      work();
      if (i % 1000 == 0) drain();
    }
    times.with = burst_medians(bursts, drain, work)[0];
  });
  if (!sanitizer.summary().clean())
    std::fprintf(stderr, "bench_sanitizer: %s\n", sanitizer.summary().str().c_str());
  return times;
}

template <class Work>
void add(Program& program, const char* name, const Work& work) {
  const Watched times = measure(program, work);
  Row row;
  row.name = std::string("sanitizer: ") + name;
  row.unit = "us";
  row.ours = times.with;
  row.raw = times.without;
  program.table().add(row);
  row.name += ", what it adds";
  row.ours = times.with - times.without;
  row.raw = kNothing;
  row.goal = "<= 1";
  program.table().add(row);
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) {
  using namespace ember;         // NOLINT
  using namespace ember::bench;  // NOLINT
  Program program(count, arguments);
  program.measure("the sanitizer", [&] {
    const Tensor a = ones({64}, "cuda"), b = ones({64}, "cuda");
    Tensor c = ones({64}, "cuda");
    cuda::Stream stream(0);
    cuda::Event event;
    const double before = resident_mib();
    add(program, "add into an output", [&] { add_out(c, a, b, 1); });
    add(program, "a + b", [&] { (void)(a + b); });
    add(program, "event record and wait", [&] {
      event.record(cuda::current_stream());
      event.wait(stream);
    });
    Row row;
    row.name = "sanitizer: memory more after a million operations of each";
    row.unit = "MiB";
    row.ours = resident_mib() - before;
    program.table().add(row);
  });
  return program.finish();
}
