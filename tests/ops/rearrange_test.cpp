// flip, roll, repeat, tril, triu and diag, against plain loops over elements.
#include "tests/ops/support.h"

namespace ember::test {
namespace {

/// Compares a result, element by element, with what `from` says: the offset of the element of x
/// that belongs at a place, or -1 for zero. On the CPU and on the device.
template <class Call, class From>
void check(const Tensor& x, const Shape& sizes, const Call& call, const From& from,
           const std::string& what) {
  const std::vector<double> in = values<double>(x);
  std::vector<double> expected;
  for (std::int64_t n = 0; n < element_count(sizes); ++n) {
    Shape at = sizes;
    std::int64_t rest = n;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      at[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    const std::int64_t offset = from(at);
    expected.push_back(offset < 0 ? 0 : in[static_cast<std::size_t>(offset)]);
  }
  const Tensor here = call(x);
  EXPECT_EQ(here.sizes().str(), sizes.str()) << what;
  EXPECT_EQ(values<double>(here), expected) << what;
  expect_same(call(x.to(kDevice)), here, 0, what);
}

Tensor distinct_numbers(const Shape& sizes, Dtype dtype) {
  const Tensor made = arange(element_count(sizes)).add(1).remainder(100).view(sizes);
  return dtype == Dtype::bool_ ? made.remainder(2).to(dtype) : made.to(dtype);
}

class Rearrange : public ::testing::TestWithParam<int> {
 protected:
  Dtype dtype() const { return static_cast<Dtype>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Rearrange, ::testing::Range(0, kDtypes), [](const auto& each) {
  return std::string(dtype_name(static_cast<Dtype>(each.param)));
});

TEST_P(Rearrange, FlipsAndRolls) {
  NEEDS_DEVICES(1);
  const Tensor x = distinct_numbers({3, 4, 5}, dtype());
  const auto offset = [](std::int64_t i, std::int64_t j, std::int64_t k) {
    return (i * 4 + j) * 5 + k;
  };
  check(
      x, x.sizes(), [](const Tensor& t) { return t.flip({1}); },
      [&](const Shape& at) { return offset(at[0], 3 - at[1], at[2]); }, "flip 1");
  check(
      x, x.sizes(),
      [](const Tensor& t) {
        return t.flip({-1, 0});
      },
      [&](const Shape& at) { return offset(2 - at[0], at[1], 4 - at[2]); }, "flip 2 and 0");
  for (const std::int64_t shift : {0, 1, -1, 4, 7, -13}) {
    check(
        x, x.sizes(), [&](const Tensor& t) { return t.roll({shift}, {1}); },
        [&](const Shape& at) { return offset(at[0], ((at[1] - shift) % 4 + 4) % 4, at[2]); },
        "roll 1");
    check(
        x, x.sizes(), [&](const Tensor& t) { return t.roll({shift}); },
        [&](const Shape& at) { return ((offset(at[0], at[1], at[2]) - shift) % 60 + 60) % 60; },
        "roll all");
  }
  check(
      x, x.sizes(),
      [](const Tensor& t) {
        return t.roll({1, 2}, {0, 2});
      },
      [&](const Shape& at) { return offset((at[0] + 2) % 3, at[1], (at[2] + 3) % 5); },
      "roll 0 and 2");
}

// Large tensors are copied in two pieces, small ones in one launch.
TEST_P(Rearrange, RollsOfLargeTensors) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : {Shape{1500001}, Shape{3, 500000}, Shape{2, 3, 250001}}) {
    const Tensor x = arange(element_count(sizes)).remainder(101).to(dtype()).view(sizes);
    const std::int64_t n = sizes[sizes.size() - 1];
    for (const std::int64_t shift : {5, -8, 16}) {
      const std::int64_t to = (shift + n) % n;
      for (const Tensor& source : {x, x.to(kDevice)}) {
        const Tensor made = source.roll({shift}, {-1});
        EXPECT_TRUE(
            made.narrow(-1, to, n - to).eq(source.narrow(-1, 0, n - to)).all().item<bool>());
        EXPECT_TRUE(made.narrow(-1, 0, to).eq(source.narrow(-1, n - to, to)).all().item<bool>());
      }
    }
  }
}

TEST_P(Rearrange, FlipsOfViews) {
  NEEDS_DEVICES(1);
  const Tensor base = distinct_numbers({8, 6, 16}, dtype());
  const auto views = [](const Tensor& x) -> std::vector<Tensor> {
    return {x,
            x.slice(0, 1, {}, 2).slice(2, 3, {}, 5),
            x.permute({2, 0, 1}),
            x.transpose(1, 2).slice(1, 2),
            x.select(1, 2),
            x.select(2, 5).t(),
            x.diagonal(),
            x.narrow(1, 3, 1).expand({8, 4, 16}),
            x.select(0, 3).expand({2, 6, 16}),
            x.narrow(2, 4, 8),
            x.narrow(0, 2, 1).narrow(2, 7, 1),
            x.view({2, 2, 2, 2, 3, 2, 2, 2, 2}).permute({8, 1, 6, 3, 4, 5, 2, 7, 0}),
            x.as_strided({5, 4}, {1, 2}, 3)};
  };
  const std::vector<Tensor> here = views(base);
  const std::vector<Tensor> there = views(base.to(kDevice));
  for (std::size_t v = 0; v < here.size(); ++v) {
    const Tensor& x = here[v];
    const std::vector<double> in = values<double>(x);
    const Shape steps = contiguous_strides(x.sizes());
    const int subsets = std::min(1 << x.dim(), 40);
    for (int subset = 0; subset < subsets; ++subset) {
      Shape dims;
      for (int d = 0; d < x.dim(); ++d)
        if ((subset >> d & 1) != 0) dims.push_back(d);
      std::vector<double> expected;
      for (std::int64_t n = 0; n < x.numel(); ++n) {
        std::int64_t rest = n;
        std::int64_t from = 0;
        for (int d = 0; d < x.dim(); ++d) {
          const std::int64_t at = rest / steps[d];
          rest %= steps[d];
          from += ((subset >> d & 1) != 0 ? x.sizes()[d] - 1 - at : at) * steps[d];
        }
        expected.push_back(in[static_cast<std::size_t>(from)]);
      }
      const std::string what = "view " + std::to_string(v) + " flipped along " + dims.str();
      const Tensor made = x.flip(dims);
      ASSERT_EQ(values<double>(made), expected) << what;
      // As torch: the strides of a view without gaps stay.
      EXPECT_EQ(made.strides().str(), empty_like(x).strides().str()) << what;
      expect_same(there[v].flip(dims), made, 0, what);
    }
  }
}

TEST(Rearranged, NeedMemoryForTheResultOnly) {
  NEEDS_DEVICES(1);
  NEEDS_CACHING();
  const Tensor x = ones({1 << 20}, Options(uint8, Device("cuda:0")));
  const Tensor grid = x.view({1024, 1024});
  const auto peak_of = [](const auto& call) {
    cuda::reset_peak_memory_stats(0);
    const std::size_t before = cuda::memory_allocated(0);
    const Tensor made = call();
    EXPECT_EQ(made.numel(), 1 << 20);
    return cuda::max_memory_allocated(0) - before;
  };
  const std::size_t result = 1 << 20;
  EXPECT_EQ(peak_of([&] { return x.flip({0}); }), result);
  EXPECT_EQ(peak_of([&] { return grid.flip({0, 1}); }), result);
  EXPECT_EQ(peak_of([&] { return grid.t().flip({1}); }), result);
  EXPECT_EQ(peak_of([&] { return x.roll({5}, {0}); }), result);
  EXPECT_EQ(peak_of([&] { return grid.roll({5}); }), result);
  EXPECT_LE(peak_of([&] { return grid.roll({5, 3}, {0, 1}); }), 2 * result);
  EXPECT_EQ(peak_of([&] { return grid.tril(); }), result);
  EXPECT_EQ(peak_of([&] { return grid.t().triu(1); }), result);
}

// More repetitions than dimensions add dimensions in front.
TEST_P(Rearrange, Repeats) {
  NEEDS_DEVICES(1);
  const Tensor x = distinct_numbers({3, 4}, dtype());
  check(
      x, {6, 12},
      [](const Tensor& t) {
        return t.repeat({2, 3});
      },
      [](const Shape& at) { return at[0] % 3 * 4 + at[1] % 4; }, "2 x 3");
  check(
      x, {2, 3, 4},
      [](const Tensor& t) {
        return t.repeat({2, 1, 1});
      },
      [](const Shape& at) { return at[1] * 4 + at[2]; }, "a new dimension");
  check(
      x.t(), {4, 6},
      [](const Tensor& t) {
        return t.contiguous().t().t().repeat({1, 2});
      },
      [](const Shape& at) { return at[0] * 3 + at[1] % 3; }, "of a view");
}

// tril and triu: every diagonal, also far outside, and batches.
TEST_P(Rearrange, Triangles) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : {Shape{4, 4}, Shape{3, 5}, Shape{5, 2}, Shape{2, 3, 4}}) {
    const Tensor x = distinct_numbers(sizes, dtype());
    const int dims = sizes.size();
    for (const std::int64_t k :
         std::initializer_list<std::int64_t>{0, 1, -1, 3, -7, INT64_MAX, INT64_MIN}) {
      const auto side = [&](const Shape& at, bool lower) -> std::int64_t {
        const std::int64_t above = at[dims - 1] - at[dims - 2];
        if (lower ? above > k : above < k) return -1;
        std::int64_t offset = 0;
        for (int d = 0; d < dims; ++d) offset = offset * sizes[d] + at[d];
        return offset;
      };
      check(
          x, sizes, [&](const Tensor& t) { return t.tril(k); },
          [&](const Shape& at) { return side(at, true); }, "tril");
      check(
          x, sizes, [&](const Tensor& t) { return t.triu(k); },
          [&](const Shape& at) { return side(at, false); }, "triu");
    }
  }
}

