// uint16, uint32 and uint64: stored, copied, converted, compared for equality, and floats where an
// operation wants those. Expected values are the numbers themselves, and what C++ makes of them.
#include <cmath>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

constexpr std::uint64_t kMost = UINT64_MAX;

std::vector<Device> places() {
  std::vector<Device> list{Device("cpu")};
  if (cuda::device_count() > 0) list.emplace_back(kDevice);
  return list;
}

TEST(Unsigned, HoldEveryNumber) {
  for (const Device place : places()) {
    const Tensor x = full({2}, kMost, {uint64, place});
    EXPECT_EQ(x.element_size(), 8U);
    EXPECT_EQ(x[1].item<std::uint64_t>(), kMost);
    EXPECT_EQ(x[1].item().to<double>(), 0x1p64);
    EXPECT_EQ(x.to(float64)[0].item<double>(), 0x1p64);
    EXPECT_EQ(x.cpu().str(),
              "tensor([18446744073709551615, 18446744073709551615], dtype=torch.uint64)");
    EXPECT_TRUE(x.eq(kMost).all().item<bool>());
    EXPECT_FALSE(x.eq(kMost - 1).any().item<bool>());
    EXPECT_EQ(full({}, 65535, {uint16, place}).item<int>(), 65535);
    EXPECT_EQ(full({}, 4294967295, {uint32, place}).item<std::int64_t>(), 4294967295);
    EXPECT_EQ(full({}, -1, {uint32, place}).item<std::int64_t>(), 4294967295);  // as uint8 has it
    EXPECT_ERROR(full({}, 65536, {uint16, place}), Error, "uint16 without overflow: 65536");
    EXPECT_ERROR(full({}, NAN, {uint64, place}), Error, "without overflow");
    EXPECT_ERROR(full({}, kMost, {int64, place}), Error, "without overflow");
  }
}

// Fractions are dropped, and what is too large keeps its low bits, as the hardware has it.
TEST(Unsigned, ComeFromNumbersOfAllKinds) {
  for (const Device place : places()) {
    const Tensor x = tensor({1.5, -1.5, 70000.0, 4e9, 0x1.8p63}).to(place);
    EXPECT_EQ(values<double>(x.to(uint16).narrow(0, 0, 3)), (std::vector<double>{1, 65535, 4464}));
    EXPECT_EQ(values<double>(x.to(uint32).narrow(0, 0, 4)),
              (std::vector<double>{1, 4294967295, 70000, 4e9}));
    EXPECT_EQ(values<std::uint64_t>(x.to(uint64)),
              (std::vector<std::uint64_t>{1, kMost, 70000, 4000000000, 0xc000000000000000}));
  }
}

TEST(Unsigned, AreFloatsWhereAnOperationWantsThose) {
  for (const Device place : places())
    for (const Dtype dtype : dtypes_in(dtypes::unsigned_wide)) {
      const Tensor x = arange(4, place).to(dtype);
      EXPECT_EQ(x.sqrt().dtype(), float32);
      EXPECT_EQ(values<double>(x / 2), (std::vector<double>{0, 0.5, 1, 1.5}));
      EXPECT_EQ(values<double>(x * 1.5), (std::vector<double>{0, 1.5, 3, 4.5}));
      EXPECT_EQ((x + ones({4}, {float16, place})).dtype(), float16);
      EXPECT_EQ(sum(x).dtype(), int64);
      EXPECT_EQ(sum(x).item<int>(), 6);
      EXPECT_EQ(prod(x.narrow(0, 1, 3)).item<int>(), 6);
      EXPECT_EQ(sum(x, {}, false, float32).dtype(), float32);
      EXPECT_EQ(count_nonzero(x).item<int>(), 3);
      EXPECT_FALSE(all(x).item<bool>());
      EXPECT_EQ(any(x).dtype(), bool_);
      EXPECT_EQ(values<double>(where(x.eq(2), x, x.new_zeros({4}))),
                (std::vector<double>{0, 0, 2, 0}));
    }
}

// A complex number, or a tensor of one without dimensions, is of a higher kind, as floats are.
TEST(Unsigned, BesideAComplexNumber) {
  for (const Device place : places())
    for (const Dtype dtype : dtypes_in(dtypes::unsigned_wide)) {
      const Tensor x = arange(1, 4, 1, place).to(dtype);
      const std::complex<double> i(0, 2);
      EXPECT_EQ(result_type(x, i), complex64);
      const Tensor made = x * i;
      EXPECT_EQ(made.dtype(), complex64);
      EXPECT_EQ(values<double>(made.imag().to(float64)), (std::vector<double>{2, 4, 6}));
      EXPECT_EQ((x - full({}, i, {complex128, place})).dtype(), complex128);
      EXPECT_TRUE((full({}, 3, {dtype, place}) / full({2}, i, {complex64, place}))
                      .eq(std::complex<double>(0, -1.5))
                      .all()
                      .item<bool>());
      EXPECT_FALSE(x.eq(i).any().item<bool>());
      EXPECT_ERROR(x + ones({3}, {complex64, place}), Error, "attempted to promote");
    }
}

// Everything else is refused by name, whichever kernel it would have run.
TEST(Unsigned, AreNotComputedWith) {
  for (const Device place : places())
    for (const Dtype dtype : dtypes_in(dtypes::unsigned_wide)) {
      const Tensor x = arange(4, place).to(dtype);
      const auto refused = [&](const char* name, const auto& call) {
        EXPECT_ERROR(call(), NotImplementedError,
                     std::string(name) + "\" not implemented for '" + legacy_name(dtype));
      };
      refused("add", [&] { return x + 1; });
      refused("lt", [&] { return x < x; });
      refused("max", [&] { return max(x); });
      refused("argmin", [&] { return argmin(x); });
      refused("sort", [&] { return sort(x).values; });
      refused("topk", [&] { return topk(x, 1).values; });
      refused("index_add", [&] { return index_add(x, 0, arange(4, place), x); });
      refused("softmax", [&] { return softmax(x, 0); });
      refused("", [&] { return dot(x, x); });
      EXPECT_ERROR(x + ones({4}, {int32, place}), Error,
                   std::string("attempted to promote ") + legacy_name(dtype) + " and Int");
      EXPECT_ERROR(cat({x, ones({4}, {bool_, place})}), Error, "is not supported");
    }
}

TEST(Unsigned, AreDrawnWhole) {
  for (const Device place : places())
    for (const Dtype dtype : dtypes_in(dtypes::unsigned_wide)) {
      const Tensor x = randint(5, {1000}, {dtype, place}).to(int64);
      EXPECT_EQ(x.min().item<int>(), 0);
      EXPECT_EQ(x.max().item<int>(), 4);
    }
}

}  // namespace
}  // namespace ember::test
