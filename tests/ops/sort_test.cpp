// topk and sort against a simple implementation: indices put in order by std::stable_sort.
#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tests/ops/support.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

const std::vector<Dtype> kOrdered = one_of_three_if_sanitized(dtypes_in(dtypes::real_or_bool));

/// Many equal elements, and for floating-point types the awkward values.
Tensor with_ties(Dtype dtype, const Shape& sizes, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<double> numbers(static_cast<std::size_t>(element_count(sizes)));
  for (double& number : numbers) {
    number = static_cast<double>(random() % 201) - 100;
    if (!is_floating_point(dtype)) continue;
    switch (random() % 20) {
      case 0: number = NAN; break;
      case 1: number = INFINITY; break;
      case 2: number = -INFINITY; break;
      case 3: number = -0.0; break;
      case 4: number = 0.0; break;
      case 5: number = -NAN; break;
      default: number /= 8;
    }
  }
  Tensor made = tensor(numbers);
  if (dtype == Dtype::uint8) made = made.abs();
  if (dtype == Dtype::bool_) made = made.gt(0);
  return made.to(dtype).reshape(sizes);
}

/// Whether a comes before b: NaN is above everything.
bool before(double a, double b, bool descending) {
  if (descending) std::swap(a, b);
  if (std::isnan(a)) return false;
  return std::isnan(b) || a < b;
}

std::vector<std::int64_t> ordered(const std::vector<double>& row, bool descending) {
  std::vector<std::int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return before(row[static_cast<std::size_t>(a)], row[static_cast<std::size_t>(b)], descending);
  });
  return order;
}

/// Expects `values` and `indices` to be the first k elements of every row of x along `dim`.
void expect_first(const Tensor& x, std::int64_t dim, std::int64_t k, bool descending,
                  const ValuesAndIndices& result, const std::string& what) {
  const auto& [values, indices] = result;
  Shape sizes = x.sizes();
  if (!sizes.empty()) sizes[wrap_dim(dim, x.dim())] = k;
  ASSERT_EQ(values.sizes().str(), sizes.str()) << what;
  ASSERT_EQ(indices.sizes().str(), sizes.str()) << what;
  ASSERT_EQ(values.dtype(), x.dtype()) << what;
  ASSERT_EQ(indices.dtype(), Dtype::int64) << what;
  EXPECT_TRUE(values.is_contiguous()) << what;
  EXPECT_EQ(values.device(), x.device()) << what;
  if (values.numel() == 0) return;
  const auto last = [&](const Tensor& t) {
    return t.dim() == 0 ? t.view({1}) : t.transpose(dim, -1);
  };
  const Tensor turned = last(x).contiguous();
  const auto n = static_cast<std::size_t>(turned.sizes().back());
  const auto elements = test::values<double>(turned);
  const auto got_indices = test::values<std::int64_t>(last(indices));
  const Tensor got = last(values).cpu().contiguous();
  const Tensor source = turned.cpu();
  const std::size_t item = got.element_size();
  std::size_t out = 0;
  for (std::size_t first = 0; first < elements.size(); first += n) {
    const auto order = ordered({elements.begin() + static_cast<std::ptrdiff_t>(first),
                                elements.begin() + static_cast<std::ptrdiff_t>(first + n)},
                               descending);
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i, ++out) {
      ASSERT_EQ(got_indices[out], order[i]) << what << ": row " << first / n << ", place " << i;
      // The element itself, bit for bit: -0.0 stays -0.0.
      const auto at = first + static_cast<std::size_t>(order[i]);
      ASSERT_EQ(std::memcmp(static_cast<const std::byte*>(got.data_ptr()) + out * item,
                            static_cast<const std::byte*>(source.data_ptr()) + at * item, item),
                0)
          << what << ": the value at row " << first / n << ", place " << i;
    }
  }
}

std::string text(Dtype dtype, const Shape& sizes, std::int64_t dim, bool descending) {
  return std::string(dtype_name(dtype)) + " " + sizes.str() + " along " + std::to_string(dim) +
         (descending ? ", descending" : "");
}

struct SortCase {
  Shape sizes;
  std::int64_t dim;
};
const std::vector<SortCase> kSortCases = {
    {{}, 0},        {{}, -1},        {{0}, 0},        {{1}, 0},       {{7}, -1},
    {{3, 0}, 0},    {{3, 0}, 1},     {{5, 33}, 1},    {{33, 5}, 0},   {{4, 6, 9}, 1},
    {{2, 257}, -1}, {{3, 1000}, 1},  {{1025}, 0},     {{2, 2049}, 1}, {{4096}, 0},
    {{4097}, 0},    {{64, 2500}, 1}, {{65, 2500}, 1}, {{5000, 3}, 0}, {{300, 4, 1}, 2},
    {{1, 20000}, 1}};