/// What tril or triu of x is, in the order of its elements.
std::vector<double> triangle_of(const Tensor& x, std::int64_t diagonal, bool lower) {
  std::vector<double> made = values<double>(x);
  const std::int64_t rows = x.size(-2);
  const std::int64_t columns = x.size(-1);
  for (std::int64_t n = 0; n < x.numel(); ++n) {
    const std::int64_t above = n % columns - n / columns % rows;
    if (lower ? above > diagonal : above < diagonal) made[static_cast<std::size_t>(n)] = 0;
  }
  return made;
}

// Rows of any width, gaps between them and batches of every kind: packs of 16 bytes begin and end
// at any place of a row, or cannot be read at once.
TEST_P(Rearrange, TrianglesOfViews) {
  NEEDS_DEVICES(1);
  const Tensor base = distinct_numbers({4, 12, 48}, dtype());
  const auto views = [](const Tensor& x) -> std::vector<Tensor> {
    const Tensor flat = x.view({-1});
    return {x,
            flat.narrow(0, 0, 3 * 7 * 13).view({3, 7, 13}),
            flat.narrow(0, 1, 3 * 8 * 16).view({3, 8, 16}),
            flat.narrow(0, 0, 200).view({2, 100, 1}),
            flat.narrow(0, 5, 3 * 3 * 50).view({50, 3, 3}),
            flat.narrow(0, 0, 301).view({1, 301}),
            x.narrow(2, 1, 33),
            x.narrow(2, 16, 16),
            x.narrow(2, 16, 17),
            x.narrow(2, 3, 32),
            x.slice(1, 1, {}, 3),
            x.slice(0, 0, {}, 2),
            x.slice(2, 0, {}, 2),
            x.transpose(1, 2),
            x.permute({1, 0, 2}),
            x.permute({2, 0, 1}),
            x.select(1, 2),
            x.select(2, 5),
            x.narrow(1, 3, 1).expand({4, 12, 48}),
            x.narrow(2, 3, 1).expand({4, 12, 48}),
            x.select(0, 1).expand({2, 3, 12, 48}),
            x.view({2, 2, 2, 2, 3, 4, 12}).permute({3, 1, 0, 2, 5, 4, 6}),
            x.view({2, 2, 2, 2, 3, 2, 2, 2, 2, 3}).permute({8, 1, 6, 0, 2, 5, 4, 3, 7, 9}),
            flat.as_strided({4, 5, 30}, {2, 3, 1}, 1)};
  };
  const std::vector<Tensor> here = views(base);
  const std::vector<Tensor> there = views(base.to(kDevice));
  for (std::size_t v = 0; v < here.size(); ++v) {
    const Tensor& x = here[v];
    for (const std::int64_t k :
         std::initializer_list<std::int64_t>{0, 1, -2, 5, 17, -9, 40, 1000, -1000}) {
      for (const bool lower : {true, false}) {
        const std::string what =
            "view " + std::to_string(v) + (lower ? " below " : " above ") + std::to_string(k);
        const Tensor made = lower ? x.tril(k) : x.triu(k);
        ASSERT_EQ(values<double>(made), triangle_of(x, k, lower)) << what;
        EXPECT_EQ(made.strides(), contiguous_strides(x.sizes())) << what;
        expect_same(lower ? there[v].tril(k) : there[v].triu(k), made, 0, what);
      }
    }
  }
}

