// Counts what a thread asks of the heap. Included by one file of a program, whose operator new and
// delete it replaces.
#pragma once

#include <cstdlib>
#include <new>

#include "ember/base/sanitizer.h"
#include "ember/runtime/device.h"

// The sanitizers have an allocator of their own, and nothing is recycled under them.
#if !defined(EMBER_SANITIZED_HEAP)

namespace {
thread_local constinit long allocations = 0;
}

// Not inlined, as g++ compares what it sees of pairs of them.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ember::test {

/// What this thread asks of the heap during one call, after some others.
template <class Call>
long allocations_of(const Call& call) {
  for (int i = 0; i < 20; ++i) call();
  cuda::synchronize(0);
  const long before = allocations;
  call();
  const long after = allocations;
  cuda::synchronize(0);
  return after - before;
}

}  // namespace ember::test

#endif
