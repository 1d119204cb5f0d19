// Products of matrices: right by the definition, and the same bits on the CPU and on the device.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "ember/linalg/product.h"
#include "ember/linalg/workspace.h"
#include "tests/linalg/support.h"
#include "tests/support/child.h"
#include "tests/support/hooked_driver.h"

namespace ember::test {
namespace {

/// Ulps between devices: sums of k numbers in another order.
double ulps(std::int64_t k) { return 8.0 * static_cast<double>(k + 4); }

std::string describe(Dtype dtype, std::int64_t n, std::int64_t k, std::int64_t m) {
  return std::string(dtype_name(dtype)) + " " + std::to_string(n) + "x" + std::to_string(k) + "x" +
         std::to_string(m);
}

struct Size {
  std::int64_t n, k, m;
};
// From 32 x 64 x 80 on they are about where devices leave a product to a library, or take other
// tiles: by the length of the sum, the number of tiles, and the narrowest result.
constexpr Size kSizes[] = {
    {0, 3, 2},     {3, 0, 2},      {2, 3, 0},      {1, 1, 1},       {2, 3, 4},
    {5, 7, 1},     {1, 9, 6},      {1, 300, 1},    {17, 33, 9},     {64, 64, 64},
    {97, 129, 65}, {401, 11, 13},  {7, 600, 390},  {1, 70'001, 1},  {32, 64, 80},
    {33, 65, 66},  {47, 128, 65},  {66, 129, 32},  {32, 256, 256},  {80, 257, 31},
    {15, 40, 70},  {176, 50, 192}, {177, 50, 192}, {210, 150, 180}, {40, 100, 40}};

/// Works when its thread's variables are destroyed. Made first, so that it dies last.
struct WorksAtTheEnd {
  std::function<void()> work;
  ~WorksAtTheEnd() { work(); }
};
/// What is kept for a thread has gone by then: the memory of own loops (linalg.own_loops), and
/// cuBLASLt's last plans.
void expect_products_at_the_end(Device device) {
  const Tensor a = matrix(Dtype::float32, {33, 65}, 1).to(device);
  const Tensor b = matrix(Dtype::float32, {65, 17}, 2).to(device);
  Tensor early;
  Tensor late;
  std::thread([&] {
    thread_local WorksAtTheEnd last;
    early = mm(a, b);
    last.work = [&] { late = mm(a, b); };
  }).join();
  ASSERT_TRUE(late.defined());
  expect_same(late, early.cpu(), 0, "late");
}
TEST(Products, MayBeComputedInTheLastDestructorsOfAThread) {
  expect_products_at_the_end(Device(Device::Type::cpu));
  NEEDS_DEVICES(1);
  expect_products_at_the_end(Device(kDevice));
}

class Matmul : public ::testing::TestWithParam<Dtype> {};

// Against sums of products in higher precision, by shape and dtype.
TEST_P(Matmul, FollowsTheDefinition) {
  for (const auto& [n, k, m] : kSizes) {
    const Tensor a = matrix(GetParam(), {n, k}, 1);
    const Tensor b = matrix(GetParam(), {k, m}, 2);
    const Tensor c = mm(a, b);
    ASSERT_EQ(c.sizes(), Shape({n, m}));
    ASSERT_EQ(c.dtype(), GetParam());
    if (!is_integral(GetParam()))
      expect_close(c, reference(a.unsqueeze(0), b.unsqueeze(0)), k, describe(GetParam(), n, k, m));
  }
}

TEST_P(Matmul, IsTheSameOnTheDevice) {
  NEEDS_DEVICES(1);
  for (const auto& [n, k, m] : kSizes) {
    const Tensor a = matrix(GetParam(), {n, k}, 1);
    const Tensor b = matrix(GetParam(), {k, m}, 2);
    const Tensor on_device = mm(a.to(kDevice), b.to(kDevice));
    if (cuda::is_simulated() || is_integral(GetParam()))
      expect_same(on_device, mm(a, b), 0, describe(GetParam(), n, k, m));
    else
      expect_close(on_device, reference(a.unsqueeze(0), b.unsqueeze(0)), k,
                   describe(GetParam(), n, k, m));
    EXPECT_EQ(on_device.device().str(), "cuda:0");
  }
}

/// The same matrix in every way that a view can lie.
std::vector<std::pair<std::string, Tensor>> layouts(const Tensor& plain) {
  const std::int64_t n = plain.size(0);
  const std::int64_t m = plain.size(1);
  const auto inside = [&](const Shape& sizes, auto&& view) {
    Tensor large = full(sizes, 7, {plain.dtype(), plain.device()});
    Tensor part = view(large);
    part.copy_(plain);
    return part;
  };
  return {
      {"plain", plain},
      {"transposed", inside({m, n}, [](Tensor& t) { return t.t(); })},
      {"wide rows", inside({n, m + 5}, [&](Tensor& t) { return t.narrow(1, 2, m); })},
      {"wide columns", inside({m, n + 3}, [&](Tensor& t) { return t.narrow(1, 1, n).t(); })},
      {"every other", inside({n, 2 * m}, [](Tensor& t) { return t.slice(1, 0, {}, 2); })},
      {"every other row", inside({2 * n, m}, [](Tensor& t) { return t.slice(0, 1, {}, 2); })},
      {"gaps both ways",
       inside({2 * n, 2 * m}, [](Tensor& t) { return t.slice(0, 0, {}, 2).slice(1, 1, {}, 2); })},
  };
}

/// Devices compute small products by a kernel of ember's, and others by a library.
constexpr std::pair<std::int64_t, std::int64_t> kSmallAndLarge[] = {{6, 9}, {70, 9}, {70, 19}};

// Transposed, sliced and expanded factors give what dense ones give.
TEST_P(Matmul, TakesEveryLayout) {
  for (const auto& [n, m] : kSmallAndLarge) {
    const std::vector<std::string> places = cuda::device_count() == 0
                                                ? std::vector<std::string>{"cpu"}
                                                : std::vector<std::string>{"cpu", kDevice};
    const Tensor a = matrix(GetParam(), {n, 5}, 3);
    const Tensor b = matrix(GetParam(), {5, m}, 4);
    const auto expected = reference(a.unsqueeze(0), b.unsqueeze(0));
    for (const std::string& place : places)
      for (const auto& [left_name, left] : layouts(a.to(Device(place))))
        for (const auto& [right_name, right] : layouts(b.to(Device(place)))) {
          const std::string what = place + " " + left_name + " @ " + right_name;
          if (is_integral(GetParam()) && item_size(GetParam()) == 1) continue;
          expect_close(mm(left, right), expected, 5, what);
          const Tensor blank = full({n, m}, 3, {GetParam(), Device(place)});
          for (auto& [out_name, out] : layouts(blank)) {
            mm_out(out, left, right);
            expect_close(out, expected, 5, what + " into " + out_name);
          }
        }
  }
}

// addmm and baddbmm: beta and alpha, and inputs that are broadcast.
TEST_P(Matmul, AddsToAnInput) {
  const bool integral = is_integral(GetParam());
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    const Device device(place);
    const Tensor a = matrix(GetParam(), {2, 4, 3}, 5);
    const Tensor b = matrix(GetParam(), {2, 3, 5}, 6);
    const Tensor x = a.to(device);
    const Tensor y = b.to(device);
    for (const Shape& sizes : {Shape({2, 4, 5}), Shape({5}), Shape({4, 1}), Shape({})}) {
      const Tensor input = matrix(GetParam(), sizes, 7);
      const Scalar alpha = integral ? Scalar(3) : Scalar(0.5);
      const Scalar beta = 2;
      const auto expected = reference(a, b, alpha.to<double>(), beta.to<double>(), input);
      if (GetParam() == Dtype::uint8 || GetParam() == Dtype::int8) continue;
      expect_close(baddbmm(input.to(device), x, y, beta, alpha), expected, 8, "baddbmm");
      Tensor target = input.to(device).expand({2, 4, 5}).contiguous();
      target.baddbmm_(x, y, beta, alpha);
      expect_close(target, expected, 8, "baddbmm_");
      const auto first = reference(a.narrow(0, 0, 1), b.narrow(0, 0, 1), alpha.to<double>(),
                                   beta.to<double>(), input.dim() == 3 ? input[0] : input);
      const Tensor own = (input.dim() == 3 ? input[0] : input).to(device);
      expect_close(addmm(own, x[0], y[0], beta, alpha), first, 8, "addmm");
      Tensor transposed = empty({5, 4}, {GetParam(), device}).t();
      addmm_out(transposed, own, x[0], y[0], beta, alpha);
      expect_close(transposed, first, 8, "addmm into transposed");
    }
  }
}

// addr is addmm of a column and a row, of promoted dtypes.
TEST(Products, AddsOuterProducts) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    const Device device(place);
    const Tensor x = tensor({1, 2, 3}).to(device);
    const Tensor y = tensor({0.5, -1.0}).to(device);
    const auto is_same = [](const Tensor& made, const Tensor& other) {
      return made.sizes() == other.sizes() && made.cpu().eq(other).all().item<bool>();
    };
    const Tensor expected = tensor({{2.0, -1.0}, {3.0, -3.0}, {4.0, -5.0}});
    EXPECT_TRUE(is_same(addr(ones({2}, device), x, y, 1, 2), expected));
    Tensor target = ones({3, 2}, device);
    EXPECT_TRUE(target.addr_(x, y, 1, 2).is(target));
    EXPECT_TRUE(is_same(target, expected));
    Tensor out = empty({2, 3}, device).t();
    addr_out(out, full({3, 2}, NAN, {Dtype::float32, device}), x, y, 0, 2);
    EXPECT_TRUE(is_same(out, expected.sub(1)));
    EXPECT_EQ(addr(zeros({}, {Dtype::int64, device}), x, x).dtype(), Dtype::int64);
  }
}

