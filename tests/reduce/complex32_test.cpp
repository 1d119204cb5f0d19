#include "tests/ops/support.h"

namespace ember::test {
namespace {

// complex32 is reduced as complex64, and rounded.
TEST(Reduce, OfComplex32) {
  NEEDS_DEVICES(1);
  const Tensor x = arange(35)
                       .remainder(6)
                       .sub(3)
                       .view({5, 7})
                       .add(std::complex<double>(0, 1))
                       .to(Dtype::complex32);
  const auto check = [&](const char* what, auto&& call) {
    const Tensor wide = call(x.to(Dtype::complex64));
    const Dtype dtype = wide.dtype() == Dtype::complex64 ? Dtype::complex32
                        : wide.dtype() == Dtype::float32 ? Dtype::float16
                                                         : wide.dtype();
    expect_same(call(x), wide.to(dtype), 0, what);
    expect_same(call(x.to(kDevice)), call(x), 0, what);
  };
  for (const int dim : {0, 1}) {
    check("sum", [&](const Tensor& t) { return t.sum(dim); });
    check("prod", [&](const Tensor& t) { return t.div(8).prod(dim); });
    check("mean", [&](const Tensor& t) { return t.mean(dim); });
    check("any", [&](const Tensor& t) { return t.any(dim); });
    check("all", [&](const Tensor& t) { return t.all(dim); });
    check("count_nonzero", [&](const Tensor& t) { return t.count_nonzero(dim); });
  }
  Tensor out = empty({0}, Dtype::complex32);
  EXPECT_TRUE(equal(sum_out(out, x, 0), x.sum(0)));
  Tensor real = empty({0}, Dtype::float16);
  EXPECT_TRUE(equal(var_out(real, x, 0), var(x, 0)));
  EXPECT_ERROR(sum_out(out, x, 0, false, Dtype::complex64), Error, "");
}

}  // namespace
}  // namespace ember::test
