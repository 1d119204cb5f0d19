// Sizes in bytes, as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ember/base/export.h"

namespace ember::inline v0 {

inline constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Parses "4096", "512KiB", "2GiB", "1TiB" (also KB, MB, GB, TB, K, M, G, T: all binary; case is
/// ignored). Nothing when the text is something else or the value exceeds 64 bits.
EMBER_API std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "512 bytes" up to 1024, then "1.50 KiB", "20.00 MiB", "1.25 GiB": the form used in the
/// documents' out-of-memory text.
EMBER_API std::string format_bytes(std::uint64_t bytes);

}  // namespace ember::inline v0
