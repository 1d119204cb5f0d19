// What is said of texts and calls that are wrong, and that nothing is lost by them.
#include <csignal>
#include <limits>

#include "ember/jit/jiterator.h"
#include "tests/jit/support.h"
#include "tests/support/child.h"

namespace ember::test {
namespace {

using jiterator::CodeError;
using jiterator::KeywordError;

std::string error_of(const jiterator::JitFunction& f, const std::vector<Tensor>& inputs) {
  try {
    (void)f(inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

/// A line of the user's text, as the compiler for a tensor's device names it.
std::string line(const Tensor& tensor, int number) {
  const std::string text = std::to_string(number);
  return is_compiled_for_host(tensor) ? "code_string:" + text : "code_string(" + text + ")";
}

TEST(JiteratorErrors, TextsThatAreNoTemplateFunctions) {
  for (const std::string code :
       {"", "   ", "int f() { return 1; }", "template <typename T> T f(T x);",
        "template <typename T> T f(T x) { return x;", "template <> T f(T x) { return x; }",
        "template <typename T> struct S { T x; };", "T f(T x) { return x; }",
        "// first\ntemplate <typename T> T f(T x) { return x; }",
        "template <typename T> T f(T x) { return \"; }",
        "template <typename T> const T& f(const T& x) { return x; }"})
    EXPECT_ERROR(jiterator::create_jit_fn(code), CodeError,
                 "Couldn't parse code, please check correctness:\n" + code);
  EXPECT_ERROR(jiterator::create_jit_fn(std::string("template <typename T> T f(T x) { \0 }", 37)),
               CodeError, "Couldn't parse code");
}

TEST(JiteratorErrors, Creation) {
  const std::string code = "template <typename T> T f(T x, T a) { return x + a; }";
  EXPECT_ERROR(jiterator::JitFunction(code, {}, {.num_outputs = 2}), AssertionError,
               "Return by value only works for single output. ");
  EXPECT_ERROR(jiterator::create_multi_output_jit_fn(code, 0), ValueError,
               "num_outputs: expected at least 1, got 0");
  EXPECT_ERROR(jiterator::create_jit_fn(code, {{"a", 1}, {"a", 2}}), ValueError,
               "the keyword argument 'a' comes twice");
}

TEST(JiteratorErrors, NoFunctionIsNone) {
  auto f = jiterator::create_jit_fn("template <typename T> T twice(T x) { return x + x; }");
  const auto moved = std::move(f);
  EXPECT_EQ(f.name(), "twice");  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(f.code(), moved.code());
  EXPECT_EQ(f.num_outputs(), 1);
}

TEST(JiteratorErrors, Keywords) {
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(T x, T a) { return x + a; }", {{"a", 1}});
  EXPECT_ERROR(f({ones({2})}, {{"beta", 1}}), KeywordError,
               "beta is not declared in function definition");
  EXPECT_ERROR(f({ones({2})}, {{"a", std::uint64_t{1} << 63}}), ValueError,
               "a: expected an integer of 64 bits with a sign, got 9223372036854775808");
  EXPECT_EQ(values<float>(f({ones({2})})[0]), std::vector<float>(2, 2));
}

TEST(JiteratorErrors, Tensors) {
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x + y; }");
  EXPECT_ERROR(f({}), Error, "expected at least one tensor");
  EXPECT_ERROR(f({ones({2})}), Error,
               "'f' has 2 parameters, but gets 1 tensors, 0 keyword arguments and 0 outputs");
  EXPECT_ERROR(f({ones({2}), ones({2}), ones({2})}), Error, "but gets 3 tensors");
  EXPECT_ERROR(f({ones({2}), ones({3})}), Error, "2");
  for (const Dtype dtype : {Dtype::uint16, Dtype::uint32, Dtype::uint64})
    EXPECT_ERROR(f({ones({2}, dtype), ones({2})}), NotImplementedError,
                 "\"f\" not implemented for 'UInt");
}

TEST(JiteratorErrors, TensorsOfSeveralDevices) {
  NEEDS_DEVICES(2);
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x + y; }");
  const Tensor x = ones({2});
  EXPECT_ERROR(f({x, x.to("cuda:0")}), Error, "cuda:0");
  EXPECT_ERROR(f({x.to("cuda:1"), x.to("cuda:0")}), Error, "cuda:1");
  // A number on the CPU is no exception.
  EXPECT_ERROR(f({x.to("cuda:0"), full({}, 2)}), Error, "cpu");
}

TEST(JiteratorErrors, LimitsOfStrict) {
  std::string parameters = "T x0";
  for (int i = 1; i < 9; ++i) parameters += ", T x" + std::to_string(i);
  const std::string code = "template <typename T> T f(" + parameters + ") { return x0 + x8; }";
  const std::vector<Tensor> nine(9, ones({2}));
  EXPECT_EQ(values<float>(jiterator::create_jit_fn(code)(nine)[0]), std::vector<float>(2, 2));
  NEEDS_DEVICES(1);
  const auto f = jiterator::create_jit_fn(code, {}, true);
  EXPECT_ERROR(f(nine), AssertionError, "jiterator only supports up to 8 tensor inputs.");
  const auto one =
      jiterator::create_jit_fn("template <typename T> T f(T x) { return x; }", {}, true);
  EXPECT_ERROR(one({ones({2})}), Error, "expected CUDA tensors (strict=True), got tensors on cpu");
  EXPECT_EQ(values<float>(one({ones({2}, "cuda:0")})[0]), std::vector<float>(2, 1));
}

TEST(JiteratorErrors, MoreArgumentsThanALaunchHas) {
  std::string parameters = "T x0";
  for (int i = 1; i < 600; ++i) parameters += ", T x" + std::to_string(i);
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(" + parameters + ") { return x0; }");
  EXPECT_ERROR(f(std::vector<Tensor>(600, ones({2}))), Error,
               "600 inputs, 1 outputs and 0 keyword arguments take ");
}

/// Names and lines of the user's text, on whatever device.
TEST(JiteratorErrors, CompilersNameTheUsersLine) {
  struct Row {
    std::string code;
    int line;
    const char* part = "error";
  };
  const Row rows[] = {
      {"template <typename T>\nT f(T x) {\n  return nowhere(x);\n}", 3, "nowhere"},
      {"template <typename T> T f(T x) {\n  return x }", 2},
      {"template <typename T> T f(T x) {\n\n\n  int* p = x;\n  return *p;\n}", 4},
      {"template <typename T> T f(T x) {\n  atomicAdd(&x, x);\n  return x;\n}", 2},
      {"template <typename T> T f(T x) {\n  return __shfl_xor_nothing(x, 1);\n}", 2,
       "__shfl_xor_nothing"},
      {"template <typename T> T f(T x) {\n#error \"quoted\" 'text'\n  return x;\n}", 2, "quoted"},
      {"template <typename T> T f(T x) {\n  return \xc3\xa4rger(x);  // \xc3\xa4\n}", 2},
  };
  for (const auto& [code, number, part] : rows) {
    const auto f = jiterator::create_jit_fn(code);
    for (const Tensor& x : places(ones({2}))) {
      if (x.is_cuda() && !cuda::is_simulated() && code.find("atomicAdd") != std::string::npos)
        continue;
      const std::string text = error_of(f, {x});
      expect_parts(text, {line(x, number), part});
      expect_parts(text, {"jiterator: kernel 'f' for float32 -> float32 does not compile"});
    }
  }
}

TEST(JiteratorErrors, LinesOfLongTexts) {
  std::string code = "template <typename T> T f(T x) {\n";
  for (int i = 0; i < 100000; ++i) code += "  // \"'{[( \xe2\x82\xac\n";
  const auto good = jiterator::create_jit_fn(code + "  return x + 1;\n}");
  const auto bad = jiterator::create_jit_fn(code + "  return nowhere(x);\n}");
  for (const Tensor& x : places(ones({2}))) {
    EXPECT_EQ(values<float>(good({x})[0]), std::vector<float>(2, 2));
    expect_parts(error_of(bad, {x}), {line(x, 100002), "nowhere"});
  }
}

TEST(JiteratorErrors, LogsAreShortened) {
  const std::string name = "nowhere" + std::string(10000, 'x');
  const std::string text = error_of(
      jiterator::create_jit_fn("template <typename T> T f(T x) { return " + name + "(x); }"),
      {ones({2})});
  expect_parts(text, {"nowherexxx", "bytes more)"});
  EXPECT_LT(text.size(), 10000U);
}

/// They would run until the stack ends, and with it the process, or the use of the device.
TEST(JiteratorErrors, Recursion) {
  const std::pair<std::string, std::string> rows[] = {
      {"template <typename T> T f(T x) {\n  return f(x - 1) + x;\n}",
       "jiterator: 'f' calls itself (code_string:1), expected functions that do not"},
      {"template <typename T> T first(T x) { return x; }\n"
       "template <typename T>\nT g(T x, int n) {\n  return n == 0 ? x : g<T>(x, n - 1);\n}\n"
       "template <typename T> T f(T x) { return g(x, static_cast<int>(first(x))); }",
       "jiterator: 'g' calls itself (code_string:3)"},
      {"template <typename T> T f(T x);\ntemplate <typename T> T g(T x) { return f(x - 1); }\n"
       "template <typename T> T f(T x) { return x < 0 ? x : g(x); }",
       " calls itself (code_string:"},
      // What has no name among the functions.
      {"template <typename T> T f(T x) {\n"
       "  auto g = [](auto self, T v) -> T { return v > 0 ? self(self, v - 1) * v + 1 : v; };\n"
       "  return g(g, x);\n}",
       "jiterator: 'self' calls itself (code_string:2)"},
      {"template <typename T> T f(T x) {\n"
       "  auto g = [](auto& self, T v) -> T { return v > 0 ? self(self, v - 1) * v + 1 : v; };\n"
       "  return g(g, x);\n}",
       "jiterator: 'self' calls itself (code_string:2)"},
      {"template <typename T> struct S {\n"
       "  T operator()(T v) const { return v > 0 ? (*this)(v - 1) * v + 1 : v; }\n};\n"
       "template <typename T> T f(T x) { return S<T>()(x); }",
       "jiterator: '(*this)' calls itself (code_string:2)"},
      {"template <typename T> struct S {\n"
       "  T operator()(T v) const { return v > 0 ? this->operator()(v - 1) * v + 1 : v; }\n};\n"
       "template <typename T> T f(T x) { return S<T>()(x); }",
       "jiterator: 'operator' calls itself (code_string:2)"},
      {"template <typename T> struct S {\n"
       "  static T power(T v, int n) {\n    return n == 0 ? T(1) : power(v, n - 1) * v;\n  }\n};\n"
       "template <typename T> T f(T x) { return S<T>::power(x, 3); }",
       "jiterator: 'power' calls itself (code_string:3)"},
      {"template <typename T> struct S {\n"
       "  static T down(T v) { return v > 0 ? S::down(v - 1) : v; }\n};\n"
       "template <typename T> T f(T x) { return S<T>::down(x); }",
       "jiterator: 'down' calls itself (code_string:2)"},
      {"template <typename T> struct S {\n"
       "  auto down(T v) const -> T { return v > 0 ? (*this).down(v - 1) : v; }\n};\n"
       "template <typename T> T f(T x) { return S<T>().down(x); }",
       "jiterator: 'down' calls itself (code_string:2)"}};
  for (const auto& [code, text] : rows) {
    const auto f = jiterator::create_jit_fn(code);
    for (const Tensor& x : places(ones({2}))) EXPECT_ERROR(f({x}), Error, text);
  }
}

/// Members of the same name, which are other functions.
TEST(JiteratorErrors, AMemberOfTheSameNameIsNoRecursion) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T f(T x) {\n"
      "  struct P { T v; T f(T y) { return y + v; } };\n  P p{T(1)};\n  return p.f(x);\n}");
  for (const Tensor& x : places(ones({2})))
    EXPECT_EQ(values<float>(f({x})[0]), (std::vector<float>{2, 2}));
}

/// Kernels are kept by their texts, on disk, too: what another file says could change unseen.
TEST(JiteratorErrors, OtherFiles) {
  for (const char* line :
       {"#include \"k.h\"", "  #  include <k.h>", "%:include \"k.h\"", "#include_next <k.h>",
        "#import \"k.h\"", "# /**/ include \"k.h\"", "#\\\n include <k.h>", "#inc\\\nlude \"k.h\"",
        "#\\ \n include <k.h>", "#\\\r\n include <k.h>", "%\\\n:include <k.h>",
        "/\\\n* */ #include <k.h>", "#embed \"k.h\"", "#if __has_include(\"k.h\")\n#endif",
        "#define HAS __has_include\n#if HAS(<k.h>)\n#endif",
        "#/* if */ if 0\n%:else\n#include <k.h>\n#endif", "#if 0 /* */ + 1\n#include <k.h>\n#endif",
        "#if 0\\\n1\n#include <k.h>\n#endif"}) {
    const auto f = jiterator::create_jit_fn("template <typename T> T f(T x) {\n" +
                                            std::string(line) + "\n  return x;\n}");
    for (const Tensor& x : places(ones({2}))) {
      try {
        (void)f({x});
        ADD_FAILURE() << line;
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_TRUE(text.starts_with("jiterator: the text names another file (code_string:") &&
                    text.ends_with("), expected one that includes nothing"))
            << line << ": " << text;
      }
    }
  }
  const auto first = jiterator::create_jit_fn(
      "template <typename T> T f(T x) {\n#include \"k.h\"\n  return x;\n}");
  EXPECT_ERROR(first({ones({2})}), Error, "another file (code_string:2), expected");
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T f(T x) {\n#if 0\n#include \"k.h\"\n#endif\n  // #include\n"
      "%:if 0 /* a\ncomment */\n  x = 7;\n%:endif\n#define TWICE(a) a + \\\n  a /* of\n#include "
      "*/\n"
      "  return x;  /*\n#include \"k.h\"\n*/\n}");
  for (const Tensor& x : places(ones({2})))
    EXPECT_EQ(values<float>(f({x})[0]), (std::vector<float>{1, 1}));
}

/// On a real device they give some number. A processor stops there, which must not end the process.
TEST(JiteratorErrors, IntegersDividedByZero) {
  const auto quotient =
      jiterator::create_jit_fn("template <class T> T f(T x, T y) { return x / y; }");
  const auto rest = jiterator::create_jit_fn("template <class T> T f(T x, T y) { return x % y; }");
  const auto constant =
      jiterator::create_jit_fn("template <class T> T f(T x) { return x / T(0); }");
  const Tensor one = tensor({7, 7}), zero = tensor({2, 0});
  const Tensor least = full({100000}, std::numeric_limits<std::int64_t>::min(), Dtype::int64);
  const Tensor minus = full({100000}, -1, Dtype::int64);
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(quotient({one, zero}), Error, "an integer was divided by zero");
    EXPECT_ERROR(rest({one, zero}), Error, "an integer was divided by zero");
    EXPECT_ERROR(quotient({least, minus}), Error, "or the least one by -1");
    try {
      (void)constant({one});
    } catch (const Error&) {
      // A compiler may give a number for it, too.
    }
    EXPECT_EQ(values<int>(quotient({one, one})[0]), (std::vector<int>{1, 1}));
  }
}

/// A fault of the device, which names the kernel.
TEST(JiteratorErrors, IntegersDividedByZeroOnADevice) {
  NEEDS_DEVICES(1);
  IN_CHILD({
    const auto f =
        jiterator::create_jit_fn("template <class T> T mine(T x, T y) { return x / y; }");
    const Tensor zero = zeros({4}, {Dtype::int32, "cuda"});
    (void)f({zero, zero});
    if (!cuda::is_simulated()) {
      cuda::synchronize();
    } else {
      try {
        cuda::synchronize();
        ADD_FAILURE() << "there was no fault";
      } catch (const AcceleratorError& error) {
        expect_parts(error.what(), {"an integer was divided by zero", "mine"});
      }
      cuda::reset_device(0);
      const Tensor two = full({4}, 2, {Dtype::int32, "cuda"});
      EXPECT_EQ(values<int>(f({two, two})[0]), std::vector<int>(4, 1));
    }
  });
}

void divide_and_raise() {
  const auto f = jiterator::create_jit_fn("template <class T> T f(T x, T y) { return x / y; }");
  EXPECT_THROW((void)f({ones({1}, Dtype::int32), zeros({1}, Dtype::int32)}), Error);
  (void)raise(SIGFPE);
}

/// The signals are those of other handlers as before.
TEST(JiteratorErrors, OtherDivisionsEndTheProcess) {
  // A sanitizer has the signal, too: it reports, and exits by itself.
  const auto did_not_go_on = [](int status) { return status != 0; };
  EXPECT_EXIT(divide_and_raise(), did_not_go_on, "");
}

/// Functions of the same name, CUDA's own among them, and members are others.
TEST(JiteratorErrors, NoRecursion) {
  for (const std::string code :
       {"template <typename T> T exp(T x) { return ::exp(x) * 0; }\n"
        "template <typename T> T f(T x) { return exp(x) + 2; }",
        "template <typename T> T g(T x, T y) { return x + y; }\n"
        "template <typename T> T g(T x) { return g(x, x); }\n"
        "template <typename T> T f(T x) { return g(x); }",
        "template <typename T> struct P { T operator()(T x) const { return "
        "x; } };\ntemplate <typename T> struct S { P<T> p; T operator()(T x) "
        "const { return this->p(x) + 1; } };\ntemplate <typename G, "
        "typename T> T twice(G g, T x) { return g(g(x)); }\n"
        "template <typename T> T f(T x) { auto h = [](T v) { return v * 2; "
        "}; return S<T>()(x) + twice(h, x) - 4; }",
        "template <typename T> T f(T x) { T max = x; max = ::max(max, x); "
        "T min = max; min = ::min(min, max); return min + max; }",
        "template <typename T> struct V { T v; operator T() const { return "
        "T(v); } };\ntemplate <typename T> T f(T x) { if constexpr "
        "(sizeof(T) == 4) { if constexpr (sizeof(T) > 2) return V<T>{x} * 2; "
        "} return x; }",
        "template <typename T> struct P { T operator()(T a, T b) const { "
        "return a * b; } T operator()(T a) const { return (*this)(a, T(2)); "
        "} };\ntemplate <typename T> T f(T x) { return P<T>()(x); }",
        "template <typename T> struct S { T f(T x) { return x + 1; } };\n"
        "template <typename T> T f(T x) { S<T> s; S<T>* p = &s; return "
        "s.f(x) * p->f(x) - p->f(x); }"}) {
    EXPECT_EQ(values<float>(jiterator::create_jit_fn(code)({ones({2})})[0]),
              std::vector<float>(2, 2));
  }
}

TEST(JiteratorErrors, TextsWithQuotesAndOtherAlphabets) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T f(T x) {\n"
      "  // $(touch nowhere) `id` \"\\\" '\xc3\xbc' %s\n"
      "  const char* text = \"\\\"\xc3\xa9\\\" ';#\";\n"
      "  const char letter = '\"';\n"
      "  return x + (text[0] == letter);\n}");
  for (const Tensor& x : places(ones({2})))
    EXPECT_EQ(values<float>(f({x})[0]), std::vector<float>(2, 2));
}