TEST(Topk, AllTypesShapesAndDirections) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : kOrdered)
    for (const SortCase& c : kSortCases) {
      const Tensor x = with_ties(dtype, c.sizes);
      const Tensor there = x.to(kDevice);
      const std::int64_t n = x.dim() == 0 ? 1 : x.size(c.dim);
      for (const bool largest : {true, false})
        for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, n / 2, n}) {
          if (k > n || (x.dim() == 0 && k == 0)) continue;
          if (k > 1100 && dtype != Dtype::float32 && dtype != Dtype::int64) continue;
          const std::string what =
              "topk " + std::to_string(k) + " of " + text(dtype, c.sizes, c.dim, largest);
          const auto here = topk(x, k, c.dim, largest);
          expect_first(x, c.dim, k, largest, here, what);
          const auto device = there.topk(k, c.dim, largest);
          expect_same(device.values, here.values, 0, what);
          expect_same(device.indices, here.indices, 0, what);
          if (HasFailure()) return;
        }
    }
}

TEST(Topk, LongRowsInParts) {
  NEEDS_DEVICES(1);
  // Long enough that a GPU divides the rows; equal elements lie in several parts.
  for (const std::int64_t n : {70000, 131072, 300001})
    for (const std::int64_t k : {1, 64, 1000, 1024, 1025}) {
      const Tensor x = with_ties(Dtype::float32, {2, n}, static_cast<unsigned>(n + k));
      const auto here = topk(x, k);
      expect_first(x, -1, k, true, here, "long rows");
      const auto device = topk(x.to(kDevice), k);
      expect_same(device.values, here.values, 0, "long rows");
      expect_same(device.indices, here.indices, 0, "long rows");
      if (HasFailure()) return;
    }
}

/// Sorted, equal and NaN rows, which a selection by digits likes least.
std::vector<std::pair<const char*, Tensor>> hard_rows(std::int64_t n) {
  const Tensor up = arange(n, {Dtype::float32, Device(Device::Type::cpu)});
  return {
      {"ascending", up},
      {"descending", up.neg()},
      {"all equal", zeros({n})},
      {"all NaN", full({n}, NAN)},
      {"all ones but the last", (up.eq(static_cast<double>(n - 1))).to(Dtype::float32)},
      {"two values", up.remainder(2)},
      {"tiny differences", up.mul(1e-3).add(1000)},
      {"minus infinity", full({n}, -INFINITY)},
  };
}

TEST(Topk, HardRows) {
  NEEDS_DEVICES(1);
  for (const auto& [what, row] : hard_rows(50000))
    for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16})
      for (const bool largest : {true, false})
        for (const std::int64_t k : {1, 100, 1024}) {
          const Tensor x = row.to(dtype);
          const auto here = topk(x, k, 0, largest);
          expect_first(x, 0, k, largest, here, what);
          const auto device = topk(x.to(kDevice), k, 0, largest);
          expect_same(device.values, here.values, 0, what);
          expect_same(device.indices, here.indices, 0, what);
          if (HasFailure()) return;
        }
}

// So many that on a GPU each warp has rows of its own: rows that end anywhere in a step, and those
// in which its bound is of no use, since a few of its lanes have all of the first elements.
TEST(Topk, ManyRows) {
  NEEDS_DEVICES(1);
  const auto check = [](const Tensor& x, const std::string& what,
                        const std::vector<std::int64_t>& counts) {
    const Tensor there = x.to(kDevice);
    for (const bool largest : {true, false})
      for (const std::int64_t k : counts) {
        const auto here = topk(x, k, -1, largest);
        expect_first(x, -1, k, largest, here, what);
        const auto device = topk(there, k, -1, largest);
        expect_same(device.values, here.values, 0, what);
        expect_same(device.indices, here.indices, 0, what);
      }
  };
  for (const Dtype dtype : kOrdered) {
    check(with_ties(dtype, {259, 257}), std::string("many rows of ") + dtype_name(dtype),
          {1, 16, 17});
    if (HasFailure()) return;
  }
  for (const auto& [rows, n] :
       {std::pair(256, 1000), std::pair(257, 1025), std::pair(640, 2500), std::pair(1025, 300)}) {
    check(with_ties(Dtype::float32, {rows, n}, static_cast<unsigned>(n)), "many rows", {5, 32});
    if (n > 1000) continue;
    const Tensor place = arange(n, {Dtype::float32, Device(Device::Type::cpu)});
    auto kinds = hard_rows(n);
    kinds.emplace_back("one lane", place.remainder(32).eq(3).to(Dtype::float32).mul(place));
    kinds.emplace_back("some lanes", place.remainder(32).ge(28).to(Dtype::float32).mul(place));
    kinds.emplace_back("the last ones", place.ge(static_cast<double>(n - 40)).to(Dtype::float32));
    for (const auto& [what, row] : kinds) {
      check(row.expand({rows, n}), what, {n == 1000 ? 16 : 32});
      if (HasFailure()) return;
    }
  }
}

