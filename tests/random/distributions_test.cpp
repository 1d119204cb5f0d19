// Which numbers elements take, on every device, and what is refused.
// Properties D1, D2 and D4.
#include "ember/random/distributions.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ember/random/draw_args.h"
#include "tests/ops/support.h"
#include "tests/random/generators.h"
#include "tests/random/statistics.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"

namespace ember::test {
namespace {

/// The place of element i among `count` in the documents' words, for k numbers per call.
PhiloxWords words_of(std::int64_t i, std::int64_t count, int k, std::uint64_t seed,
                     std::uint64_t offset, int* number) {
  const std::int64_t blocks = std::min<std::int64_t>((count + 255) / 256, kThreads / 256);
  const std::int64_t threads = blocks * 256;
  *number = static_cast<int>(i / threads % k);
  return philox_at(seed, static_cast<std::uint64_t>(i % threads),
                   offset / 4 + static_cast<std::uint64_t>(i / (threads * k)));
}

class Draws : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Device(place()).is_cuda()) NEEDS_DEVICES(1);
  }
  const char* place() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Places, Draws, ::testing::Values("cpu", "cuda:0"),
                         [](const auto& of) { return std::string(of.param).substr(0, 3); });

TEST_P(Draws, D1FourElementsMoveTheOffsetByFour) {
  Generator generator = generator_at(place(), 123);
  (void)rand({4}, place(), generator);
  EXPECT_EQ(generator.get_offset(), 4U);
  const auto next = values<float>(rand({4}, place(), generator));
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(next[i], draw::unit(philox_at(123, i, 1).w[0]));
}

TEST_P(Draws, D2EightElementsPerThreadMoveItByEight) {
  Generator generator = generator_at(place(), 123);
  (void)rand({8 * kThreads}, place(), generator);
  EXPECT_EQ(generator.get_offset(), 8U);
  (void)rand({8 * kThreads + 1}, place(), generator);
  EXPECT_EQ(generator.get_offset(), 20U);
  (void)rand({4 * kThreads}, place(), generator);
  EXPECT_EQ(generator.get_offset(), 24U);
  (void)rand({0, 3}, place(), generator);
  EXPECT_EQ(generator.get_offset(), 24U);
  // Two numbers per call.
  (void)rand({2 * kThreads}, {float64, place()}, generator);
  EXPECT_EQ(generator.get_offset(), 28U);
  (void)rand({2 * kThreads + 1}, {float64, place()}, generator);
  EXPECT_EQ(generator.get_offset(), 36U);
}

TEST_P(Draws, D4TheFirstOfFourForEveryThread) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, kThreads}) {
    for (const std::uint64_t offset : {0U, 4U, 40U}) {
      const auto got = values<float>(rand({count}, place(), generator_at(place(), 123, offset)));
      for (std::size_t i = 0; i < got.size(); ++i) {
        // One belongs to the other end of the interval.
        const float expected = draw::unit(philox_at(123, i, offset / 4).w[0]);
        ASSERT_EQ(got[i], expected == 1 ? 0 : expected) << i << " of " << count;
      }
    }
  }
}

TEST_P(Draws, EveryElementTakesItsOwnNumber) {
  const std::int64_t count = 5 * kThreads + 77;
  const auto got = values<float>(rand({count}, place(), generator_at(place(), 5, 16)));
  for (std::int64_t i = 0; i < count; ++i) {
    int number = 0;
    const PhiloxWords words = words_of(i, count, 4, 5, 16, &number);
    const float expected = draw::unit(words.w[number]);
    ASSERT_EQ(got[static_cast<std::size_t>(i)], expected == 1 ? 0 : expected) << i;
  }
  const auto wide = values<double>(rand({count}, {float64, place()}, generator_at(place(), 5, 16)));
  for (std::int64_t i = 0; i < count; ++i) {
    int number = 0;
    const PhiloxWords words = words_of(i, count, 2, 5, 16, &number);
    ASSERT_EQ(wide[static_cast<std::size_t>(i)],
              draw::unit(words.w[2 * number], words.w[2 * number + 1]))
        << i;
  }
}

