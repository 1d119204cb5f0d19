// nonzero and masked_select against loops over the elements.
#include <array>
#include <random>

#include "tests/ops/support.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

Tensor random_mask(const Shape& sizes, unsigned percent, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::vector<float> numbers(static_cast<std::size_t>(element_count(sizes)));
  for (float& number : numbers) number = random() % 100 < percent ? 1.F : 0.F;
  return tensor(numbers).to(Dtype::bool_).reshape(sizes);
}

/// Every type's elements differ from their neighbours.
Tensor numbered(Dtype dtype, const Shape& sizes) {
  return arange(element_count(sizes)).remainder(101).to(dtype).reshape(sizes);
}

std::vector<std::int64_t> coordinates(const std::vector<bool>& mask, const Shape& sizes) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) continue;
    std::vector<std::int64_t> row(static_cast<std::size_t>(sizes.size()));
    auto rest = static_cast<std::int64_t>(i);
    for (int d = sizes.size() - 1; d >= 0; --d) {
      row[static_cast<std::size_t>(d)] = rest % sizes[d];
      rest /= sizes[d];
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

const std::vector<Shape> kShapes = {{0},        {1},       {17},    {4096},
                                    {4097},     {3, 0, 2}, {5, 7},  {2, 3, 4, 5},
                                    {100, 330}, {1, 1},    {70001}, {33, 1, 1001}};

// Against a loop, from no element that is true to all of them.
TEST(Nonzero, ShapesAndDensities) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : kShapes)
    for (const unsigned percent : {0U, 1U, 50U, 100U}) {
      const Tensor mask = random_mask(sizes, percent);
      const auto expected = coordinates(values<bool>(mask), sizes);
      for (const char* device : {"cpu", kDevice}) {
        const Tensor found = mask.to(Device(device)).nonzero();
        ASSERT_EQ(found.dtype(), Dtype::int64);
        ASSERT_EQ(found.dim(), 2);
        ASSERT_EQ(found.size(1), sizes.size());
        ASSERT_EQ(values<std::int64_t>(found), expected)
            << sizes.str() << ", " << percent << " % on " << device;
      }
    }
}

// Memory that others share, or that nobody has written yet, holds more than zeros and ones.
TEST(Nonzero, AnyByteButZeroIsTrueInAMask) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : kShapes) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(element_count(sizes)));
    std::vector<bool> chosen(bytes.size());
    std::mt19937 random(7);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = std::array<std::uint8_t, 6>{0, 255, 2, 0, 128, 1}[random() % 6];
      chosen[i] = bytes[i] != 0;
    }
    const Tensor mask = from_blob(bytes.data(), sizes, Dtype::bool_);
    const Tensor numbers = arange(element_count(sizes)).reshape(sizes);
    std::vector<std::int64_t> selected;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i]) selected.push_back(static_cast<std::int64_t>(i));
    for (const char* device : {"cpu", kDevice}) {
      const Tensor there = mask.to(Device(device));
      EXPECT_EQ(values<std::int64_t>(there.nonzero()), coordinates(chosen, sizes)) << sizes.str();
      for (const Dtype dtype : {Dtype::int64, Dtype::int8})
        EXPECT_EQ(values<std::int64_t>(
                      masked_select(numbers.to(Device(device)).to(dtype), there).to(Dtype::int64)),
                  values<std::int64_t>(tensor(selected).to(dtype).to(Dtype::int64)))
            << sizes.str();
    }
  }
}

// NaN counts, both zeros do not.
TEST(Nonzero, AllTypesAndSpecialValues) {
  NEEDS_DEVICES(1);
  for (const char* name : {"cpu", kDevice})
    for (const Dtype dtype : all_dtypes()) {
      const Tensor x = tensor({0.0, 1.0, -0.0, 3.0, 0.0}).to(Device(name), dtype);
      EXPECT_EQ(values<std::int64_t>(x.nonzero()), (std::vector<std::int64_t>{1, 3}))
          << dtype_name(dtype) << " on " << name;
      if (is_floating_point(dtype)) {
        const Tensor y = tensor({NAN, -0.0F, INFINITY}).to(Device(name), dtype);
        EXPECT_EQ(values<std::int64_t>(nonzero(y)), (std::vector<std::int64_t>{0, 2}));
      }
      if (is_complex_dtype(dtype)) {
        const Tensor z = full({2}, Scalar(std::complex<double>(0, 1)), {dtype, Device(name)});
        EXPECT_EQ(nonzero(z).size(0), 2);
      }
      EXPECT_EQ(nonzero(ones({}, {dtype, Device(name)})).sizes().str(), "[1, 0]");
      EXPECT_EQ(nonzero(zeros({}, {dtype, Device(name)})).sizes().str(), "[0, 0]");
    }
}

