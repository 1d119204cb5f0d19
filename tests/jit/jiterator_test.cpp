// Kernels from a text: what they compute, on every kind of device (chapter 19).
#include "ember/jit/jiterator.h"

#include <atomic>
#include <thread>

#include "tests/jit/support.h"

namespace ember::test {
namespace {

TEST(Jiterator, ComputesWhatTheTextSays) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T my_kernel(T x, T y, T alpha) { return -x + alpha * y; }",
      {{"alpha", 1.0}});
  EXPECT_EQ(f.name(), "my_kernel");
  for (const Tensor& x : places(arange(12).to(Dtype::float32).view({3, 4}))) {
    const Tensor y = x.t().contiguous().t() * 3;
    EXPECT_EQ(values<float>(f({x, y}, {{"alpha", 2.0}})[0]),
              (std::vector<float>{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55}));
    EXPECT_EQ(values<float>(f({x, x})[0]), std::vector<float>(12));
  }
}

TEST(Jiterator, TheLastTemplateIsTheEntry) {
  const auto f = jiterator::create_jit_fn(
      "\n\ttemplate <typename T>\nT twice(T x)\n{\n  return 2 * x;\n}\n"
      "template <typename T>\nT f(T x) { return twice(x) + 1; }\n");
  EXPECT_EQ(f.name(), "f");
  for (const Tensor& x : places(tensor({1, 2, 3})))
    EXPECT_EQ(values<int>(f({x})[0]), (std::vector<int>{3, 5, 7}));
}

TEST(Jiterator, SeveralOutputsComeByReference) {
  const auto f = jiterator::create_multi_output_jit_fn(
      "template <typename T> void f(T x, T y, T& sum, T& product) { sum = x + y; product = x * y; "
      "}",
      2);
  EXPECT_EQ(f.num_outputs(), 2);
  for (const Tensor& x : places(tensor({1.0, 2.0, 3.0}))) {
    const std::vector<Tensor> made = f({x, x + 1});
    ASSERT_EQ(made.size(), 2U);
    EXPECT_EQ(values<double>(made[0]), (std::vector<double>{3, 5, 7}));
    EXPECT_EQ(values<double>(made[1]), (std::vector<double>{2, 6, 12}));
    EXPECT_EQ(made[1].device(), x.device());
  }
}

/// The bytes of what the function is instantiated with.
TEST(Jiterator, ComputesInTheTypeOfTheChapter) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T f(T x) { return T(static_cast<int>(sizeof(T))); }");
  const std::pair<Dtype, int> expected[] = {
      {Dtype::uint8, 1},   {Dtype::int8, 1},      {Dtype::int16, 2},      {Dtype::int32, 4},
      {Dtype::int64, 8},   {Dtype::float16, 4},   {Dtype::bfloat16, 4},   {Dtype::float32, 4},
      {Dtype::float64, 8}, {Dtype::complex64, 8}, {Dtype::complex128, 16}};
  for (const auto& [dtype, bytes] : expected)
    for (const Tensor& x : places(ones({3}, dtype))) {
      const Tensor made = f({x})[0];
      EXPECT_EQ(made.dtype(), dtype);
      EXPECT_EQ(values<double>(made.is_complex() ? made.view_as_real().select(-1, 0) : made),
                std::vector<double>(3, bytes))
          << dtype_name(dtype);
    }
  for (const Tensor& x : places(tensor(std::vector<bool>{true, false})))
    EXPECT_EQ(values<bool>(jiterator::create_jit_fn(
                  "template <typename T> T f(T x) { return !x; }")({x})[0]),
              (std::vector<bool>{false, true}));
}

TEST(Jiterator, SixteenBitsAreComputedAsFloat) {
  // (x + 1/3) - x is nothing left of 1/3 in 11 bits, but not in 24.
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(T x) { return (x + T(0.25)) - x; }");
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16})
    for (const Tensor& x : places(full({4}, 1024, dtype)))
      EXPECT_EQ(values<float>(f({x})[0]), std::vector<float>(4, 0.25F));
}

TEST(Jiterator, IntegersComputeInIntegers) {
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x / y + x % y; }");
  for (const Tensor& x : places(tensor({7, 8, 9})))
    EXPECT_EQ(values<int>(f({x, full({1}, 4, {Dtype::int64, x.device()})})[0]),
              (std::vector<int>{1 + 3, 2 + 0, 2 + 1}));
}

