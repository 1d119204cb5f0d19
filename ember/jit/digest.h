// By what entries of the cache on disk are named, and by what damaged ones are known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ember::inline v0::jit {

/// The SHA-256 of a text as 64 hexadecimal digits (FIPS 180-4): different for different texts.
/// Thread-safe; does not block.
std::string digest(std::string_view text);

/// The XXH64 of bytes with seed 0 (xxHash's specification, version 0.1.1): tells damaged ones from
/// whole ones, but not from those that somebody made up, at a hundredth of a digest's cost, which
/// for the code of a kernel is more than all else that finding it takes. Thread-safe; does not
/// block.
std::uint64_t checksum(std::string_view bytes);

}  // namespace ember::inline v0::jit
