// New tensors in outputs that exist: whose sizes, dtype and memory stay, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && (a == b).all().item<bool>();
}

struct Filling {
  std::string name;
  std::function<Tensor&(Tensor&)> into;  ///< four elements
  std::function<Tensor(const Options&)> made;
};

std::vector<Filling> fillings() {
  const auto seeded = [](const Options& o) {
    Generator generator(o.device.value_or(Device("cpu")));
    generator.manual_seed(7);
    return generator;
  };
  const auto of = [seeded](const Tensor& out) { return seeded({out.dtype(), out.device()}); };
  return {{"zeros", [](Tensor& out) -> Tensor& { return zeros_out(out, {4}); },
           [](const Options& o) { return zeros({4}, o); }},
          {"ones", [](Tensor& out) -> Tensor& { return ones_out(out, {4}); },
           [](const Options& o) { return ones({4}, o); }},
          {"full", [](Tensor& out) -> Tensor& { return full_out(out, {4}, 3.5); },
           [](const Options& o) { return full({4}, 3.5, o); }},
          {"arange", [](Tensor& out) -> Tensor& { return arange_out(out, 1, 3, 0.5); },
           [](const Options& o) { return arange(1, 3, 0.5, o); }},
          {"rand", [of](Tensor& out) -> Tensor& { return rand_out(out, {4}, of(out)); },
           [seeded](const Options& o) { return rand({4}, o, seeded(o)); }},
          {"randn", [of](Tensor& out) -> Tensor& { return randn_out(out, {4}, of(out)); },
           [seeded](const Options& o) { return randn({4}, o, seeded(o)); }},
          {"normal", [of](Tensor& out) -> Tensor& { return normal_out(out, 2, 3, {4}, of(out)); },
           [seeded](const Options& o) { return normal(2, 3, {4}, o, seeded(o)); }},
          {"randint", [of](Tensor& out) -> Tensor& { return randint_out(out, 5, 9, {4}, of(out)); },
           [seeded](const Options& o) { return randint(5, 9, {4}, o, seeded(o)); }},
          {"randperm", [of](Tensor& out) -> Tensor& { return randperm_out(out, 4, of(out)); },
           [seeded](const Options& o) { return randperm(4, o, seeded(o)); }}};
}

TEST(Outputs, HoldWhatANewTensorOfTheirDtypeWouldHold) {
  for (const char* place : {"cpu", "cuda:0"})
    for (const Dtype dtype : {Dtype::float32, Dtype::float64})
      for (const Filling& filling : fillings()) {
        const Options options{dtype, Device(place)};
        const Tensor wanted = filling.made(options);
        // Of no elements, of the right size, and with gaps.
        Tensor none = empty({0}, options);
        EXPECT_EQ(&filling.into(none), &none);
        EXPECT_TRUE(same(none, wanted)) << filling.name;
        Tensor four = empty({4}, options);
        const void* const memory = four.data_ptr();
        filling.into(four);
        EXPECT_TRUE(same(four, wanted)) << filling.name;
        EXPECT_EQ(four.data_ptr(), memory) << filling.name;
        const Tensor wide = full({8}, -1, options);
        Tensor strided = wide.slice(0, 0, 8, 2);
        filling.into(strided);
        EXPECT_TRUE(same(wide.slice(0, 0, 8, 2), wanted)) << filling.name;
        EXPECT_TRUE(same(wide.slice(0, 1, 8, 2), full({4}, -1, options))) << filling.name;
      }
}

TEST(Outputs, OfOtherSizesAreResized) {
  for (const Filling& filling : fillings()) {
    const Options options{Dtype::float64};
    for (const std::int64_t size : {3, 50}) {
      Tensor out = full({size}, 9, options);
      const auto storage = out.storage();
      filling.into(out);
      EXPECT_TRUE(same(out, filling.made(options))) << filling.name;
      EXPECT_EQ(out.storage() == storage, size == 50) << filling.name;
    }
  }
  Tensor grid = zeros({2, 3});
  arange_out(grid, 0, 6);
  EXPECT_EQ(grid.sizes(), Shape({2, 3})) << "as many elements in another shape";
}

// Each element with its own parameters: the same numbers as standard normal ones, stretched.
TEST(Normal, OfTensors) {
  for (const char* place : {"cpu", "cuda:0"}) {
    const Device device(place);
    const auto seeded = [&] {
      Generator made(device);
      made.manual_seed(5);
      return made;
    };
    const Tensor mean = arange(6, {Dtype::float32, device}).view({2, 3});
    const Tensor std = tensor({0.5, 2.0, 0.0}).to(device);
    const Tensor drawn = randn({2, 3}, device, seeded());
    const Tensor wanted = drawn.mul(std).add(mean);
    EXPECT_TRUE(same(normal(mean, std, seeded()), wanted));
    EXPECT_TRUE(same(normal(3, std, seeded()), randn({3}, device, seeded()).mul(std).add(3)));
    EXPECT_TRUE(same(normal(mean, 1, seeded()), drawn.add(mean)));
    Tensor out = empty({0}, device);
    EXPECT_TRUE(same(normal_out(out, mean, std, seeded()), wanted));
    Tensor own = mean.clone();
    EXPECT_TRUE(same(normal_out(own, own, std, seeded()), wanted)) << "into a parameter";
    EXPECT_EQ(normal(mean.to(Dtype::float64), std).dtype(), Dtype::float64);
    EXPECT_THROW(static_cast<void>(normal(mean, tensor({1.0, -1.0, 1.0}).to(device))), Error);
    EXPECT_THROW(static_cast<void>(normal(mean, std.mul(NAN))), Error);
    EXPECT_THROW(static_cast<void>(normal(mean, -1.0)), Error);
    EXPECT_THROW(static_cast<void>(normal(mean, std.to(Dtype::complex64))), Error);
    EXPECT_THROW(static_cast<void>(normal(mean.to(Dtype::int32), 1.0)), NotImplementedError);
    EXPECT_THROW(static_cast<void>(normal(mean, ones({2}, device))), Error);
    Tensor flags = empty({3}, {Dtype::float64, device});
    EXPECT_TRUE(same(bernoulli_out(flags, tensor({0.0, 1.0, 1.0}).to(device)),
                     tensor<double>({0, 1, 1}).to(device)));
    Tensor places = empty({4}, {Dtype::int64, device});
    EXPECT_TRUE(same(multinomial_out(places, tensor({0.0, 1.0}).to(device), 4, true),
                     ones({4}, {Dtype::int64, device})));
  }
}

TEST(Outputs, OfADtypeThatCannotHoldItAreRefusedAndStayAsTheyAre) {
  Tensor none = empty({0}, int8);
  EXPECT_THROW(full_out(none, {4}, 300), Error);
  EXPECT_THROW(rand_out(none, {4}), NotImplementedError);
  EXPECT_THROW(randperm_out(none, 300), Error);
  EXPECT_EQ(none.sizes(), Shape({0}));
  Tensor x = ones({2, 2});
  EXPECT_THROW(tril_out(none, x), Error);
  EXPECT_THROW(diag_out(none, x), Error);
  EXPECT_THROW(take_out(none, x, tensor({0, 1})), Error);
  EXPECT_EQ(none.sizes(), Shape({0}));
}

}  // namespace
}  // namespace ember::test
