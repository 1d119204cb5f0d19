// Kernels that convert what they read, beside converting first.
#include "tests/ops/support.h"

namespace ember::test {
namespace {

/// Views of a matrix of 6 x 8 with elements of a type, which are different numbers.
std::vector<Tensor> views_of(Dtype dtype, Device device) {
  const Tensor wide = arange(0, 96, 1, float32).view({6, 16}).div(7).add(1).to(dtype).to(device);
  const Tensor tall = arange(0, 48, 1, float32).view({8, 6}).div(5).add(1).to(dtype).to(device);
  const Tensor few = wide.index({Slice(0, 1), Slice(0, 8)});
  return {wide.index({Slice(), Slice(0, 16, 2)}),
          tall.t(),
          wide.index({Slice(), Slice(0, 8)}),
          wide.index({Slice(), Slice(0, 8)}).contiguous(),
          few.expand({6, 8}),
          wide.index({Slice(), Slice(3, 4)}).expand({6, 8})};
}

bool computes_in_float(const OpInfo& info) {
  return contains(info.dtypes, float32) && std::string(info.name) != "where";
}

/// Inputs of an operation, of which the first one is `x`.
std::vector<Operand> operands_of(const OpInfo& info, const Tensor& x, const Operand& other) {
  std::vector<Operand> list{Operand(x)};
  for (int k = 1; k < info.operands; ++k) list.push_back(k == 1 ? other : Operand(2.5));
  return list;
}
Tensor call(std::size_t op, const std::vector<Operand>& operands) {
  std::vector<const Operand*> list;
  for (const Operand& operand : operands) list.push_back(&operand);
  return ops::elementwise(static_cast<ops::OpId>(op), list);
}

TEST(Mixed, InputsGiveWhatConvertedOnesDo) {
  NEEDS_DEVICES(1);
  const auto infos = ops::all_ops();
  const DtypeSet real = dtypes::all & static_cast<DtypeSet>(~dtypes::complex);
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : dtypes_in(real)) {
      // A float32 tensor of as many dimensions makes float32 of all others.
      if (dtype == float32 || dtype == float64) continue;
      const std::vector<Tensor> xs = views_of(dtype, Device(place));
      const std::vector<Tensor> ys = views_of(float32, Device(place));
      for (std::size_t op = 0; op < infos.size(); ++op) {
        const OpInfo& info = infos[op];
        if (!computes_in_float(info) || info.operands < 2) continue;
        for (std::size_t v = 0; v < xs.size(); ++v) {
          const Operand other(ys[(v + 1) % ys.size()]);
          if (dtype == bool_ && std::string(info.name) == "sub") continue;  // refused
          const std::string what = std::string(info.name) + " of " + dtype_name(dtype) + ", view " +
                                   std::to_string(v) + " on " + place;
          const Tensor mixed = call(op, operands_of(info, xs[v], other));
          const Tensor plain = call(op, operands_of(info, xs[v].to(float32), other));
          EXPECT_EQ(mixed.strides().str(), plain.strides().str()) << what;
          expect_same(mixed, plain.cpu(), info.ulp, what);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
}

// One input that is an integer, alone or beside a number.
TEST(Mixed, IntegersOfFloatingOperations) {
  NEEDS_DEVICES(1);
  const auto infos = ops::all_ops();
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : {bool_, int16, int64}) {
      for (const Tensor& x : views_of(dtype, Device(place)))
        for (std::size_t op = 0; op < infos.size(); ++op) {
          const OpInfo& info = infos[op];
          if (!computes_in_float(info)) continue;
          if (info.operands == 1 && contains(info.dtypes, int64)) continue;
          if (dtype == bool_ && std::string(info.name) == "sub") continue;  // refused
          const std::string what =
              std::string(info.name) + " of " + dtype_name(dtype) + " on " + place;
          const Tensor mixed = call(op, operands_of(info, x, Operand(1.5)));
          const Tensor plain = call(op, operands_of(info, x.to(float32), Operand(1.5)));
          EXPECT_EQ(mixed.strides().str(), plain.strides().str()) << what;
          expect_same(mixed, plain.cpu(), info.ulp, what);
          ASSERT_FALSE(HasFailure());
        }
    }
}

TEST(Mixed, LongOnesAreDoneInParts) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = arange(0, 300'001, 1, int64).to(Device(place));
    const std::vector<float> halves = values<float>(x * 0.5);
    const std::vector<float> columns =
        values<float>(x.index({Slice(0, 300'000)}).view({300, 1000}).t() * 0.5);
    for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(halves[i], static_cast<float>(i) / 2);
    for (std::size_t i = 0; i < columns.size(); ++i)
      ASSERT_EQ(columns[i], static_cast<float>(i % 300 * 1000 + i / 300) / 2);
  }
}

TEST(Mixed, WritesInPlaceAndIntoOutputs) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = arange(0, 12, 1, int32).to(Device(place));
    Tensor y = full({12}, 0.5, Options(float32, Device(place)));
    y += x;
    y.mul_(x);
    Tensor narrow = empty({12}, Options(bfloat16, Device(place)));
    mul_out(narrow, x, 0.5);
    const std::vector<float> got = values<float>(y);
    const std::vector<float> halves = values<float>(narrow);
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(got[i], (static_cast<float>(i) + 0.5F) * static_cast<float>(i));
      EXPECT_EQ(halves[i], static_cast<float>(i) / 2);
    }
    // The same bytes, seen as integers.
    Tensor bits = full({4}, 1, Options(float32, Device(place)));
    const Tensor seen = bits.view(int32);
    EXPECT_THROW(bits.add_(seen), Error);
  }
}

// What integers are not, and what they are.
TEST(Mixed, IntegersAreFinite) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : dtypes_in(dtypes::integer_or_bool | dtypes::unsigned_wide)) {
      const Tensor x = ones({3, 4}, Options(dtype, Device(place)));
      for (const Tensor& view : {x, x.t(), x.index({Slice(), Slice(0, 4, 2)}), x.index({0, 0})}) {
        EXPECT_TRUE(view.isfinite().all().item<bool>());
        EXPECT_FALSE(view.isnan().any().item<bool>());
        EXPECT_FALSE(view.isinf().any().item<bool>());
        EXPECT_EQ(view.isfinite().sizes(), view.sizes());
      }
      EXPECT_EQ(x.t().isnan().strides(), x.t().strides());
      Tensor out = empty({0}, Options(bool_, Device(place)));
      isfinite_out(out, x);
      EXPECT_EQ(out.sizes(), x.sizes());
      EXPECT_TRUE(out.all().item<bool>());
      Tensor number = zeros({3, 4}, Options(float32, Device(place)));
      isfinite_out(number, x);
      EXPECT_EQ(number.sum().item<float>(), 12);
      Tensor integer = zeros({3, 4}, Options(int32, Device(place)));
      isnan_out(integer, x);
      EXPECT_EQ(integer.sum().item<int>(), 0);
    }
}

}  // namespace
}  // namespace ember::test
