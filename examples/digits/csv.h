// Images of digits, from a file of numbers: README.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "examples/support/arguments.h"

namespace digits {

inline constexpr std::size_t kSide = 8;
inline constexpr std::size_t kPixels = kSide * kSide;
inline constexpr int kBrightest = 16;  ///< a pixel is 0 to 16
inline constexpr int kLabels = 10;

/// Something wrong in a file: where, what, and what was expected.
struct DataError : example::UsageError {
  using UsageError::UsageError;
};

struct Digits {
  std::vector<std::uint8_t> pixels;  ///< kPixels per row
  std::vector<std::uint8_t> labels;  ///< 0 to 9
  std::size_t rows() const noexcept { return labels.size(); }
};

/// Reads the text of a file. `name` is the file's, for errors. DataError
/// `NAME, line 3, column 12: '17': expected a whole number from 0 to 16, a pixel`.
Digits parse_csv(std::string_view text, const std::string& name);

/// Reads a file. UsageError if that is not possible, DataError as above and for a file of less than
/// two rows: one to learn from and one to recognise.
Digits read_csv(const std::string& path);

}  // namespace digits