std::string dtype_of_case(const ::testing::TestParamInfo<Dtype>& info) {
  return dtype_name(info.param);
}
INSTANTIATE_TEST_SUITE_P(Dtypes, Matmul, ::testing::ValuesIn(dtypes_in(dtypes::any_number)),
                         dtype_of_case);

TEST(Products, IntegersWrapAround) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    const Device device(place);
    const Tensor a = full({2, 3}, 200, {Dtype::uint8, device});
    EXPECT_EQ(values<int>(mm(a, a.t())), std::vector<int>(4, (200 * 200 * 3) % 256));
    const std::int64_t large = std::int64_t{1} << 62;
    const Tensor b = tensor<std::int64_t>({large, large, large}).view({1, 3}).to(device);
    EXPECT_EQ(mm(b, full({3, 1}, 4, {Dtype::int64, device})).item<std::int64_t>(), 0);
    const Tensor c = tensor<std::int64_t>({(std::int64_t{1} << 53) + 1}).view({1, 1}).to(device);
    EXPECT_EQ(addmm(c, c, full({1, 1}, 1, {Dtype::int64, device}), 0, 3).item<std::int64_t>(),
              3 * ((std::int64_t{1} << 53) + 1));
    // Of more than a launch has for one product; and a batch.
    const Tensor wide = full({3, 70, 129}, 2, {Dtype::int32, device});
    EXPECT_EQ(values<int>(matmul(wide, wide.transpose(1, 2))),
              std::vector<int>(3 * 70 * 70, 2 * 2 * 129));
  }
}