class Compilers : public testing::Test {
 protected:
  /// A function that nothing has compiled yet.
  static jiterator::JitFunction fresh() {
    static int count = 0;
    return jiterator::create_jit_fn("template <typename T> T f(T x) { return x + " +
                                    std::to_string(++count) + "; }  // fresh");
  }
  const Tensor x_ = ones({2});
};

TEST_F(Compilers, AbsentOnesAreNamed) {
  const auto f = fresh();
  {
    const Variable variable("CXX", "no-such-compiler -O2");
    EXPECT_ERROR(f({x_}), Error,
                 "'no-such-compiler' (from CXX='no-such-compiler -O2') was not found");
  }
  {
    const Variable variable("CXX", "/no/such/compiler");
    EXPECT_ERROR(f({x_}), Error, "/no/such/compiler");
  }
  {
    const Variable variable("CXX", std::nullopt);
    const Variable path("PATH", "/nowhere");
    EXPECT_ERROR(f({x_}), Error, "'c++' (CXX is not set) was not found");
  }
  EXPECT_EQ(f({x_})[0].numel(), 2);  // nothing is lost
}

TEST_F(Compilers, NoShellSeesTheirWords) {
  const Folder folder;
  const NotedCompiler compiler;
  const Variable variable("CXX", compiler.path() + " -DA=$(touch " + (folder / "made") + ")");
  EXPECT_ERROR(fresh()({x_}), Error, "does not compile");
  EXPECT_FALSE(std::filesystem::exists(folder / "made"));
  EXPECT_EQ(compiler.starts(), 1);
}

