// What products refuse, by torch's words, and that nothing is changed then.
#include "tests/linalg/support.h"

namespace ember::test {
namespace {

class ProductErrors : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (on_device()) NEEDS_DEVICES(1);
  }
  static bool on_device() { return std::string(GetParam()) != "cpu"; }
  static Tensor some(const Shape& sizes, Dtype dtype = float32) {
    return ones(sizes, {dtype, GetParam()});
  }
};

// Each mismatch of shapes is refused in torch's words.
TEST_P(ProductErrors, Shapes) {
  EXPECT_ERROR(mm(some({2, 3}), some({4, 5})), Error,
               "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
  EXPECT_ERROR(mm(some({3}), some({3, 4})), Error, "self must be a matrix");
  EXPECT_ERROR(mm(some({3, 4}), some({4})), Error, "mat2 must be a matrix");
  EXPECT_ERROR(addmm(some({1}), some({3}), some({3, 4})), Error,
               "mat1 must be a matrix, got 1-D tensor");
  EXPECT_ERROR(addmm(some({1}), some({2, 3}), some({3, 4, 1})), Error,
               "mat2 must be a matrix, got 3-D tensor");
  EXPECT_ERROR(addmm(some({3}), some({2, 3}), some({3, 4})), Error,
               "The expanded size of the tensor (4) must match the existing size (3) at "
               "non-singleton dimension 1");
  EXPECT_ERROR(bmm(some({2, 3}), some({2, 3, 4})), Error, "batch1 must be a 3D tensor");
  EXPECT_ERROR(bmm(some({2, 3, 4}), some({4, 5})), Error, "batch2 must be a 3D tensor");
  EXPECT_ERROR(bmm(some({2, 4, 3}), some({2, 4, 5})), Error,
               "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: "
               "[2, 4].");
  EXPECT_ERROR(addr(some({1}), some({2, 4}), some({3})), Error,
               "addr: Expected 1-D argument vec1, but got 2-D");
  EXPECT_ERROR(some({1, 3}).addr_(some({2}), some({3})), Error,
               "size mismatch, input: [1, 3], v1: [2], v2: [3]");
  EXPECT_ERROR(some({3}).addr_(some({2}), some({3})), Error,
               "2D tensor expected, got 1D tensor for input");
  EXPECT_ERROR(addr(some({2, 3}).to(float16), some({2}).to(float16), some({3}).to(float16), 1, 1e5),
               Error, "value cannot be converted to type float16 without overflow");
  EXPECT_ERROR(addr(some({1}), some({2}), some({3}), true), Error,
               "Boolean beta only supported for Boolean results.");
  EXPECT_ERROR(addr(some({1}), some({2}), some({})), Error,
               "addr: Expected 1-D argument vec2, but got 0-D");
  EXPECT_ERROR(baddbmm(some({1}), some({2, 4, 3}), some({3, 3, 5})), Error,
               "to be: [2, 3] but got: [3, 3].");
  EXPECT_ERROR(mv(some({2, 3}), some({4})), Error,
               "size mismatch, got input (2), mat (2x3), vec (4)");
  EXPECT_ERROR(mv(some({2, 3, 4}), some({4})), Error,
               "vector + matrix @ vector expected, got 1, 3, 1");
  EXPECT_ERROR(dot(some({2, 3}), some({3})), Error,
               "1D tensors expected, but got 2D and 1D tensors");
  EXPECT_ERROR(dot(some({3}), some({4})), Error,
               "inconsistent tensor size, expected tensor [3] and src [4] to have the same number "
               "of elements, but got 3 and 4 elements respectively");
  EXPECT_ERROR(matmul(some({}), some({3})), Error,
               "both arguments to matmul need to be at least 1D, but they are 0D and 1D");
  EXPECT_ERROR(matmul(some({3, 2, 4}), some({2, 4, 5})), Error,
               "The size of tensor a (3) must match the size of tensor b (2) at non-singleton "
               "dimension 0");
  EXPECT_ERROR(matmul(some({2, 3, 4}), some({5, 6})), Error,
               "mat1 and mat2 shapes cannot be multiplied (6x4 and 5x6)");
  EXPECT_ERROR(matmul(some({2, 3, 4}), some({2, 5, 6})), Error,
               "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: "
               "[2, 5].");
  EXPECT_ERROR(matmul(some({3}), some({4, 5})), Error,
               "mat1 and mat2 shapes cannot be multiplied (1x3 and 4x5)");
}

// Factors of different dtypes are refused, named as torch names them.
/// As torch has it: zeros, or nothing.
TEST_P(ProductErrors, OfBoolsWhereNothingIsMultiplied) {
  const auto expect_zeros = [](const Tensor& made, const Shape& sizes) {
    EXPECT_EQ(made.sizes(), sizes);
    EXPECT_EQ(made.dtype(), bool_);
    EXPECT_FALSE(made.any().item<bool>());
  };
  const auto of = [](const Shape& sizes) { return some(sizes, bool_); };
  expect_zeros(mm(of({2, 0}), of({0, 3})), {2, 3});
  expect_zeros(mm(of({0, 3}), of({3, 2})), {0, 2});
  expect_zeros(mv(of({2, 0}), of({0})), {2});
  expect_zeros(bmm(of({2, 2, 0}), of({2, 0, 3})), {2, 2, 3});
  expect_zeros(matmul(of({2, 0, 3, 4}), of({1, 4, 3})), {2, 0, 3, 3});
  expect_zeros(matmul(of({2, 2, 0}), of({0})), {2, 2});
  expect_zeros(addmm(of({0, 2}), of({0, 3}), of({3, 2})), {0, 2});
  expect_zeros(baddbmm(of({2, 0, 2}), of({2, 0, 3}), of({2, 3, 2})), {2, 0, 2});
}

TEST_P(ProductErrors, Dtypes) {
  EXPECT_ERROR(mm(some({2, 2}), some({2, 2}, float64)), Error,
               "expected m1 and m2 to have the same dtype, but got: float != double");
  EXPECT_ERROR(mm(some({2, 2}, int64), some({2, 2}, float16)), Error, "long int != c10::Half");
  EXPECT_ERROR(bmm(some({1, 2, 2}), some({1, 2, 2}, float64)), Error,
               "expected scalar type Float but found Double");
  EXPECT_ERROR(addmm(some({2, 2}, float64), some({2, 2}), some({2, 2})), Error,
               "self and mat2 must have the same dtype, but got Double and Float");
  EXPECT_ERROR(dot(some({2}), some({2}, float64)), Error,
               "dot : expected both vectors to have same dtype, but found Float and Double");
  EXPECT_ERROR(mm(some({2, 2}, bool_), some({2, 2}, bool_)), NotImplementedError,
               "not implemented for 'Bool'");
  EXPECT_ERROR(dot(some({0}, bool_), some({0}, bool_)), NotImplementedError, "for 'Bool'");
  EXPECT_ERROR(addmm(some({2, 2}, bool_), some({2, 0}, bool_), some({0, 2}, bool_)),
               NotImplementedError, "for 'Bool'");
  EXPECT_ERROR(mm(some({2, 2}, uint16), some({2, 2}, uint16)), NotImplementedError,
               "not implemented for 'UInt16'");
  EXPECT_ERROR(addmm(some({2, 2}, int64), some({2, 2}, int64), some({2, 2}, int64), 0.5), Error,
               "For integral input tensors, argument beta must not be a floating point number.");
  EXPECT_ERROR(addmm(some({2, 2}), some({2, 2}), some({2, 2}), 1, std::complex<double>(1, 1)),
               Error,
               "For non-complex input tensors, argument alpha must not be a complex number.");
}

// Outputs of another dtype or shape, or of elements that share memory, are refused unchanged.
TEST_P(ProductErrors, Outputs) {
  Tensor wrong = full({2, 2}, 5, {float64, GetParam()});
  EXPECT_ERROR(mm_out(wrong, some({2, 2}), some({2, 2})), Error,
               "Expected out tensor to have dtype float, but got double instead");
  Tensor small = full({2, 3}, 5, {float32, GetParam()});
  EXPECT_ERROR(mm_out(small, small, some({3, 3}).narrow(1, 0, 1)), Error,
               "output with shape [2, 3]");
  EXPECT_EQ(values<float>(small), std::vector<float>(6, 5.0F));
  Tensor expanded = full({1, 2}, 5, {float32, GetParam()}).expand({2, 2});
  EXPECT_ERROR(mm_out(expanded, some({2, 2}), some({2, 2})), Error,
               "more than one element of the written-to tensor");
  Tensor target = full({2, 2}, 5, {float32, GetParam()});
  EXPECT_ERROR(target.addmm_(some({2, 2}), some({3, 2})), Error, "cannot be multiplied");
  EXPECT_EQ(values<float>(target), std::vector<float>(4, 5.0F));
}

std::string place_of_case(const ::testing::TestParamInfo<const char*>& info) {
  return std::string(info.param) == "cpu" ? "cpu" : "device";
}
INSTANTIATE_TEST_SUITE_P(Places, ProductErrors, ::testing::Values("cpu", kDevice), place_of_case);

TEST(ProductDevices, MustAgree) {
  NEEDS_DEVICES(1);
  const Tensor here = ones({2, 2});
  const Tensor there = ones({2, 2}, kDevice);
  EXPECT_ERROR(mm(here, there), Error,
               "Expected all tensors to be on the same device, but found at least two devices, cpu "
               "and cuda:0!");
  EXPECT_ERROR(addmm(here, there, there), Error, "found at least two devices");
  EXPECT_ERROR(bmm(here.unsqueeze(0), there.unsqueeze(0)), Error, "found at least two devices");
  EXPECT_ERROR(matmul(here.unsqueeze(0), there), Error, "found at least two devices");
  EXPECT_ERROR(mv(here, there[0]), Error, "found at least two devices");
  EXPECT_ERROR(dot(here[0], there[0]), Error, "found at least two devices");
}

}  // namespace
}  // namespace ember::test
