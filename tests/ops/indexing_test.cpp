// x.index({...}) and x.index_put_({...}, value), against an evaluation element by element.
#include <random>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

Tensor numbers(const Shape& sizes, Dtype dtype = Dtype::int64) {
  const Tensor made = arange(element_count(sizes)).mul(37).remainder(1009).view(sizes);
  return dtype == Dtype::bool_ ? made.remainder(2).to(dtype) : made.to(dtype);
}

std::vector<std::int64_t> place_of(const Shape& shape, std::int64_t number) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.size()));
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[static_cast<std::size_t>(d)] = number % shape[d];
    number /= shape[d];
  }
  return at;
}

/// What a dimension is indexed with in the reference: everything, or numbers of a shape.
struct Choice {
  bool whole = true;
  Shape shape;
  std::vector<std::int64_t> numbers;

  std::int64_t at(const Shape& common, const std::vector<std::int64_t>& where) const {
    std::int64_t offset = 0;
    for (int d = 0; d < shape.size(); ++d) {
      const int own = common.size() - shape.size() + d;
      offset = offset * shape[d] + (shape[d] == 1 ? 0 : where[static_cast<std::size_t>(own)]);
    }
    return numbers[static_cast<std::size_t>(offset)];
  }
};

/// Offsets into a contiguous tensor of `sizes`, in the order of the result, whose shape is `out`.
std::vector<std::size_t> reference(const Shape& sizes, const std::vector<Choice>& choices,
                                   Shape& out) {
  Shape common;
  int first = -1;
  int last = -1;
  int count = 0;
  for (int d = 0; d < sizes.size(); ++d) {
    const Choice& choice = choices[static_cast<std::size_t>(d)];
    if (choice.whole) continue;
    common = count == 0 ? choice.shape : broadcast_shapes(common, choice.shape);
    if (first < 0) first = d;
    last = d;
    ++count;
  }
  const int place = last - first + 1 == count ? first : 0;
  out = Shape();
  int before = 0;
  for (int d = 0; d < sizes.size(); ++d) {
    if (before == place && out.size() == place)
      for (const std::int64_t size : common) out.push_back(size);
    if (!choices[static_cast<std::size_t>(d)].whole) continue;
    out.push_back(sizes[d]);
    ++before;
  }
  if (before == place && out.size() == place)
    for (const std::int64_t size : common) out.push_back(size);
  std::vector<std::size_t> offsets;
  for (std::int64_t n = 0; n < element_count(out); ++n) {
    const std::vector<std::int64_t> at = place_of(out, n);
    const std::vector<std::int64_t> where(at.begin() + place, at.begin() + place + common.size());
    std::int64_t offset = 0;
    std::size_t next = 0;
    for (int d = 0; d < sizes.size(); ++d) {
      const Choice& choice = choices[static_cast<std::size_t>(d)];
      std::int64_t index = 0;
      if (choice.whole) {
        if (next == static_cast<std::size_t>(place))
          next += static_cast<std::size_t>(common.size());
        index = at[next++];
      } else {
        index = choice.at(common, where);
        if (index < 0) index += sizes[d];
      }
      offset = offset * sizes[d] + index;
    }
    offsets.push_back(static_cast<std::size_t>(offset));
  }
  return offsets;
}

