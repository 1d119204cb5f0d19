// The parts of examples/overlap that can be had without a device.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "crc32.h"
#include "examples/support/intervals.h"
#include "host_check.h"
#include "input.h"
#include "options.h"
#include "report.h"

namespace overlap {
namespace {

/// Bit by bit, from the definition.
std::uint32_t crc_of(const std::string& text) {
  std::uint32_t crc = kCrcStart;
  for (const char c : text) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrcPolynomial : 0);
  }
  return crc ^ kCrcStart;
}

TEST(Crc, ReferenceIsTheWellKnownOne) { EXPECT_EQ(crc_of("123456789"), 0xcbf43926u); }

TEST(Crc, MultiplicationHasOneAndCommutes) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto a = static_cast<std::uint32_t>(random());
    const auto b = static_cast<std::uint32_t>(random());
    const auto c = static_cast<std::uint32_t>(random());
    EXPECT_EQ(crc_multiply(a, kCrcOne), a);
    EXPECT_EQ(crc_multiply(a, b), crc_multiply(b, a));
    EXPECT_EQ(crc_multiply(crc_multiply(a, b), c), crc_multiply(a, crc_multiply(b, c)));
    EXPECT_EQ(crc_multiply(a ^ b, c), crc_multiply(a, c) ^ crc_multiply(b, c));
  }
}

TEST(Crc, PowersAddUp) {
  constexpr CrcPowers powers = crc_powers();
  static_assert(crc_power(0) == kCrcOne && crc_power(1) == kCrcPerByte);
  for (int k = 0; k < 32; ++k) EXPECT_EQ(powers.at[k], crc_power(std::uint64_t{1} << k)) << k;
  const std::uint64_t a = 123456789012345;
  const std::uint64_t b = 987654321;
  EXPECT_EQ(crc_power(a + b), crc_multiply(crc_power(a), crc_power(b)));
}

TEST(Crc, CombinesAtEveryCut) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc_combine(crc_of(text.substr(0, cut)), crc_of(text.substr(cut)), text.size() - cut),
              crc_of(text))
        << cut;
}

TEST(Crc, ContributionsAddUpInAnyOrder) {
  const std::vector<std::string> parts = {"one", "", "two and", " three", "!"};
  std::string whole;
  for (const std::string& part : parts) whole += part;
  std::uint32_t crc = 0;
  std::size_t after = 0;
  for (std::size_t i = parts.size(); i-- > 0; after += parts[i].size())
    crc ^= crc_shift(crc_of(parts[i]), after);
  EXPECT_EQ(crc, crc_of(whole));
}

using example::intersect;
using example::length;
using example::Timeline;
using example::unite;

TEST(Intervals, UnionJoinsWhatOverlapsOrTouches) {
  EXPECT_EQ(unite({}), Timeline{});
  EXPECT_EQ(unite({{3, 4}, {0, 1}}), (Timeline{{0, 1}, {3, 4}}));
  EXPECT_EQ(unite({{1, 2}, {0, 1}}), (Timeline{{0, 2}}));
  EXPECT_EQ(unite({{0, 10}, {2, 3}, {9, 12}}), (Timeline{{0, 12}}));
  EXPECT_EQ(unite({{1, 1}, {5, 4}}), Timeline{});
}

TEST(Intervals, LengthCountsWhatIsCoveredOnce) {
  EXPECT_DOUBLE_EQ(length({}), 0);
  EXPECT_DOUBLE_EQ(length(unite({{0, 2}, {1, 3}, {5, 6}})), 4);
}

TEST(Intervals, IntersectionIsWhatLiesInBoth) {
  const Timeline a{{0, 4}, {6, 8}, {10, 11}};
  EXPECT_EQ(intersect(a, {}), Timeline{});
  EXPECT_EQ(intersect(a, a), a);
  EXPECT_EQ(intersect(a, {{3, 7}}), (Timeline{{3, 4}, {6, 7}}));
  EXPECT_EQ(intersect({{3, 7}}, a), (Timeline{{3, 4}, {6, 7}}));
  EXPECT_EQ(intersect(a, {{4, 6}, {8, 10}}), Timeline{});  // touching is not sharing
}

