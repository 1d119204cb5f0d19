// index_select, gather, scatter and their like, against plain loops over elements.
#include <numeric>

#include "tests/ops/support.h"
#include "tests/support/child.h"

namespace ember::test {
namespace {

/// Small numbers of a shape and type, not in order.
Tensor seeded_numbers(const Shape& sizes, Dtype dtype, int seed = 0) {
  const Tensor made =
      arange(element_count(sizes)).mul(37).add(seed * 11).remainder(101).view(sizes);
  return dtype == Dtype::bool_ ? made.remainder(2).to(dtype) : made.to(dtype);
}

/// Indices from 0 to limit - 1 of a shape.
Tensor indices(const Shape& sizes, std::int64_t limit, int seed = 0) {
  return arange(element_count(sizes)).mul(2654435761).add(seed * 7).remainder(limit).view(sizes);
}

/// Element-wise access on the host, whatever the strides.
struct Elements {
  explicit Elements(const Tensor& tensor) : sizes(tensor.sizes()), data(values<double>(tensor)) {}

  std::size_t offset(const Shape& at) const {
    std::int64_t found = 0;
    for (int d = 0; d < sizes.size(); ++d) found = found * sizes[d] + at[d];
    return static_cast<std::size_t>(found);
  }
  double operator()(const Shape& at) const { return data[offset(at)]; }
  double& operator()(const Shape& at) { return data[offset(at)]; }

  Shape sizes;
  std::vector<double> data;
};

/// Calls `use` with every place of a shape, in order.
template <class Use>
void each_place(const Shape& sizes, const Use& use) {
  if (element_count(sizes) == 0) return;
  Shape at = Shape::repeat(sizes.size(), 0);
  for (;;) {
    use(at);
    int d = sizes.size() - 1;
    for (; d >= 0; --d) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

Shape with(Shape at, int dim, std::int64_t index) {
  at[dim] = index;
  return at;
}

/// A tensor's shape and elements as they should be, on the CPU and on the device.
void expect_elements(const Tensor& got, const Shape& sizes, const std::vector<double>& expected,
                     const std::string& what) {
  EXPECT_EQ(got.sizes().str(), sizes.str()) << what;
  EXPECT_EQ(values<double>(got), expected) << what;
}

/// Runs `call` with tensors on the CPU and on the device, and compares both with `expected`.
template <class Call>
void check(const std::vector<Tensor>& inputs, const Shape& sizes,
           const std::vector<double>& expected, const std::string& what, const Call& call) {
  const Tensor here = call(inputs);
  expect_elements(here, sizes, expected, what + " on the CPU");
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) there.push_back(input.to(kDevice));
  expect_same(call(there), here, 0, what);
}

std::vector<Shape> shapes() {
  return {{1},      {7},       {300},       {4, 5},    {1, 9},
          {33, 64}, {3, 4, 5}, {2, 3, 128}, {5, 1, 6}, {2, 3, 2, 5}};
}

class IndexDtypes : public ::testing::TestWithParam<int> {
 protected:
  Dtype dtype() const { return static_cast<Dtype>(GetParam()); }
};

// Every dtype, shape and dimension against a loop over places.
TEST_P(IndexDtypes, IndexSelect) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : shapes()) {
    for (int dim = 0; dim < sizes.size(); ++dim) {
      for (const std::int64_t count : {0, 1, 5, 40}) {
        const Tensor x = seeded_numbers(sizes, dtype());
        const Tensor index = indices({count}, sizes[dim], dim);
        const Shape made = with(sizes, dim, count);
        const Elements in(x);
        const Elements at(index);
        std::vector<double> expected;
        each_place(made, [&](const Shape& p) {
          expected.push_back(in(with(p, dim, static_cast<std::int64_t>(at({p[dim]})))));
        });
        check({x, index}, made, expected, "index_select of " + sizes.str(),
              [&](const std::vector<Tensor>& t) { return index_select(t[0], dim, t[1]); });
      }
    }
  }
}

// Every dtype, shape and dimension against a loop over places; the index may be smaller.
TEST_P(IndexDtypes, Gather) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : shapes()) {
    for (int dim = 0; dim < sizes.size(); ++dim) {
      for (const std::int64_t count : {0, 1, 3, 70}) {
        const Tensor x = seeded_numbers(sizes, dtype());
        Shape made = with(sizes, dim, count);
        if (dim > 0 && made[0] > 1) made[0] -= 1;  // smaller than x is enough
        const Tensor index = indices(made, sizes[dim], dim);
        const Elements in(x);
        const Elements at(index);
        std::vector<double> expected;
        each_place(made, [&](const Shape& p) {
          expected.push_back(in(with(p, dim, static_cast<std::int64_t>(at(p)))));
        });
        check({x, index}, made, expected, "gather of " + sizes.str(),
              [&](const std::vector<Tensor>& t) { return gather(t[0], dim, t[1]); });
      }
    }
  }
}

