// For race_test.sh: two short kernels on two streams touch the same memory, with or without a wait
// between them. Built for the thread sanitizer, which must tell the two apart every time.
#include <cstdio>
#include <cstring>

#include "ember/memory/memory.h"
#include "ember/runtime/event.h"
#include "ember/runtime/work.h"

using namespace ember::cuda;

namespace {

constexpr std::size_t kCount = 4096;

void add_one(const Stream& stream, int* data) {
  launch(stream, "add_one", [data](const HostLaunch& on) {
    int* values = on.at(data, kCount);
    if (values == nullptr) return on.fault();
    for (std::size_t i = 0; i < kCount; ++i) ++values[i];
    return ember::Status();
  });
}

}  // namespace

/// Usage: race_probe wait|event|none|third
int main(int, char** arguments) {
  const char* how = arguments[1];
  const Stream first;
  const Stream second;
  const DeviceBuffer data = allocate(kCount * sizeof(int), first);
  fill_async(data.data(), 0, data.size(), first);
  first.synchronize();
  add_one(first, data.as<int>());
  if (std::strcmp(how, "wait") == 0) second.wait_stream(first);
  if (std::strcmp(how, "event") == 0) {
    Event event(true);
    event.record(first);
    event.wait(second);
  }
  if (std::strcmp(how, "third") == 0) {  // somebody else waits, which is of no use to `second`
    const Stream third;
    third.wait_stream(first);
    add_one(third, allocate(kCount * sizeof(int), third).as<int>());
  }
  add_one(second, data.as<int>());
  synchronize();
  std::puts("done");
}
