// cat and stack, against a plain loop over elements.
#include "ember/ops/cat.h"

#include <array>
#include <functional>
#include <numeric>

#include "ember/runtime/observer.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

/// 0, 1, 2, ... plus an offset, of a shape and type; booleans alternate.
Tensor numbered(const Shape& sizes, Dtype dtype, int from) {
  const Tensor made = arange(element_count(sizes)).add(from).remainder(100).view(sizes);
  return dtype == Dtype::bool_ ? made.remainder(2).to(dtype) : made.to(dtype);
}

/// Where the elements of `part`, which begins at `begin` of `dim`, lie in a contiguous whole.
void put(std::vector<double>& whole, const Shape& sizes, const Tensor& part, int dim,
         std::int64_t begin) {
  const std::vector<double> elements = values<double>(part);
  std::int64_t inner = 1;
  for (int d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
  const std::int64_t length = part.sizes()[dim];
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const std::int64_t column = n % inner;
    const std::int64_t row = n / inner % length;
    const std::int64_t outer = n / inner / length;
    whole[static_cast<std::size_t>((outer * sizes[dim] + begin + row) * inner + column)] =
        elements[i];
  }
}

/// Concatenates copies on the CPU and on the device, and checks every element.
void check_cat(const std::vector<Tensor>& parts, int dim, const std::string& what) {
  Shape sizes = parts[0].sizes();
  sizes[dim] = 0;
  for (const Tensor& part : parts) sizes[dim] += part.sizes()[dim];
  std::vector<double> expected(static_cast<std::size_t>(element_count(sizes)));
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    put(expected, sizes, part, dim, begin);
    begin += part.sizes()[dim];
  }
  std::vector<Tensor> there;
  for (const Tensor& part : parts) there.push_back(part.to(kDevice));
  const Tensor here = cat(parts, dim);
  EXPECT_EQ(here.sizes().str(), sizes.str()) << what;
  EXPECT_EQ(values<double>(here), expected) << what;
  EXPECT_EQ(values<double>(cat(parts, dim - here.dim())), expected) << what;
  expect_same(cat(there, dim), here, 0, what);
}

/// How many kernels are launched meanwhile.
int launches_of(const std::function<void()>& work) {
  struct Counter : cuda::Observer {
    int launches = 0;
    void notice(const cuda::Activity& activity) noexcept override {
      if (activity.kind == cuda::Activity::Kind::kernel_launched) ++launches;
    }
  } counter;
  cuda::Observer* const before = cuda::set_observer(&counter);
  work();
  cuda::set_observer(before);
  return counter.launches;
}

class CatDtypes : public ::testing::TestWithParam<int> {};

TEST_P(CatDtypes, MovesEveryElement) {
  NEEDS_DEVICES(1);
  const auto dtype = static_cast<Dtype>(GetParam());
  for (const int count : {1, 2, 5, 12, 13, 30}) {
    for (const std::int64_t inner : {1, 3, 16}) {
      std::vector<Tensor> first;
      std::vector<Tensor> last;
      for (int i = 0; i < count; ++i) {
        first.push_back(numbered({(i * 5 + 3) % 7, inner}, dtype, i));
        last.push_back(numbered({4, inner, (i * 3 + 1) % 5}, dtype, i));
      }
      const std::string what = std::to_string(count) + " parts, inner " + std::to_string(inner);
      check_cat(first, 0, what);
      check_cat(last, 2, what);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, CatDtypes, ::testing::Range(0, kDtypes), [](const auto& each) {
  return std::string(dtype_name(static_cast<Dtype>(each.param)));
});

TEST(Cat, OfManyTensorsIsOneLaunch) {
  NEEDS_DEVICES(1);
  for (const std::int64_t size : {1, 30, 1000}) {
    std::vector<Tensor> here;
    for (int i = 0; i < 500; ++i) here.push_back(numbered({2, size + i % 3}, Dtype::float32, i));
    check_cat(here, 1, "500 parts");
    std::vector<Tensor> there;
    for (const Tensor& part : here) there.push_back(part.to(kDevice));
    EXPECT_EQ(launches_of([&] { const Tensor made = cat(there, 1); }), 1);
  }
  std::vector<Tensor> few(20, numbered({3}, Dtype::int16, 0).to(kDevice));
  EXPECT_EQ(launches_of([&] { const Tensor made = cat(few); }), 1);
}

// Slices of rows lie as far apart as the rows do.
TEST(Cat, OfSlicesOfRowsIsOneLaunch) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {Dtype::uint8, Dtype::float32, Dtype::complex128}) {
    const Tensor wide = numbered({600, 70}, dtype, 0);
    const Tensor deep = numbered({4, 9, 64}, dtype, 1);
    const auto slices = [](const Tensor& matrix, const Tensor& block) {
      return std::array<std::vector<Tensor>, 4>{{
          {matrix.narrow(1, 3, 17), matrix.narrow(1, 0, 64), matrix, matrix.narrow(1, 69, 1)},
          {block.narrow(1, 2, 3), block.narrow(1, 0, 8), block},
          {block.narrow(1, 2, 3).narrow(0, 1, 1), block.select(0, 3).unsqueeze(0)},
          {matrix.select(0, 1).unsqueeze(0).expand({5, 70}),
           matrix.narrow(0, 7, 5).narrow(1, 6, 2)},
      }};
    };
    const auto here = slices(wide, deep);
    const auto there = slices(wide.to(kDevice), deep.to(kDevice));
    for (std::size_t i = 0; i < here.size(); ++i) {
      const std::string what = std::string(dtype_name(dtype)) + ", case " + std::to_string(i);
      check_cat(here[i], 1, what);
      Tensor made;
      EXPECT_EQ(launches_of([&] { made = cat(there[i], 1); }), 1) << what;
      expect_same(made, cat(here[i], 1), 0, what);
    }
  }
}

