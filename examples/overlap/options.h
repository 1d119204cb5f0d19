// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace overlap {

/// Something wrong with what the user gave: which argument, which value, what was expected.
struct UsageError : std::runtime_error {
  UsageError(const std::string& argument, const std::string& value, const std::string& trouble)
      : std::runtime_error(argument + " '" + value + "': " + trouble) {}
};

struct Options {
  std::string file;                     ///< empty: the program itself
  std::optional<int> devices;           ///< otherwise two, or one if there is only one
  std::optional<std::uint32_t> chunk;   ///< bytes
  std::optional<std::uint64_t> repeat;  ///< otherwise often enough for a load worth watching
  bool help = false;
};

/// Throws UsageError.
Options parse_options(int count, const char* const* arguments);

extern const char* const kHelp;

}  // namespace overlap
