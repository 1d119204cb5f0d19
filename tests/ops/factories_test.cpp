// New tensors: what is in them, of which type, and where.
#include <limits>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

std::vector<const char*> devices() {
  std::vector<const char*> list{"cpu"};
  if (cuda::device_count() > 0) list.push_back(kDevice);
  return list;
}

TEST(Factories, FillEveryType) {
  for (const char* place : devices())
    for (const Dtype dtype : all_dtypes())
      for (const Shape& sizes : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3, 129}}) {
        const Options options(dtype, place);
        const auto count = static_cast<std::size_t>(element_count(sizes));
        EXPECT_EQ(values<double>(zeros(sizes, options)), std::vector<double>(count, 0));
        EXPECT_EQ(values<double>(ones(sizes, options)), std::vector<double>(count, 1));
        const Tensor x = full(sizes, 3, options);
        EXPECT_EQ(values<double>(x), std::vector<double>(count, dtype == bool_ ? 1 : 3));
        EXPECT_EQ(x.dtype(), dtype);
        EXPECT_EQ(x.device().str(), place);
        EXPECT_EQ(x.sizes(), sizes);
      }
}

TEST(Factories, ChooseTheirTypes) {
  EXPECT_EQ(zeros({1}).dtype(), float32);
  EXPECT_EQ(full({1}, 2).dtype(), int64);
  EXPECT_EQ(full({1}, 2.0).dtype(), float32);
  EXPECT_EQ(full({1}, true).dtype(), bool_);
  EXPECT_EQ(full({1}, std::complex<double>(0, 1)).dtype(), complex64);
  EXPECT_EQ(scalar_tensor(7).item<int>(), 7);
  EXPECT_EQ(tensor({1, 2}).dtype(), int32);
  EXPECT_EQ(tensor<double>({1, 2}, float16).dtype(), float16);
  EXPECT_EQ(tensor<long long>({1, 2}).dtype(), int64);
  EXPECT_EQ(
      tensor(std::vector<bool>{}.empty() ? std::vector<float>{} : std::vector<float>{1}).sizes(),
      Shape({0}));
}

TEST(Factories, FollowAnotherTensor) {
  for (const char* place : devices()) {
    const Tensor x = zeros({2, 3}, Options(float64, place)).t();
    EXPECT_EQ(empty_like(x).strides(), Shape({1, 3}));
    EXPECT_EQ(ones_like(x).device().str(), place);
    EXPECT_EQ(values<double>(full_like(x, 2.5)), std::vector<double>(6, 2.5));
    EXPECT_EQ(zeros_like(x, int8).dtype(), int8);
    EXPECT_EQ(empty_like(x.slice(0, 0, 3, 2)).strides(), Shape({2, 1}));
    EXPECT_EQ(empty_like(x.select(0, 0).expand({4, 2})).strides(), Shape({2, 1}));
    EXPECT_EQ(x.new_full({2}, 1).dtype(), float64);
    EXPECT_EQ(x.new_ones({2}, int64).device().str(), place);
    EXPECT_EQ(x.new_zeros({2, 2}).sizes(), Shape({2, 2}));
    EXPECT_EQ(x.new_empty({0}).numel(), 0);
  }
}

TEST(Factories, RefuseBadSizes) {
  EXPECT_ERROR(zeros({-1}), ValueError, "Trying to create tensor with negative dimension -1: [-1]");
  EXPECT_ERROR(zeros({2}, "cuda:99"), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(empty_strided({2, 2}, {1}), Error, "mismatch in length of strides and shape");
  EXPECT_ERROR(empty_strided({2}, {-1}), Error, "Negative strides are not supported");
  EXPECT_ERROR(empty_strided({3}, {INT64_MAX}), ValueError, "spans more than 2^63 elements");
  EXPECT_EQ(empty_strided({0}, {INT64_MAX}).numel(), 0);
  const Tensor x = empty_strided({2, 3}, {1, 4}, int8);
  EXPECT_EQ(x.storage()->bytes(), 10U);
}

TEST(Arange, CountsAsTorchDoes) {
  for (const char* place : devices()) {
    EXPECT_EQ(values<int>(arange(5, Device(place))), std::vector<int>({0, 1, 2, 3, 4}));
    EXPECT_EQ(values<int>(arange(2, 9, 3, Device(place))), std::vector<int>({2, 5, 8}));
    EXPECT_EQ(values<int>(arange(9, 2, -3, Device(place))), std::vector<int>({9, 6, 3}));
    EXPECT_EQ(values<double>(arange(1, 2.5, 0.5, Options(float64, place))),
              std::vector<double>({1, 1.5, 2}));
    EXPECT_EQ(arange(3, Device(place)).dtype(), int64);
    EXPECT_EQ(arange(3.0, Device(place)).dtype(), float32);
    EXPECT_EQ(arange(0, Device(place)).numel(), 0);
    const auto many = values<std::int64_t>(arange(100000, Device(place)));
    for (std::int64_t i = 0; i < 100000; ++i) ASSERT_EQ(many[static_cast<std::size_t>(i)], i);
    for (const Dtype dtype : all_dtypes())
      if (dtype != bool_) {
        EXPECT_EQ(values<double>(arange(4, Options(dtype, place))),
                  std::vector<double>({0, 1, 2, 3}));
      }
  }
  EXPECT_EQ(arange(INT64_MAX - 2, INT64_MAX).numel(), 2);
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).numel(), 3);
  EXPECT_ERROR(arange(0, 5, 0), Error, "step must be nonzero");
  EXPECT_ERROR(arange(0, 5, -1), Error, "bound inconsistent with step sign");
  EXPECT_ERROR(arange(INT64_MAX, INT64_MAX - 1), Error, "bound inconsistent with step sign");
  EXPECT_ERROR(arange(0.0, INFINITY), Error, "unsupported range: 0 -> inf");
  EXPECT_ERROR(arange(NAN, 5.0), Error, "unsupported range: nan -> 5");
  EXPECT_ERROR(arange(INT64_MIN, INT64_MAX), Error, "invalid size, possible overflow?");
  EXPECT_ERROR(arange(0, 1e30), Error, "invalid size, possible overflow?");
  EXPECT_ERROR(arange(3, Options(bool_)), NotImplementedError,
               "\"arange\" not implemented for 'Bool'");
}

}  // namespace
}  // namespace ember::test