// Every other element, columns, and rows in one piece that the output's rows cut elsewhere.
TEST(Cat, OfTensorsWithStepsIsOneLaunch) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {Dtype::uint8, Dtype::bfloat16, Dtype::float32, Dtype::complex128}) {
    const Tensor base = numbered({64, 128}, dtype, 0);
    const auto parts = [](const Tensor& x) {
      const Tensor even = x.slice(1, 0, 128, 2);
      const Tensor odd = x.slice(1, 1, 128, 2);
      return std::array<std::vector<Tensor>, 4>{
          {{even, even, x.narrow(1, 1, 64)},
           {odd, even.contiguous(), odd},
           {x.select(1, 3).expand({64, 64}).t(), x.narrow(1, 127, 1).expand({64, 64})},
           {x.narrow(0, 8, 1).narrow(1, 0, 64).expand({64, 64}), x.narrow(1, 5, 64), even}}};
    };
    const auto here = parts(base);
    const auto there = parts(base.to(kDevice));
    for (std::size_t i = 0; i < here.size(); ++i)
      for (const int dim : {0, 1}) {
        const std::string what = std::string(dtype_name(dtype)) + ", case " + std::to_string(i);
        check_cat(here[i], dim, what);
        Tensor made;
        const int launches = launches_of([&] { made = stack(there[i], dim); });
        EXPECT_EQ(launches, i == 2 ? 2 : 1) << what;  // two that are no rows are copied
        expect_same(made, stack(here[i], dim), 0, what);
      }
  }
  // So many short rows that copies are faster.
  const Tensor many = numbered({3000, 1000}, Dtype::uint8, 0);
  check_cat({many.slice(1, 0, 1000, 2), many.narrow(1, 7, 3), many}, 1, "many short rows");
}

TEST(Cat, OfAnyNumberOfTensors) {
  NEEDS_DEVICES(1);
  // A launch takes 1, 12, 128 or 800 of them.
  for (const int parts : {1, 2, 12, 13, 127, 128, 129, 799, 800, 801, 1600, 5000}) {
    const std::string what = std::to_string(parts) + " parts";
    std::vector<Tensor> here;
    for (int i = 0; i < parts; ++i) here.push_back(numbered({2, 1 + i % 9}, Dtype::int16, i));
    check_cat(here, 1, what);
    // Behind one that is moved by itself.
    here.insert(here.begin(), numbered({3, 2}, Dtype::int16, 7).t());
    check_cat(here, 1, what + " and a turned one");
  }
}

// Long rows, many rows, aligned and not.
TEST(Cat, OfLargeTensors) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {Dtype::uint8, Dtype::float32, Dtype::complex128}) {
    check_cat({numbered({70001}, dtype, 0), numbered({3}, dtype, 1), numbered({40000}, dtype, 2)},
              0, "long rows");
    check_cat({numbered({300, 257}, dtype, 0), numbered({300, 64}, dtype, 1)}, 1, "many rows");
    check_cat({numbered({3, 16384}, dtype, 0), numbered({3, 4096}, dtype, 1)}, 1, "aligned");
  }
}

// Parts that are transposed, sliced, expanded or offset.
TEST(Cat, TakesViews) {
  NEEDS_DEVICES(1);
  const Tensor base = numbered({6, 8}, Dtype::float32, 0);
  const Tensor turned = base.t();
  const Tensor part = base.slice(1, 1, 8, 2);
  const Tensor wide = base.select(0, 2).unsqueeze(0).expand({3, 8});
  check_cat({turned, turned.contiguous(), turned}, 0, "transposed");
  check_cat({base.narrow(1, 1, 3), part, base, part}, 1, "slices");
  check_cat({wide, base.narrow(0, 3, 2), wide}, 0, "expanded");
  check_cat({base.narrow(0, 1, 2), base.narrow(0, 1, 2)}, 0, "with an offset");
}

