#include "ember/jit/signature.h"

#include <optional>

namespace ember::inline v0::jit {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

struct Token {
  enum class Kind : unsigned char { word, literal, sign };
  Kind kind = Kind::sign;
  std::string_view text;
  std::size_t begin = 0;
  std::size_t partner = kNone;  ///< of a bracket: the token that closes or opens it

  bool is(std::string_view other) const { return kind != Kind::literal && text == other; }
};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Letters beyond ASCII are words' too: compilers take them, or say that they do not.
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Cuts a text into tokens, as the preprocessor does. Comments and directives are none.
class Scanner {
 public:
  explicit Scanner(std::string_view code) : code_(code) {}

  bool scan(std::vector<Token>& out) {
    bool line_begins = true;
    while (at_ < code_.size()) {
      const char c = code_[at_];
      if (is_space(c)) {
        line_begins |= c == '\n';
        ++at_;
        continue;
      }
      if (c == '\0') return false;
      if (code_.substr(at_, 2) == "//") {
        skip_line();
        continue;
      }
      if (code_.substr(at_, 2) == "/*") {
        const std::size_t end = code_.find("*/", at_ + 2);
        if (end == kNone) return false;
        at_ = end + 2;
        continue;
      }
      if (c == '#' && line_begins) {
        skip_line();
        continue;
      }
      line_begins = false;
      if (!take(out)) return false;
    }
    return pair(out);
  }

 private:
  /// To the end of the line, and of those that a backslash adds to it.
  void skip_line() {
    while (at_ < code_.size() && code_[at_] != '\n') {
      if (code_[at_] == '\\' && at_ + 1 < code_.size()) ++at_;
      ++at_;
    }
  }

  bool take(std::vector<Token>& out) {
    const std::size_t begin = at_;
    const char c = code_[at_];
    Token::Kind kind = Token::Kind::sign;
    if (is_digit(c)) {
      kind = Token::Kind::literal;
      while (at_ < code_.size() && (is_word(code_[at_]) || code_[at_] == '.' || separates())) ++at_;
    } else if (is_word(c)) {
      kind = Token::Kind::word;
      while (at_ < code_.size() && is_word(code_[at_])) ++at_;
      if (at_ < code_.size() && code_[at_] == '"' && code_[at_ - 1] == 'R') {
        kind = Token::Kind::literal;
        if (!raw_string()) return false;
      }
    } else if (c == '"' || c == '\'') {
      kind = Token::Kind::literal;
      if (!string(c)) return false;
    } else {
      ++at_;
    }
    out.push_back({kind, code_.substr(begin, at_ - begin), begin});
    return true;
  }

  /// 1'000'000
  bool separates() const {
    return code_[at_] == '\'' && at_ + 1 < code_.size() && is_word(code_[at_ + 1]);
  }

  bool string(char quote) {
    for (++at_; at_ < code_.size() && code_[at_] != '\n'; ++at_) {
      if (code_[at_] == quote) {
        ++at_;
        return true;
      }
      if (code_[at_] == '\\' && at_ + 1 < code_.size()) ++at_;
    }
    return false;
  }

  /// R"mark(...)mark"
  bool raw_string() {
    const std::size_t open = code_.find('(', at_);
    if (open == kNone || open - at_ > 17) return false;
    std::string close = ")";
    close += code_.substr(at_ + 1, open - at_ - 1);
    close += '"';
    const std::size_t end = code_.find(close, open);
    if (end == kNone) return false;
    at_ = end + close.size();
    return true;
  }

  static bool pair(std::vector<Token>& tokens) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      Token& token = tokens[i];
      if (token.kind != Token::Kind::sign) continue;
      if (token.is("(") || token.is("[") || token.is("{")) open.push_back(i);
      if (!token.is(")") && !token.is("]") && !token.is("}")) continue;
      if (open.empty()) return false;
      Token& first = tokens[open.back()];
      const char wanted = first.is("(") ? ')' : first.is("[") ? ']' : '}';
      if (token.text[0] != wanted) return false;
      first.partner = i;
      token.partner = open.back();
      open.pop_back();
    }
    return open.empty();
  }

  std::string_view code_;
  std::size_t at_ = 0;
};