/// Bytes, and 100 more if halves are kept, tell the four kinds apart.
TEST(Jiterator, KeywordsKeepTheirKind) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T, typename K> T f(T x, K k) {\n"
      "  return T(static_cast<int>(sizeof(K))) + T(K(1) / K(2) != K(0) ? 100 : 0);\n}",
      {{"k", 1}});
  for (const Tensor& x : places(zeros({1}))) {
    const auto kind = [&](const Scalar& k) { return f({x}, {{"k", k}})[0].item().to<int>(); };
    EXPECT_EQ(kind(true), 101);
    EXPECT_EQ(kind(3), 8);
    EXPECT_EQ(kind(2.5), 108);
    EXPECT_EQ(kind(Complex<double>(1, 2)), 116);
    EXPECT_EQ(f({x})[0].item().to<int>(), 8);  // the default's
  }
}

TEST(Jiterator, KeywordsConvertToTheParameters) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T f(T x, int whole, T scale, bool negate) {\n"
      "  return (negate ? -1 : 1) * (x * scale + whole);\n}",
      {{"whole", 1}, {"scale", 2}, {"negate", false}});
  for (const Tensor& x : places(tensor({1.5F, 2.5F}))) {
    EXPECT_EQ(values<float>(f({x})[0]), (std::vector<float>{4, 6}));
    // The order of a call's keywords does not count.
    EXPECT_EQ(values<float>(f({x}, {{"negate", true}, {"whole", 2.9}})[0]),
              (std::vector<float>{-5, -7}));
  }
  const auto exact = jiterator::create_jit_fn(
      "template <typename T> T f(T x, long long n) { return n == 9007199254740993LL; }",
      {{"n", 0}});
  EXPECT_TRUE(exact({ones({1})}, {{"n", std::int64_t{9007199254740993}}})[0].item().to<bool>());
  const auto turned = jiterator::create_jit_fn(
      "template <typename T> T f(T z, std::complex<double> by) {\n"
      "  return z * T(by.real(), by.imag());\n}",
      {{"by", Complex<double>(0, 1)}});
  for (const Tensor& z : places(tensor({1.0F, 2.0F}).view_as_complex().view({1})))
    EXPECT_EQ(values<float>(turned({z})[0].view_as_real()), (std::vector<float>{-2, 1}));
}

TEST(Jiterator, MixedTypesArePromoted) {
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x + y; }");
  const Tensor integers = arange(-3, 3);
  const std::pair<Tensor, Tensor> mixed[] = {
      {integers, integers.to(Dtype::float32) * 0.5},
      {integers.to(Dtype::int8), integers.to(Dtype::uint8)},
      {integers.to(Dtype::float16), integers.to(Dtype::bfloat16)},
      {integers.to(Dtype::bool_), integers.to(Dtype::int32)},
      {integers.to(Dtype::float64), integers.to(Dtype::complex64)},
      {integers.to(Dtype::float32), full({}, 2.5, Dtype::float64)},  // a number of its kind
      {integers, full({}, 2.5, Dtype::float16)},
  };
  for (const auto& [x, y] : mixed) {
    const Tensor expected = add(x, y);
    const std::string what = std::string(dtype_name(x.dtype())) + " and " + dtype_name(y.dtype());
    EXPECT_EQ(f({x, y})[0].dtype(), expected.dtype()) << what;
    for (const Tensor& here : places(x))
      expect_same(f({here, y.to(here.device())})[0], expected, 0, what);
  }
}

TEST(Jiterator, InputsAreBroadcastAsTheyLie) {
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return 3 * x - y; }");
  const Tensor x = arange(360).to(Dtype::float32).view({3, 4, 5, 6});
  const Tensor others[] = {
      x,
      x.permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0}),
      arange(6).to(Dtype::float32),
      arange(4).to(Dtype::float32).view({4, 1, 1}),
      full({}, 7),
      arange(10).to(Dtype::float32).slice(0, 1, 10, 2).view({5, 1}),
      arange(3).to(Dtype::float32).view({3, 1, 1, 1}).expand({3, 4, 5, 6}),
  };
  for (const Tensor& there : places(x))
    for (const Tensor& other : others) {
      const Tensor y = other.to(there.device());
      for (const Tensor& here : {there, there.slice(2, 0, 5, 2).slice(3, 0, 6, 2),
                                 there.permute({0, 1, 3, 2}).contiguous().permute({0, 1, 3, 2})}) {
        if (here.sizes() != x.sizes() && y.numel() > 4 && y.dim() > 0) continue;
        const Tensor made = f({here, y})[0];
        const Tensor expected = here * 3 - y;
        EXPECT_EQ(made.strides().str(), expected.strides().str()) << other.sizes().str();
        expect_same(made, expected.cpu(), 0, other.sizes().str());
      }
    }
}

