// Kernels from a text, on the CPU and on a simulated device.
#include "ember/jit/jiterator.h"

#include "tests/ops/support.h"

namespace ember::test {
namespace {

namespace jiterator = cuda::jiterator;

TEST(Jiterator, ComputesWhatTheTextSays) {
  const auto f = jiterator::create_jit_fn(
      "template <typename T> T my_kernel(T x, T y, T alpha) { return -x + alpha * y; }",
      {{"alpha", 1.0}});
  for (const Tensor& x : places(arange(12).to(Dtype::float32).view({3, 4}))) {
    const Tensor y = x.t().contiguous().t() * 3;
    expect_same(f({x, y}, {{"alpha", 2.0}})[0], (y * 2 - x).cpu(), 1, "alpha");
    expect_same(f({x, x})[0], (x - x).cpu(), 1, "default");
  }
}

TEST(Jiterator, Errors) {
  EXPECT_ERROR(jiterator::create_jit_fn("int f() { return 1; }"), jiterator::CodeError,
               "Couldn't parse code, please check correctness:\nint f() { return 1; }");
  const auto f =
      jiterator::create_jit_fn("template <typename T> T f(T x) {\n return nowhere(x); }");
  EXPECT_ERROR(f({ones({2})}), Error, "code_string:2");
  EXPECT_ERROR(f({ones({2})}, {{"beta", 1}}), jiterator::KeywordError,
               "beta is not declared in function definition");
}

}  // namespace
}  // namespace ember::test