// Also where an output begins at no multiple of 16 bytes, has gaps, or lies across the input.
TEST_P(Rearrange, TrianglesInOutputs) {
  NEEDS_DEVICES(1);
  const Tensor base = distinct_numbers({300}, dtype());
  using Outputs = std::vector<std::pair<Tensor, Tensor>>;  // an output, and the input
  const auto pairs = [](const Tensor& x) -> Outputs {
    const Tensor matrix = x.narrow(0, 0, 256).view({16, 16});
    const Tensor odd = x.narrow(0, 1, 3 * 7 * 11).view({3, 7, 11});
    const Tensor other = x.flip({0});
    return {{matrix, matrix},
            {odd, odd},
            {matrix.t(), matrix.t()},
            {matrix.slice(1, 0, {}, 2), matrix.slice(1, 0, {}, 2)},
            {matrix.narrow(1, 0, 8), matrix.narrow(1, 0, 8)},
            {matrix, matrix.t()},
            {matrix.t(), matrix},
            {x.narrow(0, 2, 256).view({16, 16}), matrix},
            {matrix, x.narrow(0, 2, 256).view({16, 16})},
            {matrix, matrix.narrow(0, 3, 1).expand({16, 16})},
            {other.narrow(0, 0, 256).view({16, 16}), matrix},
            {other.narrow(0, 1, 256).view({16, 16}), matrix.t()},
            {other.narrow(0, 3, 256).view({16, 16}).t(), matrix},
            {other.narrow(0, 0, 3 * 7 * 11).view({3, 7, 11}), odd}};
  };
  for (const std::int64_t k : {0, 2, -3, 20, -20}) {
    for (const bool lower : {true, false}) {
      for (std::size_t p = 0; p < pairs(base).size(); ++p) {
        const std::string what =
            "pair " + std::to_string(p) + (lower ? " below " : " above ") + std::to_string(k);
        for (const Tensor& place : places(base)) {
          const auto [given, x] = pairs(place.clone())[p];
          Tensor out = given.alias();
          const std::vector<double> expected = triangle_of(x, k, lower);
          EXPECT_EQ(&(lower ? tril_out(out, x, k) : triu_out(out, x, k)), &out);
          ASSERT_EQ(values<double>(out), expected) << what;
          EXPECT_EQ(out.data_ptr(), given.data_ptr()) << what;
        }
      }
    }
  }
}

