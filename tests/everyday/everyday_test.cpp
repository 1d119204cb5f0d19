// What a page of everyday code does (page.h). compiles.sh compiles it as users would.
#include "tests/everyday/page.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

using Doubles = std::vector<double>;

TEST(Everyday, AssignsToViews) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    EXPECT_EQ(values<double>(everyday::assign_to_views(place)), (Doubles{8, 8, 2, 8, 8, 2.5}));
}

TEST(Everyday, AssignsToVariables) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    EXPECT_EQ(values<double>(everyday::assign_to_variables(place)), Doubles(3, 1));
}

TEST(Everyday, TakesSizesWithoutBraces) { EXPECT_EQ(everyday::sizes_without_braces(), Shape{1}); }

TEST(Everyday, TakesNumbersInBraces) {
  const auto made = everyday::numbers_in_braces();
  const std::vector<Dtype> dtypes{float32, int64, float32, bool_,   complex64,
                                  int64,   int8,  float64, float64, float32};
  const std::vector<Shape> sizes{{2, 2}, {3}, {2}, {2}, {1}, {}, {2, 2, 1}, {2}, {2}, {0}};
  ASSERT_EQ(made.size(), dtypes.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].dtype(), dtypes[i]) << i;
    EXPECT_EQ(made[i].sizes(), sizes[i]) << i;
  }
  EXPECT_EQ(values<double>(made[0]), (Doubles{1, 2.5, 3, 4}));
  EXPECT_EQ(values<double>(made[6]), (Doubles{1, 2, 3, 4}));
}

TEST(Everyday, RefusesUnevenBraces) {
  EXPECT_ERROR(tensor({{1, 2}, {3}}), ValueError,
               "expected a list of length 2 at dim 1, got a list of length 1");
  EXPECT_ERROR(tensor({{1, 2}, 3}), ValueError,
               "got a number beside lists, expected a list of length 2 at dim 1");
  EXPECT_ERROR(tensor({1, {2, 3}}), ValueError,
               "expected a number at dim 1, got a list of length 2");
  EXPECT_ERROR(tensor({{}, {1}}), ValueError, "expected a list of length 0 at dim 1");
  EXPECT_ERROR(tensor({300}, int8), Error, "value cannot be converted to type int8");
  EXPECT_EQ(tensor({{}, {}}).sizes(), (Shape{2, 0}));
}

TEST(Everyday, TakesOptionsInEitherOrder) {
  NEEDS_DEVICES(1);
  for (const Tensor& made : everyday::options(kDevice)) {
    EXPECT_EQ(made.dtype(), float64);
    EXPECT_EQ(made.device(), Device(kDevice));
  }
}

TEST(Everyday, ReadsElementsOnTheHost) {
  Tensor x = ones({3, 4}).t();
  EXPECT_EQ(everyday::by_accessor(x), 12);
  EXPECT_EQ(x.sum().item<double>(), 11);
  EXPECT_ERROR((x.accessor<double, 2>()), TypeError, "elements are float32, asked for as float64");
  EXPECT_ERROR((x.accessor<float, 1>()), Error, "the tensor has 2 dimensions, expected 1");
  NEEDS_DEVICES(1);
  const Tensor there = ones(1, kDevice);
  EXPECT_ERROR((there.accessor<float, 1>()), Error,
               "the tensor is on cuda:0, expected one on the CPU");
}

TEST(Everyday, ChangesInPlace) {
  const Tensor x = tensor({1, 2, 80});
  everyday::in_place(x);
  EXPECT_EQ(values<double>(x), (Doubles{4, 6, 100}));
}

TEST(Everyday, Prints) {
  EXPECT_EQ(everyday::printed("cuda:1"),
            "[2, 3] float64 cuda:1 tensor([1., 1., 1.], dtype=torch.float64)");
  NEEDS_DEVICES(1);
  const cuda::Stream stream = cuda::default_stream(0);
  std::ostringstream out;
  out << stream;
  EXPECT_EQ(out.str(), stream.str());
}

TEST(Everyday, CountsByDevice) { EXPECT_EQ(everyday::by_device("cuda:3"), 2); }

}  // namespace
}  // namespace ember::test