// Every dtype, shape and dimension against a loop over places, with tensors and numbers.
TEST_P(IndexDtypes, Scatter) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : shapes()) {
    for (int dim = 0; dim < sizes.size(); ++dim) {
      const Tensor x = seeded_numbers(sizes, dtype());
      // Every place at most once, so that the order does not matter: a shift.
      Shape made = with(sizes, dim, std::max<std::int64_t>(sizes[dim] - 1, 1));
      Tensor index = zeros(made, Dtype::int64);
      index.copy_(arange(made[dim])
                      .add(1)
                      .remainder(sizes[dim])
                      .view(with(Shape::repeat(sizes.size(), 1), dim, made[dim])));
      const Tensor source = seeded_numbers(sizes, dtype(), 3);
      Elements expected(x);
      const Elements at(index);
      const Elements from(source);
      each_place(made, [&](const Shape& p) {
        expected(with(p, dim, static_cast<std::int64_t>(at(p)))) = from(p);
      });
      check({x, index, source}, sizes, expected.data, "scatter to " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return scatter(t[0], dim, t[1], t[2]); });
      Elements filled(x);
      each_place(made, [&](const Shape& p) {
        filled(with(p, dim, static_cast<std::int64_t>(at(p)))) = 1;
      });
      check({x, index}, sizes, filled.data, "scatter of 1 to " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return scatter(t[0], dim, t[1], 1); });
    }
  }
}

/// x + y as the type stores it.
double sum_as(Dtype dtype, double x, double y) {
  return with_type(dtype, [&]<class T>() -> double {
    if constexpr (std::is_same_v<T, bool>)
      return x != 0 || y != 0 ? 1 : 0;
    else if constexpr (is_integer<T>)
      return static_cast<double>(
          static_cast<T>(static_cast<std::int64_t>(x) + static_cast<std::int64_t>(y)));
    else
      return x + y;
  });
}

double product_as(Dtype dtype, double x, double y) {
  return with_type(dtype, [&]<class T>() -> double {
    if constexpr (is_integer<T>)
      return static_cast<double>(
          static_cast<T>(static_cast<std::int64_t>(x) * static_cast<std::int64_t>(y)));
    else
      return x * y;
  });
}

// scatter with "multiply": places that come up several times are multiplied by each.
TEST_P(IndexDtypes, Products) {
  NEEDS_DEVICES(1);
  if (!contains(dtypes::every_number_or_bool, dtype())) return;
  for (const Shape& sizes : shapes()) {
    for (int dim = 0; dim < sizes.size(); ++dim) {
      const auto small = [&](const Shape& of, int seed) {  // 1 and 2, so that nothing overflows
        const Tensor whole = seeded_numbers(of, Dtype::int64, seed).remainder(2).add(1);
        return (dtype() == Dtype::bool_ ? whole.sub(1) : whole).to(dtype());
      };
      const Tensor x = small(sizes, 1);
      const Shape made = with(sizes, dim, 11);
      const Tensor index = indices(made, sizes[dim], dim);
      const Tensor source = small(made, 2);
      Elements expected(x);
      Elements doubled(x);
      const Elements at(index);
      const Elements from(source);
      each_place(made, [&](const Shape& p) {
        const Shape place = with(p, dim, static_cast<std::int64_t>(at(p)));
        expected(place) = product_as(dtype(), expected(place), from(p));
        doubled(place) = product_as(dtype(), doubled(place), dtype() == Dtype::bool_ ? 1 : 2);
      });
      check(
          {x, index, source}, sizes, expected.data, "products in " + sizes.str(),
          [&](const std::vector<Tensor>& t) { return scatter(t[0], dim, t[1], t[2], "multiply"); });
      check({x, index}, sizes, doubled.data, "products with 2 in " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return scatter(t[0], dim, t[1], 2, "multiply"); });
    }
  }
}

