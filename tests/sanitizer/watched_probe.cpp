// watched_probe WHAT [STATUS]: a process in which the sanitizer has something to see, or nothing.
// It ends by itself, with STATUS (0).
//
//   bug       a stream multiplies what another one adds to, and nothing makes it wait
//   fixed     the same with the wait
//   reuse     memory that is freed while another stream uses it, and handed out again
//   lambda    work that does not say what it touches
//   nothing   no work at all, but devices
//   host      no devices either
//   source    the host writes pinned memory that a copy in flight is to read
//   target    the host reads pinned memory that a copy in flight is to write
//   waits     the same two once the host has waited
//   beside    the host writes what lies on a page with both, and belongs to neither
//   reads     the host reads what a copy in flight reads, too
//   function  a host function writes what a later copy of its stream reads
//   replay    the host writes pinned memory that a replay in flight is to read
//   replayed  the same once the host has waited
//   crash     a fault that is the program's own, beside a copy in flight
//
// `bug` and `fixed` print the result, which is 420 in order. A static object says when it is
// destroyed: nothing may be lost of what a program does at its end.
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ember/graphs/graph.h"
#include "ember/memory/memory.h"
#include "ember/runtime/device.h"
#include "ember/runtime/work.h"

namespace {

using namespace ember::cuda;  // NOLINT

struct SaysWhenItGoes {
  bool used = false;
  SaysWhenItGoes() = default;
  SaysWhenItGoes(const SaysWhenItGoes&) = delete;
  SaysWhenItGoes& operator=(const SaysWhenItGoes&) = delete;
  ~SaysWhenItGoes() {
    if (used) std::fputs("destroyed", stdout);  // without the end of a line: it stays in a buffer
  }
};
SaysWhenItGoes goes;

/// x = x * factor + summand
void affine(const Stream& stream, Name name, std::uint32_t* x, std::uint32_t factor,
            std::uint32_t summand) {
  launch(stream, name, {writes(x, 1)}, [=](const HostLaunch& on) {
    std::uint32_t* const at = on.at(x, 1);
    if (at == nullptr) return on.fault();
    *at = *at * factor + summand;
    return ember::Status();
  });
}

void add_and_multiply(bool fixed) {
  const Stream adds(0), multiplies(0);
  const DeviceBuffer data = allocate(sizeof(std::uint32_t), adds);
  auto* const x = data.as<std::uint32_t>();
  fill_async(x, 0, sizeof *x, adds);
  adds.synchronize();
  affine(adds, "add", x, 1, 42);
  if (fixed) multiplies.wait_stream(adds);
  affine(multiplies, "multiply", x, 10, 0);
  adds.wait_stream(multiplies);
  std::uint32_t result = 0;
  synchronize(0);
  copy(&result, x, sizeof result, adds);
  std::printf("the result is %u\n", result);
}

void reuse() {
  const Stream owner(0), other(0);
  for (int i = 0; i < 2; ++i) {
    const DeviceBuffer data = allocate(1 << 20, owner);
    fill_async(data.data(), 0, data.size(), owner);
    if (i == 0) {
      other.wait_stream(owner);
      fill_async(data.data(), 1, data.size(), other);  // and no record_stream
    }
  }
  synchronize(0);
}

void lambda() {
  const Stream stream(0);
  launch(stream, "secretive", [](const HostLaunch&) { return ember::Status(); });
  stream.synchronize();
}

/// Pinned memory beside a copy in flight. Where nothing runs before it is waited for
/// (EMBER_SIM_SCHEDULE=steps:), it is in flight until then.
void pinned(const std::string& what) {
  const Stream stream(0);
  const PinnedBuffer host = allocate_pinned(3 * 4096);
  const DeviceBuffer device = allocate(2 * 4096, stream);
  auto* const bytes = static_cast<volatile char*>(host.data());
  fill_async(device.data(), 1, device.size(), stream);
  stream.synchronize();
  bytes[0] = 7;
  if (what == "function")
    host_function([=] { bytes[0] = 8; }, stream, {writes(static_cast<char*>(host.data()), 1)});
  if (what == "target" || what == "beside")
    copy_async(static_cast<char*>(host.data()) + 4096, device.data(), 100, stream);
  CUDAGraph graph;
  if (what.starts_with("replay")) {
    const StreamGuard on(stream);
    graph.capture_begin();
    copy_async(device.data(), host.data(), 5000, stream);
    graph.capture_end();
    bytes[1] = 2;
    graph.replay();
    if (what == "replayed") stream.synchronize();
    bytes[4999] = 1;
  } else if (what != "target") {
    copy_async(device.data(), host.data(), 5000, stream);
  }
  if (what == "waits") {
    stream.synchronize();
    bytes[4999] = 1;
  }
  if (what == "source") {  // of one copy, so once
    bytes[4999] = 1;
    bytes[1] = 1;
  }
  if (what == "target") (void)bytes[4096 + 99];
  if (what == "beside") {
    bytes[5000] = 1;
    bytes[3 * 4096 - 1] = 1;
  }
  if (what == "reads" && bytes[0] != 7) std::printf("lost\n");
  if (what == "crash")  // of the same kind, on a page that is no copy's
    *static_cast<volatile char*>(
        mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
  stream.synchronize();
  char seen = 0;
  copy(&seen, device.data(), 1, stream);
  std::printf("the device has %d, the host %d\n", seen, bytes[0]);
}

bool run(const std::string& what) {
  if (what == "bug" || what == "fixed") {
    add_and_multiply(what == "fixed");
  } else if (what == "reuse") {
    reuse();
  } else if (what == "lambda") {
    lambda();
  } else if (what == "nothing") {
    synchronize(0);
  } else if (what != "host") {
    pinned(what);
  } else {
    return what == "host";
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  goes.used = argc > 2 && std::strcmp(argv[argc - 1], "goes") == 0;
  if (argc < 2 || !run(argv[1])) return 64;
  return argc > 2 ? std::atoi(argv[2]) : 0;
}
