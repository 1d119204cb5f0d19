// The caching allocator alone, on a source of memory that costs nothing: what is left of an
// allocation when there is no device, no current stream and no owning buffer. The rows "an
// allocator each" are what the machine allows: the same work, and nothing shared.
#include <atomic>
#include <cstdint>
#include <memory>

#include "bench/program.h"
#include "bench/rows.h"
#include "ember/memory/caching.h"
#include "ember/memory/device_allocator.h"

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

int run(int count, char** arguments) {
  Program program(count, arguments);
  program.measure("pairs", [&] { pairs(program); });
  for (const int threads : {1, 2, 4, 8})
    program.measure("random sizes", [&] { mixes(program, threads); });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
