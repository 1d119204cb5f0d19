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

std::string as_line(std::string_view text) {
  std::string made = as_utf8(text);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto byte = static_cast<unsigned char>(made[i]);
    // Those from U+0080 to U+009F are two bytes, of which the first is 0xC2.
    const bool second = byte == 0xC2 && static_cast<unsigned char>(made[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F) made[i] = '?';
    if (second) made.replace(i, 2, "?");
  }
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
