// The caching allocator alone, on a source of memory that costs nothing: what is left of an
// allocation when there is no device, no current stream and no owning buffer. The rows "an
// allocator each" are what the machine allows: the same work, and nothing shared.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/program.h"
#include "bench/rows.h"
#include "ember/base/error.h"
#include "ember/memory/caching.h"
#include "ember/memory/device_allocator.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/scope.h"
#include "ember/memory/snapshot.h"

namespace ember::bench {
namespace {

using memory::Block;
using memory::DeviceAllocator;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Addresses that nobody touches. Its events are always reached.
class Addresses final : public memory::SegmentSource {
 public:
  Status allocate(std::uint32_t, std::size_t bytes, void*& out) noexcept override {
    out = reinterpret_cast<void*>(next_.fetch_add(memory::round_up(bytes, 2 * kMiB)));
    return {};
  }
  Status free(std::uint32_t, void*) noexcept override { return {}; }
  Status memory_info(driver::MemoryInfo&) noexcept override { return {}; }
  Status event_create(int, driver::EventHandle&) noexcept override { return {}; }
  Status event_destroy(driver::EventHandle) noexcept override { return {}; }
  Status event_record(driver::EventHandle, driver::StreamHandle) noexcept override { return {}; }
  Status event_query(driver::EventHandle) noexcept override { return {}; }
  Status event_synchronize(driver::EventHandle) noexcept override { return {}; }

 private:
  std::atomic<std::uintptr_t> next_{std::uintptr_t{1} << 44};
};

struct Alone {
  Addresses addresses;
  memory::EventPool events{addresses};
  DeviceAllocator allocator{0, addresses, events, std::make_unique<memory::CachingBackEnd>()};

  void* allocate(std::size_t bytes) { return allocator.allocate(bytes, nullptr).address; }
  void free(void* pointer) { (void)allocator.free(pointer); }
};

const char* const kGroup = "The allocator alone";

void add(Program& program, const std::string& name, double microseconds) {
  Row row;
  row.group = kGroup;
  row.name = name + ", the allocator alone";
  row.unit = "us";
  row.ours = microseconds;
  program.table().add(row);
}

void pairs(Program& program) {
  Alone alone;
  const auto measure = [&](const std::string& name, const auto& work) {
    add(program, name,
        burst_medians(
            program.bursts(kHostCalls), [] {}, work)[0]);
  };
  for (const std::size_t bytes : {std::size_t{512}, kMiB, 64 * kMiB})
    measure(rows::allocate_free(bytes), [&] { alone.free(alone.allocate(bytes)); });
  const driver::StreamHandle other{&alone, 0, 0};
  measure("allocate, use on another stream, free", [&] {
    void* const pointer = alone.allocate(kMiB);
    (void)alone.allocator.record_stream(pointer, other);
    alone.free(pointer);
  });
  measure(rows::kMemoryAllocated, [&] { (void)alone.allocator.allocated(); });
}

void mixes(Program& program, int threads) {
  Mix work{.threads = threads};
  if (program.quick()) work = {threads, 200, 2'000, 1};
  Alone shared;
  add(program, rows::mix(threads),
      mix_median(
          work, [&](std::size_t bytes) { return shared.allocate(bytes); },
          [&](void* pointer) { shared.free(pointer); }));
  // Each round has new threads, and so new allocators; what a thread has is empty when it ends.
  static thread_local std::unique_ptr<Alone> own;
  add(program, rows::mix(threads) + ", an allocator each",
      mix_median(
          work,
          [](std::size_t bytes) {
            if (own == nullptr) own = std::make_unique<Alone>();
            return own->allocate(bytes);
          },
          [](void* pointer) { own->free(pointer); }));
}

/// Records the history while it lives. What allocators outside of the library's list keep is chosen
/// one by one.
struct Recording {
  Recording() { cuda::record_memory_history({.max_entries = 100'000}); }
  ~Recording() { cuda::record_memory_history({.enabled = {}}); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

/// Calls `work` so many frames further in.
template <class Work>
[[gnu::noinline]] auto deeper(int frames, const Work& work) {
  if (frames == 0) return work();
  auto result = deeper(frames - 1, work);
  asm volatile("" ::: "memory");  // what follows keeps the call from being a jump
  return result;
}

/// Per event: an allocation is one, a free two (requested and done). The stacks are ones that their
/// threads took before.
void history(Program& program, int threads) {
  const Recording recording;
  Alone alone;
  alone.allocator.apply(memory::history_wish());
  Mix work{.threads = threads};
  if (program.quick()) work = {threads, 200, 2'000, 1};
  Row row;
  row.group = kGroup;
  row.name = rows::mix_of(threads) + ", history on, 16 frames further in, per event";
  row.unit = "us";
  const double operation = mix_median(
      work, [&](std::size_t bytes) { return deeper(16, [&] { return alone.allocate(bytes); }); },
      [&](void* pointer) {
        (void)deeper(16, [&] {
          alone.free(pointer);
          return 0;
        });
      });
  row.ours = operation * 2 / 3;  // as many allocations as frees
  row.goal = "<= 0.5";
  program.table().add(row);
}

void tagged(Program& program) {
  Alone alone;
  const cuda::MemoryScope scope("bench");
  add(program, rows::allocate_free(512) + ", in a scope",
      burst_medians(
          program.bursts(kHostCalls), [] {}, [&] { alone.free(alone.allocate(512)); })[0]);
}

void snapshots(Program& program) {
  if (program.devices() == 0) return;
  const auto measure = [&](const std::string& name, const std::string& goal, const auto& work) {
    Row row;
    row.group = "Snapshots of memory";
    row.name = name;
    row.unit = "ms";
    row.ours = burst_medians(
                   program.bursts({.calls = 5, .rounds = 21, .warm_up = 5}), [] {}, work)[0] /
               1000;
    row.goal = goal;
    program.table().add(row);
  };
  const cuda::Stream stream = cuda::default_stream(0);
  const auto look = [] { (void)cuda::memory_snapshot(); };
  std::vector<cuda::DeviceBuffer> live;
  while (live.size() < 10'000) live.push_back(cuda::allocate(512, stream));
  measure("snapshot, 10,000 live blocks", "<= 1.5", look);
  const Recording recording;
  for (int i = 0; i < 35'000; ++i)
    (void)deeper(i % 16, [&] { return cuda::allocate(512, stream).size(); });
  measure("snapshot, 10,000 live blocks and 100,000 entries", "<= 10", look);
  const cuda::MemorySnapshot snapshot = cuda::memory_snapshot();
  if (snapshot.device_traces.at(0).size() != 100'000) throw Error("expected 100,000 entries");
  measure("naming and writing those, as a pickle", "",
          [&] { (void)cuda::snapshot_as_pickle(snapshot); });
}

int run(int count, char** arguments) {
  Program program(count, arguments);
  program.measure("pairs", [&] { pairs(program); });
  for (const int threads : {1, 2, 4, 8})
    program.measure("random sizes", [&] { mixes(program, threads); });
  program.measure("snapshots", [&] { snapshots(program); });
  for (const int threads : {1, 2, 8})
    program.measure("history", [&] { history(program, threads); });
  // Last: from the first scope on, a process looks for tags.
  program.measure("scopes", [&] { tagged(program); });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
