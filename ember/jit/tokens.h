// What a text of C++ is made of, as far as its functions have to be found.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace ember::inline v0::jit {

inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);

struct Token {
  enum class Kind : unsigned char { word, literal, sign };
  Kind kind = Kind::sign;
  std::string_view text;
  std::size_t begin = 0;
  std::size_t partner = kNone;  ///< of a bracket: the token that closes or opens it

  bool is(std::string_view other) const { return kind != Kind::literal && text == other; }
};

using Tokens = std::vector<Token>;

/// Whether a character is white space, as the scanner has it.
bool is_space(char c);

/// Cuts a text into tokens, as the preprocessor does; comments and directives are none. The tokens
/// refer to the text. False, and `out` undefined, where brackets, strings or comments do not end,
/// and for a NUL outside of comments. `includes`: where a directive names another file, or kNone.
/// Takes time in proportion to the text.
bool scan(std::string_view code, Tokens& out, std::size_t& includes);

}  // namespace ember::inline v0::jit
