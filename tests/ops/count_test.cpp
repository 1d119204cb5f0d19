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
    EXPECT_EQ(values<std::int64_t>(bincount(zeros({0}, {int64, place}), ones({3}, place), 1)),
              (Ints{0}));  // whatever the weights are
    EXPECT_ERROR(bincount(tensor({-1}, place)), Error,
                 "bincount only supports 1-d non-negative integral inputs.");
    EXPECT_ERROR(bincount(x.view({2, 2})), Error, "bincount only supports 1-d");
    EXPECT_ERROR(bincount(x.to(float32)), NotImplementedError,
                 x.is_cuda() ? "\"bincount_cuda\" not implemented for 'Float'"
                             : "\"bincount_cpu\" not implemented for 'Float'");
    EXPECT_ERROR(bincount(x.to(bool_), {}, -1), NotImplementedError, "for 'Bool'");
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

TEST(Count, UniqueSlices) {
  for (const char* place : places()) {
    const Tensor x = tensor({{2, 1, 2}, {1, 1, 1}, {2, 1, 2}, {1, 0, 5}}, place);
    const auto [rows, row_of, counts] = unique(x, true, true, 0);
    EXPECT_TRUE(rows.equal(tensor({{1, 0, 5}, {1, 1, 1}, {2, 1, 2}}, place)));
    EXPECT_EQ(values<std::int64_t>(row_of), (Ints{2, 1, 2, 0}));
    EXPECT_EQ(values<std::int64_t>(counts), (Ints{1, 1, 2}));
    EXPECT_TRUE(rows.index_select(0, row_of).equal(x));
    const auto [columns, column_of, unasked] = unique(x, true, false, -1);
    EXPECT_TRUE(columns.equal(x.index_select(1, tensor({1, 0, 2}, place))));
    EXPECT_EQ(values<std::int64_t>(column_of), (Ints{1, 0, 2}));
    EXPECT_EQ(unasked.numel(), 0);
    EXPECT_EQ(std::get<0>(unique(full({2, 1}, kNaN, place), false, false, 0)).sizes(),
              Shape({2, 1}));
    EXPECT_EQ(std::get<0>(unique(zeros({0, 3}, place), true, true, 0)).sizes(), Shape({0, 3}));

    const Tensor y = tensor({{1, 1}, {1, 1}, {2, 2}, {1, 1}}, place);
    const auto [runs, in_run, lengths] = unique_consecutive(y, true, true, 0);
    EXPECT_TRUE(runs.equal(tensor({{1, 1}, {2, 2}, {1, 1}}, place)));
    EXPECT_EQ(values<std::int64_t>(in_run), (Ints{0, 0, 1, 2}));
    EXPECT_EQ(values<std::int64_t>(lengths), (Ints{2, 1, 1}));
    EXPECT_TRUE(std::get<0>(unique_consecutive(y, false, false, 1)).equal(y.narrow(1, 0, 1)));

    EXPECT_ERROR((void)unique(x, false, false, 2), IndexError, "Dimension out of range");
    EXPECT_ERROR((void)unique(x[0][0], false, false, 0), IndexError,
                 "Dimension specified as 0 but tensor has no dimensions");
    EXPECT_ERROR((void)unique_consecutive(zeros({3, 0}, place), false, false, 0), Error,
                 "There are 0 sized dimensions, and they aren't selected");
    EXPECT_ERROR((void)unique(zeros({0, 0}, place), false, false, 0), Error,
                 "Number of zero sized dimensions is more than one");
    EXPECT_ERROR((void)unique(zeros({1, 1}, {complex64, place}), false, false, 0),
                 NotImplementedError, "\"unique_dim\" not implemented for 'ComplexFloat'");
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
    const Tensor scalar = scalar_tensor(3, place);
    EXPECT_ERROR(scalar.repeat_interleave(2, 0), IndexError, "has no dimensions");
    EXPECT_ERROR(scalar.repeat_interleave(tensor({2}, place), -1), IndexError, "has no dimensions");
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
    const Tensor repeats = tensor({1, 2}, place);
    EXPECT_EQ(values<std::int64_t>(x.repeat_interleave(repeats, 0, 3)), (Ints{1, 2, 3, 4, 3, 4}));
    EXPECT_ERROR(x.repeat_interleave(repeats, 0, -1), Error,
                 repeats.is_cuda()
                     ? "repeat_interleave: Invalid output_size, expected none below 0 but got -1"
                     : "allocated size does not match required size");
    if (!repeats.is_cuda())  // which says it later, as of an index out of range
      EXPECT_ERROR(x.repeat_interleave(repeats, 0, 4), Error,
                   "allocated size does not match required size");
    EXPECT_ERROR(x.repeat_interleave(tensor({{1, 2}}, place), 0), Error,
                 "repeats must be 0-dim or 1-dim tensor");
  }
}

