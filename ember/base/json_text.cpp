#include "ember/base/json_text.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace ember::inline v0 {

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : std::countl_one(first);
    if (first >= 0x80 && (length < 2 || length > 4)) return false;
    if (length > text.size() - i) return false;
    std::uint32_t point = length == 1 ? first : first & (0x7Fu >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kLeast[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
      return false;
    i += length;
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string made(text);
  if (is_utf8(text)) return made;
  for (char& c : made)
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return made;
}

void append_json_text(std::string& out, std::string_view text) {
  if (!is_utf8(text)) return append_json_text(out, as_utf8(text));
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '<') {
      char code[8];
      (void)std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace ember::inline v0