// 400 random mixtures, read and written, against a loop over places.
TEST(Indexing, AnyMixtureOfTensorsAndWholeDimensions) {
  NEEDS_DEVICES(1);
  std::mt19937 random(7);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 400; ++round) {
    Shape sizes;
    for (int d = 1 + upto(5); d > 0; --d) sizes.push_back(1 + upto(5));
    const std::vector<Shape> forms{{3}, {2, 3}, {1}, {2, 1}, {1, 3}, {0}};
    std::vector<Choice> choices(static_cast<std::size_t>(sizes.size()));
    std::vector<Index> here;
    std::vector<Index> there;
    bool any = false;
    for (int d = 0; d < sizes.size(); ++d) {
      Choice& choice = choices[static_cast<std::size_t>(d)];
      if (upto(2) == 0 && (any || d + 1 < sizes.size())) {
        here.push_back(Slice());
        there.push_back(Slice());
        continue;
      }
      any = true;
      choice.whole = false;
      choice.shape = forms[static_cast<std::size_t>(round % 10 == 0 ? 5 : upto(5))];
      for (std::int64_t i = 0; i < element_count(choice.shape); ++i)
        choice.numbers.push_back(upto(static_cast<int>(2 * sizes[d])) - sizes[d]);
      const Tensor index =
          tensor(choice.numbers, upto(2) == 0 ? Dtype::int64 : Dtype::int32).view(choice.shape);
      here.push_back(index);
      there.push_back(upto(2) == 0 ? index : index.to(kDevice));
    }
    const Dtype dtype = all_dtypes()[static_cast<std::size_t>(round % kDtypes)];
    const Tensor x = numbers(sizes, dtype);
    Shape out;
    const std::vector<std::size_t> offsets = reference(sizes, choices, out);
    const std::vector<double> in = values<double>(x);
    std::vector<double> expected;
    for (const std::size_t offset : offsets) expected.push_back(in[offset]);
    const Tensor got = x.index(here);
    const std::string what = "round " + std::to_string(round) + ", " + sizes.str();
    ASSERT_EQ(got.sizes().str(), out.str()) << what;
    ASSERT_EQ(values<double>(got), expected) << what;
    expect_same(x.to(kDevice).index(there), got, 0, what);

    // Writing: one value per place, so that the order does not matter.
    const Tensor zero = zeros({}, dtype);
    std::vector<double> written = in;
    for (const std::size_t offset : offsets) written[offset] = 1;
    Tensor changed = x.clone();
    changed.index_put_(here, ones(out, dtype));
    ASSERT_EQ(values<double>(changed), written) << what;
    Tensor changed_there = x.to(kDevice).clone();
    changed_there.index_put_(there, 1);
    expect_same(changed_there, changed, 0, what);

    // Adding, in numbers that the small types can hold.
    if (dtype == Dtype::bool_ || is_unsigned_wide(dtype)) continue;
    std::vector<double> added(in.size(), 0.0);
    for (const std::size_t offset : offsets) added[offset] += 1;
    Tensor sums = zeros(sizes, dtype);
    sums.index_put_(here, 1, true);
    ASSERT_EQ(values<double>(sums), added) << what;
    Tensor sums_there = zeros(sizes, {dtype, Device(kDevice)});
    sums_there.index_put_(there, ones(out, {dtype, Device(kDevice)}), true);
    expect_same(sums_there, sums, 0, what);
  }
}

class IndexingOn : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { NEEDS_DEVICES(1); }
  Tensor on(const Tensor& x) const { return x.to(GetParam()); }
  Tensor grid(const Shape& sizes) const { return on(arange(element_count(sizes)).view(sizes)); }
};
INSTANTIATE_TEST_SUITE_P(Device, IndexingOn, ::testing::Values("cpu", kDevice),
                         [](const auto& each) { return each.index == 0 ? "cpu" : "cuda"; });