/// What a functor gives as this file is compiled: for any x86-64, where fused multiply-add is a
/// call of the C library. The library's loops have it as an instruction.
template <template <class> class Functor, class T>
std::vector<double> drawn_here(std::int64_t count, const DrawParams& params) {
  using Draw = Functor<T>;
  const Draw draw(params);
  std::vector<double> list;
  for (std::int64_t i = 0; i < count; ++i) {
    int number = 0;
    T numbers[Draw::kNumbers];
    draw(words_of(i, count, Draw::kNumbers, 21, 0, &number), numbers);
    list.push_back(static_cast<double>(numbers[number]));
  }
  return list;
}

template <class T>
void expect_drawn_here(const char* place) {
  const std::int64_t count = 50001;
  const Options options(dtype_of<T>, Device(place));
  const auto fill = [&](auto&& with) {
    const Tensor made = empty({count}, options);
    with(made, generator_at(place, 21));
    return values<double>(made);
  };
  DrawParams params;
  params.a = -3;
  params.b = 5;
  EXPECT_EQ(fill([](const Tensor& t, const Generator& g) { uniform_(t, -3, 5, g); }),
            (drawn_here<draw::Uniform, T>(count, params)));
  params.a = 7;
  params.b = 0.3;
  EXPECT_EQ(fill([](const Tensor& t, const Generator& g) { normal_(t, 7, 0.3, g); }),
            (drawn_here<draw::Normal, T>(count, params)));
  params.a = 1 / 1.7;
  EXPECT_EQ(fill([](const Tensor& t, const Generator& g) { exponential_(t, 1.7, g); }),
            (drawn_here<draw::Exponential, T>(count, params)));
}

TEST_P(Draws, AreTheSameBitsInEveryEncoding) {
  expect_drawn_here<float>(place());
  expect_drawn_here<double>(place());
  expect_drawn_here<Half>(place());
  expect_drawn_here<BFloat16>(place());
}

TEST_P(Draws, NoNumberIsUsedTwice) {
  // Consecutive draws of any width never meet.
  Generator generator = generator_at(place(), 1);
  std::vector<double> all;
  for (int i = 0; i < 3; ++i)
    for (const double x : values<double>(rand({3 * kThreads}, {float64, place()}, generator)))
      all.push_back(x);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

/// Every distribution, as a function that fills a tensor.
struct Filler {
  const char* name;
  DtypeSet dtypes;
  std::function<void(const Tensor&, const Generator&)> fill;
};
const DtypeSet kDrawn = dtypes::real_or_bool;
std::vector<Filler> fillers() {
  return {
      {"uniform", dtypes::floating_complex,
       [](const Tensor& t, const Generator& g) { uniform_(t, 0, 1, g); }},
      {"uniform from -3 to 5", dtypes::floating_complex,
       [](const Tensor& t, const Generator& g) { uniform_(t, -3, 5, g); }},
      {"normal", dtypes::floating_complex,
       [](const Tensor& t, const Generator& g) { normal_(t, 0, 1, g); }},
      {"normal around 7", dtypes::floating_complex,
       [](const Tensor& t, const Generator& g) { normal_(t, 7, 0.3, g); }},
      {"exponential", dtypes::floating,
       [](const Tensor& t, const Generator& g) { exponential_(t, 1.5, g); }},
      {"bernoulli", kDrawn, [](const Tensor& t, const Generator& g) { bernoulli_(t, 0.3, g); }},
      {"bernoulli of tensors", kDrawn,
       [](const Tensor& t, const Generator& g) {
         const Tensor p = arange(0, t.numel())
                              .to(float64)
                              .div(static_cast<double>(std::max<std::int64_t>(t.numel(), 1)));
         bernoulli_(t, p.to(t.device()).view(t.sizes()), g);
       }},
      {"two values", kDrawn, [](const Tensor& t, const Generator& g) { random_(t, 0, 2, g); }},
      {"all of the dtype", kDrawn, [](const Tensor& t, const Generator& g) { random_(t, g); }},
      {"many values", only(Dtype::int32) | only(Dtype::int64) | only(Dtype::float64),
       [](const Tensor& t, const Generator& g) { random_(t, -1000, 99999, g); }},
      {"most values", only(Dtype::int64),
       [](const Tensor& t, const Generator& g) {
         random_(t, std::numeric_limits<std::int64_t>::min(),
                 std::numeric_limits<std::int64_t>::max(), g);
       }},
      {"every value", only(Dtype::int64),
       [](const Tensor& t, const Generator& g) {
         random_(t, std::numeric_limits<std::int64_t>::min(), std::nullopt, g);
       }},
  };
}

TEST(DrawsEverywhere, AreTheSameBits) {
  NEEDS_DEVICES(1);
  for (const Filler& filler : fillers())
    for (const Dtype dtype : dtypes_in(filler.dtypes))
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{257},
                                       std::int64_t{70001}, 2 * kThreads + 3}) {
        const Tensor here = empty({count}, dtype);
        const Tensor there = empty({count}, {dtype, kDevice});
        const Generator own = generator_at("cpu", 99, 8);
        const Generator theirs = generator_at(kDevice, 99, 8);
        filler.fill(here, own);
        filler.fill(there, theirs);
        EXPECT_EQ(own.get_offset(), theirs.get_offset());
        const Tensor back = there.cpu();
        if (count == 0) continue;
        ASSERT_EQ(std::memcmp(here.data_ptr(), back.data_ptr(), here.nbytes()), 0)
            << filler.name << " of " << count << " " << dtype_name(dtype);
      }
}

