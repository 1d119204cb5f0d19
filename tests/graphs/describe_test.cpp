// What a graph says of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::GraphDescription;
using test::kFloats;

TEST(GraphDescriptions, HaveNodesEdgesBytesAndAddresses) {
  NEEDS_CACHING();
  const Tensor x = ones({1000}, kFloats), copied = zeros({1000}, kFloats);
  const cuda::Stream side(0);
  cuda::synchronize();
  Tensor y;
  CUDAGraph graph;
  EXPECT_ERROR(graph.describe(), Error,
               "Called CUDAGraph::describe without a preceding successful capture.");
  {
    auto scope = cuda::graph(graph);
    const cuda::Stream main = cuda::current_stream();
    y = x + 1;  // 0
    side.wait_stream(main);
    {
      const cuda::StreamGuard there(side);
      cuda::copy_async(copied.data_ptr(), y.data_ptr(), 4000);  // 1
    }
    y.mul_(2);  // 2
    main.wait_stream(side);
    cuda::fill_async(copied.data_ptr(), 0, 400);  // 3
    scope.end();
  }
  const GraphDescription what = graph.describe();
  ASSERT_EQ(what.nodes.size(), 4U);
  EXPECT_EQ(what.branches, 2U);
  using Nodes = std::vector<std::size_t>;
  EXPECT_EQ(what.nodes[0].name, "add.float32");
  EXPECT_EQ(what.nodes[0].kind, "kernel");
  EXPECT_EQ(what.nodes[0].after, Nodes());
  EXPECT_EQ(what.nodes[1].kind, "copy");
  EXPECT_EQ(what.nodes[1].bytes, 4000U);
  EXPECT_EQ(what.nodes[1].branch, 1U);
  EXPECT_EQ(what.nodes[1].after, Nodes{0});
  EXPECT_EQ(what.nodes[2].branch, 0U);
  EXPECT_EQ(what.nodes[2].after, Nodes{0});
  EXPECT_EQ(what.nodes[3].kind, "fill");
  EXPECT_EQ(what.nodes[3].bytes, 400U);
  Nodes after = what.nodes[3].after;
  std::sort(after.begin(), after.end());
  EXPECT_EQ(after, (Nodes{1, 2}));

  const auto number = [](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  };
  const auto has = [&](std::size_t node, const Tensor& tensor, std::size_t bytes, bool writes) {
    const auto& memory = what.nodes[node].memory;
    return std::any_of(memory.begin(), memory.end(), [&](const GraphDescription::Memory& each) {
      return each.address == number(tensor) && each.bytes == bytes && each.writes == writes;
    });
  };
  EXPECT_TRUE(has(0, x, 4000, false));
  EXPECT_TRUE(has(0, y, 4000, true));
  EXPECT_TRUE(has(1, y, 4000, false));
  EXPECT_TRUE(has(1, copied, 4000, true));
  EXPECT_TRUE(has(3, copied, 400, true));
  for (const GraphDescription::Node& node : what.nodes) EXPECT_NE(node.stack, "");
  const std::string text = what.str();
  EXPECT_EQ(text.find("4 nodes in 2 branches\n0: add.float32 (cuda:0, branch 0)\n"), 0U) << text;
  EXPECT_NE(text.find("1: copy (cuda:0, branch 1), 4000 bytes, after 0\n"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace ember
