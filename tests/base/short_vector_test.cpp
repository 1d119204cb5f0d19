#include "ember/base/short_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace ember {
namespace {

using Few = ShortVector<std::int64_t, 3>;

std::vector<std::int64_t> values(const Few& row) { return {row.begin(), row.end()}; }

/// Whether the values lie in the object itself.
bool is_here(const Few& row) {
  const auto* const at = reinterpret_cast<const std::byte*>(row.data());
  const auto* const object = reinterpret_cast<const std::byte*>(&row);
  return at >= object && at < object + sizeof row;
}

TEST(ShortVector, GrowsBeyondItsPlaces) {
  Few row;
  EXPECT_TRUE(row.empty());
  for (std::int64_t i = 0; i < 100; ++i) {
    row.push_back(i);
    EXPECT_EQ(is_here(row), i < 3);
  }
  ASSERT_EQ(row.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(row[i], static_cast<std::int64_t>(i));
  row.clear();
  EXPECT_TRUE(row.empty());
  row.push_back(7);
  EXPECT_EQ(values(row), (std::vector<std::int64_t>{7}));
}

TEST(ShortVector, CopiesAreApart) {
  for (const std::size_t size : {0, 2, 3, 4, 50}) {
    std::vector<std::int64_t> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 5);
    const Few row(numbers);
    Few copy = row;
    EXPECT_EQ(values(copy), numbers);
    copy.push_back(1);
    EXPECT_EQ(values(row), numbers);
    Few assigned{1, 2, 3, 4, 5};
    assigned = row;
    EXPECT_EQ(values(assigned), numbers);
    const Few& same = assigned;
    assigned = same;
    EXPECT_EQ(values(assigned), numbers);
  }
}

TEST(ShortVector, EqualsByItsValues) {
  const Few row{1, 2, 3, 4};
  EXPECT_TRUE(row == (Few{1, 2, 3, 4}));
  EXPECT_FALSE(row == (Few{1, 2, 3}));
  EXPECT_FALSE(row == (Few{1, 2, 3, 5}));
}

TEST(ShortVector, TakesAValueOfItsOwnWhileItGrows) {
  Few row{1, 2, 3};
  row.push_back(row[1]);
  EXPECT_EQ(values(row), (std::vector<std::int64_t>{1, 2, 3, 2}));
}

}  // namespace
}  // namespace ember
