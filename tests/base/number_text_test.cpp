// Numbers as text: what C says of printf's %g, %f and %e, without a locale.
#include "ember/base/number_text.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

namespace ember {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NumberText, IsTheShorterOfTwoForms) {
  EXPECT_EQ(number_text(5), "5");
  EXPECT_EQ(number_text(-1.5), "-1.5");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-0.0), "-0");
  EXPECT_EQ(number_text(123456), "123456");
  EXPECT_EQ(number_text(1234567), "1.23457e+06");
  EXPECT_EQ(number_text(0.0001), "0.0001");
  EXPECT_EQ(number_text(0.00001), "1e-05");
  EXPECT_EQ(number_text(0.1, 15), "0.1");
  EXPECT_EQ(number_text(1.0 / 3, 15), "0.333333333333333");
  EXPECT_EQ(number_text(kInfinity), "inf");
  EXPECT_EQ(number_text(-kInfinity), "-inf");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(NumberText, HasAsManyPlacesAsAskedFor) {
  EXPECT_EQ(fixed_text(2.5, 0), "2");  // to even
  EXPECT_EQ(fixed_text(1.5, 2), "1.50");
  EXPECT_EQ(fixed_text(std::numeric_limits<double>::max(), 4).size(), 309U + 1 + 4);
  EXPECT_EQ(scientific_text(12345.678, 4), "1.2346e+04");
  EXPECT_EQ(scientific_text(1e-300, 4), "1.0000e-300");
}

std::string printed(const char* format, int precision, double number) {
  std::array<char, 512> text;
  std::snprintf(text.data(), text.size(), format, precision, number);
  return text.data();
}

// Doubles with random bits: all magnitudes, subnormal numbers, NaNs and infinities among them.
TEST(NumberText, AgreesWithPrintf) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto number = std::bit_cast<double>(random());
    const int precision = 1 + static_cast<int>(random() % 17);
    ASSERT_EQ(number_text(number, precision), printed("%.*g", precision, number));
    ASSERT_EQ(fixed_text(number, precision), printed("%.*f", precision, number));
    ASSERT_EQ(scientific_text(number, precision), printed("%.*e", precision, number));
  }
}

TEST(NumberText, KeepsItsPointInEveryLocale) {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  bool found = false;
  for (const char* name : {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "fr_FR"}) {
    if (std::setlocale(LC_NUMERIC, name) == nullptr) continue;
    found = true;
    EXPECT_EQ(number_text(1.5), "1.5") << name;
    EXPECT_EQ(fixed_text(1.5, 1), "1.5") << name;
  }
  std::setlocale(LC_NUMERIC, before.c_str());
  if (!found) GTEST_SKIP() << "no locale with a decimal comma is installed";
}

}  // namespace
}  // namespace ember
