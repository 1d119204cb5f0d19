#include "ember/base/host_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>

#include "ember/base/sanitizer.h"

namespace {

using ember::allocate_host_memory;
using ember::free_host_memory;

constexpr std::size_t kHugePage = std::size_t{2} << 20;

TEST(HostMemory, BeginsAtItsAlignmentAndHoldsItsBytes) {
  for (const std::size_t alignment :
       {std::size_t{1}, std::size_t{16}, std::size_t{64}, std::size_t{4096}, std::size_t{1} << 16})
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{63}, std::size_t{4096}, 2 * kHugePage, 16 * kHugePage + 1}) {
      void* const data = allocate_host_memory(alignment, bytes);
      ASSERT_NE(data, nullptr);
      const auto address = reinterpret_cast<std::uintptr_t>(data);
      EXPECT_EQ(address % alignment, 0U) << alignment << ' ' << bytes;
#if !defined(EMBER_SANITIZED_HEAP)
      if (bytes >= 16 * kHugePage) {
        EXPECT_EQ(address % kHugePage, 0U) << alignment;
      }
#endif
      std::memset(data, 0xff, bytes);  // the address of what to free lies before it
      free_host_memory(data);
    }
  free_host_memory(nullptr);
}

// Sanitizers end the program where there is no memory, and keep what is freed from being used
// again.
#if !defined(EMBER_SANITIZED_HEAP)
TEST(HostMemory, ThatThereIsNotIsNull) {
  EXPECT_EQ(allocate_host_memory(64, std::numeric_limits<std::size_t>::max() / 4), nullptr);
}

// A program that computes x = f(x) holds two blocks at a time: it should live in few.
TEST(HostMemory, IsFoundAgainWhenFreed) {
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{16} << 20}) {
    std::set<void*> blocks;
    void* kept = nullptr;
    for (int i = 0; i < 40; ++i) {
      void* const made = allocate_host_memory(64, bytes);
      ASSERT_NE(made, nullptr);
      blocks.insert(made);
      free_host_memory(kept);
      kept = made;
    }
    free_host_memory(kept);
    EXPECT_LE(blocks.size(), 8U) << bytes;
  }
}
#endif

}  // namespace
