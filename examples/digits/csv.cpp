#include "csv.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace digits {
namespace {

const char* const kRow = "64 pixels and a label";

/// A field as an error shows it: short, and without characters that a terminal would obey.
std::string quoted(std::string_view field) {
  constexpr std::size_t kMost = 20;
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "'";
  for (const char c : field.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      text += c;
    else
      (((text += "\\x") += kDigits[byte / 16]) += kDigits[byte % 16]);
  }
  return text + (field.size() > kMost ? "...'" : "'");
}

/// Reads one line, field by field.
class Line {
 public:
  Line(std::string_view text, std::size_t number, const std::string& name)
      : rest_(text), number_(number), name_(name) {}

  std::uint8_t next(int most, const char* what) {
    if (at_end_) fail("the line ends", kRow);
    const std::string_view field = take();
    int value = 0;
    bool good = field.size() == 1 || field.size() == 2;
    for (const char c : field) {
      good = good && c >= '0' && c <= '9';
      if (good) value = 10 * value + (c - '0');
    }
    if (!good || value > most)
      fail(quoted(field), "a whole number from 0 to " + std::to_string(most) + ", " + what);
    ++column_;
    return static_cast<std::uint8_t>(value);
  }

  void expect_end() {
    if (!at_end_) fail(quoted(take()), std::string("the end of the line after ") + kRow);
  }

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw DataError(name_ + ", line " + std::to_string(number_) + ", column " +
                    std::to_string(column_) + ": " + found + ": expected " + expected);
  }

 private:
  std::string_view take() {
    const std::size_t comma = rest_.find(',');
    at_end_ = comma == std::string_view::npos;
    const std::string_view field = rest_.substr(0, comma);
    if (!at_end_) rest_.remove_prefix(comma + 1);
    return field;
  }

  std::string_view rest_;
  const std::size_t number_;
  const std::string& name_;
  std::size_t column_ = 1;
  bool at_end_ = false;
};

std::string read_file(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    throw example::UsageError("--csv", path, "is a directory; expected a regular file");
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
    throw example::UsageError("--csv", path,
                              "is a device, pipe or socket; expected a regular file");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file)
    throw example::UsageError(
        "--csv", path,
        std::string("cannot be opened (") + std::strerror(errno) + "); expected a file to read");
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || text.bad())
    throw example::UsageError("--csv", path, "cannot be read; expected a file to read");
  return std::move(text).str();
}

}  // namespace

Digits parse_csv(std::string_view text, const std::string& name) {
  Digits digits;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.ends_with('\r')) content.remove_suffix(1);

    Line line(content, number, name);
    for (std::size_t i = 0; i < kPixels; ++i)
      digits.pixels.push_back(line.next(kBrightest, "a pixel"));
    digits.labels.push_back(line.next(kLabels - 1, "the label"));
    line.expect_end();
  }
  return digits;
}

Digits read_csv(const std::string& path) {
  Digits digits = parse_csv(read_file(path), path);
  if (digits.rows() < 2)
    Line("", digits.rows() + 1, path)
        .fail("the file ends", "at least two rows, one to learn from and one to recognise");
  return digits;
}

}  // namespace digits
