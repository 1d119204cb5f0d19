// The table of memory_summary: lines written out here, from chapter 9.
#include "ember/memory/summary.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace ember::cuda {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Counter all(std::int64_t value) { return {value, value, value, value}; }

TEST(Summary, LooksAsDocumented) {
  MemoryCounters counters;
  counters.allocated_bytes.all = all(21504 << 10);
  const std::string text = memory_summary(counters, 0, /*abbreviated=*/true);
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(text.back(), '\n');
  ASSERT_EQ(lines.size(), 6U + 2 * 11 + 1);
  for (const std::string& line : lines) EXPECT_EQ(line.size(), 77U) << line;
  const std::string rule = "|" + std::string(75, '-') + "|",
                    strong = "|" + std::string(75, '=') + "|";
  const std::vector<std::string> head = {
      strong, "|                  PyTorch CUDA memory summary, device ID 0                 |",
      rule,   "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |",
      strong, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
      rule,   "| Allocated memory      |  21504 KiB |  21504 KiB |  21504 KiB |  21504 KiB |",
      rule};
  EXPECT_EQ(std::vector<std::string>(lines.begin(), lines.begin() + 9), head);
  EXPECT_EQ(lines[25],
            "| Oversize allocations  |       0    |       0    |       0    |       0    |");
  EXPECT_EQ(lines[27],
            "| Oversize GPU segments |       0    |       0    |       0    |       0    |");
  EXPECT_EQ(lines.back(), strong);
}

TEST(Summary, RowsOfSegmentsHaveTheUnitOfTheirMetric) {
  MemoryCounters counters;
  counters.allocated_bytes = {{768 * 1024, 768 * 1024 - 1, std::int64_t{768} << 20, 0}, {}, {}};
  counters.allocated_bytes.small_pool = {1023, 1023, (1 << 20) + 5, 0};
  counters.allocation.all = {750000, 749999, 750000000, 3};
  counters.allocation.large_pool = {999, 999, 1999999, 3};
  const std::vector<std::string> lines = lines_of(memory_summary(counters, 12, false));
  ASSERT_EQ(lines.size(), 6U + 9 * 4 + 2 * 2 + 1);
  EXPECT_EQ(lines[1],
            "|                  PyTorch CUDA memory summary, device ID 12                |");
  EXPECT_EQ(lines[7],
            "| Allocated memory      |    768 KiB | 786431 B   |    768 MiB |      0 B   |");
  EXPECT_EQ(lines[8],
            "|       from large pool |      0 KiB |      0 B   |      0 MiB |      0 B   |");
  EXPECT_EQ(lines[9],
            "|       from small pool |      0 KiB |   1023 B   |      1 MiB |      0 B   |");
  EXPECT_EQ(lines[27],
            "| Allocations           |     750 K  |  749999    |     750 M  |       3    |");
  EXPECT_EQ(lines[28],
            "|       from large pool |       0 K  |     999    |       1 M  |       3    |");
}

}  // namespace
}  // namespace ember::cuda
