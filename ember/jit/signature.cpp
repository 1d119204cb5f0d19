#include "ember/jit/signature.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ember/jit/tokens.h"

namespace ember::inline v0::jit {
namespace {

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

/// A function with its body, as tokens.
struct Function {
  std::size_t name = 0;
  std::size_t body = 0;  ///< the bracket that opens it
};

/// Whether a function of the text may be called there: neither a member, nor one with a scope, as
/// CUDA's own functions of the same name have.
bool is_call(const Tokens& tokens, std::size_t i) {
  if (tokens[i].kind != Token::Kind::word) return false;
  if (!tokens[i + 1].is("(") && !tokens[i + 1].is("<")) return false;
  const bool scoped = tokens[i - 1].is(":") && tokens[i - 2].is(":");
  const bool member = tokens[i - 1].is(".") || (tokens[i - 1].is(">") && tokens[i - 2].is("-"));
  return !scoped && !member;
}

/// Where the body of a definition opens whose parameters end at `close`; nothing if it is none.
std::size_t body_behind(const Tokens& tokens, std::size_t close) {
  std::size_t i = close + 1;
  while (i < tokens.size() &&
         (tokens[i].is("const") || tokens[i].is("noexcept") || tokens[i].is("mutable")))
    ++i;
  if (i + 1 < tokens.size() && tokens[i].is("-") && tokens[i + 1].is(">")) {  // its type
    i += 2;
    while (i < tokens.size() && (tokens[i].kind == Token::Kind::word || tokens[i].is(":") ||
                                 tokens[i].is("<") || tokens[i].is(">")))
      ++i;
  }
  return i < tokens.size() && tokens[i].is("{") ? i : kNone;
}

/// Whether the name at `i` is that of a function that is defined there, as a member of a class is.
bool is_definition(const Tokens& tokens, std::size_t i) {
  return tokens[i + 1].is("(") && body_behind(tokens, tokens[i + 1].partner) != kNone;
}

/// Finds functions that call themselves, also through others. Names with several functions are left
/// out: which one a call means is the compiler's to know.
void find_recursion(const Tokens& tokens, const std::vector<Function>& functions, Signature& out) {
  std::unordered_map<std::string_view, std::size_t> known;
  for (std::size_t k = 0; k < functions.size(); ++k)
    if (const auto [at, made] = known.emplace(tokens[functions[k].name].text, k); !made)
      at->second = kNone;
  std::vector<std::vector<std::size_t>> callers(functions.size()), callees(functions.size());
  std::vector<std::size_t> calls(functions.size());
  for (std::size_t k = 0; k < functions.size(); ++k)
    for (std::size_t i = functions[k].body + 1; i < tokens[functions[k].body].partner; ++i) {
      if (!is_call(tokens, i) || is_definition(tokens, i)) continue;
      const auto called = known.find(tokens[i].text);
      if (called == known.end() || called->second == kNone) continue;
      callers[called->second].push_back(k);
      callees[k].push_back(called->second);
      ++calls[k];
    }
  // Functions that call no others go, until only those are left that lead to one that calls itself.
  std::vector<std::size_t> gone;
  for (std::size_t k = 0; k < functions.size(); ++k)
    if (calls[k] == 0) gone.push_back(k);
  for (std::size_t i = 0; i < gone.size(); ++i)
    for (const std::size_t caller : callers[gone[i]])
      if (--calls[caller] == 0) gone.push_back(caller);
  if (gone.size() == functions.size()) return;
  std::size_t k = 0;
  while (calls[k] == 0) ++k;
  for (std::vector<bool> seen(functions.size()); !seen[k];) {
    seen[k] = true;
    k = *std::find_if(callees[k].begin(), callees[k].end(),
                      [&](std::size_t callee) { return calls[callee] > 0; });
  }
  out.recursive = std::string(tokens[functions[k].name].text);
  out.recursive_at = tokens[functions[k].name].begin;
}

bool is_statement(const Token& token) {
  return token.is("if") || token.is("for") || token.is("while") || token.is("switch") ||
         token.is("constexpr") || token.is("noexcept");
}

/// Whether the callee is an argument of its own call: so lambdas call themselves.
bool passes_itself(const Tokens& tokens, std::size_t callee) {
  const std::size_t open = callee + 1, close = tokens[open].partner;
  for (std::size_t i = open + 1; i < close; ++i) {
    const bool whole = (tokens[i + 1].is(",") || tokens[i + 1].is(")")) &&
                       (tokens[i - 1].is("(") || tokens[i - 1].is(",") || tokens[i - 1].is("&"));
    if (whole && tokens[i].kind == Token::Kind::word && tokens[i].text == tokens[callee].text)
      return true;
    if (tokens[i].partner != kNone) i = tokens[i].partner;
  }
  return false;
}

/// Whether the name at `i` is one of a class of the text, or of this object: `S::f`, `S<T>::f`,
/// `this->f`, `(*this).f`.
bool is_of_class(const Tokens& tokens, std::size_t i,
                 const std::unordered_set<std::string_view>& classes) {
  if (i < 4) return false;
  if (tokens[i - 1].is(":") && tokens[i - 2].is(":"))
    return tokens[i - 3].is(">") || classes.contains(tokens[i - 3].text);
  if (tokens[i - 1].is(">") && tokens[i - 2].is("-")) return tokens[i - 3].is("this");
  return tokens[i - 1].is(".") && tokens[i - 2].is(")") && tokens[i - 3].is("this") &&
         tokens[i - 4].is("*");
}

/// Finds what has no name of its own among the functions, and calls itself all the same: members of
/// classes by their names, functors by (*this)(...), lambdas that get themselves as an argument. Of
/// names with several definitions, which one a call means is the compiler's to know.
void find_hidden_recursion(const Tokens& tokens, Signature& out) {
  constexpr std::string_view kFunctor = "operator";
  struct Definition {
    std::string_view name;
    std::size_t end;
  };
  std::unordered_map<std::string_view, int> defined, open;
  const auto definition_at = [&](std::size_t i) {
    if (tokens[i].kind != Token::Kind::word || is_statement(tokens[i])) return kNone;
    if (i > 0 && tokens[i - 1].is(kFunctor)) return kNone;  // a conversion
    std::size_t parameters = i + 1;
    if (tokens[i].is(kFunctor) && i + 3 < tokens.size() && tokens[i + 1].is("(")) parameters += 2;
    if (parameters >= tokens.size() || !tokens[parameters].is("(")) return kNone;
    return body_behind(tokens, tokens[parameters].partner);
  };
  std::unordered_set<std::string_view> classes;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (definition_at(i) != kNone) ++defined[tokens[i].text];
    if (tokens[i].is("struct") || tokens[i].is("class")) classes.insert(tokens[i + 1].text);
  }
  std::vector<Definition> inside;
  std::unordered_map<std::size_t, std::string_view> bodies;
  const auto found = [&](std::size_t i, std::string_view name) {
    out.recursive = std::string(name);
    out.recursive_at = tokens[i].begin;
  };
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    while (!inside.empty() && i >= inside.back().end) {
      --open[inside.back().name];
      inside.pop_back();
    }
    if (const auto body = bodies.find(i); body != bodies.end()) {
      inside.push_back({body->second, tokens[i].partner});
      ++open[body->second];
    }
    if (const std::size_t body = definition_at(i); body != kNone) {
      bodies[body] = tokens[i].text;
      continue;
    }
    const bool this_functor = i + 4 < tokens.size() && tokens[i].is("(") && tokens[i + 1].is("*") &&
                              tokens[i + 2].is("this") && tokens[i + 3].is(")") &&
                              tokens[i + 4].is("(");
    if (this_functor && open[kFunctor] > 0 && defined[kFunctor] == 1) return found(i, "(*this)");
    if (tokens[i].kind != Token::Kind::word || !tokens[i + 1].is("(")) continue;
    const bool is_free = i >= 2 && is_call(tokens, i);
    if (is_free && passes_itself(tokens, i)) return found(i, tokens[i].text);
    const auto within = open.find(tokens[i].text);
    if (within != open.end() && within->second > 0 && defined[tokens[i].text] == 1 &&
        (is_free || is_of_class(tokens, i, classes)))
      return found(i, tokens[i].text);
  }
}

bool is_type_of_types(const Token& token) {
  return token.is("struct") || token.is("class") || token.is("union") || token.is("enum") ||
         token.is("namespace") || token.is("extern");
}

/// A declaration with a body: the tokens from `first` to before `brace`, which opens the body.
void read_definition(const Tokens& tokens, std::size_t first, std::size_t brace,
                     std::vector<Function>& functions, Signature& out) {
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
  functions.push_back({open - 1, brace});
  if (!is_template || open != type + 2 || tokens[type].kind != Token::Kind::word) return;
  out.return_type = std::string(tokens[type].text);
  out.name = std::string(tokens[type + 1].text);
  read_parameters(tokens, open, out);
}

}  // namespace

bool parse_signature(std::string_view code, Signature& out) {
  Tokens tokens;
  std::vector<Function> functions;
  out = {};
  if (!scan(code, tokens, out.includes_at)) return false;
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
      if (i > first) read_definition(tokens, first, i, functions, out);
      first = token.partner + 1;
    }
    i = token.partner;
  }
  if (out.name.empty()) return false;
  find_recursion(tokens, functions, out);
  if (out.recursive.empty()) find_hidden_recursion(tokens, out);
  return true;
}

}  // namespace ember::inline v0::jit
