// Ember's memory by its functions with plain names, as other libraries call them.
#include "ember/memory/allocator_functions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "ember/runtime/device.h"
#include "ember/runtime/stream.h"
#include "tests/support/devices.h"
#include "tests/support/gate.h"

namespace ember::cuda {
namespace {

constexpr std::size_t kSize = std::size_t{1} << 20;

TEST(AllocatorFunctions, AllocateAndFreeWhatEmberCounts) {
  NEEDS_DEVICES(1);
  const std::size_t before = memory_allocated(0);
  void* const memory = ember_allocator_malloc(kSize, 0, nullptr);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory_allocated(0), before + kSize);
  ember_allocator_free(memory, kSize, 0, nullptr);
  EXPECT_EQ(memory_allocated(0), before);
  EXPECT_EQ(ember_allocator_malloc(0, 0, nullptr), nullptr);
  ember_allocator_free(nullptr, 0, 0, nullptr);
  EXPECT_THROW(ember_allocator_malloc(kSize, 99, nullptr), AcceleratorError);
}

TEST(AllocatorFunctions, ThrowWhereMemoryIsExhaustedAndGoOn) {
  NEEDS_DEVICES(1);
  EXPECT_THROW(ember_allocator_malloc(std::size_t{1} << 50, 0, nullptr), OutOfMemoryError);
  void* const memory = ember_allocator_malloc(kSize, 0, nullptr);
  EXPECT_NE(memory, nullptr);
  ember_allocator_free(memory, kSize, 0, nullptr);
}

TEST(AllocatorFunctions, IgnoreWhatIsNotTheirs) {
  NEEDS_DEVICES(1);
  int other = 0;
  const std::size_t before = memory_allocated(0);
  testing::internal::CaptureStderr();
  ember_allocator_free(&other, 4, 0, nullptr);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ember: a library freed 0x"),
            std::string::npos);
  EXPECT_EQ(memory_allocated(0), before);
}

TEST(AllocatorFunctions, MemoryThatAnotherStreamUsesIsNotReused) {
  NEEDS_DEVICES(1);
  NEEDS_CACHING();
  NEEDS_CONCURRENCY();
  const Stream mine(0);
  const Stream other(0);
  void* const memory = ember_allocator_malloc(kSize, 0, mine.native());
  {
    test::Gate gate(other);
    ember_allocator_record_stream(memory, other.native());
    ember_allocator_free(memory, kSize, 0, mine.native());
    void* const next = ember_allocator_malloc(kSize, 0, mine.native());
    EXPECT_NE(next, memory);
    ember_allocator_free(next, kSize, 0, mine.native());
    gate.open();
  }
  other.synchronize();
  ember_allocator_empty_cache();
}

TEST(AllocatorFunctions, TellTheSegment) {
  NEEDS_DEVICES(1);
  NEEDS_CACHING();
  void* const memory = ember_allocator_malloc(kSize, 0, nullptr);
  std::size_t bytes = 0;
  void* const base = ember_allocator_base(static_cast<char*>(memory) + 100, &bytes);
  EXPECT_LE(base, memory);
  EXPECT_GE(static_cast<char*>(base) + bytes, static_cast<char*>(memory) + kSize);
  ember_allocator_free(memory, kSize, 0, nullptr);
  int other = 0;
  EXPECT_EQ(ember_allocator_base(&other, &bytes), nullptr);
  EXPECT_EQ(bytes, 0U);
}

TEST(AllocatorFunctions, StreamsThatTheFilterAcceptsAreServedFromThePool) {
  NEEDS_DEVICES(1);
  NEEDS_CACHING();
  const Stream stream(0);
  const MemPoolId pool = graph_pool_handle();
  const auto mine = [wanted = stream.native()](void* asked) { return asked == wanted; };
  ember_allocator_begin_pool(0, pool, mine);
  EXPECT_THROW(ember_allocator_begin_pool(0, pool, mine), Error);
  void* const inside = ember_allocator_malloc(kSize, 0, stream.native());
  void* const outside = ember_allocator_malloc(kSize, 0, nullptr);
  ember_allocator_end_pool(0, pool);
  EXPECT_THROW(ember_allocator_end_pool(0, pool), Error);
  std::size_t bytes = 0;
  EXPECT_NE(ember_allocator_base(inside, &bytes), ember_allocator_base(outside, &bytes));
  ember_allocator_free(inside, kSize, 0, stream.native());
  // Freed memory of the pool stays the pool's.
  void* const ordinary = ember_allocator_malloc(kSize, 0, stream.native());
  EXPECT_NE(ordinary, inside);
  ember_allocator_free(ordinary, kSize, 0, stream.native());
  ember_allocator_free(outside, kSize, 0, nullptr);
  ember_allocator_release_pool(0, pool);
  ember_allocator_empty_cache();
}

TEST(AllocatorFunctions, TheFractionLimits) {
  NEEDS_DEVICES(1);
  EXPECT_THROW(ember_allocator_set_fraction(2, 0), ValueError);
  ember_allocator_set_fraction(0.5, 0);
  EXPECT_EQ(get_per_process_memory_fraction(0), 0.5);
  ember_allocator_set_fraction(1, 0);
}

}  // namespace
}  // namespace ember::cuda