TEST(Count, Median) {
  for (const char* place : places()) {
    EXPECT_EQ(median(tensor({3, 1, 2, 2}, place)).item<int>(), 2);
    EXPECT_EQ(median(tensor({4.0, 1.0, 3.0, 2.0}, place)).item<double>(), 2) << "the lower of two";
    const Tensor x = tensor({{3.0, 1.0, kNaN}, {2.0, 5.0, 4.0}}, place);
    EXPECT_TRUE(std::isnan(median(x).item<double>()));
    const auto [values, indices] = median(x, 1);
    EXPECT_EQ(values.cpu().str(), "tensor([nan, 4.])");
    EXPECT_EQ(indices.cpu().str(), "tensor([2, 2])");
    EXPECT_EQ(median(x, 0, true).values.sizes(), Shape({1, 3}));
    EXPECT_EQ(median(scalar_tensor(3.0, place), 0).values.sizes(), Shape());
    EXPECT_TRUE(std::isnan(median(zeros({0}, place)).item<double>()));
    EXPECT_ERROR((void)median(zeros({0, 2}, place), 0), IndexError,
                 "median(): Expected reduction dim 0 to have non-zero size.");
    EXPECT_ERROR(median(ones({2}, {bool_, place})), NotImplementedError,
                 "\"median\" not implemented for 'Bool'");
  }
}