// scatter_add and index_add: places that come up several times add up.
TEST_P(IndexDtypes, Additions) {
  NEEDS_DEVICES(1);
  if (!contains(dtypes::every_number_or_bool, dtype())) {
    const Tensor x = zeros({3}, dtype());
    EXPECT_ERROR(scatter_add(x, 0, zeros({3}, Dtype::int64), x), NotImplementedError,
                 std::string("\"scatter_add\" not implemented for '") + legacy_name(dtype()));
    return;
  }
  for (const Shape& sizes : shapes()) {
    for (int dim = 0; dim < sizes.size(); ++dim) {
      const Tensor x =
          seeded_numbers(sizes, dtype(), 1).real().to(Dtype::int64).remainder(4).to(dtype());
      const Shape made = with(sizes, dim, 11);
      const Tensor index = indices(made, sizes[dim], dim);
      const Tensor source =
          seeded_numbers(made, dtype(), 2).real().to(Dtype::int64).remainder(5).to(dtype());
      Elements expected(x);
      const Elements at(index);
      const Elements from(source);
      each_place(made, [&](const Shape& p) {
        double& target = expected(with(p, dim, static_cast<std::int64_t>(at(p))));
        target = sum_as(dtype(), target, from(p));
      });
      check({x, index, source}, sizes, expected.data, "scatter_add to " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return scatter_add(t[0], dim, t[1], t[2]); });
      check({x, index, source}, sizes, expected.data, "sums in " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return scatter(t[0], dim, t[1], t[2], "add"); });
      const Tensor row = indices({11}, sizes[dim], dim);
      const Elements places(row);
      Elements added(x);
      each_place(made, [&](const Shape& p) {
        double& target = added(with(p, dim, static_cast<std::int64_t>(places({p[dim]}))));
        target = sum_as(dtype(), target, from(p));
      });
      check({x, row, source}, sizes, added.data, "index_add to " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return index_add(t[0], dim, t[1], t[2]); });
    }
  }
}

// index_copy and index_fill against a loop over places.
TEST_P(IndexDtypes, CopiesAndFills) {
  NEEDS_DEVICES(1);
  for (const Shape& sizes : shapes()) {
    for (int dim = 0; dim < sizes.size(); ++dim) {
      const Tensor x = seeded_numbers(sizes, dtype());
      const Tensor index =
          arange(sizes[dim]).neg().add(sizes[dim] - 1).slice(0, 0, {}, 2).contiguous();
      const Shape made = with(sizes, dim, index.numel());
      const Tensor source = seeded_numbers(made, dtype(), 5);
      const Elements at(index);
      const Elements from(source);
      Elements copied(x);
      Elements filled(x);
      each_place(made, [&](const Shape& p) {
        const Shape place = with(p, dim, static_cast<std::int64_t>(at({p[dim]})));
        copied(place) = from(p);
        filled(place) = 1;
      });
      check({x, index, source}, sizes, copied.data, "index_copy to " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return index_copy(t[0], dim, t[1], t[2]); });
      check({x, index}, sizes, filled.data, "index_fill of " + sizes.str(),
            [&](const std::vector<Tensor>& t) { return index_fill(t[0], dim, t[1], 1); });
      check({x, index.sub(sizes[dim])}, sizes, filled.data, "index_fill with negative indices",
            [&](const std::vector<Tensor>& t) { return index_fill(t[0], dim, t[1], 1); });
    }
  }
}

// Flat positions, negative ones too, also of transposed tensors.
TEST_P(IndexDtypes, TakeAndPut) {
  NEEDS_DEVICES(1);
  const Tensor x = seeded_numbers({6, 7}, dtype());
  const Tensor index = indices({3, 5}, 42).sub(21);  // from -21 to 20
  const Elements at(index);
  const std::vector<double> in = values<double>(x);
  std::vector<double> taken;
  for (const double i : at.data) taken.push_back(in[static_cast<std::size_t>(i < 0 ? i + 42 : i)]);
  check({x, index}, {3, 5}, taken, "take",
        [](const std::vector<Tensor>& t) { return take(t[0], t[1]); });
  const Tensor turned = seeded_numbers({7, 6}, dtype()).t();
  std::vector<double> expected = values<double>(turned);
  expected[3] = 1;
  expected[41] = 0;
  check({turned, tensor<std::int64_t>({3, -1}), tensor({1, 0}).to(dtype())}, {6, 7}, expected,
        "put_", [](const std::vector<Tensor>& t) { return t[0].clone().put_(t[1], t[2]); });
}

INSTANTIATE_TEST_SUITE_P(All, IndexDtypes, ::testing::Range(0, kDtypes), [](const auto& each) {
  return std::string(dtype_name(static_cast<Dtype>(each.param)));
});