TEST(Products, BetaZeroDoesNotLookAtTheInput) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    const Options options{float32, Device(place)};
    const Tensor bad = full({3, 4}, NAN, options);
    const Tensor c = addmm(bad, ones({3, 2}, options), ones({2, 4}, options), 0, 1);
    EXPECT_EQ(values<float>(c), std::vector<float>(12, 2.0F));
    Tensor column = full({3, 1}, NAN, options);
    mm_out(column, ones({3, 2}, options), ones({2, 1}, options));
    EXPECT_EQ(values<float>(column), std::vector<float>(3, 2.0F));
    Tensor row = full({1, 3}, NAN, options);
    mm_out(row, ones({1, 2}, options), ones({2, 3}, options));
    EXPECT_EQ(values<float>(row), std::vector<float>(3, 2.0F));
    // No sum to compute: what is left is beta times the input, and zero without one.
    const Tensor none = empty({3, 0}, options);
    EXPECT_EQ(values<float>(addmm(full({3, 4}, 5, options), none, empty({0, 4}, options), 2, 1)),
              std::vector<float>(12, 10.0F));
    EXPECT_EQ(values<float>(addmm(bad, none, empty({0, 4}, options), 0, 1)),
              std::vector<float>(12, 0.0F));
  }
}

// NaN and infinity stay in their rows, and reach no other.
TEST(Products, NansAndInfinitiesPass) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    for (const Dtype dtype : dtypes_in(dtypes::floating)) {
      const Tensor a = tensor<double>({1.0, INFINITY, NAN, 2.0, 0.0, 1.0})
                           .view({3, 2})
                           .to({dtype, Device(place)});
      const Tensor b = tensor({2.0, 1.0}).view({2, 1}).to({dtype, Device(place)});
      const auto c = values<double>(mm(a, b));
      EXPECT_TRUE(std::isinf(c[0])) << place << dtype_name(dtype);
      EXPECT_TRUE(std::isnan(c[1])) << place << dtype_name(dtype);
      EXPECT_EQ(c[2], 1.0) << place << dtype_name(dtype);
    }
  }
}

