// What is free in the order of streams, without a device: what a race with a reset leaves.
#include "ember/driver/sim/ordered_memory.h"

#include <gtest/gtest.h>

namespace ember::driver::sim {
namespace {

TEST(OrderedMemory, APieceThatAResetOvertookIsInNobodysWay) {
  const Exit exit;
  Timeline stream(exit, 0);
  char memory = 0;
  OrderedMemory ordered;
  EXPECT_TRUE(ordered.put({0, 1, 512, &memory, {&stream, 0, 1}}));
  EXPECT_FALSE(ordered.put({0, 1, 512, &memory, {&stream, 0, 1}})) << "freed twice";
  ordered.begin_epoch(0, 2);
  EXPECT_FALSE(ordered.has(&memory, 1));
  EXPECT_TRUE(ordered.put({0, 1, 512, &memory, {&stream, 0, 1}})) << "too late";
  EXPECT_FALSE(ordered.has(&memory, 2));
  EXPECT_EQ(ordered.take(0, 2, 512, stream), nullptr);
  EXPECT_TRUE(ordered.put({0, 2, 512, &memory, {&stream, 0, 2}})) << "the same address, anew";
  EXPECT_TRUE(ordered.put({0, 1, 512, &memory, {&stream, 0, 1}})) << "even later";
  EXPECT_EQ(ordered.take(0, 2, 512, stream), &memory);
  EXPECT_EQ(ordered.take(0, 2, 512, stream), nullptr);
  EXPECT_TRUE(ordered.take_unused(0).empty());
}

TEST(OrderedMemory, DevicesAndSizesAreApart) {
  const Exit exit;
  Timeline stream(exit, 0), other(exit, 1);
  char memory[3] = {};
  OrderedMemory ordered;
  EXPECT_TRUE(ordered.put({0, 0, 512, &memory[0], {&stream, 0, 0}}));
  EXPECT_TRUE(ordered.put({1, 0, 512, &memory[1], {&other, 1, 0}}));
  EXPECT_TRUE(ordered.put({0, 0, 1024, &memory[2], {&stream, 0, 0}}));
  EXPECT_EQ(ordered.take(0, 0, 2048, stream), nullptr);
  EXPECT_EQ(ordered.take(1, 0, 512, stream), nullptr) << "its stream has not come so far";
  EXPECT_EQ(ordered.take(1, 0, 512, other), &memory[1]) << "its own later work may have it";
  EXPECT_EQ(ordered.take(0, 0, 1024, other), &memory[2]) << "nothing was enqueued before";
  EXPECT_EQ(ordered.take_unused(1).size(), 0U);
  EXPECT_EQ(ordered.take_unused(0).size(), 1U);
}

}  // namespace
}  // namespace ember::driver::sim
