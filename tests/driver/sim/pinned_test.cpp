#include "ember/driver/sim/pinned.h"

#include <gtest/gtest.h>

#include <vector>

namespace ember::driver::sim {
namespace {

TEST(PinnedMemory, KnowsItsRanges) {
  PinnedMemory memory;
  void* block = nullptr;
  ASSERT_TRUE(memory.allocate(10'000, block).ok());
  auto* bytes = static_cast<std::byte*>(block);
  EXPECT_TRUE(memory.contains(bytes, 10'000));
  EXPECT_TRUE(memory.contains(bytes + 9'999, 1));
  EXPECT_FALSE(memory.contains(bytes + 9'999, 2));
  EXPECT_FALSE(memory.contains(bytes + 10'000, 1));
  PointerInfo info;
  EXPECT_TRUE(memory.find(bytes + 5, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::pinned);
  EXPECT_EQ(info.base, block);
  EXPECT_FALSE(memory.free(bytes + 1).ok());
  EXPECT_FALSE(memory.remove(block).ok()) << "allocated, not registered";
  EXPECT_TRUE(memory.free(block).ok());
  EXPECT_FALSE(memory.free(block).ok());
  EXPECT_FALSE(memory.contains(bytes, 1));
}

TEST(PinnedMemory, RefusesOverlaps) {
  PinnedMemory memory;
  std::vector<std::byte> mine(1000);
  ASSERT_TRUE(memory.add(mine.data() + 100, 100).ok());
  EXPECT_EQ(memory.add(mine.data() + 100, 1).code(), Code::host_memory_already_registered);
  EXPECT_EQ(memory.add(mine.data() + 199, 10).code(), Code::host_memory_already_registered);
  EXPECT_EQ(memory.add(mine.data() + 50, 51).code(), Code::host_memory_already_registered);
  EXPECT_EQ(memory.add(mine.data(), 1000).code(), Code::host_memory_already_registered);
  ASSERT_TRUE(memory.add(mine.data() + 200, 10).ok()) << "touching is not overlapping";
  ASSERT_TRUE(memory.add(mine.data() + 50, 50).ok());
  EXPECT_FALSE(memory.free(mine.data() + 100).ok()) << "registered, not allocated";
  EXPECT_TRUE(memory.remove(mine.data() + 100).ok());
  EXPECT_TRUE(memory.remove(mine.data() + 50).ok());
  EXPECT_TRUE(memory.remove(mine.data() + 200).ok());
  EXPECT_EQ(memory.remove(mine.data() + 200).code(), Code::host_memory_not_registered);
  EXPECT_EQ(memory.add(mine.data(), 0).code(), Code::invalid_value);
  EXPECT_EQ(memory.add(mine.data(), ~std::size_t{0}).code(), Code::invalid_value);
}

}  // namespace
}  // namespace ember::driver::sim