// Some libraries take a factor of NaN for zero, in products with vectors.
TEST(Products, FactorsThatAreNoNumbers) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    for (const Dtype dtype : {float16, bfloat16, float32, float64, complex64, complex128})
      for (const std::int64_t m : {1, 2, 33})
        for (const std::int64_t n : {1, 3, 40}) {
          const Options options{dtype, Device(place)};
          const Tensor c = ones({m, n}, options);
          const Tensor a = ones({m, 5}, options);
          const Tensor b = ones({5, n}, options);
          for (const auto& [beta, alpha] : {std::pair(NAN, 1.0F), {1.0F, NAN}, {NAN, NAN}}) {
            const Tensor sum = addmm(c, a, b, beta, alpha);
            EXPECT_TRUE(all(isnan(sum)).item<bool>())
                << place << " " << dtype_name(dtype) << " " << m << " x " << n << " " << beta;
            const Tensor gapped = ones({2 * m, n}, options).slice(0, 0, 2 * m, 2);
            gapped.addmm_(a, b, beta, alpha);
            EXPECT_TRUE(all(isnan(gapped)).item<bool>())
                << place << " " << dtype_name(dtype) << " " << m << " x " << n << " " << beta;
          }
        }
  }
}

TEST(Products, SixteenBitsAddUpAsFloat) {
  // 1 + 4096 * 2^-12: in half precision each of the small numbers would be lost.
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    for (const Dtype dtype : {float16, bfloat16}) {
      Tensor a = full({1, 4097}, 0x1p-12, float32);
      a[0].narrow(0, 0, 1).fill_(1);
      const Tensor b = ones({4097, 1});
      const Tensor c = mm(a.to({dtype, Device(place)}), b.to({dtype, Device(place)}));
      EXPECT_EQ(c.item<float>(), 2.0F) << place << " " << dtype_name(dtype);
    }
  }
}

// matmul of vectors, matrices and batches: the shapes that torch gives, and the values.
TEST(Products, VectorsAndBroadcasting) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    const Device device(place);
    const struct {
      Shape a, b, out;
    } cases[] = {
        {{3}, {3}, {}},
        {{0}, {0}, {}},
        {{2, 3}, {3}, {2}},
        {{3}, {3, 4}, {4}},
        {{2, 3}, {3, 4}, {2, 4}},
        {{5, 2, 3}, {3}, {5, 2}},
        {{5, 2, 3}, {3, 4}, {5, 2, 4}},
        {{3}, {5, 3, 4}, {5, 4}},
        {{2, 3}, {5, 3, 4}, {5, 2, 4}},
        {{5, 2, 3}, {5, 3, 4}, {5, 2, 4}},
        {{1, 2, 3}, {5, 3, 4}, {5, 2, 4}},
        {{6, 1, 2, 3}, {5, 3, 4}, {6, 5, 2, 4}},
        {{6, 1, 2, 3}, {1, 5, 3, 4}, {6, 5, 2, 4}},
        {{4, 1, 3, 1, 2, 3}, {1, 5, 1, 7, 3, 2}, {4, 5, 3, 7, 2, 2}},
        {{5, 1, 3}, {3, 4}, {5, 1, 4}},
        {{0, 2, 3}, {3, 4}, {0, 2, 4}},
        {{5, 2, 0}, {5, 0, 4}, {5, 2, 4}},
    };
    for (const auto& [left, right, sizes] : cases) {
      const std::string what = place + " " + left.str() + " @ " + right.str();
      const Tensor a = matrix(float64, left, 8);
      const Tensor b = matrix(float64, right, 9);
      const Tensor c = matmul(a.to(device), b.to(device));
      ASSERT_EQ(c.sizes().str(), sizes.str()) << what;
      if (place == kDevice) expect_same(c, matmul(a, b), ulps(a.size(-1)), what);
      // By the definition, on matrices that are expanded by hand.
      const Tensor x = a.dim() == 1 ? a.unsqueeze(0) : a;
      const Tensor y = b.dim() == 1 ? b.unsqueeze(1) : b;
      Shape batch = sizes;
      if (a.dim() > 1) batch.erase(batch.size() - 1);
      if (b.dim() > 1) batch.erase(batch.size() - 1);
      const std::int64_t products = element_count(batch);
      Shape xs = batch;
      xs.push_back(x.size(-2)), xs.push_back(x.size(-1));
      Shape ys = batch;
      ys.push_back(y.size(-2)), ys.push_back(y.size(-1));
      const auto expected = reference(x.expand(xs).reshape({products, x.size(-2), x.size(-1)}),
                                      y.expand(ys).reshape({products, y.size(-2), y.size(-1)}));
      expect_close(c, expected, x.size(-1), what);
      if (c.numel() == 0) continue;
      Tensor out = empty({0}, {float64, device});
      matmul_out(out, a.to(device), b.to(device));
      expect_close(out, expected, x.size(-1), what + " into out");
    }
  }
}