TEST_P(IndexingOn, IntegersSlicesAndNewDimensionsAreViews) {
  const Tensor x = grid({2, 3, 4});
  EXPECT_EQ(x.index({1}).sizes().str(), "[3, 4]");
  EXPECT_EQ(x.index({1, -1, 2}).item<int>(), 22);
  EXPECT_EQ(x.index({1, -1, 2}).data_ptr(), x.select(0, 1).select(0, 2).select(0, 2).data_ptr());
  EXPECT_EQ(values<int>(x.index({0, Slice(1, {}), Slice({}, {}, 2)})),
            (std::vector<int>{4, 6, 8, 10}));
  EXPECT_EQ(x.index({None, Slice(), None}).sizes().str(), "[1, 2, 1, 3, 4]");
  EXPECT_EQ(x.index({Ellipsis, 0}).sizes().str(), "[2, 3]");
  EXPECT_EQ(x.index({0, Ellipsis, None, Slice(-2, {})}).sizes().str(), "[3, 1, 2]");
  EXPECT_EQ(x.index({Ellipsis}).sizes().str(), "[2, 3, 4]");
  EXPECT_EQ(x.index({0, 0, 0, Ellipsis}).sizes().str(), "[]");
  EXPECT_EQ(x.index({std::nullopt, 0}).sizes().str(), "[1, 3, 4]");
  EXPECT_EQ(x.index({true}).sizes().str(), "[1, 2, 3, 4]");
  EXPECT_EQ(x.index({false}).sizes().str(), "[0, 2, 3, 4]");
  EXPECT_EQ(x.index({scalar_tensor(1), Slice()}).sizes().str(), "[3, 4]");
}

TEST_P(IndexingOn, TensorsBesideIntegersSlicesAndNewDimensions) {
  const Tensor x = grid({2, 3, 4});
  const Tensor index = on(tensor({2, 0}));
  EXPECT_EQ(values<int>(x.index({0, index, 1})), (std::vector<int>{9, 1}));
  EXPECT_EQ(x.index({Slice(), index}).sizes().str(), "[2, 2, 4]");
  EXPECT_EQ(x.index({None, Slice(), index}).sizes().str(), "[1, 2, 2, 4]");
  EXPECT_EQ(x.index({Slice(), None, index}).sizes().str(), "[2, 1, 2, 4]");
  EXPECT_EQ(x.index({on(tensor({0})), None, index}).sizes().str(), "[2, 1, 4]");
  EXPECT_EQ(values<int>(x.index({Ellipsis, Slice(1, 3), index})),
            (std::vector<int>{6, 4, 10, 8, 18, 16, 22, 20}));
  // As in torch, where NumPy would put the index's dimension first.
  EXPECT_EQ(x.index({0, Slice(), index}).sizes().str(), "[3, 2]");
  EXPECT_EQ(x.transpose(0, 2).index({index}).sizes().str(), "[2, 3, 2]");
}

