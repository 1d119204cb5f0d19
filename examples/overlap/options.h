// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/support/arguments.h"

namespace overlap {

using example::UsageError;

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