// As many products as devices compute at once, and more.
TEST_P(Matmul, TakesBatches) {
  NEEDS_DEVICES(1);
  if (is_integral(GetParam()) && item_size(GetParam()) == 1) return;  // they wrap around
  for (const std::int64_t count : {2, 33, 34, 150}) {
    const Tensor a = matrix(GetParam(), {count, 18, 40}, 12);
    const Tensor b = matrix(GetParam(), {count, 40, 21}, 13);
    expect_close(bmm(a.to(kDevice), b.to(kDevice)), reference(a, b), 40,
                 std::to_string(count) + " products");
  }
}

TEST(Products, BatchesOfStridedMatricesInFewCalls) {
  NEEDS_DEVICES(1);
  struct Counter : cuda::Observer {
    int launches = 0;
    void notice(const cuda::Activity& activity) noexcept override {
      if (activity.kind != cuda::Activity::Kind::kernel_launched) return;
      ++launches;
      EXPECT_EQ(activity.accesses.size(), 3U);
    }
  } counter;
  const Tensor heads = matrix(float32, {4, 6, 3, 5}, 10).to(kDevice);  // batch, time, head, width
  const Tensor q = heads.transpose(1, 2);                              // batch, head, time, width
  const Tensor flat = matrix(float32, {5, 7}, 11).to(kDevice);
  cuda::Observer* before = cuda::set_observer(&counter);
  const Tensor scores = matmul(q, q.transpose(-1, -2));
  const int attention = std::exchange(counter.launches, 0);
  const Tensor projected = matmul(heads, flat);
  const int projection = counter.launches;
  cuda::set_observer(before);
  EXPECT_LE(attention, 4);
  EXPECT_EQ(projection, 1);
  const Tensor plain = q.cpu().contiguous().view({12, 6, 5});
  expect_close(scores, reference(plain, plain.transpose(1, 2).contiguous()), 5, "scores");
}

TEST(Products, OutMayBeAnInput) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    const Tensor a = matrix(float32, {6, 6}, 12);
    const auto square = reference(a.unsqueeze(0), a.unsqueeze(0));
    Tensor same = a.to(Device(place), float32, false, true);
    mm_out(same, same, same);
    expect_close(same, square, 6, "mm into its input");
    Tensor self = a.to(Device(place), float32, false, true);
    self.addmm_(self, self.t(), 2, 1);
    expect_close(self, reference(a.unsqueeze(0), a.t().unsqueeze(0), 1, 2, a), 6, "addmm_");
    Tensor pair = empty({2, 6, 6}, {float32, Device(place)});
    pair[0].copy_(a);
    Tensor upper = pair[1];
    mm_out(upper, pair[0], pair[0]);
    expect_close(pair[1], square, 6, "into the other half");
    Tensor shifted = a.to(Device(place), float32, false, true);
    Tensor input = shifted.t();
    addmm_out(shifted, input, input, input);
    expect_close(shifted, reference(a.t().unsqueeze(0), a.t().unsqueeze(0), 1, 1, a.t()), 6,
                 "addmm onto its transposed input");
  }
}

// Complex alpha and beta.
TEST(Products, ComplexFactors) {
  for (const std::string place : {"cpu", kDevice}) {
    if (place != "cpu" && cuda::device_count() == 0) continue;
    for (const auto& [n, m] : kSmallAndLarge)
      for (const Dtype dtype : {complex64, complex128}) {
        const Tensor a = matrix(dtype, {n, 6}, 13);
        const Tensor b = matrix(dtype, {6, m}, 14);
        const Tensor c = matrix(dtype, {n, m}, 15);
        const std::complex<double> alpha{0.5, -1};
        const std::complex<double> beta{2, 0.25};
        const Device device(place);
        expect_close(addmm(c.to(device), a.to(device), b.to(device), beta, alpha),
                     reference(a.unsqueeze(0), b.unsqueeze(0), alpha, beta, c), 6, place);
      }
  }
}