// An element takes the number of its index, however the tensor lies.
TEST_P(Draws, StridesDoNotMatter) {
  for (const Filler& filler : fillers())
    for (const Dtype dtype : dtypes_in(filler.dtypes)) {
      const Options options(dtype, Device(place()));
      const Tensor rows = empty({30, 7}, options);
      const Tensor columns = empty({7, 30}, options).t();
      const Tensor gaps = zeros({30, 14}, options).slice(1, 1, 14, 2);
      for (const Tensor& tensor : {rows, columns, gaps})
        filler.fill(tensor, generator_at(place(), 6));
      EXPECT_EQ(values<double>(rows.is_complex() ? rows.view_as_real() : rows),
                values<double>(rows.is_complex() ? columns.contiguous().view_as_real() : columns))
          << filler.name << " " << dtype_name(dtype);
      EXPECT_EQ(values<double>(rows.is_complex() ? rows.view_as_real() : rows),
                values<double>(rows.is_complex() ? gaps.contiguous().view_as_real() : gaps))
          << filler.name << " " << dtype_name(dtype);
    }
}

// multinomial with replacement: shares within their standard error.
TEST_P(Draws, CategoriesByTheirWeights) {
  const std::vector<double> weights = {1, 2, 0, 5};
  const Tensor p = tensor(weights).to(Options(float32, Device(place())));
  const auto expect_shares = [&](const Tensor& drawn) {
    std::vector<double> counts(weights.size());
    for (const std::int64_t category : values<std::int64_t>(drawn))
      counts.at(static_cast<std::size_t>(category)) += 1;
    const auto total = static_cast<double>(drawn.numel());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double share = weights[i] / 8;
      EXPECT_LE(std::abs(counts[i] - total * share),
                kNormalLimit * std::sqrt(total * share * (1 - share)));
    }
  };
  Generator generator = generator_at(place(), 6);
  expect_shares(multinomial(p, 40000, true, generator));
  const Tensor rows = p.unsqueeze(0).expand({20000, 4});
  expect_shares(multinomial(rows, 1, false, generator));
  const Tensor pairs = multinomial(rows, 2, false, generator);
  EXPECT_EQ(pairs.sizes(), Shape({20000, 2}));
  expect_shares(pairs.select(1, 0));
  EXPECT_FALSE((pairs.select(1, 0) == pairs.select(1, 1)).any().item<bool>());
  EXPECT_EQ(multinomial(rows, 3, true, generator).sizes(), Shape({20000, 3}));
  for (const Dtype dtype : {float16, bfloat16, float64}) {
    EXPECT_EQ(values<std::int64_t>(multinomial(p.to(dtype).slice(0, 3), 1)),
              std::vector<std::int64_t>{0});
  }
  // Four weights take one number each, as a uniform tensor of four does.
  generator = generator_at(place(), 6);
  const std::uint64_t before = generator.get_offset();
  (void)multinomial(ones({4}, place()), 4, false, generator);
  EXPECT_EQ(generator.get_offset(), before + 4);
}

