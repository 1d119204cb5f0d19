// Memory and the life of the process: before initialisation, after a reset, in a forked child, at
// exit, and without caching.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/observer.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

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
    const std::size_t free_before = mem_get_info(0).first;
    DeviceBuffer kept = allocate(kMiB, default_stream(0));
    const DeviceBuffer large = allocate(64 * kMiB, default_stream(0));
    void* const pointer = caching_allocator_alloc(kMiB, 0);
    PinnedBuffer pinned = allocate_pinned(1000);
    reset_device(0);
    EXPECT_GE(mem_get_info(0).first + 32 * kMiB, free_before) << "a new context may take a little";
    EXPECT_EQ(memory_allocated(0), 0U);
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_ERROR(caching_allocator_delete(pointer), Error, "invalid device pointer: 0x");
    const DeviceBuffer next = allocate(kMiB, default_stream(0));
    kept.reset();  // does nothing, also to the buffer that has the address now
    EXPECT_EQ(memory_allocated(0), kMiB);
    fill_async(next.data(), 1, kMiB, default_stream(0));
    synchronize(0);
  });
}

TEST(MemoryProcess, ABufferFromBeforeAResetIsRefused) {
  IN_CHILD({
    const Stream stream(0);
    DeviceBuffer old = allocate(kMiB, default_stream(0));
    const DeviceBuffer empty = allocate(0, default_stream(0));
    EXPECT_NE(old.as<char>(), nullptr);
    reset_device(0);
    const std::string text = "context is destroyed";
    EXPECT_ERROR((void)old.data(), AcceleratorError, text);
    EXPECT_ERROR((void)old.as<float>(), AcceleratorError,
                 "was allocated on cuda:0 before it was reset");
    EXPECT_ERROR((void)clone(old, default_stream(0)), AcceleratorError, "Allocate a new buffer");
    EXPECT_ERROR(record_stream(old, default_stream(0)), AcceleratorError, text);
    EXPECT_EQ(memory_allocated(0), 0U) << "a refused clone leaves nothing behind";
    EXPECT_EQ(old.size(), kMiB);
    EXPECT_EQ(old.device(), Device("cuda:0"));
    EXPECT_EQ(empty.data(), nullptr);  // there is nothing to refuse
    DeviceBuffer moved = std::move(old);
    EXPECT_ERROR((void)moved.data(), AcceleratorError, text);
    moved = allocate(kMiB, default_stream(0));  // the old one's destructor does nothing
    EXPECT_NE(moved.data(), nullptr);
    EXPECT_EQ(memory_allocated(0), kMiB);
  });
  if (device_count() < 2) return;
  IN_CHILD({
    const DeviceBuffer other = allocate(kMiB, default_stream(1));
    reset_device(0);
    EXPECT_NE(other.data(), nullptr);
  });
}

TEST(MemoryProcess, EmptyingIsCountedFromTheStart) {
  IN_CHILD({
    init();
    empty_cache();
    for (int device = 0; device < device_count(); ++device)
      EXPECT_EQ(memory_counters(device).num_sync_all_streams, 1) << device;
    EXPECT_EQ(memory_counters(0).num_device_alloc, 0);
  });
}

/// Ends a child that hangs.
void within_a_minute() { alarm(60); }

class Silent : public Observer {
  void notice(const Activity&) noexcept override {}
};

// A host function frees what it owns when it has run, on a thread of the driver's; a thread that
// waits for the stream must not keep it from that.
TEST(MemoryProcess, HostFunctionsMayOwnMemoryThatSomebodyWaitsFor) {
  for (const bool caching : {true, false}) {
    for (const bool watched : {false, true}) {
      IN_CHILD({
        within_a_minute();
        if (!caching) setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
        Silent observer;
        if (watched) set_observer(&observer);
        {
          const Stream stream(0);
          test::Gate gate(stream);
          auto owned = std::make_shared<DeviceBuffer>(allocate(kMiB, stream));
          DeviceBuffer used = allocate(kMiB, default_stream(0));
          host_function([owned = std::move(owned)]() mutable { owned.reset(); }, stream);
          record_stream(used, stream);
          used.reset();  // free when the host function is done
          std::thread opener([&] { gate.open(); });
          empty_cache();
          opener.join();
          stream.synchronize();
        }
        empty_cache();
        EXPECT_EQ(memory_reserved(0), 0U);
        EXPECT_EQ(memory_counters(0).active.all.current, 0);
        if (watched) set_observer(nullptr);
      });
    }
  }
}

