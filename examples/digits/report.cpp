#include "report.h"

#include <algorithm>
#include <cstdio>

#include "examples/support/progress.h"

namespace digits {
namespace {

constexpr std::size_t kPicturesPerLine = 8;
constexpr std::size_t kMostPictures = 40;

using Rows = std::vector<std::size_t>;

/// The rows of the queries whose answer is not their label.
Rows wrong_rows(const Digits& digits, std::size_t first, std::span<const std::uint8_t> answers) {
  Rows wrong;
  for (std::size_t query = 0; query < answers.size(); ++query)
    if (answers[query] != digits.labels[first + query]) wrong.push_back(first + query);
  return wrong;
}

/// A line of text without the spaces at its end.
void print_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  std::printf("%s\n", line.c_str());
}

/// Some pictures side by side, under their labels and what they were taken for.
void print_pictures(const Digits& digits, std::size_t first, std::span<const std::uint8_t> answers,
                    std::span<const std::size_t> rows) {
  std::string captions;
  for (const std::size_t row : rows)
    captions += "  " + std::to_string(digits.labels[row]) + " as " +
                std::to_string(answers[row - first]) + "  ";
  print_line(captions);
  for (std::size_t y = 0; y < kSide; ++y) {
    std::string line;
    for (const std::size_t row : rows)
      line += "  " + shades(std::span(digits.pixels).subspan(row * kPixels + y * kSide, kSide));
    print_line(line);
  }
  std::printf("\n");
}

std::string counted(std::int64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

std::string shades(std::span<const std::uint8_t> pixels) {
  constexpr std::string_view kShades = " .:-=+*#@";  // two steps of brightness each
  std::string line;
  for (const std::uint8_t pixel : pixels) line += kShades[pixel / 2];
  return line;
}

void print_data(const Load& load, const Options& options) {
  std::printf("  data     %s: %s and %s of 8 x 8 pixels\n",
              options.csv.value_or("UCI optical digits").c_str(),
              counted(load.train, "training image", "training images").c_str(),
              counted(load.queries, "query", "queries").c_str());
  std::printf("  load     %s", counted(load.total, "query", "queries").c_str());
  if (load.total != load.queries)
    std::printf(" (%lld times the same)", static_cast<long long>(load.total / load.queries));
  std::printf(", in batches of %lld; the nearest %lld vote\n", static_cast<long long>(load.batch),
              static_cast<long long>(options.k));
}

void print_wrong(const Digits& digits, std::size_t first, std::span<const std::uint8_t> answers) {
  const Rows wrong = wrong_rows(digits, first, answers);
  if (wrong.empty()) return;
  std::printf("\n  wrong answers, each with its label and what it was taken for\n\n");
  const std::size_t shown = std::min(wrong.size(), kMostPictures);
  for (std::size_t at = 0; at < shown; at += kPicturesPerLine)
    print_pictures(digits, first, answers,
                   std::span(wrong).subspan(at, std::min(kPicturesPerLine, shown - at)));
  if (shown < wrong.size()) std::printf("  ... and %zu more\n\n", wrong.size() - shown);
}

void print_accuracy(const Digits& digits, std::size_t first,
                    std::span<const std::uint8_t> answers) {
  const std::size_t right = answers.size() - wrong_rows(digits, first, answers).size();
  std::printf("\naccuracy   %zu of %zu right: %.2f %%\n", right, answers.size(),
              example::percent(static_cast<double>(right), static_cast<double>(answers.size())));
}

}  // namespace digits