TEST(Index, SelectsFromViews) {
  NEEDS_DEVICES(1);
  const Tensor base = seeded_numbers({12, 10, 6}, Dtype::float32);
  const std::vector<Tensor> views{base.transpose(0, 2), base.slice(1, 1, 9, 3), base.select(1, 4),
                                  base.narrow(2, 1, 4),
                                  base.select(0, 1).unsqueeze(1).expand({10, 5, 6})};
  for (const Tensor& view : views) {
    const Tensor dense = view.contiguous();
    const Tensor there =
        base.to(kDevice).as_strided(view.sizes(), view.strides(), view.storage_offset());
    for (int dim = 0; dim < view.dim(); ++dim) {
      const Tensor index = indices({9}, view.sizes()[dim], 2);
      const Tensor expected = index_select(dense, dim, index);
      expect_same(index_select(view, dim, index), expected, 0, "a view");
      expect_same(index_select(there, dim, index.to(kDevice)), expected, 0, "a view there");
      const Tensor wide = index.to(kDevice).view({9, 1}).expand({9, 2}).select(1, 1);
      expect_same(index_select(there, dim, wide), expected, 0, "with a strided index");
      const Shape grid = with(view.sizes(), dim, 9);
      Shape one = Shape::repeat(view.dim(), 1);
      one[dim] = 9;
      const Tensor spread = index.to(kDevice).view(one).expand(grid);
      expect_same(gather(there, dim, spread), expected, 0, "gather with an expanded index");
      Tensor out = empty({10, 20, 30}, kDevice).as_strided(grid, contiguous_strides(grid), 3);
      index_select_out(out, there, dim, index.to(kDevice));
      expect_same(out, expected, 0, "into a part of a tensor");
      Tensor other = empty(grid, {Dtype::float64, Device(kDevice)});
      gather_out(other, there, dim, spread);
      expect_same(other, expected.to(Dtype::float64), 0, "into another dtype");
    }
  }
}

// Nine dimensions in a mixed order: more than a launch takes.
TEST(Index, OfManyDimensions) {
  NEEDS_DEVICES(1);
  const Shape sizes = Shape::repeat(9, 2);
  Shape order;
  for (int d = 0; d < 9; ++d) order.push_back((d * 4) % 9);
  const Tensor x = seeded_numbers(sizes, Dtype::int32);
  const Tensor turned = x.permute(order);
  const Tensor there = x.to(kDevice).permute(order);
  const Tensor index = indices(sizes, 2, 1).permute(order);
  for (int dim = 0; dim < 9; ++dim) {
    Elements in(turned);
    const Elements at(index);
    std::vector<double> expected;
    each_place(sizes, [&](const Shape& p) {
      expected.push_back(in(with(p, dim, static_cast<std::int64_t>(at(p)))));
    });
    expect_elements(gather(turned, dim, index), sizes, expected, "gather");
    expect_elements(gather(there, dim, index.to(kDevice)), sizes, expected, "gather there");
  }
}

// Row lengths on both sides of where the CUDA kernels change over.
TEST(Index, WideRowsAndLongRows) {
  NEEDS_DEVICES(1);
  for (const std::int64_t columns : {1000, 1024, 16384, 40001}) {
    const Tensor x = seeded_numbers({5, columns}, Dtype::float32);
    const Tensor index = indices({5, columns + 3}, columns, 4);
    const Elements in(x);
    const Elements at(index);
    std::vector<double> expected;
    each_place(index.sizes(), [&](const Shape& p) {
      expected.push_back(in({p[0], static_cast<std::int64_t>(at(p))}));
    });
    check({x, index}, index.sizes(), expected, "gather along rows",
          [](const std::vector<Tensor>& t) { return gather(t[0], 1, t[1]); });
    const Tensor rows = tensor<int>({4, 0, 0, 2});
    std::vector<double> selected;
    for (const std::int64_t row : {4, 0, 0, 2})
      for (std::int64_t i = 0; i < columns; ++i) selected.push_back(in({row, i}));
    check({x, rows}, {4, columns}, selected, "index_select of rows",
          [](const std::vector<Tensor>& t) { return index_select(t[0], 0, t[1]); });
  }
}

TEST(Index, Of32Bits) {
  NEEDS_DEVICES(1);
  const Tensor there = seeded_numbers({5, 4}, Dtype::float32).to(kDevice);
  const Tensor index = tensor<int>({3, 1, 1}).to(kDevice);
  const Tensor expected = index_select(there, 0, index).cpu();
  expect_same(index_select(there, 0, index.to(Dtype::int32)), expected, 0, "int32");
  EXPECT_ERROR(index_select(there, 0, index.to(Dtype::float32)), Error,
               "index_select(): Expected dtype int32/int64 for index, but got Float");
}