TEST(Topk, TiesGoToTheLowerIndex) {
  NEEDS_DEVICES(1);
  for (const char* device : {"cpu", kDevice}) {
    const Tensor x = tensor({3.F, 1.F, 3.F, -0.0F, 0.0F, 3.F}).to(Device(device));
    EXPECT_EQ(values<std::int64_t>(x.topk(2).indices), (std::vector<std::int64_t>{0, 2}));
    EXPECT_EQ(values<std::int64_t>(x.topk(2, 0, false).indices), (std::vector<std::int64_t>{3, 4}));
  }
}

TEST(Topk, StridedInputs) {
  NEEDS_DEVICES(1);
  for (const char* device : {"cpu", kDevice}) {
    const Tensor base = with_ties(Dtype::float32, {12, 10, 8}).to(Device(device));
    for (const Tensor& x :
         {base.transpose(0, 2), base.slice(1, 1, 9, 3), base.select(1, 4), base.permute({1, 2, 0}),
          base.select(0, 0).unsqueeze(0).expand({4, 10, 8})})
      for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
        expect_first(x, dim, 2, true, topk(x, 2, dim), "strided topk");
        expect_first(x, dim, x.size(dim), false, sort(x, dim), "strided sort");
      }
  }
}

// Empty, strided and wrong outputs.
TEST(Topk, Outputs) {
  NEEDS_DEVICES(1);
  for (const char* name : {"cpu", kDevice}) {
    const Device device(name);
    const Tensor x = with_ties(Dtype::float32, {6, 40}).to(device);
    Tensor values = empty({0}, {Dtype::float32, device});
    Tensor indices = empty({0}, {Dtype::int64, device});
    topk_out(values, indices, x, 7);
    expect_first(x, -1, 7, true, {values, indices}, "empty outputs");
    topk_out(values, indices, x.add(1), 7);
    expect_first(x.add(1), -1, 7, true, {values, indices}, "outputs of the right shape");
    const Tensor wide = empty({7, 6}, {Dtype::float32, device});
    Tensor turned = wide.t();
    topk_out(turned, indices, x, 7);
    expect_first(x, -1, 7, true, {wide.t().contiguous(), indices}, "an output with strides");
    // An output may be the input.
    Tensor own = x.clone();
    Tensor where = empty({6, 40}, {Dtype::int64, device});
    sort_out(own, where, own);
    expect_first(x, -1, 40, false, {own, where}, "into itself");
    Tensor columns = x.clone();
    sort_out(columns, where, columns, 0, true);
    expect_first(x, 0, 6, true, {columns, where}, "into itself along 0");
    for (const int dim : {0, 1}) {
      Tensor places = empty({0}, {Dtype::int64, device});
      EXPECT_TRUE(argsort_out(places, x, dim, true).is(places));
      EXPECT_EQ(test::values<std::int64_t>(places),
                test::values<std::int64_t>(argsort(x, dim, true)));
    }
    Tensor numbers = x.to(Dtype::int64);
    const auto order = test::values<std::int64_t>(argsort(numbers, 0));
    EXPECT_EQ(test::values<std::int64_t>(argsort_out(numbers, numbers, 0)), order);

    Tensor small = empty({3}, {Dtype::float32, device});
    Tensor wrong = empty({6, 7}, {Dtype::int32, device});
    const auto kept = test::values<std::int64_t>(indices);
    Tensor columns_of_x = x.t();
    EXPECT_ERROR(sort_out(columns_of_x, indices, columns_of_x.t(), 0), Error,
                 "can't be resized: it shares");
    EXPECT_ERROR(topk_out(values, wrong, x, 7), Error,
                 "Expected out tensor to have dtype int64, but got int32 instead");
    EXPECT_ERROR(topk_out(wrong, indices, x, 7), Error,
                 "Expected out tensor to have dtype float32, but got int32 instead");
    EXPECT_ERROR(argsort_out(values, x, 0), Error,
                 "Expected out tensor to have dtype int64, but got float32 instead");
    EXPECT_EQ(test::values<std::int64_t>(indices), kept);
  }
  Tensor values = empty({0}, Dtype::float32);
  Tensor indices = empty({0}, {Dtype::int64, kDevice});
  EXPECT_ERROR(topk_out(values, indices, ones({3}), 1), Error,
               "Expected all tensors to be on the same device");
  EXPECT_EQ(values.numel(), 0);
}

