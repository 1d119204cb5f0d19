// Images of digits: parse_csv of examples/digits.

#include <string>

#include "csv.h"
#include "fuzz.h"

namespace {

using digits::Digits;

// Two rows of the real file, then what parts of rows may look like.
constexpr std::string_view kExamples[] = {
    "0,0,5,13,9,1,0,0,0,0,13,15,10,15,5,0,0,3,15,2,0,11,8,0,0,4,12,0,0,8,8,0,0,5,8,0,0,9,8,0,0,4,"
    "11,0,1,12,7,0,0,2,14,5,10,12,0,0,0,0,6,13,10,0,0,0,0\n",
    "0,0,0,12,13,5,0,0,0,0,0,11,16,9,0,0,0,0,3,15,16,6,0,0,0,7,15,16,16,2,0,0,0,0,1,16,16,3,0,0,0,"
    "0,1,16,16,6,0,0,0,0,1,16,16,6,0,0,0,0,0,11,16,10,0,0,1\r\n",
    "",
    "\n",
    "\r\n",
    ",",
    "1,2,3\n4,5,6\n",
    "16,17,-1,+1,1.5, 1,\"1\"",
    "99999999999999999999,1"};

std::string written(const Digits& digits) {
  std::string text;
  for (std::size_t row = 0; row < digits.rows(); ++row) {
    for (std::size_t i = 0; i < digits::kPixels; ++i)
      text += std::to_string(digits.pixels[row * digits::kPixels + i]) + ",";
    text += std::to_string(digits.labels[row]) + "\n";
  }
  return text;
}

void check_accepted(const Digits& digits, std::string_view text) {
  fuzz::expect(digits.pixels.size() == digits.rows() * digits::kPixels, "every row has 64 pixels");
  for (const std::uint8_t pixel : digits.pixels)
    fuzz::expect(pixel <= digits::kBrightest, "a pixel is at most 16");
  for (const std::uint8_t label : digits.labels)
    fuzz::expect(label < digits::kLabels, "a label is at most 9");
  std::size_t lines = text.empty() || text.ends_with('\n') ? 0 : 1;
  for (const char c : text) lines += c == '\n';
  fuzz::expect(digits.rows() == lines, "every line is a row");
  const Digits again = digits::parse_csv(written(digits), "again");
  fuzz::expect(again.pixels == digits.pixels && again.labels == digits.labels,
               "what is accepted can be written and read back");
}

/// "NAME, line L, column C: FOUND: expected WHAT", in printable characters.
void check_error(const std::string& error, std::string_view text) {
  unsigned long line = 0;
  unsigned long column = 0;
  int colon = 0;
  fuzz::expect(
      std::sscanf(error.c_str(), "name, line %lu, column %lu%n", &line, &column, &colon) == 2 &&
          error.compare(static_cast<std::size_t>(colon), 2, ": ") == 0,
      "the error names file, line and column");
  unsigned long lines = 1;
  for (const char c : text) lines += c == '\n';
  fuzz::expect(line >= 1 && line <= lines, "the line is one of the file's");
  fuzz::expect(column >= 1 && column <= digits::kPixels + 2, "the column is one of a row's");
  fuzz::expect(error.find(": expected ") != std::string::npos, "the error says what was expected");
  for (const char c : error)
    fuzz::expect(c >= ' ' && c <= '~', "the error can be shown on a terminal");
  fuzz::expect(error.size() < 250, "the error is short");

  // What comes before the line is not at fault.
  std::size_t before = 0;
  for (unsigned long i = 1; i < line; ++i) before = text.find('\n', before) + 1;
  const Digits good = digits::parse_csv(text.substr(0, before), "name");
  fuzz::expect(good.rows() == line - 1, "the lines before the one named are rows");
}

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  Digits digits;
  try {
    digits = digits::parse_csv(text, "name");
  } catch (const digits::DataError& error) {
    check_error(error.what(), text);
    return 0;
  }
  check_accepted(digits, text);
  return 0;
}