// Weights near the largest and the smallest float, beside each other too.
TEST_P(Draws, WeightsOfAnySize) {
  Generator generator = generator_at(place(), 7);
  const Tensor large = full({2}, 1e38, Options(float32, Device(place())));
  const auto ones_drawn = multinomial(large, 20000, true, generator).sum().item<double>();
  EXPECT_LE(std::abs(ones_drawn - 10000), kNormalLimit * std::sqrt(20000 * 0.25));
  // The smallest number there is, beside zero: only the others can be drawn.
  const float least = std::numeric_limits<float>::denorm_min();
  const Tensor small = tensor({0.0F, least, least}, place()).unsqueeze(0).expand({2000, 3});
  EXPECT_TRUE((multinomial(small, 1, false, generator) > 0).all().item<bool>());
  EXPECT_TRUE((multinomial(small, 2, false, generator) > 0).all().item<bool>());
  const Tensor apart = tensor({0.0F, least, 1.0F}, place()).unsqueeze(0).expand({2000, 3});
  EXPECT_TRUE((multinomial(apart, 2, false, generator) > 0).all().item<bool>());
}

TEST_P(Draws, WithReplacementWeightsOfAnySize) {
  Generator generator = generator_at(place(), 8);
  const auto drawn = [&](const Tensor& weights, std::int64_t count) {
    return values<std::int64_t>(multinomial(weights.to(Device(place())), count, true, generator));
  };
  const auto share_of = [](const std::vector<std::int64_t>& made, std::int64_t category) {
    return static_cast<double>(std::count(made.begin(), made.end(), category)) /
           static_cast<double>(made.size());
  };
  // Their sum is no number, or all of them are the smallest there are.
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr float kSmall = std::numeric_limits<float>::denorm_min();
  for (const Tensor& weights :
       {tensor<double>({kMost, 0.0, kMost}), tensor<double>({kLeast, 0.0, kLeast}),
        tensor({kSmall, 0.0F, kSmall}), tensor({1.0F, 0.0F, 1.0F}).to(float16),
        tensor({1.0F, 0.0F, 1.0F}).to(bfloat16)}) {
    const auto made = drawn(weights, 20000);
    EXPECT_EQ(share_of(made, 1), 0) << dtype_name(weights.dtype());
    EXPECT_LE(std::abs(share_of(made, 0) - 0.5), kNormalLimit * std::sqrt(0.25 / 20000));
  }
  // One category of many, at either end, and alone.
  for (const std::int64_t at : {0, 1, 4999, 9999}) {
    Tensor one = zeros({10000});
    one[at].fill_(1e-30);
    for (const std::int64_t category : drawn(one, 100)) EXPECT_EQ(category, at);
  }
  EXPECT_EQ(drawn(tensor({3.0F}), 3), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(drawn(tensor<double>({kMost, kLeast}), 1000), std::vector<std::int64_t>(1000, 0));
  // Rows are drawn for themselves, whatever the strides.
  const Tensor rows = tensor({1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F, 5.0F, 0.0F}).view({3, 3});
  EXPECT_EQ(drawn(rows, 2), (std::vector<std::int64_t>{0, 0, 2, 2, 1, 1}));
  EXPECT_EQ(drawn(rows.t(), 2), (std::vector<std::int64_t>{0, 0, 2, 2, 1, 1}));
  EXPECT_EQ(drawn(rows.select(0, 2).expand({2, 3}), 1), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(drawn(rows.select(1, 1), 2), (std::vector<std::int64_t>{2, 2}));
}

TEST_P(Draws, WithReplacementManyCategoriesInTheirShares) {
  // Shares of 1 to 1000 parts, in 64 classes: chi-squared, of a row and of many.
  const std::int64_t categories = 3000;
  const Tensor weights = arange(categories).remainder(1000).add(1).to(float64);
  for (const std::int64_t rows : {1, 50}) {
    Generator generator = generator_at(place(), 9);
    const Tensor p = weights.to(Device(place())).expand({rows, categories});
    const auto made = values<std::int64_t>(multinomial(p, 200000 / rows, true, generator));
    std::vector<double> counts(64);
    std::vector<double> expected(64);
    const auto each = values<double>(weights);
    double sum = 0;
    for (const double weight : each) sum += weight;
    for (std::size_t i = 0; i < each.size(); ++i) expected[i % 64] += each[i] / sum * 200000;
    for (const std::int64_t category : made)
      counts.at(static_cast<std::size_t>(category % 64)) += 1;
    double chi = 0;
    for (std::size_t i = 0; i < counts.size(); ++i)
      chi += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    EXPECT_LT(std::abs(chi - 63) / std::sqrt(2 * 63.0), kNormalLimit) << rows;
  }
}

TEST(Categories, AreTheSameOnEveryDevice) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : {float16, float32, float64}) {
    for (const std::int64_t categories : {1, 2, 31, 1000, 100003}) {
      const Tensor weights =
          rand({2, categories}, float32, generator_at("cpu", 21)).to(dtype) + 0.001;
      const Tensor here = multinomial(weights, 3000, true, generator_at("cpu", 22));
      const Tensor there = multinomial(weights.to(kDevice), 3000, true, generator_at(kDevice, 22));
      expect_same(there, here, 0,
                  std::string(dtype_name(dtype)) + " " + std::to_string(categories));
    }
  }
}