TEST(Outputs, OfOneOperationLieApart) {
  NEEDS_DEVICES(1);
  const char* const text = "some elements of two outputs refer to a single memory location";
  for (const char* place : {"cpu", kDevice}) {
    const Options whole(int64, place);
    const Tensor x = arange(12, Device(place)).view({3, 4});
    const auto refused = [&](Tensor& values, Tensor& indices, const Tensor& in, std::int64_t k) {
      const auto before = values.numel() > 0 ? test::values<std::int64_t>(values.view({-1}))
                                             : std::vector<std::int64_t>();
      EXPECT_ERROR(sort_out(values, indices, in), Error, text);
      EXPECT_ERROR(topk_out(values, indices, in, k), Error, text);
      EXPECT_ERROR(max_out(values, indices, in, 1), Error, text);
      EXPECT_ERROR(min_out(values, indices, in, 1, true), Error, text);
      if (!before.empty()) {
        EXPECT_EQ(test::values<std::int64_t>(values.view({-1})), before);
      }
    };
    Tensor v = ones({3, 4}, whole);
    refused(v, v, x, 4);
    Tensor other = v.alias();
    refused(v, other, x, 4);
    Tensor nothing = empty({0}, whole);
    refused(nothing, nothing, x, 4);
    EXPECT_EQ(nothing.numel(), 0);
    const Tensor base = ones({24}, whole);
    Tensor first = base.narrow(0, 0, 12).view({3, 4});
    Tensor partly = base.narrow(0, 8, 12).view({3, 4});
    refused(first, partly, x, 4);
    // The same bytes as elements of another type.
    Tensor floats = zeros({3, 4}, Options(float64, place));
    Tensor bits = floats.view(int64);
    refused(bits, bits, x, 4);
    EXPECT_ERROR(sort_out(floats, bits, x.to(float64)), Error, text);
    // Parts of one storage that lie apart are no conflict, nor is the input.
    Tensor second = base.narrow(0, 12, 12).view({3, 4});
    sort_out(first, second, x, 1, true);
    EXPECT_EQ(first[2][0].item<int>(), 11);
    EXPECT_EQ(second[2][0].item<int>(), 3);
    const Tensor pairs = empty({3, 4, 2}, whole);
    Tensor even = pairs.select(2, 0);
    Tensor odd = pairs.select(2, 1);
    topk_out(even, odd, x, 4);
    EXPECT_EQ(test::values<int>(pairs[1]), (std::vector<int>{7, 3, 6, 2, 5, 1, 4, 0}));
  }
}

