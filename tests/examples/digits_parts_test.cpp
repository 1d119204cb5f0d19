// The parts of examples/digits that can be had without a device.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "csv.h"
#include "examples/support/arguments.h"
#include "options.h"
#include "report.h"
#include "votes.h"

namespace digits {
namespace {

/// A row with all pixels alike.
std::string row(const std::string& pixel, const std::string& label) {
  std::string text;
  for (std::size_t i = 0; i < kPixels; ++i) text += pixel + ",";
  return text + label;
}

std::string fields(int count) {
  std::string text = "1";
  for (int i = 1; i < count; ++i) text += ",1";
  return text;
}

TEST(Csv, ReadsRows) {
  for (const char* end : {"\n", "\r\n"}) {
    const std::string text = row("0", "0") + end + row("16", "9") + end + row("07", "5");
    for (const std::string& last : {std::string(), std::string(end)}) {
      const Digits digits = parse_csv(text + last, "x");
      EXPECT_EQ(digits.labels, (std::vector<std::uint8_t>{0, 9, 5}));
      ASSERT_EQ(digits.pixels.size(), 3 * kPixels);
      for (std::size_t i = 0; i < kPixels; ++i) {
        EXPECT_EQ(digits.pixels[i], 0);
        EXPECT_EQ(digits.pixels[kPixels + i], 16);
        EXPECT_EQ(digits.pixels[2 * kPixels + i], 7);
      }
    }
  }
  EXPECT_EQ(parse_csv("", "x").rows(), 0u);
}

struct Malformed {
  std::string text, error;
};

TEST(Csv, SaysWhatIsWrongAndWhere) {
  const std::string good = row("1", "1") + "\n";
  const std::string pixel = ": expected a whole number from 0 to 16, a pixel";
  const std::string label = ": expected a whole number from 0 to 9, the label";
  const std::string rest = ": expected 64 pixels and a label";
  const Malformed cases[] = {
      {"\n", "x, line 1, column 1: ''" + pixel},
      {good + "\n" + good, "x, line 2, column 1: ''" + pixel},
      {good + good + "\n", "x, line 3, column 1: ''" + pixel},
      {"\r\n", "x, line 1, column 1: ''" + pixel},
      {good + "1,2,17,4\n", "x, line 2, column 3: '17'" + pixel},
      {good + "1,-1", "x, line 2, column 2: '-1'" + pixel},
      {"1,+1", "x, line 1, column 2: '+1'" + pixel},
      {"1, 1", "x, line 1, column 2: ' 1'" + pixel},
      {"1,1.0", "x, line 1, column 2: '1.0'" + pixel},
      {"1,1e0", "x, line 1, column 2: '1e0'" + pixel},
      {"1,,1", "x, line 1, column 2: ''" + pixel},
      {"1,001", "x, line 1, column 2: '001'" + pixel},
      {"1,0x1", "x, line 1, column 2: '0x1'" + pixel},
      {"1,nan", "x, line 1, column 2: 'nan'" + pixel},
      {"pixel_0,pixel_1", "x, line 1, column 1: 'pixel_0'" + pixel},
      {"1;2;3", "x, line 1, column 1: '1;2;3'" + pixel},
      {"\"1\"", "x, line 1, column 1: '\"1\"'" + pixel},
      {"\xef\xbb\xbf" + good, "x, line 1, column 1: '\\xef\\xbb\\xbf1'" + pixel},
      {std::string("1\0", 2), "x, line 1, column 1: '1\\x00'" + pixel},
      {"1\r2", "x, line 1, column 1: '1\\x0d2'" + pixel},
      {"99999999999999999999999", "x, line 1, column 1: '99999999999999999999...'" + pixel},
      {fields(64), "x, line 1, column 65: the line ends" + rest},
      {good + "1", "x, line 2, column 2: the line ends" + rest},
      {fields(64) + ",", "x, line 1, column 65: ''" + label},
      {row("1", "10"), "x, line 1, column 65: '10'" + label},
      {row("1", "x"), "x, line 1, column 65: 'x'" + label},
      {fields(66) + "\n" + good,
       "x, line 1, column 66: '1': expected the end of the line after 64 pixels and a label"},
      {fields(65) + ",",
       "x, line 1, column 66: '': expected the end of the line after 64 pixels and a label"},
  };
  for (const Malformed& one : cases) {
    try {
      parse_csv(one.text, "x");
      ADD_FAILURE() << "accepted, instead of: " << one.error;
    } catch (const DataError& error) {
      EXPECT_EQ(error.what(), one.error);
    }
  }
}

TEST(Csv, AFileNeedsTwoRows) {
  char name[] = "/tmp/digits_csv_XXXXXX";
  const std::string directory = mkdtemp(name);
  const std::string path = directory + "/file";
  const auto error_of = [&](const std::string& text) -> std::string {
    std::ofstream(path, std::ios::binary) << text;
    try {
      return std::to_string(read_csv(path).rows()) + " rows";
    } catch (const DataError& error) {
      return error.what();
    }
  };
  const std::string expected =
      ", column 1: the file ends: expected at least two rows, one to learn from and one to "
      "recognise";
  EXPECT_EQ(error_of(""), path + ", line 1" + expected);
  EXPECT_EQ(error_of(row("1", "1")), path + ", line 2" + expected);
  EXPECT_EQ(error_of(row("1", "1") + "\n" + row("1", "1")), "2 rows");
  std::filesystem::remove_all(directory);
}

TEST(Csv, ComesWithTheRealOne) {
  const Digits digits = read_csv(DIGITS_DATA);
  ASSERT_EQ(digits.rows(), 1797u);
  EXPECT_EQ(digits.pixels[2], 5);
  EXPECT_EQ(digits.labels.back(), 8);
}

TEST(Votes, TheMostFrequentLabelWins) {
  const std::vector<std::uint8_t> labels = {7, 3, 3, 7, 0, 9};
  const auto answer = [&](std::vector<std::int64_t> rows) { return int{vote(rows, labels)}; };
  EXPECT_EQ(answer({5}), 9);
  EXPECT_EQ(answer({0, 1, 2}), 3);
  EXPECT_EQ(answer({0, 3, 4, 1}), 7);
  EXPECT_EQ(answer({0, 3, 1, 2}), 3) << "of equally frequent labels, the smallest";
  EXPECT_EQ(answer({5, 0, 4}), 0);
}

TEST(Votes, CopiesOfAQueryAgree) {
  Answers answers(2);
  for (const int label : {4, 5, 4, 5, 4}) answers.add(static_cast<std::uint8_t>(label));
  EXPECT_EQ(answers.count(), 5u);
  EXPECT_EQ(answers.labels(), (std::vector<std::uint8_t>{4, 5}));
  try {
    answers.add(6);
    ADD_FAILURE() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "query 1 is 5 at first and 6 in copy 2");
  }
}

TEST(Report, ShadesOfInk) {
  std::vector<std::uint8_t> pixels;
  for (int ink = 0; ink <= kBrightest; ++ink) pixels.push_back(static_cast<std::uint8_t>(ink));
  EXPECT_EQ(shades(pixels), "  ..::--==++**##@");
}

Options parse(std::vector<const char*> words) {
  words.insert(words.begin(), "knn");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(Options, AllOfThem) {
  const Options none = parse({});
  EXPECT_TRUE(!none.devices && !none.batch && !none.csv && !none.train &&
              none.predictions.empty() && none.timeline.empty() && !none.help);
  EXPECT_EQ(none.k, 5u);
  EXPECT_EQ(none.repeat, 100u);
  const Options all =
      parse({"--devices", "4", "--k=3", "--repeat", "10", "--csv", "file", "--train=20",
             "--predictions", "out", "--timeline=run.html", "--batch=7"});
  EXPECT_EQ(all.devices, 4);
  EXPECT_EQ(all.k, 3u);
  EXPECT_EQ(all.repeat, 10u);
  EXPECT_EQ(all.csv, "file");
  EXPECT_EQ(all.train, 20u);
  EXPECT_EQ(all.batch, 7u);
  EXPECT_EQ(all.predictions, "out");
  EXPECT_EQ(all.timeline, "run.html");
  EXPECT_TRUE(parse({"-h"}).help && parse({"--help"}).help);
  for (const char* wrong : {"--help=1", "--x", "x", "-", "--k", "--k=0", "--devices=65", "--csv"})
    EXPECT_THROW(parse({wrong}), example::UsageError) << wrong;
}

TEST(Options, TrainingRows) {
  Options options;
  EXPECT_EQ(training_rows(options, 1797), 1000u);
  EXPECT_EQ(training_rows(options, 1001), 1000u);
  EXPECT_EQ(training_rows(options, 1000), 500u);
  EXPECT_THROW(training_rows(options, 9), example::UsageError) << "five neighbours of four";
  options.k = 1;
  EXPECT_EQ(training_rows(options, 2), 1u);
  options.train = 3;
  EXPECT_EQ(training_rows(options, 4), 3u);
  EXPECT_THROW(training_rows(options, 3), example::UsageError) << "no query left";
}

}  // namespace
}  // namespace digits