TEST(Categories, WithReplacementCostNoWaitAndLittleMemory) {
  NEEDS_DEVICES(1);
  NEEDS_CACHING();
  const Tensor weights = ones({4096}, kDevice);
  (void)multinomial(weights, 2, true);  // whatever is made at the first use
  cuda::synchronize(0);
  cuda::reset_peak_memory_stats(0);
  const std::size_t before = cuda::memory_allocated(0);
  const cuda::Stream side(0);
  Tensor drawn;
  {
    const cuda::StreamGuard guard(side);
    Gate gate(side);
    drawn = multinomial(weights, 65536, true);  // returns while nothing of it can have been done
    EXPECT_FALSE(side.query());
  }
  side.synchronize();
  EXPECT_TRUE(((drawn >= 0) & (drawn < 4096)).all().item<bool>());
  EXPECT_LE(cuda::max_memory_allocated(0) - before, 2U << 20);
}

/// Expects drawing by these weights to fault device 0, with a text that names multinomial.
void expect_fault(const Tensor& weights, const char* text) {
  const Tensor there = weights.to(kDevice);
  try {
    (void)multinomial(there, 3, true);
    cuda::synchronize(0);
    ADD_FAILURE() << "expected a fault: " << text;
  } catch (const AcceleratorError& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.error_code(), 710) << what;
    EXPECT_NE(what.find("device-side assert triggered"), std::string::npos) << what;
    EXPECT_NE(what.find("multinomial"), std::string::npos) << what;
    if (cuda::is_simulated()) {
      EXPECT_NE(what.find(text), std::string::npos) << what;
    }
  }
}

TEST(Categories, WithReplacementBadWeightsAreRefused) {
  NEEDS_DEVICES(1);
  const char* const element =
      "invalid multinomial distribution (encountering probability entry < 0)";
  const char* const sum = "invalid multinomial distribution (sum of probabilities <= 0)";
  const auto refused = [](const Tensor& weights, const char* text) {
    const Generator generator = generator_at("cpu", 3);
    EXPECT_ERROR(multinomial(weights, 3, true, generator), Error, text);
    EXPECT_EQ(generator.get_offset(), 0U);  // nothing was drawn
  };
  refused(tensor({1.0F, -1.0F, 2.0F}), element);
  refused(tensor<double>({1.0, NAN}), element);
  refused(tensor({INFINITY, 1.0F}), element);
  refused(tensor({1.0F, INFINITY}).to(float16), element);
  refused(zeros({3}), sum);
  refused(tensor({1.0F, 0.0F, 0.0F, 0.0F}).view({2, 2}), sum);
  IN_CHILD(expect_fault(tensor({1.0F, -1.0F, 2.0F}), element));
  IN_CHILD(expect_fault(tensor<double>({1.0, NAN}), element));
  IN_CHILD(expect_fault(tensor({1.0F, INFINITY}), element));
  IN_CHILD(expect_fault(tensor({1.0F, 0.0F, 0.0F, 0.0F}).view({2, 2}), sum));
}