// Enough for several threads, whose parts begin within rows.
TEST(Rearranged, LargeTriangles) {
  for (const Shape& sizes :
       {Shape{257, 601}, Shape{3, 211, 307}, Shape{2, 100003}, Shape{9, 9001, 2}})
    for (const std::int64_t k : {0, 100, -3})
      for (const bool lower : {true, false}) {
        Tensor x = arange(element_count(sizes)).add(1).view(sizes);
        const std::vector<double> expected = triangle_of(x, k, lower);
        EXPECT_EQ(values<double>(lower ? x.tril(k) : x.triu(k)), expected);
        EXPECT_EQ(values<double>(lower ? tril_out(x, x, k) : triu_out(x, x, k)), expected);
      }
}

// diag: from vectors to matrices and back.
TEST_P(Rearrange, Diagonals) {
  NEEDS_DEVICES(1);
  const Tensor vector = distinct_numbers({3}, dtype());
  for (const std::int64_t k : {0, 2, -1}) {
    const std::int64_t size = 3 + std::abs(k);
    check(
        vector, {size, size}, [&](const Tensor& t) { return t.diag(k); },
        [&](const Shape& at) {
          return at[1] - at[0] == k ? std::min(at[0], at[1]) : std::int64_t{-1};
        },
        "of a vector");
  }
  check(
      distinct_numbers({3, 5}, dtype()), {3}, [](const Tensor& t) { return t.diag(1); },
      [](const Shape& at) { return at[0] * 5 + at[0] + 1; }, "of a matrix");
}

