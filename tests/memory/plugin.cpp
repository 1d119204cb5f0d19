// A shared object with functions for cuda::PluggableAllocator: one pair that counts, and ones that
// do what they should not. What `plugin_seen` answers is what they were called with.
#include "tests/memory/plugin.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>

#include "ember/memory/pluggable.h"

namespace {

std::mutex mutex;
ember::test::PluginSeen seen;

}  // namespace

extern "C" {

EMBER_API void* counting_malloc(std::size_t size, int device, void* stream) {
  void* const pointer = ember::cuda::device_malloc(size, device);
  const std::lock_guard lock(mutex);
  ++seen.mallocs;
  seen.held += pointer != nullptr ? 1 : 0;
  seen.bytes += pointer != nullptr ? size : 0;
  seen.last = {pointer, size, device, stream};
  return pointer;
}

EMBER_API void counting_free(void* pointer, std::size_t size, int device, void* stream) {
  ember::cuda::device_free(pointer);
  const std::lock_guard lock(mutex);
  ++seen.frees;
  --seen.held;
  seen.bytes -= size;
  seen.last = {pointer, size, device, stream};
}

EMBER_API void plugin_seen(ember::test::PluginSeen* out) {
  const std::lock_guard lock(mutex);
  *out = seen;
}

EMBER_API void counting_init(int /*device_count*/) {
  const std::lock_guard lock(mutex);
  ++seen.inits;
}

EMBER_API void counting_reset() {
  const std::lock_guard lock(mutex);
  ++seen.resets;
}

EMBER_API void* null_malloc(std::size_t, int, void*) { return nullptr; }

EMBER_API void* throwing_malloc(std::size_t, int, void*) {
  throw std::runtime_error("out of paper");
}

EMBER_API void throwing_free(void*, std::size_t, int, void*) {
  throw std::runtime_error("out of ink");
}

}  // extern "C"
