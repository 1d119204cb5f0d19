#include "ember/base/bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace ember {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

struct ParseRow {
  const char* text;
  std::optional<std::uint64_t> bytes;
};

const ParseRow kParse[] = {
    {"0", 0},
    {"1", 1},
    {"4096", 4096},
    {"007", 7},
    {"12B", 12},
    {"512KiB", 512 * kKiB},
    {"512kib", 512 * kKiB},
    {"1K", kKiB},
    {"1kb", kKiB},
    {"20M", 20 * kMiB},
    {"20MB", 20 * kMiB},
    {"20MiB", 20 * kMiB},
    {"2G", 2 * kGiB},
    {"2gIb", 2 * kGiB},
    {"1T", 1024 * kGiB},
    {"1TiB", 1024 * kGiB},
    // The largest values that fit into 64 bits, and the smallest that do not.
    {"18446744073709551615", kMax},
    {"18446744073709551616", std::nullopt},
    {"18014398509481983K", kMax - 1023},
    {"18014398509481984K", std::nullopt},
    {"16777215T", kMax - (1024 * kGiB - 1)},
    {"16777216T", std::nullopt},
    {"99999999999999999999999999T", std::nullopt},
    // Something else.
    {"", std::nullopt},
    {" ", std::nullopt},
    {" 1", std::nullopt},
    {"1 ", std::nullopt},
    {"1 KiB", std::nullopt},
    {"-1", std::nullopt},
    {"+1", std::nullopt},
    {"0x10", std::nullopt},
    {"1.5GiB", std::nullopt},
    {"1e9", std::nullopt},
    {"GiB", std::nullopt},
    {"1i", std::nullopt},
    {"1iB", std::nullopt},
    {"1Ki", std::nullopt},
    {"1KiBs", std::nullopt},
    {"1BB", std::nullopt},
    {"1PiB", std::nullopt},
    {"1,000", std::nullopt},
};

TEST(Bytes, ParsesWhatTheTableSays) {
  for (const ParseRow& row : kParse)
    EXPECT_EQ(parse_bytes(row.text), row.bytes) << "'" << row.text << "'";
}

TEST(Bytes, TextMayContainAnything) {
  EXPECT_EQ(parse_bytes(std::string_view("1\0K", 3)), std::nullopt);
  EXPECT_EQ(parse_bytes("1\xff"), std::nullopt);
  EXPECT_EQ(parse_bytes(std::string_view("12345").substr(0, 2)), 12u);  // not null-terminated
}

struct FormatRow {
  std::uint64_t bytes;
  const char* text;
};

const FormatRow kFormat[] = {
    {0, "0 bytes"},
    {1, "1 bytes"},
    {1023, "1023 bytes"},
    {1024, "1024 bytes"},
    {1025, "1.00 KiB"},
    {1536, "1.50 KiB"},
    {kMiB, "1024.00 KiB"},
    {kMiB + 1, "1.00 MiB"},
    {20 * kMiB, "20.00 MiB"},
    {kGiB, "1024.00 MiB"},
    {kGiB + kGiB / 4, "1.25 GiB"},
    {80 * kGiB, "80.00 GiB"},
    {2048 * kGiB, "2048.00 GiB"},
};

TEST(Bytes, FormatsWhatTheTableSays) {
  for (const FormatRow& row : kFormat) EXPECT_EQ(format_bytes(row.bytes), row.text);
}

// Reads a formatted size back: the number that is printed, in units of the unit that is printed.
struct Printed {
  double number = 0;
  std::uint64_t unit = 0;
};

Printed read_back(const std::string& text) {
  char* rest = nullptr;
  Printed printed;
  printed.number = std::strtod(text.c_str(), &rest);
  if (std::string_view(rest) == " bytes") {
    printed.unit = 1;
  } else if (*rest == ' ') {
    printed.unit = parse_bytes(std::string("1").append(rest + 1)).value_or(0);
  }
  return printed;
}

std::uint64_t any_size(std::mt19937_64& random) { return random() >> (random() % 64); }

TEST(Bytes, FormatLosesLessThanItsLastDigit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t bytes = any_size(random);
    const Printed printed = read_back(format_bytes(bytes));
    ASSERT_NE(printed.unit, 0u) << format_bytes(bytes);
    const double units = static_cast<double>(bytes) / static_cast<double>(printed.unit);
    ASSERT_NEAR(printed.number, units, 0.00501 + units * 1e-12) << bytes;
  }
}

TEST(Bytes, WholeUnitsSurviveFormatAndParse) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t unit = std::uint64_t{1} << (10 * (1 + random() % 3));
    const std::uint64_t bytes = (2 + random() % 1000) * unit;
    std::string text = format_bytes(bytes);
    const std::size_t decimals = text.find(".00 ");
    ASSERT_NE(decimals, std::string::npos) << text;
    text.erase(decimals, 4);
    ASSERT_EQ(parse_bytes(text), bytes) << text;
  }
}

TEST(Bytes, EveryUnitScalesAndRefusesOverflow) {
  std::mt19937_64 random(3);
  const char* const units[] = {"", "K", "M", "G", "T"};
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t count = any_size(random);
    const std::size_t power = random() % 5;
    const std::uint64_t unit = std::uint64_t{1} << (10 * power);
    const std::string text = std::to_string(count) + units[power];
    if (count <= kMax / unit) {
      ASSERT_EQ(parse_bytes(text), count * unit) << text;
    } else {
      ASSERT_EQ(parse_bytes(text), std::nullopt) << text;
    }
  }
}

}  // namespace
}  // namespace ember
