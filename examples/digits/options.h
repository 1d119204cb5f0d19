// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace digits {

struct Options {
  std::optional<std::string> csv;      ///< otherwise the images that come with the example
  std::optional<std::uint64_t> train;  ///< rows; see training_rows
  std::uint64_t k = 5;
  std::uint64_t repeat = 100;
  std::optional<int> devices;          ///< otherwise all
  std::optional<std::uint64_t> batch;  ///< queries of a device at a time; otherwise see batch_rows
  std::string predictions;             ///< a file to write; none if empty
  std::string timeline;                ///< a file to write: .json or .html; none if empty
  bool help = false;
};

/// Throws UsageError.
Options parse_options(int count, const char* const* arguments);

/// How many of so many rows are for training: the first 1,000 unless --train says another number,
/// or half of them where there are no more than that. UsageError unless that leaves a query, and
/// k training rows.
std::uint64_t training_rows(const Options& options, std::uint64_t rows);

extern const char* const kHelp;

}  // namespace digits
