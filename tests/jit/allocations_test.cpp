// Later calls of a kernel from a text ask the heap for what they return, and nothing else.
#include <gtest/gtest.h>

#include "ember/sanitizer/sanitizer.h"
#include "tests/jit/support.h"
#include "tests/support/counted_heap.h"

#if !defined(EMBER_SANITIZED_HEAP)

namespace ember::test {
namespace {

constexpr const char* kText =
    "template <typename T> T f(T x, T y, T alpha) { return -x + alpha * y; }";

TEST(JitAllocations, CallsMakeOneForTheListOfOutputs) {
  (void)empty({1}, "cuda:0");  // which brings the sanitizer, if it is asked for
  if (cuda::enabled_sanitizer() != nullptr)
    GTEST_SKIP() << "counts allocations, and the sanitizer makes some";
  NEEDS_CACHING();
  const jiterator::JitFunction f = jiterator::create_jit_fn(kText, {{"alpha", 1.0}});
  const jiterator::Keywords keywords{{"alpha", 2.0}};
  for (const char* const device : {"cpu", "cuda:0"}) {
    const Tensor x = ones({8, 8}, device);
    const Tensor y = ones({8, 8}, device);
    const auto more_than_operation = [&](const Tensor& other, const jiterator::Keywords& given) {
      return allocations_of([&] {
               (void)f({x, other}, given);
             }) -
             allocations_of([&] { (void)sub(x, other); });
    };
    EXPECT_EQ(more_than_operation(y, {}), 1) << device;
    EXPECT_EQ(more_than_operation(y, keywords), 1) << device;
    EXPECT_EQ(more_than_operation(y[0], {}), 1) << device;
    EXPECT_EQ(more_than_operation(y.t(), keywords), 1) << device;
  }
}

}  // namespace
}  // namespace ember::test

#endif