TEST(Cat, PromotesDtypes) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor a = tensor({1, 2}).to(Dtype::int32).to(place);
    const Tensor b = tensor({0.5F}).to(place);
    const Tensor c = tensor({true}).to(place);
    const Tensor made = cat({a, b, c});
    EXPECT_EQ(made.dtype(), Dtype::float32);
    EXPECT_EQ(values<double>(made), (std::vector<double>{1, 2, 0.5, 1}));
    EXPECT_EQ(cat({c, a}).dtype(), Dtype::int32);
    EXPECT_EQ(cat({a.to(Dtype::int8), a.to(Dtype::uint8)}).dtype(), Dtype::int16);
    // The type of an empty tensor counts too.
    EXPECT_EQ(cat({a, zeros({0}, {Dtype::float64, Device(place)})}).dtype(), Dtype::float64);
  }
}

TEST(Cat, LeavesOutEmptyVectors) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor none = zeros({0}, place);
    const Tensor matrix = ones({2, 3}, place);
    EXPECT_EQ(cat({none, matrix, none}, 1).sizes().str(), "[2, 3]");
    EXPECT_EQ(cat({none, none}).sizes().str(), "[0]");
    EXPECT_EQ(cat({zeros({2, 0}, place), matrix}, 1).sizes().str(), "[2, 3]");
    EXPECT_EQ(cat({zeros({0, 3}, place), zeros({0, 3}, place)}, 0).sizes().str(), "[0, 3]");
    EXPECT_EQ(cat({zeros({2, 0}, place), zeros({2, 0}, place)}, 0).sizes().str(), "[4, 0]");
    EXPECT_ERROR(cat({zeros({1, 0}, place), ones({2}, place)}), Error,
                 "Tensors must have same number of dimensions: got 2 and 1");
  }
}

// Any dtype that can hold the result, any strides, or none yet.
TEST(Cat, IntoAnOutput) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor a = tensor({1, 2, 3}).view({1, 3}).to(place);
    const Tensor b = tensor({4, 5, 6}).view({1, 3}).to(place);
    const std::vector<Tensor> both{a, b};
    Tensor out = zeros({2, 3}, {Dtype::float64, Device(place)});
    EXPECT_TRUE(cat_out(out, both).is(out));
    EXPECT_EQ(values<double>(out), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    Tensor turned = zeros({3, 2}, {Dtype::int64, Device(place)}).t();
    cat_out(turned, both);
    EXPECT_EQ(values<double>(turned.t()), (std::vector<double>{1, 4, 2, 5, 3, 6}));
    Tensor fresh = empty({0}, {Dtype::int64, Device(place)});
    cat_out(fresh, both, 1);
    EXPECT_EQ(fresh.sizes().str(), "[1, 6]");
    EXPECT_EQ(values<double>(fresh), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    Tensor narrow = zeros({2, 3}, {Dtype::bool_, Device(place)});
    EXPECT_ERROR(cat_out(narrow, both), TypeError,
                 "torch.cat(): input types can't be cast to the desired output type Bool");
    Tensor base = zeros({3, 3}, {Dtype::int64, Device(place)});
    Tensor target = base.narrow(0, 0, 2);
    const std::vector<Tensor> inside{a, base.narrow(0, 1, 1)};
    EXPECT_ERROR(cat_out(target, inside), Error, "Found overlap in input tensor 1");
    const std::vector<Tensor> beside{a, base.narrow(0, 2, 1)};
    cat_out(target, beside);
    EXPECT_EQ(values<double>(base), (std::vector<double>{1, 2, 3, 0, 0, 0, 0, 0, 0}));
  }
}

// Mismatches are refused in torch's words.
TEST(Cat, Errors) {
  NEEDS_DEVICES(1);
  const std::vector<Tensor> none;
  EXPECT_ERROR(cat(none), ValueError, "torch.cat(): expected a non-empty list of Tensors");
  EXPECT_ERROR(cat({ones({2}), scalar_tensor(1)}), Error,
               "zero-dimensional tensor (at position 1) cannot be concatenated");
  EXPECT_ERROR(cat({ones({2, 3}), ones({2, 4})}), Error,
               "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 "
               "for tensor number 1 in the list.");
  EXPECT_ERROR(cat({ones({2}), ones({2, 4})}), Error,
               "Tensors must have same number of dimensions: got 1 and 2");
  EXPECT_ERROR(cat({ones({2})}, 1), IndexError, "Dimension out of range");
  EXPECT_ERROR(cat({ones({2}), ones({2}, kDevice)}), Error,
               "Expected all tensors to be on the same device, but found at least two devices, cpu "
               "and cuda:0!");
}

