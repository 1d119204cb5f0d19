// The suite of stream bugs: none of them is proved, and their fixed twins are.
#include "tests/races/races.h"

#include <gtest/gtest.h>

#include <string>

#include "ember/explore/explore.h"
#include "tests/support/devices.h"

namespace ember::races {
namespace {

using sim::Exploration;
using sim::Verdict;

std::string text_of(const Case& one, const Exploration& made) {
  return std::string(one.name) + " (" + one.report + "): " + made.str();
}

void name_result(double result) { sim::result("result", &result, sizeof result); }

TEST(ExploredRaces, AreFoundAndTheirFixedTwinsProved) {
  NEEDS_CACHING();
  std::size_t seen = 0;
  for (const Case& one : all_cases()) {
    if (one.devices > device_count()) continue;
    ++seen;
    const Exploration fixed = sim::explore([&] { name_result(one.run(true)); });
    EXPECT_EQ(fixed.verdict, Verdict::proved) << text_of(one, fixed);
    EXPECT_TRUE(fixed.clean()) << text_of(one, fixed);
    EXPECT_TRUE(fixed.several_orders) << text_of(one, fixed);

    const Exploration buggy = sim::explore([&] { name_result(one.run(false)); });
    if (one.name == std::string("a copy to ordinary memory read at once")) {
      // Simulated devices end such a copy before the call returns.
      EXPECT_EQ(buggy.verdict, Verdict::not_proved) << text_of(one, buggy);
    } else {
      EXPECT_EQ(buggy.verdict, Verdict::differs) << text_of(one, buggy);
    }
    EXPECT_FALSE(buggy.clean()) << text_of(one, buggy);
  }
  EXPECT_GE(seen, device_count() >= 2 ? 24U + 12U : 20U + 10U);
}

}  // namespace
}  // namespace ember::races
