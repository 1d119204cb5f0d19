// SHA-256, by which entries of the cache on disk are named and checked.
#pragma once

#include <string>
#include <string_view>

namespace ember::inline v0::jit {

/// The digest of a text as 64 hexadecimal digits (FIPS 180-4). Thread-safe; does not block.
std::string digest(std::string_view text);

}  // namespace ember::inline v0::jit
