// Pieces of C++ that are put together.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ember::inline v0::jit {

/// A text in which $0, $1, ... stand for `parts`.
inline std::string filled(std::string_view text, std::initializer_list<std::string_view> parts) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '$')
      made += parts.begin()[text[++i] - '0'];
    else
      made += text[i];
  return made;
}

/// `text` for 0, 1, ..., which stand for $0 in it, with commas between them.
inline std::string list(std::size_t count, std::string_view text) {
  std::string made;
  for (std::size_t k = 0; k < count; ++k) {
    if (k > 0) made += ", ";
    made += filled(text, {std::to_string(k)});
  }
  return made;
}
/// The same, one behind the other.
inline std::string repeated(std::size_t count, std::string_view text) {
  std::string made;
  for (std::size_t k = 0; k < count; ++k) made += filled(text, {std::to_string(k)});
  return made;
}

/// Two lists as one.
inline std::string joined(std::string first, const std::string& second) {
  if (!first.empty() && !second.empty()) first += ", ";
  first += second;
  return first;
}

}  // namespace ember::inline v0::jit
