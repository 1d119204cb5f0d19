// Flame graphs, of lines alone; of snapshots: tests/python/test_memory_viz.py.
#include "ember/memory/flame_graph.h"

#include <gtest/gtest.h>

#include <string>

#include "ember/base/error.h"

namespace ember::cuda {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

TEST(FlameGraph, EqualNamesOnTheSameCallersAreOnePart) {
  const std::string picture = flame_graph("a;x 10\nb;x 20\na;x 30\n", "Bytes & more");
  EXPECT_EQ(count(picture, "data-name=\"x\""), 2U);
  EXPECT_EQ(count(picture, "data-name=\"a\""), 1U);
  EXPECT_NE(picture.find("40 bytes, 66.67 %"), std::string::npos);
  EXPECT_NE(picture.find("Bytes &amp; more"), std::string::npos);
}

TEST(FlameGraph, WhatCannotBeSeenIsLeftOut) {
  EXPECT_EQ(count(flame_graph("large 1000000\nsmall 1\n", ""), "data-name=\"small\""), 0U);
}

TEST(FlameGraph, TextsAreCutBetweenCharacters) {
  std::string umlauts;
  for (int i = 0; i < 400; ++i) umlauts += "\xc3\xa4";
  const std::string picture = flame_graph(umlauts + " 1\n", "");
  EXPECT_EQ(picture.find("\xc3<"), std::string::npos);
  EXPECT_EQ(picture.find("\xc3."), std::string::npos);
}

TEST(FlameGraph, BadInput) {
  EXPECT_THROW((void)flame_graph("a\n", ""), ValueError);
  EXPECT_THROW((void)flame_graph("a 1\nb -1\n", ""), ValueError);
  EXPECT_THROW((void)flame_graph("a 9223372036854775807\na 1\n", ""), ValueError);
  EXPECT_THROW((void)flame_graph("\xc3 1\n", ""), ValueError);
  EXPECT_THROW((void)flame_graph("a 1\n", "\xff"), ValueError);
  EXPECT_THROW((void)folded_memory("no pickle", FoldedBy::stream), ValueError);
  EXPECT_THROW((void)folded_changes("no pickle", "nor this"), ValueError);
}

}  // namespace
}  // namespace ember::cuda
