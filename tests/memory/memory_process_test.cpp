// Memory and the life of the process: before initialisation, after a reset, in a forked child, at
// exit, and without caching.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "ember/memory/memory.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(MemoryProcess, CountersAndEmptyingNeverInitialise) {
  IN_CHILD({
    EXPECT_EQ(memory_allocated(), 0U);
    EXPECT_EQ(max_memory_allocated(), 0U);
    EXPECT_EQ(memory_reserved(), 0U);
    EXPECT_EQ(max_memory_reserved(), 0U);
    EXPECT_EQ(memory_counters(), MemoryCounters());
    EXPECT_EQ(pinned_counters().num_host_alloc, 0);
    reset_peak_memory_stats();
    empty_cache();
    pinned_empty_cache();
    EXPECT_FALSE(is_initialized());
  });
  IN_CHILD({
    int local = 0;
    EXPECT_ERROR(caching_allocator_delete(&local), Error, "invalid device pointer: 0x");
    EXPECT_FALSE(is_initialized());
  });
}

TEST(MemoryProcess, AResetTakesTheMemory) {
  IN_CHILD({
    DeviceBuffer kept = allocate(kMiB, default_stream(0));
    void* const pointer = caching_allocator_alloc(kMiB, 0);
    PinnedBuffer pinned = allocate_pinned(1000);
    reset_device(0);
    EXPECT_EQ(memory_allocated(0), 0U);
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_ERROR(caching_allocator_delete(pointer), Error, "invalid device pointer: 0x");
    const DeviceBuffer next = allocate(kMiB, default_stream(0));
    kept.reset();  // silently, and without harm to whoever has the address now
    EXPECT_EQ(memory_allocated(0), kMiB);
    fill_async(next.data(), 1, kMiB, default_stream(0));
    synchronize(0);
  });
}

TEST(MemoryProcess, AForkedChildLeavesTheParentsMemoryAlone) {
  IN_CHILD({
    DeviceBuffer buffer = allocate(kMiB, default_stream(0));
    PinnedBuffer pinned = allocate_pinned(1000);
    const pid_t child = fork();
    if (child == 0) {
      buffer.reset();
      pinned.reset();
      bool refused = false;
      try {
        (void)caching_allocator_alloc(512, 0);
      } catch (const Error&) {
        refused = true;
      }
      empty_cache();
      caching_allocator_delete(&refused);  // might be the parent's: ignored
      _exit(refused && memory_allocated() == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(memory_allocated(0), kMiB);
    fill_async(buffer.data(), 1, kMiB, default_stream(0));
    synchronize(0);
  });
}

DeviceBuffer& buffer_of_thread() {
  static thread_local DeviceBuffer buffer;
  return buffer;
}

TEST(MemoryProcess, ExitWithMemoryInUse) {
  IN_CHILD({
    static DeviceBuffer in_static = allocate(kMiB, default_stream(0));
    static PinnedBuffer pinned = allocate_pinned(1000);
    buffer_of_thread() = allocate(kMiB, default_stream(0));
    std::thread([] { buffer_of_thread() = allocate(2 * kMiB, default_stream(0)); }).join();
    EXPECT_EQ(memory_allocated(0), 2 * kMiB);
  });
}

TEST(MemoryProcess, WithoutCaching) {
  IN_CHILD({
    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
    const std::size_t free_before = mem_get_info(0).first;
    {
      DeviceBuffer buffer = allocate(8 * kMiB, default_stream(0));
      fill_async(buffer.data(), 1, buffer.size(), default_stream(0));
      record_stream(buffer, default_stream(0));
      EXPECT_LT(mem_get_info(0).first, free_before);
      EXPECT_EQ(memory_allocated(0), 0U);
      EXPECT_EQ(memory_counters(0), MemoryCounters());
      void* const pointer = caching_allocator_alloc(8 * kMiB, 0);
      caching_allocator_delete(pointer);
      EXPECT_ERROR(caching_allocator_delete(pointer), Error, "invalid device pointer: 0x");
      EXPECT_ERROR((void)allocate(mem_get_info(0).second * 2, default_stream(0)), OutOfMemoryError,
                   "CUDA out of memory. Tried to allocate ");
    }
    EXPECT_EQ(mem_get_info(0).first, free_before);
  });
}

}  // namespace
}  // namespace ember::cuda