TEST_F(Compilers, TheirWordsAreGivenOn) {
  const NotedCompiler compiler;
  const Variable variable("CXX", "  " + compiler.path() + "\t-DSEVEN=7\n");
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x) { return x * SEVEN; }");
  EXPECT_EQ(values<float>(f({x_})[0]), std::vector<float>(2, 7));
}

TEST_F(Compilers, TheirEndIsReported) {
  const NotedCompiler silent("exit 3");
  const NotedCompiler killed("kill -9 $$");
  const NotedCompiler loud("echo 'no disk here' >&2; exit 1");
  const std::pair<const NotedCompiler*, const char*> rows[] = {
      {&silent, "it ended with status 3"},
      {&killed, "it was ended by signal 9"},
      {&loud, "no disk here"}};
  for (const auto& [compiler, text] : rows) {
    const Variable variable("CXX", compiler->path());
    EXPECT_ERROR(fresh()({x_}), Error, text);
  }
}

/// A failure is not kept: the next call tries again, and leaves no memory behind.
TEST_F(Compilers, NothingIsLostByAFailure) {
  const Folder temporary;
  const Variable folder("TMPDIR", temporary.path());
  for (const Tensor& x : places(x_)) {
    if (!is_compiled_for_host(x)) continue;
    const auto f = fresh();
    const std::size_t before = cuda::device_count() > 0 ? cuda::memory_allocated(0) : 0;
    {
      const Variable variable("CXX", "/no/such/compiler");
      EXPECT_ERROR(f({x}), Error, "/no/such/compiler");
      EXPECT_ERROR(f({x}), Error, "/no/such/compiler");
    }
    EXPECT_EQ(cuda::device_count() > 0 ? cuda::memory_allocated(0) : 0, before);
    EXPECT_EQ(f({x})[0].numel(), 2);
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
}

TEST_F(Compilers, AnotherOneCompilesAnew) {
  const NotedCompiler first, second;
  const auto f = fresh();
  {
    const Variable variable("CXX", first.path());
    (void)f({x_});
    (void)f({x_});
  }
  const Variable variable("CXX", second.path());
  (void)f({x_});                     // the process has it
  (void)f({x_.to(Dtype::float64)});  // this it has not
  EXPECT_EQ(first.starts(), 1);
  EXPECT_EQ(second.starts(), 1);
}

}  // namespace
}  // namespace ember::test
