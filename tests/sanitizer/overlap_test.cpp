// Whether strided accesses meet: against a program that looks at every byte.
#include "ember/sanitizer/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace ember::cuda::sanitizer {
namespace {

struct View {
  std::uintptr_t start = 0;
  std::uint32_t item = 1;
  std::vector<std::int64_t> sizes, strides;

  Access access() const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    Access made{reinterpret_cast<const void*>(start), static_cast<std::size_t>(last + 1) * item,
                true};
    made.item = item;
    made.sizes = sizes;
    made.strides = strides;
    return made;
  }
  void add_to(std::set<std::uintptr_t>& bytes, std::size_t dim, std::uintptr_t from) const {
    if (dim == sizes.size()) {
      for (std::uint32_t i = 0; i < item; ++i) bytes.insert(from + i);
      return;
    }
    for (std::int64_t i = 0; i < sizes[dim]; ++i)
      add_to(bytes, dim + 1, from + static_cast<std::uintptr_t>(i * strides[dim]) * item);
  }
  std::set<std::uintptr_t> bytes() const {
    std::set<std::uintptr_t> made;
    add_to(made, 0, start);
    return made;
  }
};

TEST(Overlap, IsThatOfTheBytes) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % unsigned(n)); };
  int met = 0;
  for (int round = 0; round < 20000; ++round) {
    View views[2];
    for (View& view : views) {
      view.start = static_cast<std::uintptr_t>(1000 + below(40));
      view.item = 1U << below(4);
      for (std::int64_t d = below(4); d > 0; --d) {
        view.sizes.push_back(1 + below(5));
        view.strides.push_back(below(9));
      }
    }
    const std::set<std::uintptr_t> a = views[0].bytes(), b = views[1].bytes();
    bool shared = false;
    for (const std::uintptr_t byte : a) shared |= b.contains(byte);
    met += shared;
    const Bytes x = bytes_of(views[0].access()), y = bytes_of(views[1].access());
    ASSERT_EQ(overlap(x, y), shared ? Overlap::certain : Overlap::none) << "round " << round;
    ASSERT_EQ(overlap(y, x), shared ? Overlap::certain : Overlap::none) << "round " << round;
    // With hardly a step, an answer other than "possible" is right all the same.
    const Overlap hasty = overlap(x, y, static_cast<std::size_t>(1 + below(4)));
    ASSERT_NE(hasty, shared ? Overlap::none : Overlap::certain) << "round " << round;
  }
  EXPECT_GT(met, 2000);
  EXPECT_LT(met, 19000);
}

// Two views of so many runs that nobody could look at each, one shifted by some bytes.
Overlap of_shifted(const View& view, std::uintptr_t bytes, std::size_t limit = 20000) {
  View other = view;
  other.start += bytes;
  const Overlap there = overlap(bytes_of(view.access()), bytes_of(other.access()), limit);
  EXPECT_EQ(overlap(bytes_of(other.access()), bytes_of(view.access()), limit), there);
  return there;
}

TEST(Overlap, WhatTheSameStepsKeepApartDoesNotMeet) {
  const View even{4096, 4, {1 << 30}, {2}};
  EXPECT_EQ(of_shifted(even, 4), Overlap::none);
  EXPECT_EQ(of_shifted(even, 12), Overlap::none);
  EXPECT_EQ(of_shifted(even, 8), Overlap::certain);
  EXPECT_EQ(of_shifted(even, 2), Overlap::certain);
  const View columns{4096, 4, {100000, 500}, {1000, 2}};
  EXPECT_EQ(of_shifted(columns, 4), Overlap::none);
  EXPECT_EQ(of_shifted(columns, 4, 10), Overlap::none);
  // The left half of even columns, and the right half of them.
  const View left{4096, 4, {100000, 250}, {1000, 2}};
  EXPECT_EQ(of_shifted(left, std::uintptr_t{500} * 4), Overlap::none);
  EXPECT_EQ(of_shifted(left, std::uintptr_t{498} * 4), Overlap::certain);
  // Elements of three and of five share every fifteenth.
  const View threes{4096, 4, {1 << 30}, {3}};
  View fives{4096 + 4, 4, {1 << 30}, {5}};
  EXPECT_EQ(overlap(bytes_of(threes.access()), bytes_of(fives.access())), Overlap::certain);
  // Of six and of nine, one further on, none.
  const View sixes{4096, 4, {1 << 30}, {6}}, nines{4096 + 4, 4, {1 << 30}, {9}};
  EXPECT_EQ(overlap(bytes_of(sixes.access()), bytes_of(nines.access())), Overlap::none);
}

TEST(Overlap, WhatIsTooLongToFindOutIsPossible) {
  // The gaps of one are filled by the other's last rows only.
  const View rows{1 << 20, 4, {40, 100, 100}, {100000, 301, 3}};
  View others{(1 << 20) + 4, 4, {40, 100, 100}, {99990, 299, 5}};
  EXPECT_EQ(overlap(bytes_of(rows.access()), bytes_of(others.access()), 3), Overlap::possible)
      << "and not taken for an answer";
  const View many{1 << 20, 4, {2, 100000000}, {300000001, 3}};
  EXPECT_EQ(of_shifted(many, 4), Overlap::possible);
}

TEST(Overlap, WithoutGapsAPatternIsARange) {
  EXPECT_TRUE(bytes_of(View{64, 8, {4, 5}, {5, 1}}.access()).dense());
  EXPECT_TRUE(bytes_of(View{64, 8, {4, 5}, {1, 4}}.access()).dense());
  EXPECT_FALSE(bytes_of(View{64, 8, {4, 5}, {6, 1}}.access()).dense());
}

}  // namespace
}  // namespace ember::cuda::sanitizer
