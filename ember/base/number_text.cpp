#include "ember/base/number_text.h"

#include <charconv>
#include <cstddef>
#include <cstdio>

namespace ember::inline v0 {
namespace {

std::string text_of(double number, std::chars_format form, int precision) {
  // The largest number has 309 digits before the point; a sign, the point and an exponent.
  std::string text(static_cast<std::size_t>(320 + precision), '\0');
  char* const end =
      std::to_chars(text.data(), text.data() + text.size(), number, form, precision).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

}  // namespace

std::string number_text(double number, int digits) {
  return text_of(number, std::chars_format::general, digits);
}

std::string fixed_text(double number, int places) {
  return text_of(number, std::chars_format::fixed, places);
}

std::string scientific_text(double number, int places) {
  return text_of(number, std::chars_format::scientific, places);
}

std::string address_text(const void* address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", reinterpret_cast<std::size_t>(address));
  return text;
}

}  // namespace ember::inline v0