using Tokens = std::vector<Token>;

/// The token behind `<...>`, of which `first` is the opening one; nothing if it does not end, or is
/// empty.
std::optional<std::size_t> behind_angles(const Tokens& tokens, std::size_t first, std::size_t end) {
  int depth = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (tokens[i].is("<")) ++depth;
    if (tokens[i].is(">") && --depth == 0)
      return i > first + 1 ? std::optional(i + 1) : std::nullopt;
    if (tokens[i].partner != kNone) i = tokens[i].partner;
  }
  return std::nullopt;
}

/// One parameter: the tokens from `first` to before `end`.
void add_parameter(const Tokens& tokens, std::size_t first, std::size_t end, Signature& out) {
  Parameter made;
  std::size_t declared = first;
  for (; declared < end && !tokens[declared].is("="); ++declared) {
    if (tokens[declared].is(".")) out.countable = false;  // a pack
    if (tokens[declared].partner != kNone) declared = tokens[declared].partner;
  }
  made.has_default = declared < end;
  if (declared >= first + 2 && tokens[declared - 1].kind == Token::Kind::word)
    made.name = std::string(tokens[declared - 1].text);
  out.parameters.push_back(std::move(made));
}

/// What stands between two parentheses.
void read_parameters(const Tokens& tokens, std::size_t open, Signature& out) {
  const std::size_t close = tokens[open].partner;
  out.parameters.clear();
  out.countable = true;
  if (close == open + 1 || (close == open + 2 && tokens[open + 1].is("void"))) return;
  std::size_t first = open + 1;
  int angles = 0;
  bool value = false;  // behind a "=", where "<" may be a comparison
  for (std::size_t i = open + 1; i < close; ++i) {
    const Token& token = tokens[i];
    if (token.is("=")) value = true;
    if (token.is("<")) {
      ++angles;
      if (value) out.countable = false;
    }
    if (token.is(">")) --angles;
    if (token.is(",") && (angles <= 0 || value)) {
      add_parameter(tokens, first, i, out);
      first = i + 1;
      angles = 0;
      value = false;
    }
    if (token.partner != kNone) i = token.partner;
  }
  add_parameter(tokens, first, close, out);
}

bool is_type_of_types(const Token& token) {
  return token.is("struct") || token.is("class") || token.is("union") || token.is("enum") ||
         token.is("namespace") || token.is("extern");
}

/// A declaration with a body: the tokens from `first` to before `brace`, which opens the body.
void read_definition(const Tokens& tokens, std::size_t first, std::size_t brace, Signature& out) {
  std::size_t type = first;
  const bool is_template = tokens[first].is("template");
  if (is_template) {
    if (first + 1 >= brace || !tokens[first + 1].is("<")) return;
    const auto behind = behind_angles(tokens, first + 1, brace);
    if (!behind) return;
    type = *behind;
  }
  if (type >= brace || is_type_of_types(tokens[type]) || !tokens[brace - 1].is(")")) return;
  const std::size_t open = tokens[brace - 1].partner;
  if (open <= type || tokens[open - 1].kind != Token::Kind::word) return;
  out.functions.push_back(tokens[type].begin);
  if (!is_template || open != type + 2 || tokens[type].kind != Token::Kind::word) return;
  out.return_type = std::string(tokens[type].text);
  out.name = std::string(tokens[type + 1].text);
  read_parameters(tokens, open, out);
}

}  // namespace

bool parse_signature(std::string_view code, Signature& out) {
  Tokens tokens;
  out = {};
  if (!Scanner(code).scan(tokens)) return false;
  if (tokens.empty() || !tokens.front().is("template")) return false;
  // Nothing before it, neither comments nor directives.
  for (std::size_t i = 0; i < tokens.front().begin; ++i)
    if (!is_space(code[i])) return false;
  std::size_t first = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.is(";")) first = i + 1;
    if (token.partner == kNone) continue;
    if (token.is("{")) {
      if (i > first) read_definition(tokens, first, i, out);
      first = token.partner + 1;
    }
    i = token.partner;
  }
  return !out.name.empty();
}

}  // namespace ember::inline v0::jit
