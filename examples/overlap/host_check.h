// The same digest again, on the host, by code that has nothing in common with the kernels.
#pragma once

#include "digest.h"
#include "input.h"

namespace overlap {

/// "zlib", or what takes its place in a build without it.
extern const char* const kChecker;

struct HostCheck {
  Digest total;                ///< of all copies of the file
  std::uint32_t file_crc = 0;  ///< of one
};

/// Reads the file once.
HostCheck check_on_host(const Input& input);

}  // namespace overlap
