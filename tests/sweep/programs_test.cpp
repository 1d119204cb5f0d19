// Random programs of 25 operations over views: after each one, the device holds what the CPU does.
//
// EMBER_TEST_PROGRAMS=N runs N programs instead of 300, and EMBER_TEST_SEED=S starts with seed S.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/devices.h"
#include "tests/sweep/program.h"

namespace ember::test {
namespace {

constexpr int kSteps = 25;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Programs, AreTheSameOnTheDevice) {
  NEEDS_DEVICES(1);
  const std::uint64_t first = number_from("EMBER_TEST_SEED", 1);
  const std::uint64_t count = number_from("EMBER_TEST_PROGRAMS", 300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Program program(seed, Device("cuda:0"));
    std::string wrong;
    try {
      for (int i = 0; i < kSteps && wrong.empty(); ++i)
        if (!program.step()) wrong = program.wrong();
    } catch (const std::exception& error) {
      wrong = std::string("it threw: ") + error.what();
    }
    ASSERT_EQ(wrong, "") << "program of seed " << seed << ":\n" << program.text();
  }
}

}  // namespace
}  // namespace ember::test