// Shapes, dtypes and weights that multinomial refuses.
TEST_P(Draws, WeightsThatNothingCanBeDrawnBy) {
  const Tensor p = tensor({1.0F, 0.0F, 2.0F}, place());
  EXPECT_ERROR(multinomial(p.view({1, 1, 3}), 1), Error, "prob_dist must be 1 or 2 dim");
  EXPECT_ERROR(multinomial(p.to(int64), 1), Error,
               "multinomial only supports floating-point dtypes for input, got: Long");
  EXPECT_ERROR(multinomial(p, 0), Error, "cannot sample n_sample <= 0 samples");
  EXPECT_ERROR(multinomial(p, 4), Error,
               "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  EXPECT_ERROR(multinomial(p, 3), Error, "not enough non-negative category to sample");
  EXPECT_ERROR(multinomial(p.neg(), 1), Error, "either `inf`, `nan` or element < 0");
  EXPECT_ERROR(multinomial(p / 0, 1), Error, "either `inf`, `nan` or element < 0");
  EXPECT_ERROR(multinomial(zeros({2, 3}, place()), 1), Error, "sum of probabilities <= 0");
  EXPECT_ERROR(multinomial(zeros({2, 0}, place()), 3, true), Error, "sum of probabilities <= 0");
  EXPECT_ERROR(multinomial(zeros({0}, place()), 3, true), Error, "sum of probabilities <= 0");
  EXPECT_EQ(multinomial(zeros({0, 3}, place()), 2).sizes(), Shape({0, 2}));
}

// Shape, dtype and device of every factory and its *_like; each call draws other numbers.
TEST_P(Draws, FactoriesMakeWhatTheySay) {
  const Tensor a = rand({2, 3}, {float64, place()});
  EXPECT_EQ(a.sizes(), (Shape{2, 3}));
  EXPECT_EQ(a.dtype(), float64);
  EXPECT_EQ(a.device(), Device(place()));
  EXPECT_EQ(rand({}, place()).dim(), 0);
  EXPECT_EQ(randn_like(a).dtype(), float64);
  EXPECT_EQ(rand_like(a, float32).dtype(), float32);
  EXPECT_EQ(rand_like(a).device(), a.device());
  EXPECT_EQ(randint(10, {4}, place()).dtype(), int64);
  EXPECT_EQ(randint(2, 10, {4}, {int32, place()}).dtype(), int32);
  EXPECT_EQ(randint_like(a, 5).dtype(), float64);
  EXPECT_EQ(bernoulli(rand({5}, place())).sizes(), (Shape{5}));
  EXPECT_EQ(bernoulli(a, 0.5).sizes(), (Shape{2, 3}));
  EXPECT_EQ(normal(1, 2, {3}, place()).numel(), 3);
  EXPECT_EQ(randn({2}, {complex64, place()}).dtype(), complex64);
  // Every call draws other numbers.
  EXPECT_NE(values<float>(rand({9}, place())), values<float>(rand({9}, place())));
}

// x.uniform_() and the others draw what the functions draw.
TEST_P(Draws, MembersDoTheSame) {
  const Generator g = generator_at(place(), 31);
  const Tensor start = zeros({50}, place());
  const Tensor p = full({50}, 0.5, place());
  const auto same = [&](const Tensor& member, auto&& function) {
    Tensor other = zeros({50}, place());
    function(other, generator_at(place(), 31));
    EXPECT_EQ(values<float>(member), values<float>(other));
  };
  const auto fresh = [&] { return generator_at(place(), 31); };
  same(start.clone().uniform_(-1, 1, fresh()),
       [](const Tensor& t, const Generator& own) { uniform_(t, -1, 1, own); });
  same(start.clone().normal_(2, 3, fresh()),
       [](const Tensor& t, const Generator& own) { normal_(t, 2, 3, own); });
  same(start.clone().exponential_(2, fresh()),
       [](const Tensor& t, const Generator& own) { exponential_(t, 2, own); });
  same(start.clone().bernoulli_(0.5, fresh()),
       [](const Tensor& t, const Generator& own) { bernoulli_(t, 0.5, own); });
  same(start.clone().bernoulli_(p, fresh()),
       [&](const Tensor& t, const Generator& own) { bernoulli_(t, p, own); });
  same(p.bernoulli(fresh()), [&](const Tensor& t, const Generator& own) { bernoulli_(t, p, own); });
  same(start.clone().random_(fresh()),
       [](const Tensor& t, const Generator& own) { random_(t, own); });
  same(start.clone().random_(9, fresh()),
       [](const Tensor& t, const Generator& own) { random_(t, 9, own); });
  same(start.clone().random_(-9, 9, fresh()),
       [](const Tensor& t, const Generator& own) { random_(t, -9, 9, own); });
  // Without a generator, from the default one of the tensor's device.
  default_generator(Device(place())).manual_seed(31);
  same(start.clone().uniform_(),
       [](const Tensor& t, const Generator& own) { uniform_(t, 0, 1, own); });
  EXPECT_EQ(default_generator(Device(place())).get_offset(), 4U);
  start.clone().normal_().exponential_().bernoulli_().bernoulli_(p).random_().random_(5).random_(2,
                                                                                                 4);
  EXPECT_EQ(default_generator(Device(place())).get_offset(), 32U);
  EXPECT_EQ(p.bernoulli().sizes(), p.sizes());
}

// ---- What is refused.

TEST_P(Draws, RefusesWhatMakesNoSense) {
  const Generator g = generator_at(place(), 1);
  const Tensor t = zeros({4}, place());
  const Tensor integers = zeros({4}, {int64, place()});
  const Tensor bytes = zeros({4}, {uint8, place()});
  const Tensor complex = zeros({4}, {complex64, place()});
  EXPECT_ERROR(uniform_(t, 1, 0, g), Error,
               "uniform_ expects to return a [from, to) range, but found from=1 > to=0");
  EXPECT_ERROR(uniform_(t, -3e38, 3e38, g), Error, "uniform_ expects to-from <=");
  EXPECT_ERROR(uniform_(t, 0, 1e39, g), Error, "to is out of bounds for Float");
  EXPECT_ERROR(uniform_(t, NAN, 1, g), Error, "from is out of bounds for Float");
  EXPECT_ERROR(uniform_(integers, 0, 1, g), NotImplementedError,
               "\"check_uniform_bounds\" not implemented for 'Long'");
  EXPECT_ERROR(rand({3}, {int64, place()}), NotImplementedError, "not implemented for 'Long'");
  EXPECT_ERROR(normal_(t, 0, -1, g), Error, "normal expects std >= 0.0, but found std -1");
  EXPECT_ERROR(normal_(t, 0, NAN, g), Error, "normal expects std >= 0.0");
  EXPECT_ERROR(normal_(integers, 0, 1, g), NotImplementedError, "not implemented for 'Long'");
  EXPECT_ERROR(exponential_(t, 0, g), Error,
               "exponential_ expects lambda > 0.0, but found lambda=0");
  EXPECT_ERROR(exponential_(integers, 1, g), Error, "dtype must be a floating point");
  EXPECT_ERROR(bernoulli_(t, 2, g), Error, "bernoulli_ expects p to be in [0, 1], but got p=2");
  EXPECT_ERROR(bernoulli_(t, NAN, g), Error, "bernoulli_ expects p to be in [0, 1], but got p=nan");
  EXPECT_ERROR(bernoulli_(complex, 0.5, g), NotImplementedError,
               "not implemented for 'ComplexFloat'");
  EXPECT_ERROR(bernoulli_(t, zeros({4}, {int64, place()}), g), NotImplementedError,
               "not implemented for 'Long'");
  EXPECT_ERROR(bernoulli_(t, zeros({3}, place()), g), Error, "");
  EXPECT_ERROR(random_(integers, 5, 5, g), Error,
               "random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
  EXPECT_ERROR(random_(bytes, -1, 5, g), Error, "from is out of bounds for Byte");
  EXPECT_ERROR(random_(bytes, 0, 257, g), Error, "to - 1 is out of bounds for Byte");
  EXPECT_ERROR(random_(t, 0, (1 << 24) + 2, g), Error, "to - 1 is out of bounds [-(2^24), 2^24]");
  EXPECT_ERROR(random_(complex, 0, 2, g), NotImplementedError,
               "not implemented for 'ComplexFloat'");
  EXPECT_ERROR(randint(0, {3}, place()), Error, "random_ expects 'from' to be less than 'to'");
  EXPECT_ERROR(rand({-1}, place()), ValueError, "");
  const Tensor shared = zeros({1}, place()).expand({4});
  EXPECT_ERROR(uniform_(shared, 0, 1, g), Error, "more than one element");
  EXPECT_EQ(g.get_offset(), 0U) << "an error drew numbers";
  EXPECT_EQ(values<float>(t), std::vector<float>(4, 0.0F));
}

TEST(DrawsOnTheCpu, RefuseProbabilitiesThatAreNone) {
  Tensor t = full({3}, 7.0);
  EXPECT_ERROR(bernoulli_(t, tensor<double>({0.5, 1.5, 0.5})), Error,
               "bernoulli expects p to be in [0, 1], but got p=1.5");
  EXPECT_ERROR(bernoulli_(t, tensor<double>({0.5, NAN, 0.5})), Error, "for element 1");
  EXPECT_EQ(values<float>(t), std::vector<float>(3, 7.0F));
}

}  // namespace
}  // namespace ember::test