// What comm packs small tensors with.
TEST(FlatCat, IsCatOfFlattenedTensors) {
  for (const Device& place : {Device(Device::Type::cpu), Device("cuda:0")}) {
    for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::complex64}) {
      std::vector<Tensor> tensors;
      for (int i = 0; i < 50; ++i) tensors.push_back(numbered({i % 3, 1 + i % 4}, dtype, i));
      tensors.push_back(numbered({4, 3}, dtype, 7).t());
      tensors.push_back(numbered({}, dtype, 8));
      tensors.push_back(numbered({0}, dtype, 9));
      std::vector<double> expected;
      std::vector<const Tensor*> parts;
      for (Tensor& tensor : tensors) {
        const Tensor shown = dtype == Dtype::complex64 ? tensor.real() : tensor;
        for (const double value : values<double>(shown.contiguous())) expected.push_back(value);
        tensor = tensor.is_contiguous() ? tensor.to(place) : tensor.t().to(place).t();
        parts.push_back(&tensor);
      }
      const Tensor flat = ops::flat_cat(parts).cpu();
      EXPECT_EQ(flat.dtype(), dtype);
      EXPECT_EQ(flat.dim(), 1);
      const Tensor shown = dtype == Dtype::complex64 ? flat.real().contiguous() : flat;
      EXPECT_EQ(values<double>(shown), expected);
    }
  }
}

TEST(FlatCat, Errors) {
  const Tensor a = zeros({2});
  const Tensor b = zeros({2}, Dtype::int32);
  const Tensor c = zeros({2}, "cuda:0");
  EXPECT_ERROR(ops::flat_cat({}), Error, "expected a non-empty list");
  EXPECT_ERROR(ops::flat_cat(std::array{&a, &b}), TypeError,
               "expected tensors of one dtype, but got float32 and int32");
  EXPECT_ERROR(ops::flat_cat(std::array{&a, &c}), Error, "same device");
}

// Exactly the bytes that were asked for are written, and no neighbour.
TEST(MoveBytes, OfAnySizeAndAlignment) {
  const Tensor source = numbered({4000}, Dtype::uint8, 1).to("cuda:0");
  for (const int begin : {0, 1, 2, 4, 16})
    for (const int size : {0, 1, 7, 64, 3000}) {
      const Tensor target = zeros({4000}, {Dtype::uint8, Device("cuda:0")});
      ops::move_bytes(target.narrow(0, begin, size), source.narrow(0, begin, size));
      const auto got = values<int>(target.to(Dtype::int32));
      const auto from = values<int>(source.to(Dtype::int32));
      for (int i = 0; i < 4000; ++i) {
        const bool inside = i >= begin && i < begin + size;
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(got[at], inside ? from[at] : 0) << begin << " " << size << " " << i;
      }
    }
}

TEST(Stack, AddsADimension) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor a = tensor({1, 2}).to(place);
    const Tensor b = tensor({3, 4}).to(place);
    EXPECT_EQ(values<double>(stack({a, b})), (std::vector<double>{1, 2, 3, 4}));
    EXPECT_EQ(values<double>(stack({a, b}, 1)), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_EQ(values<double>(stack({a, b}, -1)), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_EQ(stack({a, b, a}, 1).sizes().str(), "[2, 3]");
    const Tensor point = scalar_tensor(7, place);
    EXPECT_EQ(stack({point, point, point}).sizes().str(), "[3]");
    EXPECT_EQ(stack({zeros({0}, place), zeros({0}, place)}).sizes().str(), "[2, 0]");
    EXPECT_EQ(stack({a, a.to(Dtype::float32)}).dtype(), Dtype::float32);
    Tensor out = zeros({2, 2}, {Dtype::int64, Device(place)});
    const std::vector<Tensor> both{a, b};
    stack_out(out, both, 1);
    EXPECT_EQ(values<double>(out), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_ERROR(stack({a, point}), Error,
                 "stack expects each tensor to be equal size, but got [2] at entry 0 and [] at "
                 "entry 1");
    EXPECT_ERROR(stack({a, b}, 2), IndexError, "Dimension out of range");
  }
  const std::vector<Tensor> none;
  EXPECT_ERROR(stack(none), Error, "stack expects a non-empty TensorList");
}

// An output that is an input without elements grows, and still has nothing to give.
TEST(Cat, IntoAnEmptyInput) {
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    const Tensor x = ones({99}, Device(place));
    for (const Shape& none : {Shape{0}, Shape{0, 3}}) {
      Tensor a = zeros(none, Device(place));
      const Tensor with = none.size() == 1 ? x : x.view({33, 3});
      cat_out(a, std::vector<Tensor>{a, with, a}, 0);
      EXPECT_EQ(a.sizes(), with.sizes());
      EXPECT_EQ(values<float>(a), std::vector<float>(99, 1));
    }
  }
}

}  // namespace
}  // namespace ember::test
