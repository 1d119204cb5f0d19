// The classes of orders, against known counts and against every order of small random programs.
#include "ember/explore/classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace ember::explore {
namespace {

std::vector<Orientation> all_of(Classes& classes) {
  std::vector<Orientation> all;
  for (Orientation one; classes.next(one);) all.push_back(one);
  return all;
}

/// How each pair comes in one order of all events.
Orientation seen_in(const std::vector<std::size_t>& line, const std::vector<Edge>& pairs) {
  std::vector<std::size_t> place(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) place[line[i]] = i;
  Orientation seen;
  for (const Edge& pair : pairs) seen.push_back(place[pair.second] < place[pair.first]);
  return seen;
}

TEST(Classes, IndependentPairsAreTwoToThePowerOfTheirNumber) {
  for (std::size_t n = 0; n <= 10; ++n) {
    std::vector<Edge> pairs;
    for (std::size_t i = 0; i < n; ++i) pairs.push_back({2 * i, 2 * i + 1});
    Classes classes(2 * n, {}, pairs);
    const std::vector<Orientation> all = all_of(classes);
    EXPECT_EQ(all.size(), std::size_t{1} << n);
    EXPECT_EQ(std::set<Orientation>(all.begin(), all.end()).size(), all.size());
  }
}

TEST(Classes, OneWriterAndReadersOfOneStreamAreOneMoreThanReaders) {
  for (std::size_t n = 1; n <= 50; ++n) {
    std::vector<Edge> pairs, order;
    for (std::size_t i = 1; i <= n; ++i) pairs.push_back({0, i});
    for (std::size_t i = 1; i < n; ++i) order.push_back({i, i + 1});
    Classes classes(n + 1, order, pairs);
    EXPECT_EQ(all_of(classes).size(), n + 1);
  }
}

TEST(Classes, OneWriterAndReadersOfTheirOwnStreamsAreIndependent) {
  std::vector<Edge> pairs;
  for (std::size_t i = 1; i <= 8; ++i) pairs.push_back({0, i});
  Classes classes(9, {}, pairs);
  EXPECT_EQ(all_of(classes).size(), 256U);
}

// Writers that all conflict with each other come in any order of all.
TEST(Classes, WritersOfTheSameBytesAreAFactorial) {
  std::vector<Edge> pairs;
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t k = i + 1; k < 6; ++k) pairs.push_back({i, k});
  Classes classes(6, {}, pairs);
  EXPECT_EQ(all_of(classes).size(), 720U);
}

TEST(Classes, AreThoseOfAllOrdersOfRandomPrograms) {
  std::size_t several = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const std::size_t n = 2 + random() % 6;
    const unsigned density = 1 + random() % 6;
    std::vector<Edge> order, pairs;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = i + 1; k < n; ++k) {
        if (random() % 8 < density / 2) order.push_back({i, k});
        if (random() % 8 < density) pairs.push_back({i, k});
      }
    std::vector<std::size_t> line(n);
    std::iota(line.begin(), line.end(), 0);
    std::set<Orientation> expected;
    do {
      const Orientation ordered = seen_in(line, order);
      if (std::find(ordered.begin(), ordered.end(), true) == ordered.end())
        expected.insert(seen_in(line, pairs));
    } while (std::next_permutation(line.begin(), line.end()));

    Classes classes(n, order, pairs);
    // Some are asked for beforehand, and are not given again.
    std::vector<Orientation> all;
    for (std::size_t pair = 0; pair < pairs.size() && seed % 2 == 0; ++pair) {
      Orientation one;
      const bool possible = std::any_of(expected.begin(), expected.end(),
                                        [&](const Orientation& each) { return each[pair]; });
      EXPECT_EQ(classes.can_turn(pair), possible) << seed;
      if (!classes.turned(pair, one)) continue;
      EXPECT_TRUE(one[pair]) << seed;
      all.push_back(one);
    }
    const std::vector<Orientation> rest = all_of(classes);
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_EQ(all.size(), expected.size()) << seed;
    EXPECT_EQ(std::set<Orientation>(all.begin(), all.end()), expected) << seed;
    several += expected.size() > 10 ? 1 : 0;

    std::vector<std::size_t> rank(n);
    std::iota(rank.begin(), rank.end(), 0);
    std::shuffle(rank.begin(), rank.end(), random);
    for (const Orientation& one : all) {
      const std::vector<std::size_t> made = classes.linearise(one, rank);
      ASSERT_EQ(made.size(), n) << seed;
      EXPECT_EQ(seen_in(made, pairs), one) << seed;
      const Orientation ordered = seen_in(made, order);
      EXPECT_EQ(std::count(ordered.begin(), ordered.end(), true), 0) << seed;
    }
  }
  EXPECT_GT(several, 50U);
}

// ---- Shrinking

const auto kNever = [] { return false; };

TEST(Shrink, KeepsWhatMattersAndNothingElse) {
  std::vector<int> steps(1000);
  std::iota(steps.begin(), steps.end(), 0);
  int asked = 0;
  const auto made = shrink(
      steps,
      [&](const std::vector<int>& some) {
        ++asked;
        return std::count_if(some.begin(), some.end(), [](int step) {
                 return step == 17 || step == 500 || step == 999;
               }) == 3;
      },
      kNever);
  EXPECT_EQ(made, (std::vector<int>{17, 500, 999}));
  EXPECT_LT(asked, 200);
}

TEST(Shrink, WhatIsLeftFailsAndPassesWithoutAnyOne) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<int> steps(1 + random() % 40);
    std::iota(steps.begin(), steps.end(), 0);
    // Fails with any of several sets: not monotone in what is taken away, as schedules are not.
    std::vector<std::vector<int>> sets(1 + random() % 4);
    for (auto& set : sets)
      for (const int step : steps)
        if (random() % 4 == 0) set.push_back(step);
    const unsigned odd = random() % 3;
    const auto fails = [&](const std::vector<int>& some) {
      if (odd == 1 && some.size() % 5 == 3 && some.size() != steps.size()) return false;
      return std::any_of(sets.begin(), sets.end(), [&](const std::vector<int>& set) {
        return std::includes(some.begin(), some.end(), set.begin(), set.end());
      });
    };
    const std::vector<int> made = shrink(steps, fails, kNever);
    ASSERT_TRUE(fails(made)) << seed;
    for (std::size_t i = 0; i < made.size(); ++i) {
      std::vector<int> less = made;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(fails(less)) << seed;
    }
  }
}

TEST(Shrink, StopsWhenItIsTold) {
  const std::vector<int> steps(100, 1);
  int left = 3;
  const auto made = shrink(
      steps, [](const std::vector<int>& some) { return some.size() >= 10; },
      [&] { return --left < 0; });
  EXPECT_GE(made.size(), 10U);
  EXPECT_GT(made.size(), 10U);
}

}  // namespace
}  // namespace ember::explore