TEST(Nonzero, StridedInputsAndOutputs) {
  NEEDS_DEVICES(1);
  for (const char* name : {"cpu", kDevice}) {
    const Device device(name);
    const Tensor base = random_mask({30, 41, 8}, 40).to(device);
    for (const Tensor& x :
         {base.transpose(0, 2), base.slice(1, 3, 40, 5), base.select(2, 7),
          base.select(0, 1).unsqueeze(1).expand({41, 3, 8}), base.flatten().slice(0, 3)})
      EXPECT_EQ(values<std::int64_t>(x.nonzero()), coordinates(values<bool>(x), x.sizes()));

    const Tensor x = tensor({0, 1, 1}).to(device);
    Tensor out = empty({0}, {Dtype::int64, device});
    EXPECT_TRUE(nonzero_out(out, x).is(out));
    EXPECT_EQ(values<std::int64_t>(out), (std::vector<std::int64_t>{1, 2}));
    Tensor wrong = empty({0}, {Dtype::int32, device});
    EXPECT_ERROR(nonzero_out(wrong, x), Error, "Expected out tensor to have dtype int64");
  }
}

TEST(MaskedSelect, AllTypesShapesAndDensities) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : one_of_three_under_tsan(all_dtypes()))
    for (const Shape& sizes : kShapes)
      for (const unsigned percent : {0U, 50U, 100U}) {
        const Tensor x = numbered(dtype, sizes);
        const Tensor mask = random_mask(sizes, percent);
        const auto elements = values<double>(x.to(Dtype::float64));
        const auto chosen = values<bool>(mask);
        std::vector<double> expected;
        for (std::size_t i = 0; i < chosen.size(); ++i)
          if (chosen[i]) expected.push_back(elements[i]);
        for (const char* name : {"cpu", kDevice}) {
          const Tensor found = x.to(Device(name)).masked_select(mask.to(Device(name)));
          ASSERT_EQ(found.dtype(), dtype);
          ASSERT_EQ(found.dim(), 1);
          ASSERT_EQ(values<double>(found.to(Dtype::float64)), expected)
              << dtype_name(dtype) << " " << sizes.str() << ", " << percent << " % on " << name;
        }
      }
}

// Tensor and mask may each be the smaller one.
TEST(MaskedSelect, BroadcastsBoth) {
  NEEDS_DEVICES(1);
  for (const char* name : {"cpu", kDevice}) {
    const Device device(name);
    const Tensor x = arange(6).reshape({2, 3}).to(device);
    const Tensor columns = tensor({true, false, true}).to(device);
    EXPECT_EQ(values<std::int64_t>(masked_select(x, columns)),
              (std::vector<std::int64_t>{0, 2, 3, 5}));
    const Tensor rows = tensor({false, true}).to(device).unsqueeze(1);
    EXPECT_EQ(values<std::int64_t>(masked_select(x, rows)), (std::vector<std::int64_t>{3, 4, 5}));
    EXPECT_EQ(values<std::int64_t>(masked_select(x.select(0, 1), rows)),
              (std::vector<std::int64_t>{3, 4, 5}));
    const Tensor point = full({}, true, {Dtype::bool_, device});
    EXPECT_EQ(masked_select(x, point).numel(), 6);
    EXPECT_EQ(masked_select(full({}, 7, device), point).sizes().str(), "[1]");
    EXPECT_EQ(masked_select(x.t(), columns.unsqueeze(1)).numel(), 4);
    EXPECT_EQ(values<std::int64_t>(masked_select(x.t(), columns.unsqueeze(1))),
              (std::vector<std::int64_t>{0, 3, 2, 5}));

    EXPECT_ERROR(masked_select(x, tensor({1, 0, 1}).to(device)), Error,
                 "masked_select: expected BoolTensor for mask");
    EXPECT_ERROR(masked_select(x, random_mask({4}, 50).to(device)), Error,
                 "must match the size of tensor b (4)");
    Tensor out = empty({0}, {Dtype::int64, device});
    masked_select_out(out, x, columns);
    EXPECT_EQ(values<std::int64_t>(out), (std::vector<std::int64_t>{0, 2, 3, 5}));
    Tensor own = x.flatten().slice(0, 0, 4);
    EXPECT_ERROR(masked_select_out(own, x, columns), Error, "refer to a single memory location");
    EXPECT_EQ(values<std::int64_t>(own), (std::vector<std::int64_t>{0, 1, 2, 3}));
    Tensor beside = arange(10, device);
    own = beside.narrow(0, 6, 4);
    masked_select_out(own, beside.narrow(0, 0, 6).view({2, 3}), columns);
    EXPECT_EQ(values<std::int64_t>(own), (std::vector<std::int64_t>{0, 2, 3, 5}));
    Tensor wrong = empty({0}, {Dtype::float32, device});
    EXPECT_ERROR(masked_select_out(wrong, x, columns), Error,
                 "Expected out tensor to have dtype int64, but got float32 instead");
  }
  EXPECT_ERROR(masked_select(ones({3}, kDevice), ones({3}, Dtype::bool_)), Error,
               "Expected all tensors to be on the same device");
}

}  // namespace
}  // namespace ember::test