TEST(MemoryProcess, HostFunctionsThatWouldWaitForThemselvesAreTold) {
  for (const bool caching : {true, false}) {
    IN_CHILD({
      within_a_minute();
      if (!caching) setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
      const Stream stream(0);
      const std::size_t most = mem_get_info(0).first / 4 * 3;
      DeviceBuffer large = allocate(most, stream);
      bool ran = false;
      host_function(
          [&] {
            large.reset();
            EXPECT_ERROR(empty_cache(), AcceleratorError, "operation not permitted");
            try {  // CUDA permits no call at all
              (void)allocate(most + most / 4, default_stream(0));
              ADD_FAILURE() << "allocated by waiting for itself";
            } catch (const OutOfMemoryError& error) {
              EXPECT_NE(std::string(error.what()).find("host function"), std::string::npos);
            } catch (const AcceleratorError& error) {
              EXPECT_EQ(error.error_code(), static_cast<int>(Code::not_permitted));
            }
            ran = true;
          },
          stream);
      stream.synchronize();
      EXPECT_TRUE(ran);
      EXPECT_NE(allocate(most, default_stream(0)).data(), nullptr);
    });
  }
}

TEST(MemoryProcess, PinnedMemoryWakesTheCurrentDeviceOrNone) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    PinnedBuffer first;
    {
      const DeviceGuard guard(1);
      first = allocate_pinned(1000);
    }
    EXPECT_TRUE(active_driver().device_active(1));
    EXPECT_FALSE(active_driver().device_active(0));
    const PinnedBuffer second = allocate_pinned(5000);
    EXPECT_FALSE(active_driver().device_active(0)) << "one device is enough";
  });
}

TEST(MemoryProcess, AResetTakesTheMemoryThatIsNotCached) {
  IN_CHILD({
    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
    DeviceBuffer kept = allocate(kMiB, default_stream(0));
    void* const pointer = kept.data();
    reset_device(0);
    std::vector<DeviceBuffer> next;  // one of them may have the address
    for (int i = 0; i < 8; ++i) next.push_back(allocate(kMiB, default_stream(0)));
    const std::size_t free_before = mem_get_info(0).first;
    kept.reset();
    EXPECT_EQ(mem_get_info(0).first, free_before);
    for (const DeviceBuffer& buffer : next) fill_async(buffer.data(), 1, kMiB, default_stream(0));
    synchronize(0);
    EXPECT_TRUE(!is_simulated() || next[0].data() == pointer) << "the test proves too little";
  });
}

TEST(MemoryProcess, PinnedMemoryFromBeforeAResetGoesBack) {
  IN_CHILD({
    PinnedBuffer kept = allocate_pinned(3 << 20);  // each in a segment of its own
    allocate_pinned(5 << 20).reset();
    EXPECT_EQ(pinned_counters().allocations.current, 2);
    kept.as<char>()[0] = 7;
    reset_device(0);
    EXPECT_EQ(pinned_counters().allocations.current, 1);
    EXPECT_EQ(kept.as<char>()[0], 7);
    kept.reset();
    EXPECT_EQ(pinned_counters().allocations.current, 0);
  });
}