TEST(Arranged, BesideAndBelow) {
  for (const char* place : places()) {
    const Tensor a = arange(3, place);
    EXPECT_EQ(values<std::int64_t>(hstack({a, a + 10})), (Ints{0, 1, 2, 10, 11, 12}));
    EXPECT_EQ(vstack({a, a}).sizes(), Shape({2, 3}));
    EXPECT_EQ(hstack({ones({2, 1}, place), ones({2, 2}, place)}).sizes(), Shape({2, 3}));
    EXPECT_EQ(values<std::int64_t>(hstack({a[1], a[2]})), (Ints{1, 2}));
    EXPECT_EQ(vstack({a[1], a[2]}).sizes(), Shape({2, 1}));
    EXPECT_ERROR(hstack(std::vector<Tensor>()), Error, "hstack expects a non-empty TensorList");
    EXPECT_EQ(values<std::int64_t>(tile(arange(2, place), {2, 2})), (Ints{0, 1, 0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(tile(ones({2, 2}, place), 2).sizes(), Shape({2, 4}));
  }
}

TEST(Arranged, Grids) {
  for (const char* place : places()) {
    const Tensor x = tensor({1, 2}, place);
    const Tensor y = tensor({3, 4, 5}, place);
    const auto rows = meshgrid({x, y});
    EXPECT_EQ(values<std::int64_t>(rows[0]), (Ints{1, 1, 1, 2, 2, 2}));
    EXPECT_EQ(values<std::int64_t>(rows[1]), (Ints{3, 4, 5, 3, 4, 5}));
    EXPECT_EQ(rows[0].data_ptr(), x.data_ptr());
    const auto columns = meshgrid({x, y}, "xy");
    EXPECT_EQ(columns[0].sizes(), Shape({3, 2}));
    EXPECT_EQ(values<std::int64_t>(columns[0]), (Ints{1, 2, 1, 2, 1, 2}));
    EXPECT_EQ(values<std::int64_t>(columns[1]), (Ints{3, 3, 4, 4, 5, 5}));
    EXPECT_EQ(meshgrid({x, x[0]})[1].sizes(), Shape({2, 1}));
    EXPECT_ERROR((void)meshgrid({x, y.to(float32)}), Error,
                 "meshgrid expects all tensors to have the same dtype");
    EXPECT_ERROR((void)meshgrid({x, x.view({1, 2})}), Error, "Expected 0D or 1D tensor");
    EXPECT_ERROR((void)meshgrid({x}, "a"), Error, "indexing must be one of");
  }
}

TEST(Arranged, DifferencesAndTraces) {
  for (const char* place : places()) {
    const Tensor x = tensor({1, 4, 9}, place);
    EXPECT_EQ(values<std::int64_t>(diff(x)), (Ints{3, 5}));
    EXPECT_EQ(values<std::int64_t>(diff(x, 2)), (Ints{2}));
    EXPECT_EQ(diff(x, 7).sizes(), Shape({0}));
    EXPECT_EQ(values<std::int64_t>(diff(x, 0)), (Ints{1, 4, 9}));
    EXPECT_EQ(diff(zeros({2, 3}, place), 5, 0).sizes(), Shape({0, 3}));
    EXPECT_EQ(values<bool>(diff(tensor({true, false, false}, place))), (Bools{true, false}));
    EXPECT_EQ(values<std::int64_t>(diff(x, 2, 0, tensor({1, 2}, place))), (Ints{-2, 4, 2}));
    EXPECT_EQ(diff(x, 1, 0, std::nullopt, tensor({0.5f}, place)).dtype(), float32);
    EXPECT_EQ(values<std::int64_t>(diff(x, 1, 0, x, x)), (Ints{3, 5, -8, 3, 5, -8, 3, 5}));
    EXPECT_EQ(values<std::int64_t>(diff(x, 0, 0, x)), (Ints{1, 4, 9}));
    EXPECT_EQ(values<std::int64_t>(diff(x, 1, 0, tensor({true}, place))), (Ints{0, 3, 5}));
    EXPECT_ERROR(diff(x, 1, 0, x[0]), Error,
                 "diff expects prepend or append to be the same dimension as input");
    EXPECT_ERROR(diff(zeros({2, 3}, place), 1, 0, std::nullopt, zeros({1, 2}, place)), Error,
                 "input.size(1) = 3, but got tensor.size(1) = 2");
    EXPECT_ERROR(diff(x[0]), Error, "diff expects input to be at least one-dimensional");
    EXPECT_ERROR(diff(x, -1), Error, "order must be non-negative but got -1");
    EXPECT_EQ(trace(tensor({{1, 2, 3}, {4, 5, 6}}, place)).item<int>(), 6);
    EXPECT_EQ(trace(ones({2, 2}, {int8, place})).dtype(), int64);
    EXPECT_ERROR(trace(x), Error, "trace: expected a matrix, but got tensor with dim 1");
  }
}

TEST(Arranged, LogSumExp) {
  for (const char* place : places()) {
    const Tensor x = tensor({{1000.0, 1000.0}, {-kInf, -kInf}, {kInf, 1.0}}, place);
    EXPECT_NEAR(logsumexp(x, 1)[0].item<double>(), 1000 + std::log(2), 1e-4);
    EXPECT_EQ(values<double>(logsumexp(x, 1).narrow(0, 1, 2)), (Doubles{-kInf, kInf}));
    EXPECT_EQ(logsumexp(x, 1, true).sizes(), Shape({3, 1}));
    EXPECT_NEAR(logsumexp(zeros({2, 2}, place), {0, 1}).item<double>(), std::log(4), 1e-6);
    EXPECT_NEAR(logsumexp(tensor({1, 2}, place), 0).item<double>(), 2 + std::log1p(std::exp(-1)),
                1e-6);
    EXPECT_EQ(logsumexp(zeros({0}, place), 0).item<double>(), -kInf);
    const Tensor complex = tensor<std::complex<float>>({{1, 2}, {2, 0}}, place);
    const auto sum = logsumexp(complex, 0).item<std::complex<float>>();
    EXPECT_NEAR(std::abs(sum - std::log(std::exp(std::complex<float>(1, 2)) + std::exp(2.0F))), 0,
                1e-5);
    Tensor whole = zeros({2}, {int64, place});
    EXPECT_ERROR(logsumexp_out(whole, x, 1), Error,
                 "logsumexp(): Expected floating point type for result tensor, but got: Long");
    EXPECT_TRUE(std::isnan(logsumexp(tensor({kNaN, 1.0}, place), 0).item<double>()));
  }
}

TEST(Limits, OfDtypes) {
  EXPECT_EQ(finfo().max, std::numeric_limits<float>::max());
  EXPECT_EQ(finfo(float16).eps, 0x1p-10);
  EXPECT_EQ(finfo(bfloat16).max, scalar_tensor(kInf, bfloat16).nextafter(0).item<double>());
  EXPECT_EQ(finfo(float16).max, scalar_tensor(kInf, float16).nextafter(0).item<double>());
  EXPECT_EQ(finfo(complex128).dtype, float64);
  EXPECT_EQ(iinfo(int8).min, -128);
  EXPECT_EQ(iinfo(uint64).max, UINT64_MAX);
  EXPECT_EQ(iinfo(int64).min, INT64_MIN);
  EXPECT_ERROR((void)finfo(int8), TypeError, "finfo: dtype: got int8");
  EXPECT_ERROR((void)iinfo(bool_), TypeError, "iinfo: dtype: got bool");
}

}  // namespace
}  // namespace ember::test