TEST(Index, MustBeOnTheTensorsDevice) {
  NEEDS_DEVICES(1);
  const Tensor here = seeded_numbers({5, 4}, Dtype::float32);
  const Tensor there = here.to(kDevice);
  const auto refused = [](const Tensor& x, const Tensor& row) {
    const Tensor grid = row.view({-1, 1}).expand({-1, 4});
    const Tensor source = ones({3, 4}, x.device());
    const char* const text = "Expected all tensors to be on the same device";
    Tensor y = x.clone();
    Tensor out = empty({0}, x.device());
    EXPECT_ERROR(index_select(x, 0, row), Error, text);
    EXPECT_ERROR(index_select_out(out, x, 0, row), Error, text);
    EXPECT_ERROR(gather(x, 0, grid), Error, text);
    EXPECT_ERROR(gather_out(out, x, 0, grid), Error, text);
    EXPECT_ERROR(take(x, row), Error, text);
    EXPECT_ERROR(y.scatter_(0, grid, source), Error, text);
    EXPECT_ERROR(y.scatter_(0, grid, 2), Error, text);
    EXPECT_ERROR(y.scatter_add_(0, grid, source), Error, text);
    EXPECT_ERROR(y.index_add_(0, row, source), Error, text);
    EXPECT_ERROR(y.index_copy_(0, row, source), Error, text);
    EXPECT_ERROR(y.index_fill_(0, row, 2), Error, text);
    EXPECT_ERROR(y.put_(row, ones({3}, x.device())), Error, text);
    EXPECT_ERROR(y.masked_fill_(row.ge(0).view({-1, 1}), 2), Error, text);
    EXPECT_ERROR(masked_select(x, row.ge(2)[0].expand({5, 4})), Error, text);
    EXPECT_EQ(values<float>(y), values<float>(x));
  };
  const Tensor row = tensor<std::int64_t>({3, 1, 1});
  refused(there, row);
  refused(there, row.to(Dtype::int64));
  refused(here, row.to(kDevice));
  // Of indices only those of x.index() and x.index_put_() come from the CPU.
  expect_same(there.index({row}), here.index({row}), 0, "index");
  Tensor x = there.clone();
  x.index_put_({row}, 7);
  EXPECT_EQ(x[1].sum().item<float>(), 28);
}

TEST(Index, OfAnyFlattening) {
  NEEDS_DEVICES(1);
  // Views of which one row is a view again, and views that have to be copied for it: take and put_
  // see their elements in order.
  const Tensor base = seeded_numbers({6, 6}, Dtype::int32);
  const std::vector<std::pair<std::string, Tensor>> views = {
      {"every second", base.view({36}).slice(0, {}, {}, 2)},
      {"from the fourth", base.view({36}).slice(0, 4)},
      {"column", base.select(1, 3)},
      {"row", base.select(0, 5)},
      {"diagonal", base.diagonal()},
      {"expanded", base.select(0, 1).narrow(0, 2, 1).expand({7})},
      {"expanded rows", base.select(0, 1).expand({3, 6})},
      {"a number expanded", base[2][3].expand({2, 3})},
      {"every third column", base.slice(1, 1, {}, 3)},
      {"every second row", base.slice(0, {}, {}, 2)},
      {"column as a matrix", base.narrow(1, 2, 1)},
      {"transposed", base.t()},
      {"overlapping", base.as_strided({4, 3}, {2, 1})},
      {"one", base.narrow(0, 1, 1).narrow(1, 1, 1)},
      {"a number", base[1][2]},
  };
  for (const char* place : {"cpu", kDevice}) {
    for (const auto& [what, here] : views) {
      // The view of a copy of the whole memory.
      const Tensor x = base.to(place, false, true)
                           .as_strided(here.sizes(), here.strides(), here.storage_offset());
      const std::vector<double> flat = values<double>(here);
      const auto count = static_cast<std::int64_t>(flat.size());
      const Tensor at = indices({2, 5}, count, 3).sub(count / 2).to(place);
      const std::vector<double> wanted = values<double>(at);
      std::vector<double> expected;
      for (const double i : wanted)
        expected.push_back(
            flat[static_cast<std::size_t>(i < 0 ? i + static_cast<double>(count) : i)]);
      expect_elements(take(x, at), {2, 5}, expected, what + " on " + place);
      expect_elements(take(x, at.t()).t(), {2, 5}, expected, what + ", places turned, " + place);
      if (what.find("expanded") == 0 || what == "overlapping" || what == "a number expanded")
        continue;
      Tensor y = base.to(place, false, true)
                     .as_strided(here.sizes(), here.strides(), here.storage_offset());
      const Tensor place_of = arange(count, Device(place)).slice(0, 0, {}, 2);
      const Tensor source = ones({place_of.numel(), 2}, Options(int32, Device(place))).select(1, 0);
      y.put_(place_of, source);
      std::vector<double> changed = flat;
      for (std::size_t i = 0; i < changed.size(); i += 2) changed[i] = 1;
      expect_elements(y, here.sizes(), changed, "put_ into " + what + " on " + place);
      y.put_(place_of, source, true);
      for (std::size_t i = 0; i < changed.size(); i += 2) changed[i] = 2;
      expect_elements(y, here.sizes(), changed, "put_ onto " + what + " on " + place);
      expect_elements(
          roll(x, {1}), here.sizes(),
          [&] {
            std::vector<double> moved = flat;
            std::rotate(moved.begin(), moved.end() - 1, moved.end());
            return moved;
          }(),
          "roll of " + what + " on " + place);
    }
  }
}

