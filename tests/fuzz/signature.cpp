// The texts of kernels: jit::parse_signature.

#include "ember/jit/signature.h"

#include <string>

#include "fuzz.h"

namespace {

using ember::jit::parse_signature;
using ember::jit::Signature;

constexpr std::string_view kExamples[] = {
    "",
    "template <typename T> T f(T x) { return x; }",
    "template <typename T> void f(T x, T alpha, T& a, T& b) { a = x * alpha; b = -x; }",
    "template<typename T>T g(T x){return x;}template<typename T>T f(T x,T y){return g(x)-y;}",
    "template <typename T, int n = (1 > 2)> T f(Pair<T, T> x, T y = T(1, 2)) { return x[n]; }",
    "template <typename T> T f(T x, int n = 1 < 2) { /* } */ return x; } // template <",
    "template <typename T>\n#define A(x) \\\n  x {\nT f(T x) { return '\\'' + \"\\\"}\"[0]; }",
    "template <typename T> T f(T x) { return R\"mark( } )\" )mark\"[0] + 1'000'000; }",
    "template <typename... T> int f(T... x) { return sizeof...(x); } struct S { int g() { } };",
    "template <typename T> T \xc3\xa4(T x) { return x; } int one() { return 1; }",
    "template <typename T> T g(T x) { return f(x); } template <typename T> T f(T x) { return g(x); "
    "}",
    "template <typename T> struct S { T x; }; extern \"C\" { int h() { return 1; } }",
    "template <<<>>> ((([[[{{{}}}]]]))) \"'\"'\" /* // */ # \\\n"};

bool same(const Signature& a, const Signature& b, std::size_t shift) {
  if (a.name != b.name || a.return_type != b.return_type || a.countable != b.countable)
    return false;
  if (a.parameters.size() != b.parameters.size() || a.functions.size() != b.functions.size())
    return false;
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    if (a.parameters[i].name != b.parameters[i].name ||
        a.parameters[i].has_default != b.parameters[i].has_default)
      return false;
  for (std::size_t i = 0; i < a.functions.size(); ++i)
    if (a.functions[i] + shift != b.functions[i]) return false;
  return true;
}

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string code(fuzz::text(data, size));
  Signature found, other;
  fuzz::expect(!parse_signature("x " + code, other), "a text begins with template");
  if (!parse_signature(code, found)) {
    fuzz::expect(!parse_signature(" \n" + code, other), "blanks before a text change nothing");
    return 0;
  }
  fuzz::expect(!found.name.empty() && !found.return_type.empty(), "an entry has name and type");
  fuzz::expect(code.find(found.name) != std::string::npos, "the name stands in the text");
  fuzz::expect(!found.functions.empty(), "the entry is one of the functions");
  fuzz::expect(code.compare(found.recursive_at, found.recursive.size(), found.recursive) == 0,
               "a function that calls itself stands where it is said to");
  std::size_t before = 0;
  for (const std::size_t at : found.functions) {
    fuzz::expect(at > before && at < code.size(), "functions come one after the other");
    before = at;
  }
  for (const auto& parameter : found.parameters)
    fuzz::expect(code.find(parameter.name) != std::string::npos, "parameters stand in the text");
  fuzz::expect(parse_signature(" \n" + code, other) && same(found, other, 2),
               "blanks before a text only move it");
  fuzz::expect(parse_signature(code + "\n// } ) \"", other) && same(found, other, 0),
               "a comment behind a text changes nothing");
  fuzz::expect(!parse_signature(code + "\n\n{", other), "brackets end");
  return 0;
}