// Never views, even where nothing moves.
TEST(Rearranged, AreNewTensors) {
  Tensor x = tensor({1, 2});
  for (const Tensor& made : {x.flip({}), x.flip({0}).flip({0}), x.roll({0}), x.roll({2}, {0}),
                             x.repeat({1}), x.unsqueeze(0).triu(-5)})
    EXPECT_NE(made.data_ptr(), x.data_ptr());
}

TEST(Rearranged, EmptyAndWithoutDimensions) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor none = zeros({0, 3}, place);
    EXPECT_EQ(none.flip({0, 1}).sizes().str(), "[0, 3]");
    EXPECT_EQ(none.roll({1}, {0}).sizes().str(), "[0, 3]");
    EXPECT_EQ(none.roll({1}).sizes().str(), "[0, 3]");
    EXPECT_EQ(none.repeat({2, 2}).sizes().str(), "[0, 6]");
    EXPECT_EQ(none.tril().sizes().str(), "[0, 3]");
    EXPECT_EQ(none.t().triu(INT64_MIN).sizes().str(), "[3, 0]");
    EXPECT_EQ(zeros({0, 2, 2}, place).tril(1).sizes().str(), "[0, 2, 2]");
    EXPECT_EQ(none.diag().sizes().str(), "[0]");
    EXPECT_EQ(zeros({0}, place).diag().sizes().str(), "[0, 0]");
    EXPECT_EQ(ones({2}, place).repeat({0}).sizes().str(), "[0]");
    const Tensor point = scalar_tensor(5, place);
    EXPECT_EQ(point.flip({0}).item<int>(), 5);
    EXPECT_EQ(point.roll({1}).item<int>(), 5);
    EXPECT_EQ(values<int>(point.repeat({3})), (std::vector<int>{5, 5, 5}));
    EXPECT_EQ(point.repeat({}).item<int>(), 5);
  }
}

TEST(Rearranged, Errors) {
  const Tensor x = ones({2, 3});
  EXPECT_ERROR(x.flip({0, -2}), Error, "dim 0 appears multiple times in the list of dims");
  EXPECT_ERROR(x.flip({2}), IndexError, "Dimension out of range");
  EXPECT_ERROR(x.roll({1, 2}), Error, "shifts and dimensions must align. shifts: 2, dims:0");
  EXPECT_ERROR(x.roll({}, {0}), Error, "`shifts` required");
  EXPECT_ERROR(x.repeat({2}), Error, "can not be smaller than number of dimensions");
  EXPECT_ERROR(x.repeat({2, -1}), Error, "negative dimension -3: [4, -3]");
  EXPECT_EQ(ones({4, 0}).repeat({0, 0, -1}).sizes(), (Shape{0, 0, 0}));
  EXPECT_ERROR(ones({2}).tril(), Error, "tril: input tensor must have at least 2 dimensions");
  Tensor out = ones({2});
  EXPECT_ERROR(triu_out(out, out), Error, "triu: input tensor must have at least 2 dimensions");
  out = scalar_tensor(1.0).expand({2, 3});
  EXPECT_ERROR(tril_out(out, x), Error, "more than one element of the written-to tensor");
  out = ones({2, 3}, int32);
  EXPECT_ERROR(tril_out(out, x), Error, "Expected out tensor to have dtype");
  EXPECT_ERROR(ones({2, 2, 2}).diag(), Error, "diag(): Supports 1D or 2D tensors. Got 3D");
  EXPECT_ERROR(ones({2}).diag(INT64_MIN), ValueError, "diag(): diagonal");
}

}  // namespace
}  // namespace ember::test