// Events that are kept for reuse do not survive a reset: memory would be reused under running work.
TEST(MemoryProcess, MemoryWaitsForOtherStreamsAlsoAfterAReset) {
  IN_CHILD({
    for (const bool after_reset : {false, true}) {
      const Stream stream(0);
      PinnedBuffer pinned = allocate_pinned(4096);
      const void* const address = pinned.data();
      const DeviceBuffer device = allocate(4096, stream);
      test::Gate gate(stream);
      copy_async(device.data(), pinned.data(), 4096, stream);
      EXPECT_TRUE(pinned_record_event(pinned, stream));
      pinned.reset();
      EXPECT_NE(allocate_pinned(4096).data(), address) << after_reset;
      gate.open();
      stream.synchronize();
      EXPECT_EQ(allocate_pinned(4096).data(), address);  // the event is free again
      if (!after_reset) reset_device(0);
    }
  });
  if (device_count() < 2) return;
  IN_CHILD({
    const Stream own(1);
    for (const bool after_reset : {false, true}) {
      const Stream other(0);
      DeviceBuffer buffer = allocate(4096, own);
      const void* const address = buffer.data();
      test::Gate gate(other);
      record_stream(buffer, other);
      buffer.reset();
      EXPECT_NE(allocate(4096, own).data(), address) << after_reset;
      gate.open();
      other.synchronize();
      EXPECT_EQ(allocate(4096, own).data(), address);
      if (!after_reset) reset_device(0);
    }
  });
}

TEST(MemoryProcess, ABufferWhoseMemoryWasFreedByItsAddressHarmsNobody) {
  IN_CHILD({
    const Stream stream(0);
    DeviceBuffer first = allocate(4096, stream);
    caching_allocator_delete(first.data());
    const DeviceBuffer second = allocate(4096, stream);
    EXPECT_EQ(second.data(), first.data());
    first.reset();
    EXPECT_EQ(memory_allocated(0), 4096U);
    EXPECT_NE(allocate(4096, stream).data(), second.data());
  });
}

TEST(MemoryProcess, AFaultDoesNotStopAllocationsForOtherDevices) {
  if (device_count() < 2 || !is_simulated()) GTEST_SKIP() << "needs two simulated devices";
  IN_CHILD({
    const Stream broken(0);
    const Stream own(1);
    DeviceBuffer buffer = allocate(4096, own);
    void* const address = buffer.data();
    PinnedBuffer pinned = allocate_pinned(4096);
    record_stream(buffer, broken);
    EXPECT_TRUE(pinned_record_event(pinned, broken));
    launch(broken, "broken", [](const HostLaunch&) { return Status(Code::illegal_address); });
    EXPECT_ERROR(broken.synchronize(), AcceleratorError, "illegal");
    buffer.reset();
    pinned.reset();
    EXPECT_NE(allocate(4096, own).data(), address);
    EXPECT_NE(allocate_pinned(4096).data(), nullptr);
    EXPECT_ERROR((void)allocate(4096, default_stream(0)), AcceleratorError, "illegal");
    empty_cache();
    pinned_empty_cache();
    EXPECT_EQ(memory_counters(1).active.all.current, 1);
    reset_device(0);
    (void)allocate(512, own);
    EXPECT_EQ(memory_counters(1).active.all.current, 0);
    EXPECT_EQ(pinned_counters().allocations.current, 0);
  });
}

// On real devices a stream that was destroyed must not be used at all.
TEST(MemoryProcess, MemoryOfAStreamThatIsGoneIsNotLost) {
  if (!is_simulated()) GTEST_SKIP() << "needs simulated devices";
  IN_CHILD({
    driver::StreamHandle handle;
    check(active_driver().stream_create(0, 0, handle));
    {
      const ExternalStream external(handle.native, 0);
      const DeviceBuffer buffer = allocate(4096, default_stream(0));
      const PinnedBuffer pinned = allocate_pinned(4096);
      record_stream(buffer, external);
      EXPECT_TRUE(pinned_record_event(pinned, external));
      check(active_driver().stream_destroy(handle));
    }
    EXPECT_EQ(memory_counters(0).active.all.current, 1);
    empty_cache();
    pinned_empty_cache();
    EXPECT_EQ(memory_counters(0).active.all.current, 0);
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_EQ(pinned_counters().allocations.current, 0);
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
