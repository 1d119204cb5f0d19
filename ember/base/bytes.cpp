#include "ember/base/bytes.h"

#include <cctype>
#include <charconv>
#include <limits>

#include "ember/base/number_text.h"

namespace ember::inline v0 {

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;

  std::string unit;
  for (const char* c = rest; c != end; ++c)
    unit += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  if (unit.empty() || unit == "B") return value;
  const std::size_t power = std::string_view("KMGT").find(unit.front());
  const std::string_view suffix = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || !(suffix.empty() || suffix == "B" || suffix == "IB"))
    return std::nullopt;
  const auto shift = static_cast<unsigned>(10 * (power + 1));
  if (value > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return value << shift;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes <= kKiB) return std::to_string(bytes) + " bytes";
  const auto scaled = [bytes](std::uint64_t unit, const char* name) {
    return fixed_text(static_cast<double>(bytes) / static_cast<double>(unit), 2) + " " + name;
  };
  if (bytes <= kMiB) return scaled(kKiB, "KiB");
  if (bytes <= kGiB) return scaled(kMiB, "MiB");
  return scaled(kGiB, "GiB");
}

}  // namespace ember::inline v0