// A tensor without dimensions counts as one element.
TEST(Index, WithoutDimensions) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = scalar_tensor(5, place);
    const Tensor zero = scalar_tensor(0, place);
    EXPECT_EQ(index_select(x, 0, zero).sizes().str(), "[]");
    EXPECT_EQ(index_select(x, 0, zero.view({1})).item<int>(), 5);
    EXPECT_EQ(gather(x, 0, zero).sizes().str(), "[]");
    EXPECT_EQ(gather(x, 0, zero.view({1})).sizes().str(), "[1]");
    EXPECT_EQ(take(x, zero).item<int>(), 5);
    EXPECT_EQ(scatter(x, 0, zero, 7).item<int>(), 7);
    EXPECT_EQ(scatter_add(x, 0, zero, x).item<int>(), 10);
    EXPECT_EQ(index_fill(x, -1, zero, 2).item<int>(), 2);
    EXPECT_EQ(index_add(x, 0, zero, x).item<int>(), 10);
    EXPECT_EQ(index_select(ones({3, 2}, place), 1, zero).sizes().str(), "[3, 1]");
    EXPECT_ERROR(index_select(x, 0, zeros({2}, {Dtype::int64, Device(place)})), Error,
                 "Index to scalar can have only 1 value, got 2 value(s)");
  }
}

// An index without elements may have any shape, which the result has.
TEST(Index, GatherByNothing) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = ones({5, 10, 5}, place);
    for (const Shape& sizes : {Shape({0}), Shape({2, 0}), Shape({0, 20, 1}), Shape({9, 9, 0, 9})}) {
      const Tensor index = empty(sizes, {Dtype::int64, Device(place)});
      EXPECT_EQ(gather(x, 0, index).sizes(), sizes);
      EXPECT_EQ(gather(scalar_tensor(5, place), 0, index).sizes(), sizes);
      Tensor out = empty({0}, place);
      EXPECT_EQ(gather_out(out, x, 1, index).sizes(), sizes);
    }
    EXPECT_ERROR(gather(x, 3, empty({0}, {Dtype::int64, Device(place)})), IndexError,
                 "Dimension out of range");
  }
}

// No indices, or nothing to index: the right shapes, and nothing written.
TEST(Index, Empty) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor none = zeros({0}, {Dtype::int64, Device(place)});
    EXPECT_EQ(index_select(zeros({0, 3}, place), 0, none).sizes().str(), "[0, 3]");
    EXPECT_EQ(index_select(zeros({4, 0}, place), 0, zeros({2}, {Dtype::int64, Device(place)}))
                  .sizes()
                  .str(),
              "[2, 0]");
    EXPECT_EQ(gather(zeros({2, 3}, place), 0, none.view({0, 3})).sizes().str(), "[0, 3]");
    EXPECT_EQ(take(zeros({0}, place), none).numel(), 0);
    Tensor x = ones({3}, place);
    x.scatter_(0, none, 5);
    x.scatter_add_(0, none, zeros({0}, place));
    x.index_add_(0, none, zeros({0}, place));
    x.index_fill_(0, none, 3);
    x.put_(none, zeros({0}, place));
    EXPECT_EQ(values<double>(x), (std::vector<double>{1, 1, 1}));
  }
}