/// More dimensions than a kernel walks, none of which continues another.
TEST(Jiterator, ManyDimensions) {
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x - y; }");
  Shape sizes, turned;
  std::int64_t count = 1;
  for (int d = 0; d < 9; ++d) {
    sizes.push_back(2 + d % 2);
    count *= sizes.back();
    turned.push_back(8 - d);
  }
  const Tensor x = arange(count).view(sizes).to(Dtype::int32);
  Shape other;
  for (int d = 8; d >= 0; --d) other.push_back(sizes[d]);
  const Tensor y = arange(count).view(other).permute(turned).to(Dtype::int64);
  const Tensor expected = x - y;
  for (const Tensor& here : places(x))
    expect_same(f({here, y.to(here.device())})[0], expected, 0, "nine dimensions");
}

/// Offsets that do not fit into 31 bits. Only the two elements are touched.
TEST(Jiterator, LargeSteps) {
  const std::int64_t step = (std::int64_t{1} << 31) + 5;
  Tensor memory = empty({step + 1}, Dtype::uint8);
  const Tensor x = memory.as_strided({2, 1}, {step, 1});
  Tensor(x).copy_(tensor({3, 4}).view({2, 1}));
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x + y; }");
  EXPECT_EQ(values<int>(f({x, arange(3).to(Dtype::uint8)})[0]),
            (std::vector<int>{3, 4, 5, 4, 5, 6}));
}

TEST(Jiterator, FortyInputsAndTwentyOutputs) {
  std::string parameters, body;
  for (int i = 0; i < 40; ++i) parameters += "T x" + std::to_string(i) + ", ";
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    parameters += std::string(i == 0 ? "" : ", ") + "T& y" + n;
    body += "y" + n + " = x" + n + " - scale * x" + std::to_string(39 - i) + ";\n";
  }
  parameters.insert(parameters.find("T& y0"), "T scale, ");
  const auto f = jiterator::create_multi_output_jit_fn(
      "template <typename T> void many(" + parameters + ") {\n" + body + "}", 20, {{"scale", 2}});
  for (const bool transposed : {false, true})
    for (const Tensor& x : places(arange(6).to(Dtype::float32).view({2, 3}))) {
      std::vector<Tensor> inputs;
      for (int i = 0; i < 40; ++i) {
        inputs.push_back(x + i);
        if (transposed && i % 2 == 1) inputs.back() = inputs.back().t().contiguous().t();
      }
      const std::vector<Tensor> made = f(inputs);
      ASSERT_EQ(made.size(), 20U);
      for (int i = 0; i < 20; ++i)
        expect_same(
            made[static_cast<std::size_t>(i)],
            (inputs[static_cast<std::size_t>(i)] - inputs[static_cast<std::size_t>(39 - i)] * 2)
                .cpu(),
            0, std::to_string(i));
    }
}

/// Nothing is launched, nor compiled: that would be an error.
TEST(Jiterator, WithoutElementsNothingRuns) {
  const auto f = jiterator::create_multi_output_jit_fn(
      "template <typename T> void f(T x, T y, T& a, T& b) { a = nowhere(x); }", 2);
  for (const Tensor& x : places(zeros({3, 0}, Dtype::float16))) {
    const std::vector<Tensor> made = f({x, full({3, 1}, 1, {Dtype::float32, x.device()})});
    ASSERT_EQ(made.size(), 2U);
    EXPECT_EQ(made[0].sizes().str(), x.sizes().str());
    EXPECT_EQ(made[1].dtype(), Dtype::float32);
    EXPECT_EQ(made[1].device(), x.device());
  }
}

class Launches : public cuda::Observer {
 public:
  Launches() { cuda::add_observer(*this); }
  ~Launches() override { cuda::remove_observer(*this); }
  void notice(const cuda::Activity& activity) noexcept override {
    if (activity.kind != cuda::Activity::Kind::kernel_launched) return;
    names.emplace_back(activity.name);
    known &= activity.accesses_known;
    for (const cuda::Access& access : activity.accesses) writes.push_back(access.writes);
  }
  std::vector<std::string> names;
  std::vector<bool> writes;
  bool known = true;
};

