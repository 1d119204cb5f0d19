#include "tests/memory/callers.h"

namespace {
// What follows the call keeps it from being the caller's last act, which a jump would do for.
std::size_t calls = 0;
}  // namespace

extern "C" {

[[gnu::noinline]] ember::cuda::DeviceBuffer* callers_inner(std::size_t bytes) {
  auto* const made =
      new ember::cuda::DeviceBuffer(ember::cuda::allocate(bytes, ember::cuda::default_stream(0)));
  ++calls;
  return made;
}

[[gnu::noinline]] ember::cuda::DeviceBuffer* callers_middle(std::size_t bytes) {
  ember::cuda::DeviceBuffer* const made = callers_inner(bytes + 1);
  ++calls;
  return made;
}

[[gnu::noinline]] ember::cuda::DeviceBuffer* callers_outer(std::size_t bytes) {
  ember::cuda::DeviceBuffer* const made = callers_middle(bytes + 1);
  ++calls;
  return made;
}

[[gnu::noinline]] void callers_free(ember::cuda::DeviceBuffer* buffer) {
  delete buffer;
  ++calls;
}
}
