#include "ember/jit/tokens.h"

#include <algorithm>
#include <string>

namespace ember::inline v0::jit {
namespace {

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

  bool scan(Tokens& out, std::size_t& includes) {
    includes = kNone;
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
      if (line_begins && is_directive()) {
        const std::size_t begin = at_;
        const std::string_view name = directive();
        const bool never = name == "if" && is_zero(at_);
        skip_directive();
        if (includes == kNone && names_file(name, code_.substr(begin, at_ - begin)))
          includes = begin;
        if (never) skip_group();
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

  /// The same of a directive, in whose comments lines may end.
  void skip_directive() {
    while (at_ < code_.size() && code_[at_] != '\n') {
      const char c = code_[at_];
      if (code_.substr(at_, 2) == "//") return skip_line();
      if (code_.substr(at_, 2) == "/*")
        at_ = std::min(code_.find("*/", at_ + 2), code_.size() - 2) + 2;
      else if (c == '"' || c == '\'')
        (void)string(c);
      else
        at_ += c == '\\' && at_ + 1 < code_.size() ? 2 : 1;
    }
  }

  std::size_t behind_blanks(std::size_t at) const {
    while (at < code_.size() && is_space(code_[at]) && code_[at] != '\n') ++at;
    return at;
  }
  /// The same of a directive, which may have comments, and go on in the next line.
  std::size_t behind_comments(std::size_t at) const {
    for (std::size_t before = kNone; before != at;) {
      before = at;
      at = behind_blanks(at);
      if (code_.substr(at, 2) == "\\\n") at += 2;
      if (code_.substr(at, 2) == "/*")
        at = std::min(code_.find("*/", at + 2), code_.size() - 2) + 2;
    }
    return at;
  }
  bool is_directive() const { return code_[at_] == '#' || code_.substr(at_, 2) == "%:"; }
  /// The name of the directive whose sign is here. Goes behind it.
  std::string_view directive() {
    const std::size_t first = behind_comments(at_ + (code_[at_] == '#' ? 1 : 2));
    at_ = first;
    while (at_ < code_.size() && is_word(code_[at_])) ++at_;
    return code_.substr(first, at_ - first);
  }
  /// Whether a directive reads a file, or asks whether there is one.
  static bool names_file(std::string_view name, std::string_view line) {
    return name.starts_with("include") || name == "import" || name == "embed" ||
           line.find("__has_include") != kNone || line.find("__has_embed") != kNone;
  }
  /// Whether the condition of an #if, whose name ends here, is 0.
  bool is_zero(std::size_t at) const {
    at = behind_comments(at);
    if (code_.substr(at, 1) != "0") return false;
    at = behind_comments(at + 1);
    return at >= code_.size() || code_[at] == '\n' || code_.substr(at, 2) == "//";
  }
  /// What such an #if leaves out, to its #else, #elif or #endif: that need not be C++.
  void skip_group() {
    std::size_t depth = 0;
    for (bool line_begins = true; at_ < code_.size();) {
      const char c = code_[at_];
      const std::size_t begin = at_;
      if (is_space(c)) {
        line_begins |= c == '\n';
        ++at_;
      } else if (code_.substr(at_, 2) == "//") {
        skip_line();
      } else if (code_.substr(at_, 2) == "/*") {
        const std::size_t end = code_.find("*/", at_ + 2);
        at_ = end == kNone ? code_.size() : end + 2;
      } else if (line_begins && is_directive()) {
        const std::string_view name = directive();
        skip_directive();
        if (name.starts_with("if")) ++depth;
        if (depth == 0 && (name.starts_with("el") || name == "endif")) return;
        if (name == "endif") --depth;
      } else {
        line_begins = false;
        if ((c != '"' && c != '\'') || !string(c)) at_ = begin + 1;
      }
    }
  }

  bool take(Tokens& out) {
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

  static bool pair(Tokens& tokens) {
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

/// A text without the ends of lines that a backslash takes away, as the preprocessor has it before
/// it looks for directives, and where each character was. Compilers let blanks stand between them.
std::string spliced(std::string_view code, std::vector<std::size_t>& from) {
  std::string made;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '\\') {
      std::size_t end = at + 1;
      while (end < code.size() && code[end] != '\n' && is_space(code[end])) ++end;
      if (end < code.size() && code[end] == '\n') {
        at = end;
        continue;
      }
    }
    made += code[at];
    from.push_back(at);
  }
  return made;
}

}  // namespace

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool scan(std::string_view code, Tokens& out, std::size_t& includes) {
  if (!Scanner(code).scan(out, includes)) return false;
  std::vector<std::size_t> from;
  const std::string whole = includes == kNone ? spliced(code, from) : std::string();
  if (includes != kNone || whole.size() == code.size()) return true;
  Tokens tokens;
  const bool ends = Scanner(whole).scan(tokens, includes);
  if (includes != kNone) includes = from[includes];
  return ends;
}

}  // namespace ember::inline v0::jit
