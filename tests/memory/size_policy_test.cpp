#include "ember/memory/size_policy.h"

#include <gtest/gtest.h>

#include <array>

namespace ember::memory {
namespace {

// The numbers are written out here, from chapter 8, not taken from the code.

TEST(SizePolicy, RoundsToMultiplesOf512) {
  struct Row {
    std::size_t request, block;
  };
  for (const auto& [request, block] : std::array<Row, 11>{{{1, 512},
                                                           {511, 512},
                                                           {512, 512},
                                                           {513, 1024},
                                                           {1200, 1536},
                                                           {5000, 5120},
                                                           {1048576, 1048576},
                                                           {1048577, 1049088},
                                                           {10485760, 10485760},
                                                           {1000000007, 1000000512},
                                                           {(1ull << 60) - 1, 1ull << 60}}})
    EXPECT_EQ(round_size(request), block) << request;
}

TEST(SizePolicy, SmallBlocksEndAtOneMebibyte) {
  EXPECT_TRUE(is_small(512));
  EXPECT_TRUE(is_small(1048576));
  EXPECT_FALSE(is_small(1048576 + 512));
}

TEST(SizePolicy, SegmentSizes) {
  struct Row {
    std::size_t block, segment;
  };
  for (const auto& [block, segment] : std::array<Row, 9>{{{512, 2097152},
                                                          {1048576, 2097152},
                                                          {1049088, 20971520},
                                                          {10485760 - 512, 20971520},
                                                          {10485760, 10485760},
                                                          {10485760 + 512, 12582912},
                                                          {20971520, 20971520},
                                                          {20971520 + 512, 23068672},
                                                          {1073741824, 1073741824}}})
    EXPECT_EQ(segment_size(block), segment) << block;
}

TEST(SizePolicy, Splitting) {
  EXPECT_TRUE(should_split(true, 1024, 512));
  EXPECT_FALSE(should_split(true, 1024, 1024));
  EXPECT_TRUE(should_split(true, 2097152, 2097152 - 512));
  EXPECT_FALSE(should_split(false, 20971520, 20971520));
  EXPECT_FALSE(should_split(false, 20971520, 20971520 - 1048576));  // the rest must exceed 1 MiB
  EXPECT_TRUE(should_split(false, 20971520, 20971520 - 1048576 - 512));
}

}  // namespace
}  // namespace ember::memory