// Of several writes to one place the last one stays, where the order is defined.
TEST(Index, LaterWritesWin) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    if (place == std::string(kDevice) && !cuda::is_simulated()) continue;  // any of them there
    const Tensor index = tensor<std::int64_t>({1, 0, 1, 1, 0}).to(place);
    const Tensor source = tensor<int>({10, 20, 30, 40, 50}).to(place);
    Tensor x = zeros({2}, {Dtype::int32, Device(place)});
    x.scatter_(0, index, source);
    EXPECT_EQ(values<double>(x), (std::vector<double>{50, 40}));
    x.zero_().index_copy_(0, index, source);
    EXPECT_EQ(values<double>(x), (std::vector<double>{50, 40}));
    x.zero_().index_put_({index}, source);
    EXPECT_EQ(values<double>(x), (std::vector<double>{50, 40}));
  }
}

TEST(Index, SumsOfHalvesAreMadeInFloat) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    for (const char* place : {"cpu", kDevice}) {
      Tensor x = zeros({2, 2}, {dtype, Device(place)}).t();
      const Tensor index = zeros({4096, 2}, {Dtype::int64, Device(place)});
      x.scatter_add_(0, index, ones({4096, 2}, {dtype, Device(place)}));
      EXPECT_EQ(values<double>(x), (std::vector<double>{4096, 4096, 0, 0}));
      Tensor y = zeros({2, 3}, {dtype, Device(place)});
      y.index_add_(0, zeros({4096}, {Dtype::int64, Device(place)}),
                   ones({1, 3}, {dtype, Device(place)}).expand({4096, 3}), 0.5);
      EXPECT_EQ(values<double>(y), (std::vector<double>{2048, 2048, 2048, 0, 0, 0}));
    }
  }
}

// Elements of 16 bits share a word with others, which stay as they are.
TEST(Index, SumsOfHalvesLeaveTheirNeighbours) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    for (const char* place : {"cpu", kDevice}) {
      const Options options{dtype, Device(place)};
      const Tensor index = tensor<std::int64_t>({6, 2, 5, 2}).to(place);
      const Tensor some = tensor<double>({3, 1, -2, 1}).to(options);
      Tensor x = full({9}, -0.0, options).narrow(0, 1, 8);
      x.scatter_add_(0, index, some);
      EXPECT_EQ(values<double>(x), (std::vector<double>{0, 0, 2, 0, 0, -2, 3, 0}));
      EXPECT_EQ(values<double>(x.signbit()), (std::vector<double>{1, 1, 0, 1, 1, 1, 0, 1}));
      x.fill_(2);
      x.scatter_(0, index, some, "multiply");
      EXPECT_EQ(values<double>(x), (std::vector<double>{2, 2, 2, 2, 2, -4, 6, 2}));
      // Rounded after each: 256 + 1 is 256 in bfloat16, and 2048 + 1 is 2048 in float16.
      const double limit = dtype == Dtype::bfloat16 ? 256 : 2048;
      Tensor y = full({4}, limit, options);
      y.index_add_(0, tensor<std::int64_t>({1, 1}).to(place), ones({2}, options));
      EXPECT_EQ(values<double>(y), (std::vector<double>(4, limit)));
    }
  }
}

// Masks are broadcast; what the dtype cannot hold is refused.
TEST(Index, MaskedFill) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    Tensor x = tensor<int>({1, 2, 3, 4}).view({2, 2}).to(place);
    const Tensor mask = tensor({true, false}).to(place);
    EXPECT_EQ(values<double>(masked_fill(x, mask, 9)), (std::vector<double>{9, 2, 9, 4}));
    EXPECT_EQ(values<double>(masked_fill(x, mask.view({2, 1}), scalar_tensor(7))),
              (std::vector<double>{7, 7, 3, 4}));
    x.masked_fill_(mask, -1);
    EXPECT_EQ(values<double>(x), (std::vector<double>{-1, 2, -1, 4}));
    EXPECT_EQ(values<double>(masked_fill(x, mask, 2.5)), (std::vector<double>{2, 2, 2, 4}));
    EXPECT_ERROR(x.masked_fill_(mask, std::complex<double>(1, 1)), Error,
                 "value cannot be converted to type int32");
    EXPECT_ERROR(x.masked_fill_(mask.to(Dtype::int32), 1), Error,
                 "masked_fill_ only supports boolean masks");
    EXPECT_ERROR(x.masked_fill_(ones({3}, {Dtype::bool_, Device(place)}), 1), Error, "must match");
    EXPECT_EQ(masked_fill(scalar_tensor(1, place), mask, 5).sizes().str(), "[2]");
    // Numbers as far as the dtype goes, and no further.
    const Tensor large = zeros({2}, {Dtype::uint64, Device(place)});
    EXPECT_EQ(values<std::uint64_t>(large.masked_fill(mask, UINT64_MAX)),
              (std::vector<std::uint64_t>{UINT64_MAX, 0}));
    EXPECT_EQ(values<double>(large.to(Dtype::bool_).masked_fill(mask, 2)),
              (std::vector<double>{1, 0}));
    const Tensor half = large.to(Dtype::float16);
    EXPECT_EQ(values<double>(half.masked_fill(mask, 0.1)),
              (std::vector<double>{0.0999755859375, 0}));
    EXPECT_ERROR(half.masked_fill(mask, 1e6), Error, "value cannot be converted to type");
    EXPECT_EQ(large.to(Dtype::complex64)
                  .masked_fill(mask, std::complex<double>(1, 2))
                  .select(0, 0)
                  .item<std::complex<double>>(),
              std::complex<double>(1, 2));
  }
}

