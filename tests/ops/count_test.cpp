// Whole tensors compared, and counts of elements: what comes out, on every kind of device.
#include "tests/ops/support.h"

namespace ember::test {
namespace {

using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;
using Bools = std::vector<bool>;

std::vector<const char*> places() {
  std::vector<const char*> all{"cpu"};
  if (cuda::device_count() > 0) all.push_back(kDevice);
  return all;
}

TEST(Compare, IsClose) {
  for (const char* place : places()) {
    const Tensor x = tensor({1, 1, 0, kInf, -kInf, kInf, kNaN, 100}, place);
    const Tensor y = tensor({1.000009, 1.001, 1e-9, kInf, kInf, 1, kNaN, 100.0005}, place);
    EXPECT_EQ(values<bool>(isclose(x, y)),
              (Bools{true, false, true, true, false, false, false, true}));
    EXPECT_EQ(values<bool>(x.isclose(y, 0, 0, true)),
              (Bools{false, false, false, true, false, false, true, false}));
    EXPECT_EQ(values<bool>(isclose(x, y, 0, kInf)),
              (Bools{true, true, true, true, false, false, false, true}))
        << "infinite numbers are close to themselves alone";
    // |x - y| <= atol + rtol * |y|: the second number counts.
    const Tensor ten = tensor<double>({10}, place);
    const Tensor eleven = tensor<double>({11}, place);
    EXPECT_TRUE(ten.allclose(eleven, 0.095, 0));
    EXPECT_FALSE(eleven.allclose(ten, 0.095, 0));
    EXPECT_TRUE(allclose(arange(4, place), arange(4, place).add(1), 0, 1));
    EXPECT_FALSE(
        allclose(tensor<std::uint8_t>({0}, place), tensor<std::uint8_t>({255}, place), 0, 2))
        << "differences do not wrap around";
    EXPECT_EQ(isclose(ones({3, 1}, place), ones({4}, place)).sizes(), Shape({3, 4}));
    EXPECT_TRUE(allclose(ones({2}, {complex64, place}), ones({2}, {complex64, place}) + 1e-7));
    EXPECT_TRUE(allclose(ones({2}, {bool_, place}), ones({2}, {bool_, place})));
    EXPECT_TRUE(allclose(zeros({0}, place), zeros({0}, place)));
    EXPECT_ERROR(isclose(x, x.to(float64)), Error, "Float did not match Double");
    EXPECT_ERROR(isclose(x, y, -1), Error,
                 "rtol must be greater than or equal to zero, but got -1");
    EXPECT_ERROR(isclose(x, y, 0, -2), Error,
                 "atol must be greater than or equal to zero, but got -2");
    EXPECT_ERROR((void)allclose(zeros({2}, place), zeros({3}, place)), Error, "must match");
  }
}

TEST(Compare, Equal) {
  for (const char* place : places()) {
    const Tensor x = arange(6, place).view({2, 3});
    EXPECT_TRUE(equal(x, x.clone()));
    EXPECT_TRUE(x.equal(x.to(float64))) << "whatever the dtype";
    EXPECT_TRUE(x.t().equal(x.t().contiguous()));
    EXPECT_FALSE(x.equal(x + 1));
    EXPECT_FALSE(x.equal(x.view({3, 2})));
    EXPECT_FALSE(x.equal(x[0])) << "nothing is broadcast";
    EXPECT_TRUE(zeros({0, 2}, place).equal(ones({0, 2}, place)));
    EXPECT_FALSE(full({1}, kNaN, place).equal(full({1}, kNaN, place)));
    EXPECT_TRUE(scalar_tensor(0.0, place).equal(scalar_tensor(-0.0, place)));
  }
  if (cuda::device_count() > 0)
    EXPECT_ERROR((void)equal(zeros({1}), zeros({1}, kDevice)), Error,
                 "Expected all tensors to be on the same device");
}

TEST(Count, Bins) {
  for (const char* place : places()) {
    const Tensor x = tensor({1, 3, 1, 0}, place);
    EXPECT_EQ(values<std::int64_t>(bincount(x)), (Ints{1, 2, 0, 1}));
    EXPECT_EQ(bincount(x).dtype(), int64);
    EXPECT_EQ(values<std::int64_t>(x.to(uint8).bincount({}, 6)), (Ints{1, 2, 0, 1, 0, 0}));
    const Tensor weights = tensor({0.5, 1.0, 2.0, 4.0}, place);
    EXPECT_EQ(values<double>(bincount(x, weights)), (Doubles{4, 2.5, 0, 1}));
    EXPECT_EQ(bincount(x, weights).dtype(), float32);
    EXPECT_EQ(bincount(x, weights.to(int64)).dtype(), float64);
    EXPECT_EQ(bincount(x, weights.to(float16)).dtype(), float64);
    EXPECT_EQ(values<std::int64_t>(bincount(zeros({0}, {int64, place}), {}, 2)), (Ints{0, 0}));
    EXPECT_ERROR(bincount(tensor({-1}, place)), Error,
                 "bincount only supports 1-d non-negative integral inputs.");
    EXPECT_ERROR(bincount(x.view({2, 2})), Error, "bincount only supports 1-d");
    EXPECT_ERROR(bincount(x.to(float32)), NotImplementedError,
                 "\"bincount\" not implemented for 'Float'");
    EXPECT_ERROR(bincount(x, ones({3}, place)), Error,
                 "weights should be 1-d and have the same length as input");
    EXPECT_ERROR(bincount(x, {}, -1), Error, "minlength should be >= 0");
  }
}

TEST(Count, Unique) {
  for (const char* place : places()) {
    const Tensor x = tensor({{3, 1}, {3, 2}}, place);
    const auto [elements, inverse, counts] = unique(x, true, true);
    EXPECT_EQ(values<std::int64_t>(elements), (Ints{1, 2, 3}));
    EXPECT_EQ(values<std::int64_t>(inverse), (Ints{2, 0, 2, 1}));
    EXPECT_EQ(inverse.sizes(), x.sizes());
    EXPECT_EQ(values<std::int64_t>(counts), (Ints{1, 1, 2}));
    EXPECT_EQ(std::get<1>(unique(x)).numel() + std::get<2>(unique(x)).numel(), 0);
    EXPECT_EQ(std::get<0>(unique(full({2}, kNaN, place))).numel(), 2) << "no NaN is another";
    EXPECT_EQ(values<bool>(std::get<0>(unique(tensor({true, false, true}, place)))),
              (Bools{false, true}));
    const auto [one, where_it_is, once] = unique(scalar_tensor(5, place), true, true);
    EXPECT_EQ(one.sizes(), Shape({1}));
    EXPECT_EQ(where_it_is.sizes(), Shape());
    EXPECT_EQ(once.item<int>(), 1);
    const auto [none, nowhere, never] = unique(zeros({0}, place), true, true);
    EXPECT_EQ(none.numel() + nowhere.numel() + never.numel(), 0);
    EXPECT_ERROR((void)unique(zeros({1}, {complex64, place})), NotImplementedError,
                 "\"unique\" not implemented for 'ComplexFloat'");

    const auto [runs, in_run, lengths] =
        unique_consecutive(tensor({1, 1, 2, 1}, place), true, true);
    EXPECT_EQ(values<std::int64_t>(runs), (Ints{1, 2, 1}));
    EXPECT_EQ(values<std::int64_t>(in_run), (Ints{0, 0, 1, 2}));
    EXPECT_EQ(values<std::int64_t>(lengths), (Ints{2, 1, 1}));
  }
}

TEST(Count, UniqueOfManyElements) {
  for (const char* place : places()) {
    const Tensor x = (arange(100000, place) * 7919).remainder(1000);
    const auto [elements, inverse, counts] = unique(x, true, true);
    EXPECT_TRUE(elements.equal(arange(1000, place)));
    EXPECT_TRUE(inverse.equal(x));
    EXPECT_TRUE(counts.equal(full({1000}, 100, place)));
    EXPECT_TRUE(bincount(x).equal(counts));
  }
}

TEST(Count, RepeatInterleave) {
  for (const char* place : places()) {
    const Tensor x = tensor({{1, 2}, {3, 4}}, place);
    EXPECT_EQ(values<std::int64_t>(repeat_interleave(x, 2)), (Ints{1, 1, 2, 2, 3, 3, 4, 4}));
    EXPECT_EQ(values<std::int64_t>(x.repeat_interleave(2, 1)), (Ints{1, 1, 2, 2, 3, 3, 4, 4}));
    EXPECT_EQ(x.repeat_interleave(2, 1).sizes(), Shape({2, 4}));
    EXPECT_EQ(values<std::int64_t>(x.t().repeat_interleave(2, 0)), (Ints{1, 3, 1, 3, 2, 4, 2, 4}));
    EXPECT_EQ(x.repeat_interleave(0, 0).sizes(), Shape({0, 2}));
    EXPECT_EQ(values<std::int64_t>(repeat_interleave(scalar_tensor(3, place), 2)), (Ints{3, 3}));
    EXPECT_EQ(values<std::int64_t>(x.repeat_interleave(tensor({1, 2}, place), 0)),
              (Ints{1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(values<std::int64_t>(x.repeat_interleave(tensor({1, 2}, place).to(int32), -1)),
              (Ints{1, 2, 2, 3, 4, 4}));
    EXPECT_EQ(x.repeat_interleave(tensor({3}, place), 1).sizes(), Shape({2, 6}));
    EXPECT_EQ(x.repeat_interleave(scalar_tensor(2, place), 1, 4).sizes(), Shape({2, 4}));
    EXPECT_EQ(values<std::int64_t>(repeat_interleave(tensor({0, 3, 1, 0, 2, 0}, place))),
              (Ints{1, 1, 1, 2, 4, 4}));
    EXPECT_EQ(repeat_interleave(zeros({0}, {int64, place})).numel(), 0);
    EXPECT_ERROR(repeat_interleave(x, -1), Error, "Repeats must be non-negative");
    EXPECT_ERROR(repeat_interleave(x, 2, 1, 5), Error,
                 "repeat_interleave: Invalid output_size, expected 4 but got 5");
    EXPECT_ERROR(repeat_interleave(x, tensor({1, 2}, place)), Error,
                 "repeats must have the same size as input along dim, but got repeats.size(0) = 2 "
                 "and input.size(0) = 4");
    EXPECT_ERROR(x.repeat_interleave(tensor({1, -2}, place), 0), Error,
                 "repeats can not be negative");
    EXPECT_ERROR(x.repeat_interleave(tensor({1.0, 2.0}, place), 0), NotImplementedError,
                 "not implemented for 'Float'");
    EXPECT_ERROR(x.repeat_interleave(tensor({1, 2}, place), 0, 4), Error,
                 "allocated size does not match required size");
    EXPECT_ERROR(x.repeat_interleave(tensor({{1, 2}}, place), 0), Error,
                 "repeats must be 0-dim or 1-dim tensor");
  }
}

}  // namespace
}  // namespace ember::test
