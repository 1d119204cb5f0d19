// Numbers as text: what C says of printf's %g, %f and %e, without a locale.
#include "ember/base/number_text.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <system_error>

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

/// A folder with a locale "comma", whose numbers are like 1.234,5; needs no locale of the
/// machine's.
class CommaLocale {
 public:
  CommaLocale() {
    if (::mkdtemp(folder_.data()) == nullptr) return;
    std::ofstream(folder_ + "/source") << "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                          "grouping 3;3\nEND LC_NUMERIC\n";
    const std::string command = "localedef -c -i " + folder_ + "/source -f ANSI_X3.4-1968 " +
                                folder_ + "/comma >" + folder_ + "/warnings 2>&1";
    // It warns of the categories that are left out, and says so in its exit status.
    [[maybe_unused]] const int status = std::system(command.c_str());
    ::setenv("LOCPATH", folder_.c_str(), 1);
    chosen_ = std::setlocale(LC_NUMERIC, "comma") != nullptr;
  }
  ~CommaLocale() {
    std::setlocale(LC_NUMERIC, before_.c_str());
    ::unsetenv("LOCPATH");
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  bool chosen() const { return chosen_; }

 private:
  std::string before_ = std::setlocale(LC_NUMERIC, nullptr);
  std::string folder_ = ::testing::TempDir() + "ember-locale-XXXXXX";
  bool chosen_ = false;
};

TEST(NumberText, KeepsItsPointInEveryLocale) {
  const CommaLocale locale;
  if (!locale.chosen()) GTEST_SKIP() << "localedef, a part of the C library, is not installed";
  ASSERT_EQ(printed("%.*f", 1, 1.5), "1,5");
  EXPECT_EQ(number_text(1.5), "1.5");
  EXPECT_EQ(fixed_text(1.5, 1), "1.5");
  EXPECT_EQ(scientific_text(1.5, 1), "1.5e+00");
}

}  // namespace
}  // namespace ember