TEST(Jiterator, ObserversSeeALaunchByItsName) {
  NEEDS_DEVICES(1);
  const auto f =
      jiterator::create_jit_fn("template <typename T> T seen(T x, T y) { return x + y; }");
  const Tensor x = ones({5}, "cuda:0");
  Launches launches;
  const cuda::Stream stream(0);
  const cuda::StreamGuard guard(stream);
  stream.wait_stream(cuda::default_stream(0));
  const Tensor made = f({x, x})[0];
  EXPECT_EQ(launches.names, std::vector<std::string>{"seen"});
  EXPECT_TRUE(launches.known);
  EXPECT_EQ(launches.writes, (std::vector<bool>{true, false, false}));
  stream.synchronize();
  EXPECT_EQ(values<float>(made), std::vector<float>(5, 2));
}

/// Where an operation of ember's does the same, the bits are the same.
TEST(Jiterator, BitsAreThoseOfTheOperations) {
  const std::pair<const char*, Tensor (*)(const Tensor&)> rows[] = {
#define EMBER_ROW(name)                            \
  {                                                \
#name, [](const Tensor& x) { return name(x); } \
  }
      EMBER_ROW(acos),   EMBER_ROW(acosh), EMBER_ROW(asin),  EMBER_ROW(asinh), EMBER_ROW(atan),
      EMBER_ROW(atanh),  EMBER_ROW(ceil),  EMBER_ROW(cos),   EMBER_ROW(cosh),  EMBER_ROW(erf),
      EMBER_ROW(erfc),   EMBER_ROW(exp),   EMBER_ROW(exp2),  EMBER_ROW(expm1), EMBER_ROW(floor),
      EMBER_ROW(lgamma), EMBER_ROW(log),   EMBER_ROW(log10), EMBER_ROW(log1p), EMBER_ROW(log2),
      EMBER_ROW(sin),    EMBER_ROW(sinh),  EMBER_ROW(sqrt),  EMBER_ROW(tan),   EMBER_ROW(tanh),
      EMBER_ROW(trunc)};
#undef EMBER_ROW
  std::string parameters, body;
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const std::string n = std::to_string(i);
    parameters += ", T& y" + n;
    body += "y" + n + " = ::" + rows[i].first + "(x);\n";
  }
  const auto f = jiterator::create_multi_output_jit_fn(
      "template <typename T> void f(T x" + parameters + ") {\n" + body + "}",
      static_cast<int>(std::size(rows)));
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16}) {
    const Tensor x = cat({(arange(-1000, 1000).to(Dtype::float64) / 97).to(dtype),
                          tensor({0.0, -0.0, kInf, -kInf, kNaN, 1e30, -1e-30}).to(dtype)});
    for (const Tensor& here : places(x)) {
      const std::vector<Tensor> made = f({here});
      for (std::size_t i = 0; i < std::size(rows); ++i)
        expect_same(made[i], rows[i].second(here).cpu(), 2, rows[i].first, 1e-3);
    }
  }
}

TEST(Jiterator, ComplexNumbersAreThoseOfTheOperations) {
  const auto f = jiterator::create_multi_output_jit_fn(
      "template <typename T> void f(T x, T y, T& a, T& b, T& c, T& d, T& e) {\n"
      "  a = x * y; b = x / y; c = std::exp(x); d = std::sqrt(x); e = std::conj(x) - y;\n}",
      5);
  for (const Dtype dtype : {Dtype::complex64, Dtype::complex128}) {
    const Tensor part = arange(-20, 20).to(real_dtype(dtype)) / 7;
    const Tensor x =
        part.view({40, 1}).to(dtype) + mul(part.to(dtype), Scalar(Complex<double>(0, 1)));
    for (const Tensor& here : places(x)) {
      const Tensor y = here.t() + 1.5;
      const std::vector<Tensor> made = f({here, y});
      const Tensor expected[] = {here * y, here / y, exp(here), sqrt(here), here.conj() - y};
      for (std::size_t i = 0; i < 5; ++i)
        expect_same(made[i], expected[i].cpu(), 8, std::to_string(i), 1e-3);
    }
  }
}

TEST(Jiterator, SeveralThreadsCompileOnce) {
  const NotedCompiler compiler;
  const Variable variable("CXX", compiler.path());
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(T x) { return x * 5 + 3; }  // threads");
  const Tensor x = ones({100});
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      // Copies made of the text share the process's cache with the function.
      const auto other = jiterator::create_jit_fn(f.code());
      right += values<float>((i % 2 == 0 ? f : other)({x})[0]) == std::vector<float>(100, 8);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 8);
  EXPECT_EQ(compiler.starts(), 1);
}

}  // namespace
}  // namespace ember::test
