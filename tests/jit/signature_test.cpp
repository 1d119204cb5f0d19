// Which function of a text is its entry, and what that takes.
#include "ember/jit/signature.h"

#include <gtest/gtest.h>

#include "ember/jit/digest.h"

namespace ember::jit {
namespace {

TEST(Signature, OfTexts) {
  struct Row {
    const char* code;
    const char* name;
    std::size_t parameters;
    bool countable = true;
  };
  const Row rows[] = {
      {"template <typename T> T f(T x) { return x; }", "f", 1},
      {"  \n\ttemplate<class T>T f(T x,T y){return x;}", "f", 2},
      {"template <typename T>\nvoid\nf\n(T x, T& y)\n{ y = x; }", "f", 2},
      {"template <typename T, int n = (1 > 2)> T f(T x) { return x; }", "f", 1},
      {"template <typename T, typename U = Pair<T, Pair<T, T>>> T f(T x) { return x; }", "f", 1},
      {"template <typename T> T f() { return 1; }", "f", 0},
      {"template <typename T> T f(void) { return 1; }", "f", 0},
      {"template <typename T> T f(Pair<T, T> x, T y = T(1, 2)) { return y; }", "f", 2},
      {"template <typename T> T f(T x, int n = 1 < 2) { return x; }", "f", 2, false},
      {"template <typename... T> int f(T... x) { return 1; }", "f", 1, false},
      {"template <typename T> T f(T x, /* T no, */ T y) { return x; } // T g(T x) {", "f", 2},
      {"template <typename T> T f(T x) { return \")}\"[0]; }", "f", 1},
      {"template <typename T> T f(T x) { return R\"a()\"}a)a\"[0]; }", "f", 1},
      {"template <typename T> T f(T x) { return x == '{'; }", "f", 1},
      {"template <typename T> T f(T x) { return x + 1'000; }", "f", 1},
      {"template <typename T> T g(T x) { return x; } template <typename T> T f(T a, T b) "
       "{ return g(a); }",
       "f", 2},
      {"template <typename T> T f(T x) { return x; }\nstruct S { int g() { return 1; } };", "f", 1},
      {"template <typename T> T f(T x) { return x; }\n#define OTHER {\nint h() { return 1; }", "f",
       1},
      {"template <typename T> T f(T x) {\n#if 0  // don't\n it's } \"\n#if 1\n#else\n#endif\n /*\n"
       "#endif */ (\n#endif\n return x; }",
       "f", 1},
      {"template <typename T> T f(T x) {\n#  if 0\n don't }\n# else\n return x; }\n#endif\n", "f",
       1},
      {"template <typename T> T f(T x) { return x; }\n#if 0\ntemplate <typename T> T g() { "
       "}\n#endif",
       "f", 1},
      {"template <typename T> T f(T x) { return x; }\n#if 0 || 1\ntemplate <typename T> T g() { }\n"
       "#endif",
       "g", 0},
      {"template <typename T> T \xc3\xa4(T x) { return x; }", "\xc3\xa4", 1},
  };
  for (const Row& row : rows) {
    Signature found;
    ASSERT_TRUE(parse_signature(row.code, found)) << row.code;
    EXPECT_EQ(found.name, row.name) << row.code;
    EXPECT_EQ(found.parameters.size(), row.parameters) << row.code;
    EXPECT_EQ(found.countable, row.countable) << row.code;
  }
}

TEST(Signature, SaysWhatParametersAre) {
  Signature found;
  ASSERT_TRUE(parse_signature(
      "template <typename T> void f(T x, const T& /* no */, T* y = nullptr, T& z) { }", found));
  EXPECT_EQ(found.return_type, "void");
  ASSERT_EQ(found.parameters.size(), 4U);
  EXPECT_EQ(found.parameters[0].name, "x");
  EXPECT_EQ(found.parameters[2].name, "y");
  EXPECT_TRUE(found.parameters[2].has_default);
  EXPECT_FALSE(found.parameters[3].has_default);
  EXPECT_EQ(found.parameters[3].name, "z");
}

TEST(Signature, FindsTheFunctions) {
  const std::string code =
      "template <typename T> T g(T x) { return x; }\nint one() { return 1; }\n"
      "template <typename T> T f(T x) { return g(x) + one(); }";
  Signature found;
  ASSERT_TRUE(parse_signature(code, found));
  ASSERT_EQ(found.functions.size(), 3U);
  EXPECT_EQ(code.substr(found.functions[0], 3), "T g");
  EXPECT_EQ(code.substr(found.functions[1], 7), "int one");
  EXPECT_EQ(code.substr(found.functions[2], 3), "T f");
}

TEST(Signature, FindsRecursion) {
  std::string code = "template <typename T> T f(T x) { return x; }\n";
  for (int i = 0; i < 20000; ++i) {
    const std::string n = std::to_string(i);
    code += "int h" + n + "() { return h" + std::to_string(i + 1) + "(); }\n";
  }
  Signature found;
  ASSERT_TRUE(parse_signature(code + "int h20000() { return 1; }", found));
  EXPECT_EQ(found.recursive, "");
  ASSERT_TRUE(parse_signature(code + "int h20000() { return h19999(); }", found));
  EXPECT_TRUE(found.recursive == "h19999" || found.recursive == "h20000") << found.recursive;
  EXPECT_EQ((code + "int h20000").substr(found.recursive_at, 6), found.recursive);
}

/// The examples of FIPS 180-4's companion, one and two blocks long, and nothing.
TEST(Digest, OfExamples) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/// As other implementations of XXH64 have them: of nothing, of single bytes, of one block and more.
TEST(Checksum, OfExamples) {
  EXPECT_EQ(checksum(""), 0xef46db3751d8e999);
  EXPECT_EQ(checksum("a"), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(checksum("abc"), 0x44bc2cf5ad770999);
  EXPECT_EQ(checksum("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1);
}

}  // namespace
}  // namespace ember::jit