// Threads that multiply at once get their own results.
TEST(Products, FromSeveralThreads) {
  NEEDS_DEVICES(1);
  const Tensor a = matrix(float32, {130, 70}, 16);
  const Tensor b = matrix(float32, {70, 90}, 17);
  const Tensor expected = mm(a, b);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        if (t % 2 == 0) {
          expect_same(mm(a, b), expected, 0, "a thread's");
        } else {
          const cuda::StreamGuard guard{cuda::Stream(kDevice)};
          const Tensor c = mm(a.to(kDevice), b.to(kDevice));
          expect_same(c, expected, ulps(70), "a stream's");
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// CUBLAS_WORKSPACE_CONFIG: sizes times counts, and zero for what cannot be read.
TEST(Workspace, Config) {
  EXPECT_EQ(linalg::parse_workspace_config(":4096:2:16:8"), (4096U * 2 + 16 * 8) * 1024);
  EXPECT_EQ(linalg::parse_workspace_config(":16:8"), 128U * 1024);
  for (const char* bad :
       {"4096:2", ":4096", ":a:2", ":1:2:", ":99999999999999999999:9", "::", ":-1:2"})
    EXPECT_EQ(linalg::parse_workspace_config(bad), 0U) << bad;
  EXPECT_EQ(linalg::parse_workspace_config(""), 0U);
}

// A reset in the middle of making one, at the last moment: what is made then is of the new epoch.
TEST(Workspace, IsNotLostInAReset) {
  NEEDS_CACHING();
  NEEDS_DEVICES(1);
  IN_CHILD({
    HookedDriver& driver = HookedDriver::install();
    cuda::init();
    // Its size depends on the device, whose properties are asked for once.
    driver.before_next(driver::Call::device_properties, [] { cuda::reset_device(0); });
    EXPECT_NE(linalg::workspace(kDevice).data, nullptr);
    EXPECT_FALSE(driver.waits());
    const linalg::Workspace space = linalg::workspace(kDevice);
    EXPECT_NE(space.data, nullptr);
    EXPECT_EQ(linalg::workspace(kDevice).data, space.data) << "kept";
    EXPECT_EQ(cuda::memory_counters(0).allocation.all.current, 1);
    cuda::clear_blas_workspaces();
    EXPECT_EQ(cuda::memory_allocated(0), 0U);
  });
}

// Beside resets nothing is lost, and a stream has one.
TEST(Workspace, BesideResets) {
  NEEDS_CACHING();
  NEEDS_DEVICES(1);
  IN_CHILD({
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        const cuda::DeviceGuard on(0);
        while (!stop) {
          try {
            EXPECT_GT(linalg::workspace(kDevice).bytes, 0U);
          } catch (const AcceleratorError& error) {
            EXPECT_EQ(error.code(), Code::context_is_destroyed) << error.what();
          }
        }
      });
    const int resets = cuda::is_simulated() ? 50 : 8;  // a second each on real devices
    for (int reset = 0; reset < resets; ++reset) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      cuda::reset_device(0);
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_NE(linalg::workspace(kDevice).data, nullptr);
    EXPECT_EQ(cuda::memory_counters(0).allocation.all.current, 1) << "all threads' stream has one";
    cuda::clear_blas_workspaces();
    EXPECT_EQ(cuda::memory_allocated(0), 0U);
  });
}

// clear_blas_workspaces() leaves nothing of it; simulated devices take none for a product.
TEST(Workspace, ComesFromTheAllocatorOnRealDevices) {
  NEEDS_CACHING();
  NEEDS_DEVICES(1);
  cuda::clear_blas_workspaces();
  const Tensor a = ones({300, 300}, kDevice);
  const std::size_t before = cuda::memory_allocated(kDevice);
  {
    const Tensor b = mm(a, a);
    if (cuda::is_simulated()) {
      EXPECT_EQ(cuda::memory_allocated(kDevice), before + 360448);
    }
  }
  cuda::clear_blas_workspaces();
  EXPECT_EQ(cuda::memory_allocated(kDevice), before);
}

}  // namespace
}  // namespace ember::test