TEST(Outputs, AreNoOtherPartOfTheInput) {
  NEEDS_DEVICES(1);
  const char* const text = "some elements of the input tensor and the written-to tensor refer";
  for (const char* place : {"cpu", kDevice}) {
    const Tensor memory = arange(9, Device(place));
    const Tensor x = memory.narrow(0, 0, 6);
    Tensor shifted = memory.narrow(0, 1, 6);
    Tensor three = memory.narrow(0, 2, 3);
    Tensor column = memory.narrow(0, 0, 6).view({6, 1});
    EXPECT_ERROR(cumsum_out(shifted, x, 0), Error, text);
    EXPECT_ERROR(cumprod_out(shifted, x, 0), Error, text);
    EXPECT_ERROR(masked_select_out(three, x, x.gt(2)), Error, text);
    EXPECT_ERROR(nonzero_out(column, x), Error, text);
    EXPECT_EQ(test::values<int>(memory), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    Tensor same = x;
    EXPECT_EQ(test::values<int>(cumsum_out(same, x, 0)), (std::vector<int>{0, 1, 3, 6, 10, 15}));
  }
}

// k and dim out of range, in torch's words.
TEST(Topk, Errors) {
  NEEDS_DEVICES(1);
  for (const char* name : {"cpu", kDevice}) {
    const Device device(name);
    const Tensor x = ones({2, 3}, device);
    EXPECT_ERROR(topk(x, 4), Error, "selected index k out of range");
    EXPECT_ERROR(topk(x, -1), Error, "selected index k out of range");
    EXPECT_ERROR(topk(x, 3, 0), Error, "selected index k out of range");
    EXPECT_ERROR(topk(ones({}, device), 2), Error, "selected index k out of range");
    EXPECT_ERROR(topk(x, 1, 2), IndexError,
                 "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    EXPECT_ERROR(sort(x, -3), IndexError,
                 "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
    const Tensor z = ones({3}, {Dtype::complex64, device});
    EXPECT_ERROR(sort(z), Error, "Sort does not support complex dtypes on");
    EXPECT_ERROR(argsort(z), Error, "Sort does not support complex dtypes on");
    EXPECT_ERROR(topk(z, 1), NotImplementedError, "\"topk\" not implemented for 'ComplexFloat'");
    EXPECT_EQ(x.topk(1, 1).values.sizes().str(), "[2, 1]");
  }
  EXPECT_ERROR(topk(Tensor(), 1), Error, "undefined");
}

TEST(Sort, AllTypesShapesAndDirections) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : kOrdered)
    for (const SortCase& c : kSortCases)
      for (const bool descending : {false, true}) {
        const Tensor x = with_ties(dtype, c.sizes);
        const std::string what = "sort of " + text(dtype, c.sizes, c.dim, descending);
        const auto here = sort(x, c.dim, descending);
        expect_first(x, c.dim, x.dim() == 0 ? 1 : x.size(c.dim), descending, here, what);
        const auto device = x.to(kDevice).sort(c.dim, descending, true);
        expect_same(device.values, here.values, 0, what);
        expect_same(device.indices, here.indices, 0, what);
        expect_same(x.to(kDevice).argsort(c.dim, descending), here.indices, 0, what);
        if (HasFailure()) return;
      }
}

TEST(Sort, LongRows) {
  NEEDS_DEVICES(1);
  // One row, and several: what a GPU sorts in passes over tiles that do not end with the rows.
  for (const Dtype dtype : {Dtype::uint8, Dtype::float16, Dtype::float32, Dtype::int64})
    for (const Shape& sizes : {Shape{100003}, Shape{7, 9001}, Shape{300, 2100}}) {
      const Tensor x = with_ties(dtype, sizes);
      const std::string what = "sort of " + text(dtype, sizes, -1, true);
      const auto here = sort(x, -1, true);
      expect_first(x, -1, sizes.back(), true, here, what);
      const auto device = sort(x.to(kDevice), -1, true);
      expect_same(device.values, here.values, 0, what);
      expect_same(device.indices, here.indices, 0, what);
      if (HasFailure()) return;
    }
}

// Both ends of the integers, and floats of any bits: subnormal ones, NaN with payloads.
TEST(Sort, WholeRangesOfIntegersAndBits) {
  NEEDS_DEVICES(1);
  std::mt19937_64 random(5);
  std::vector<std::int64_t> wide(30000);
  for (auto& number : wide) number = static_cast<std::int64_t>(random());
  wide[0] = std::numeric_limits<std::int64_t>::min();
  wide[1] = std::numeric_limits<std::int64_t>::max();
  const Tensor x = tensor(wide);
  const auto [values, indices] = sort(x);
  std::vector<std::int64_t> expected = wide;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(test::values<std::int64_t>(values), expected);
  expect_same(sort(x.to(kDevice)).indices, indices, 0, "int64");
  std::sort(expected.begin(), expected.end(), std::greater<>());
  EXPECT_EQ(test::values<std::int64_t>(sort(x.to(kDevice), 0, true).values), expected);

  // Every float there is could be among these: subnormal numbers and NaNs with payloads.
  std::vector<float> floats(60000);
  for (float& number : floats) {
    const auto bits = static_cast<std::uint32_t>(random());
    std::memcpy(&number, &bits, sizeof bits);
  }
  const Tensor y = tensor(floats);
  for (const bool descending : {false, true}) {
    const auto here = sort(y, 0, descending);
    expect_first(y, 0, y.numel(), descending, here, "float bits");
    const auto there = sort(y.to(kDevice), 0, descending);
    expect_same(there.values, here.values, 0, "float bits");
    expect_same(there.indices, here.indices, 0, "float bits");
  }
}

}  // namespace
}  // namespace ember::test