class InputTest : public testing::Test {
 protected:
  InputTest() {
    char name[] = "/tmp/overlap_input_XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~InputTest() override { std::filesystem::remove_all(directory_); }
  std::string file(const std::string& content) const {
    const std::string path = directory_ + "/file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string read(const Input& input, std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, '?');
    input.read(offset, bytes, reinterpret_cast<std::uint8_t*>(text.data()));
    return text;
  }

 private:
  std::string directory_;
};

TEST_F(InputTest, CopiesOfTheFileAreOneLongFile) {
  Input input(file("abc"));
  input.set_repeat(7);
  EXPECT_EQ(input.total_bytes(), 21u);
  const std::string whole = "abcabcabcabcabcabcabc";
  for (std::size_t offset = 0; offset <= whole.size(); ++offset)
    for (std::size_t bytes = 0; offset + bytes <= whole.size(); ++bytes)
      EXPECT_EQ(read(input, offset, bytes), whole.substr(offset, bytes)) << offset << ", " << bytes;
}

TEST_F(InputTest, RepeatsUpToALoad) {
  Input input(file("abc"));
  for (const auto& [load, times] :
       {std::pair(1u, 1u), std::pair(3u, 1u), std::pair(4u, 2u), std::pair(300u, 100u)}) {
    input.repeat_up_to(load);
    EXPECT_EQ(input.repeat(), times) << load;
  }
}

TEST_F(InputTest, AFileThatBecomesShorterIsAnError) {
  const std::string path = file("abcdef");
  const Input input(path);
  std::filesystem::resize_file(path, 3);
  EXPECT_THROW(read(input, 0, 6), std::runtime_error);
}

TEST_F(InputTest, CheckOnHostCoversAllCopies) {
  Input input(file("abcab"));
  input.set_repeat(3);
  const HostCheck check = check_on_host(input);
  EXPECT_EQ(check.file_crc, crc_of("abcab"));
  EXPECT_EQ(check.total.crc, crc_of("abcababcababcab"));
  EXPECT_EQ(check.total.histogram['a'], 6u);
  EXPECT_EQ(check.total.histogram['c'], 3u);
  EXPECT_EQ(check.total.histogram['x'], 0u);
}

TEST_F(InputTest, AWrongResultIsSaidToBeWrong) {
  const Input input(file("abcab"));
  const HostCheck check = check_on_host(input);
  EXPECT_TRUE(print_digest(check.total, check, input));
  Digest wrong_crc = check.total;
  wrong_crc.crc ^= 1;
  Digest wrong_histogram = check.total;
  ++wrong_histogram.histogram[0];
  for (const Digest& wrong : {wrong_crc, wrong_histogram}) {
    testing::internal::CaptureStdout();
    EXPECT_FALSE(print_digest(wrong, check, input));
    EXPECT_NE(testing::internal::GetCapturedStdout().find("DIFFERENT"), std::string::npos);
  }
}

Options parse(std::vector<const char*> words) {
  words.insert(words.begin(), "overlap");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(Options, AllOfThem) {
  const Options none = parse({});
  EXPECT_TRUE(none.file.empty() && !none.devices && !none.chunk && !none.repeat && !none.help);
  const Options all = parse({"--devices", "4", "file", "--chunk=2MiB", "--repeat", "10"});
  EXPECT_EQ(all.file, "file");
  EXPECT_EQ(all.devices, 4);
  EXPECT_EQ(all.chunk, 2u << 20);
  EXPECT_EQ(all.repeat, 10u);
  EXPECT_EQ(parse({"--", "--chunk"}).file, "--chunk");
  EXPECT_EQ(parse({"-"}).file, "-");
  EXPECT_TRUE(parse({"--help"}).help);
}

}  // namespace
}  // namespace overlap