// Masks of the whole shape, of one dimension, and beside other indices.
TEST_P(IndexingOn, Masks) {
  const Tensor x = grid({2, 3});
  EXPECT_EQ(values<int>(x.index({x.remainder(2).eq(1)})), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(values<int>(x.index({on(tensor({false, true}))})), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(values<int>(x.index({Slice(), on(tensor({true, false, true}))})),
            (std::vector<int>{0, 2, 3, 5}));
  EXPECT_EQ(values<int>(x.index({on(tensor({true, true})), on(tensor({true, false, true}))})),
            (std::vector<int>{0, 5}));
  EXPECT_EQ(x.index({x.gt(100)}).sizes().str(), "[0]");
  EXPECT_EQ(values<int>(x.index({x.gt(3).to(Dtype::uint8)})), (std::vector<int>{4, 5}));
  EXPECT_EQ(values<int>(x.index({tensor({true, false})})), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(grid({0, 3}).index({on(zeros({0, 3}, Dtype::bool_))}).sizes().str(), "[0]");
  EXPECT_EQ(x.index({on(scalar_tensor(true))}).sizes().str(), "[1, 2, 3]");
  EXPECT_ERROR(x.index({on(tensor({true, false, true}))}), IndexError,
               "The shape of the mask [3] at index 0 does not match the shape of the indexed "
               "tensor [2, 3] at index 0");
}

// where(condition): one tensor of places for each dimension.
TEST_P(IndexingOn, PlacesOfWhatIsTrue) {
  const Tensor x = grid({2, 3});
  const std::vector<Tensor> places = where(x.remainder(2).eq(1));
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(values<int>(places[0]), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(values<int>(places[1]), (std::vector<int>{1, 0, 2}));
  EXPECT_EQ(values<int>(x.index({places[0], places[1]})), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(where(on(scalar_tensor(true))).size(), 1u);
}

// index_put_ with numbers, tensors that are broadcast, masks, and sums.
TEST_P(IndexingOn, Writes) {
  Tensor x = grid({2, 3});
  x.index_put_({0}, 9);
  EXPECT_EQ(values<int>(x), (std::vector<int>{9, 9, 9, 3, 4, 5}));
  x.index_put_({Slice(), 1}, on(tensor({7, 8})));
  EXPECT_EQ(values<int>(x), (std::vector<int>{9, 7, 9, 3, 8, 5}));
  x.index_put_({x.gt(7)}, 0);
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 7, 0, 3, 0, 5}));
  x.index_put_({x.eq(0)}, on(arange(3)).add(1));
  EXPECT_EQ(values<int>(x), (std::vector<int>{1, 7, 2, 3, 3, 5}));
  x.index_put_({Slice(), on(tensor({0, 2}))}, on(arange(2).view({2, 1})));
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 7, 0, 1, 3, 1}));
  x.index_put_({on(tensor({1, 1})), on(tensor({1, 1}))}, on(arange(2).add(1)), true);
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 7, 0, 1, 6, 1}));
  x.index_put_({1}, 1, true);
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 7, 0, 2, 7, 2}));
  x.index_put_({Ellipsis}, on(arange(3).view({1, 1, 3})));
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 1, 2, 0, 1, 2}));
  x.t().index_put_({on(tensor({2, 0})), 1}, on(arange(2).add(5)));
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 1, 2, 6, 1, 5}));
  x.index_put_({on(zeros({0}, Dtype::int64))}, 3);
  x.index_put_({false}, 3);
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 1, 2, 6, 1, 5}));
  x.index_put_({true}, 4);
  EXPECT_EQ(values<int>(x), std::vector<int>(6, 4));
  Tensor y = on(zeros({3}));
  y.index_put_({on(tensor({0, 2}))}, scalar_tensor(2.5F));
  EXPECT_EQ(values<double>(y), (std::vector<double>{2.5, 0, 2.5}));
}

TEST_P(IndexingOn, OneElementBehindAMaskGetsTheDtype) {
  Tensor x = grid({2, 3});
  const Tensor rows = on(tensor({true, false}));
  for (const Tensor& value :
       {on(scalar_tensor(7.5)), on(tensor({7.5})), on(full({1, 1, 1}, 7.5)), scalar_tensor(7.5)}) {
    const Index cases[][2] = {{rows, Slice()}, {rows, Ellipsis}, {rows, 0}};
    for (const auto& items : cases) {
      x.copy_(grid({2, 3}));
      x.index_put_(items, value);
      EXPECT_EQ(x.select(0, 0).select(0, 0).item<int>(), 7);
      EXPECT_EQ(x.select(0, 1).select(0, 0).item<int>(), 3);
    }
    x.copy_(grid({2, 3}));
    x.index_put_({x.gt(3)}, value);
    EXPECT_EQ(values<int>(x), (std::vector<int>{0, 1, 2, 3, 7, 7}));
    x.index_put_({true}, value);
    EXPECT_EQ(values<int>(x), std::vector<int>(6, 7));
    x.index_put_({false}, value);
  }
  x.index_put_({false}, on(ones({9})));
  EXPECT_EQ(values<int>(x), std::vector<int>(6, 7));
  EXPECT_ERROR(x.index_put_({rows}, on(tensor({1.5, 2.5, 3.5}))), Error, "dtypes match");
  EXPECT_ERROR(x.index_put_({on(tensor({0})), on(tensor({true, false, false}))}, on(tensor({1.5}))),
               Error, "dtypes match");
  EXPECT_ERROR(x.index_put_({rows, on(tensor({true, false, false}))}, on(tensor({1.5}))), Error,
               "dtypes match");
  Tensor bytes = on(zeros({2, 2}, Dtype::int8));
  EXPECT_ERROR(bytes.index_put_({rows}, 300), Error,
               "value cannot be converted to type int8 without overflow");
  EXPECT_ERROR(bytes.index_put_({rows}, tensor({300.0})), Error, "without overflow");
  EXPECT_ERROR(bytes.index_put_({bytes.eq(0)}, tensor({300})), Error, "without overflow");
}

