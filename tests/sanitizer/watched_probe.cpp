// watched_probe WHAT [STATUS]: a process in which the sanitizer has something to see, or nothing.
// It ends by itself, with STATUS (0).
//
//   bug       a stream multiplies what another one adds to, and nothing makes it wait
//   fixed     the same with the wait
//   reuse     memory that is freed while another stream uses it, and handed out again
//   lambda    work that does not say what it touches
//   nothing   no work at all, but devices
//   host      no devices either
//
// `bug` and `fixed` print the result, which is 420 in order. A static object says when it is
// destroyed: nothing may be lost of what a program does at its end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

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

bool run(const std::string& what) {
  if (what == "bug" || what == "fixed") {
    add_and_multiply(what == "fixed");
  } else if (what == "reuse") {
    reuse();
  } else if (what == "lambda") {
    lambda();
  } else if (what == "nothing") {
    synchronize(0);
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
