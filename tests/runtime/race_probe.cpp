// For race_test.sh: two short pieces of work on two streams touch the same memory, with or without
// a wait between them. Built for the thread sanitizer, which must tell the two apart every time.
#include <cstdio>
#include <cstring>

#include "ember/memory/memory.h"
#include "ember/runtime/event.h"
#include "ember/runtime/work.h"

using namespace ember::cuda;

namespace {

constexpr std::size_t kCount = 4096;
constexpr std::size_t kBytes = kCount * sizeof(int);
/// Chunks of a stream's queue hold 32 tasks: with so many, several are used, and used again.
constexpr int kMany = 100;

void add_one(const Stream& stream, int* data) {
  launch(stream, "add_one", [data](const HostLaunch& on) {
    int* values = on.at(data, kCount);
    if (values == nullptr) return on.fault();
    for (std::size_t i = 0; i < kCount; ++i) ++values[i];
    return ember::Status();
  });
}

bool same(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

/// What comes second; the first is always a kernel. `own` is memory that nobody else touches.
void second_work(const char* what, const Stream& stream, int* data, const DeviceBuffer& own) {
  if (same(what, "copy")) {
    copy_async(own.data(), data, kBytes, stream);
  } else if (same(what, "fill")) {
    fill_async(data, 1, kBytes, stream);
  } else if (same(what, "host")) {
    host_function(
        [data] {
          for (std::size_t i = 0; i < kCount; ++i) ++data[i];
        },
        stream);
  } else {
    add_one(stream, data);
  }
}

void queue_many(const Stream& stream, const DeviceBuffer& own) {
  for (int i = 0; i < kMany; ++i) add_one(stream, own.as<int>());
}

}  // namespace

/// Usage: race_probe kernel|copy|fill|host|devices|queued wait|event|none|third
int main(int, char** arguments) {
  const char* what = arguments[1];
  const char* how = arguments[2];
  const int other = same(what, "devices") ? 1 : 0;
  if (other != 0) enable_peer_access(other, 0);
  const Stream first(0);
  const Stream second(other);
  const DeviceBuffer memory = allocate(kBytes, first);
  const PinnedBuffer pinned = allocate_pinned(kBytes);  // what a host function can touch too
  int* const data = same(what, "host") ? pinned.as<int>() : memory.as<int>();
  std::memset(pinned.data(), 0, kBytes);
  fill_async(memory.data(), 0, kBytes, first);
  first.synchronize();

  const DeviceBuffer of_first = allocate(kBytes, first);
  const DeviceBuffer of_second = allocate(kBytes, second);
  if (same(what, "queued")) {
    for (int round = 0; round < 3; ++round) {
      queue_many(first, of_first);
      queue_many(second, of_second);
      if (round == 0) synchronize(0);
    }
  }

  add_one(first, data);
  if (same(how, "wait")) second.wait_stream(first);
  if (same(how, "event")) {
    Event event(true);
    event.record(first);
    event.wait(second);
  }
  if (same(how, "third")) {  // somebody else waits, which is of no use to `second`
    const Stream third(other);
    third.wait_stream(first);
    add_one(third, allocate(kBytes, third).as<int>());
  }
  second_work(what, second, data, of_second);
  synchronize(0);
  synchronize(other);
  std::puts("done");
}