TEST_P(IndexingOn, SmallIntegersAndFurtherEllipses) {
  const Tensor x = grid({2, 3});
  for (const Dtype dtype : {Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64})
    EXPECT_EQ(values<int>(x.index({on(scalar_tensor(1, dtype))})), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(values<int>(x.index({Ellipsis, 0, Ellipsis})), (std::vector<int>{0, 3}));
  EXPECT_EQ(x.index({Ellipsis, Ellipsis}).sizes(), Shape({2, 3}));
  EXPECT_EQ(x.index({Ellipsis, 0, Ellipsis, 1}).item<int>(), 1);
}

// Too many indices, ranges and shapes: refused in torch's words.
TEST_P(IndexingOn, Errors) {
  Tensor x = grid({2, 3});
  const Tensor two = on(tensor({0, 1}));
  EXPECT_ERROR(x.index({0, 0, 0}), IndexError, "too many indices for tensor of dimension 2");
  EXPECT_ERROR(x.index({two, two, two}), IndexError, "too many indices for tensor of dimension 2");
  EXPECT_ERROR(x.index({0, 3}), IndexError, "index 3 is out of bounds for dimension 1 with size 3");
  EXPECT_ERROR(x.index({-3}), IndexError, "index -3 is out of bounds for dimension 0 with size 2");
  EXPECT_ERROR(x.index({two, on(tensor({0, 1, 2}))}), IndexError,
               "shape mismatch: indexing tensors could not be broadcast together with shapes [2], "
               "[3]");
  EXPECT_ERROR(x.index({on(tensor({0.5F}))}), IndexError,
               "tensors used as indices must be long, int, byte or bool tensors");
  EXPECT_ERROR(grid({0, 3}).index({two}), IndexError,
               "index is out of bounds for dimension with size 0");
  EXPECT_ERROR(x.index_put_({two}, on(tensor({1.5F}))), Error,
               "Index put requires the source and destination dtypes match, got Long for the "
               "destination and Float for the source.");
  EXPECT_ERROR(x.index_put_({two, two}, on(arange(3))), Error,
               "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result "
               "of shape [2]");
  EXPECT_ERROR(x.index_put_({two}, x), Error, "unsupported operation");
  EXPECT_ERROR(x.index({Slice(0, 1, 0)}), ValueError, "slice step cannot be zero");
  EXPECT_EQ(values<int>(x), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_ERROR(grid({2}).cpu().index({two.to(kDevice)}), Error,
               "indices should be either on cpu or on the same device as the indexed tensor (cpu)");
}

TEST(Indexing, UnsignedIntegersAreNotNegative) {
  const Tensor x = arange(3);
  for (const std::uint64_t index : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{3}}) {
    EXPECT_ERROR(x.index({index}), IndexError, "is out of bounds for dimension 0 with size 3");
    EXPECT_ERROR(Tensor(x).index_put_({index}, 1), IndexError, "is out of bounds for dimension 0");
  }
  EXPECT_EQ(x.index({std::size_t{2}}).item<int>(), 2);
}

TEST(Indexing, OutOfBoundsOnTheCpu) {
  const Tensor x = zeros({2, 3});
  EXPECT_ERROR(x.index({Slice(), tensor({3})}), IndexError,
               "index 3 is out of bounds for dimension 1 with size 3");
  EXPECT_ERROR(x.index({tensor({0, 1}), tensor({0, -4})}), IndexError,
               "index -4 is out of bounds for dimension 1 with size 3");
}

}  // namespace
}  // namespace ember::test