TEST(Index, MaskedFillConvertsWhatTheDtypeHolds) {
  NEEDS_DEVICES(1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Row {
    Dtype dtype;
    Scalar value;
    std::optional<double> expected;  // nothing: it does not fit
  };
  const Row rows[] = {
      {Dtype::int8, 127, 127},
      {Dtype::int8, 128, {}},
      {Dtype::int8, -128, -128},
      {Dtype::int8, -129, {}},
      {Dtype::int8, -127.5, -127},
      {Dtype::int8, 127.5, {}},
      {Dtype::uint8, -3, 253},
      {Dtype::uint8, -256, {}},
      {Dtype::uint8, -1.0, {}},
      {Dtype::uint8, 255, 255},
      {Dtype::uint8, 256, {}},
      {Dtype::int32, nan, {}},
      {Dtype::int64, 1e19, {}},
      {Dtype::int64, -9e18, -9e18},
      {Dtype::bool_, 5, 1},
      {Dtype::bool_, nan, 1},
      {Dtype::float16, 65504, 65504},
      {Dtype::float16, 65505, {}},
      {Dtype::float16, -infinity, -infinity},
      {Dtype::bfloat16, 3.4e38, {}},
      {Dtype::float32, 1e300, {}},
      {Dtype::float64, 1e300, 1e300},
      {Dtype::complex64, 1e300, {}},
      {Dtype::float32, std::complex<double>(1, 1), {}},
      {Dtype::float32, std::complex<double>(1, 0), 1},
  };
  for (const char* place : {"cpu", kDevice}) {
    const Tensor mask = tensor({true}).to(place);
    for (const Row& row : rows) {
      Tensor x = zeros({1}, {row.dtype, Device(place)});
      const Tensor value = full({}, row.value, row.value.dtype());
      for (const Operand& given : {Operand(row.value), Operand(value)}) {
        if (row.expected)
          EXPECT_EQ(x.masked_fill_(mask, given).item<double>(), *row.expected);
        else
          EXPECT_ERROR(x.masked_fill_(mask, given), Error, "without overflow");
      }
    }
  }
}

// In torch a number becomes a tensor of the dtype first, which refuses what float32 does not hold
// and makes 16-bit floats infinite.
TEST(Index, AssignmentOfNumbersThatAreTooLarge) {
  NEEDS_DEVICES(1);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* place : {"cpu", kDevice}) {
    const Tensor mask = tensor({true, false}).to(place);
    const Tensor first = tensor({0}).to(place);
    const std::vector<Index> items = {0, Slice(0, 1), Ellipsis, mask, first};
    for (const Dtype dtype : {Dtype::float32, Dtype::complex64, Dtype::float16, Dtype::bfloat16})
      for (const Index& item : items) {
        Tensor x = zeros({2}, {dtype, Device(place)});
        if (item_size(dtype) == 2) {
          x.index_put_({item}, -1e300);
          EXPECT_EQ(x[0].item<double>(), -infinity);
        } else {
          EXPECT_ERROR(x.index_put_({item}, -1e300), Error, "without overflow");
          EXPECT_FALSE(x.any().item<bool>());
          x.index_put_({item}, infinity);
          EXPECT_EQ(x[0].real().item<double>(), infinity);
        }
      }
  }
}

}  // namespace
}  // namespace ember::test
