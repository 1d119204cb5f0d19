// Softmax: against sums of exponentials in long double, and the device against the CPU.
#include "ember/ops/softmax.h"

#include "tests/ops/support.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

Tensor scores(Dtype dtype, const Shape& sizes) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < element_count(sizes); ++i)
    numbers.push_back(static_cast<double>((i * 7919 + i * i % 31) % 201 - 100) / 16);
  return tensor(numbers).reshape(sizes).to(dtype);
}

/// Expects softmax and log_softmax of `x` to be right.
void expect_softmax(const Tensor& x, const Tensor& place, int dim, const std::string& what) {
  const Tensor moved = x.dim() == 0 ? x : x.transpose(dim, -1).contiguous();
  const auto in = values<double>(moved);
  const Tensor made = softmax(place, dim);
  const Tensor logs = log_softmax(place, dim);
  ASSERT_EQ(made.dtype(), x.dtype());
  ASSERT_EQ(made.sizes(), x.sizes());
  const auto back = [&](const Tensor& y) {
    return values<double>(y.dim() == 0 ? y : y.cpu().transpose(dim, -1).contiguous());
  };
  const auto got = back(made);
  const auto got_logs = back(logs);
  const auto row = static_cast<std::size_t>(x.dim() == 0 ? 1 : x.size(dim));
  const double unit = epsilon(x.dtype());
  for (std::size_t first = 0; first < in.size(); first += row) {
    long double most = -INFINITY;
    for (std::size_t i = first; i < first + row; ++i) most = std::max<long double>(most, in[i]);
    long double sum = 0;
    for (std::size_t i = first; i < first + row; ++i) sum += std::exp(in[i] - most);
    for (std::size_t i = first; i < first + row; ++i) {
      const auto expected = static_cast<double>(std::exp(in[i] - most) / sum);
      const auto log_expected = static_cast<double>(in[i] - most - std::log(sum));
      // The smallest halves have fewer digits.
      ASSERT_NEAR(got[i], expected, 16 * unit * expected + (unit > 1e-5 ? 1e-7 : 1e-300)) << what;
      ASSERT_NEAR(got_logs[i], log_expected, 16 * unit * (1 + std::abs(log_expected))) << what;
    }
  }
}

// Rows of every length and columns, against sums in double.
TEST(Softmax, OfAllShapes) {
  NEEDS_DEVICES(1);
  struct Case {
    Shape sizes;
    std::vector<int> dims;
  };
  const std::vector<Case> cases{{{}, {0, -1}},
                                {{1}, {0}},
                                {{7}, {0}},
                                {{1024}, {-1}},
                                {{70001}, {0}},
                                {{33, 64}, {0, 1}},
                                {{5, 4096}, {1}},
                                {{3, 16384}, {1}},
                                {{2, 16400}, {1}},
                                {{2, 5001}, {1}},
                                {{130, 17}, {0, 1}},
                                {{300, 5}, {0}},
                                {{4, 9, 33}, {0, 1, 2}},
                                {{2, 3, 1, 5}, {1, 2}},
                                {{0, 3}, {0, 1}},
                                {{3, 0}, {0, 1}}};
  for (const Case& one : cases)
    for (const Dtype dtype : dtypes_in(dtypes::floating)) {
      const Tensor x = scores(dtype, one.sizes);
      const Tensor there = x.to(kDevice);
      for (const int dim : one.dims) {
        const std::string what =
            one.sizes.str() + " " + dtype_name(dtype) + " along " + std::to_string(dim);
        expect_softmax(x, x, dim, what);
        expect_softmax(x, there, dim, what);
        if (cuda::is_simulated()) {
          expect_same(softmax(there, dim), softmax(x, dim), 0, what);
          expect_same(log_softmax(there, dim), log_softmax(x, dim), 0, what);
        }
      }
    }
}

// Transposed, sliced and expanded inputs.
TEST(Softmax, OfViews) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor base = scores(Dtype::float32, {40, 60});
    const Tensor x = base.to(place);
    expect_softmax(base.t(), x.t(), 0, "transposed");
    expect_softmax(base.slice(1, 1, {}, 2), x.slice(1, 1, {}, 2), 1, "every second");
    expect_softmax(base.narrow(1, 1, 58).slice(0, 3), x.narrow(1, 1, 58).slice(0, 3), 1, "narrow");
    expect_softmax(base.select(0, 1).expand({3, 60}), x.select(0, 1).expand({3, 60}), 0,
                   "expanded");
    // Rows that are not aligned to 16 bytes.
    expect_softmax(base.flatten().slice(0, 1, 2001), x.flatten().slice(0, 1, 2001), 0, "odd start");
  }
}

// Rows of every length around those where a GPU goes another way, at every distance from an aligned
// address, to an output at the same one and at another.
TEST(Softmax, OfRowsOfAllLengths) {
  NEEDS_DEVICES(1);
  struct Case {
    std::int64_t rows, length;
  };
  std::vector<Case> cases{{3000, 1}, {3000, 3}, {3000, 4}, {1100, 8}, {1100, 16}, {300, 64}};
  for (std::int64_t length = 1; length <= 70; ++length) cases.push_back({37, length});
  for (const std::int64_t length : {100, 128, 256, 257, 1000, 1024, 1025, 4100, 8193})
    cases.push_back({5, length});
  std::int64_t start = 0;
  for (const Case& one : one_of_three_under_tsan(cases))
    for (const Dtype dtype : dtypes_in(dtypes::floating)) {
      const std::int64_t count = one.rows * one.length;
      start = (start + 1) % 8;
      const Tensor flat = scores(dtype, {count + 8});
      for (const char* place : {"cpu", kDevice}) {
        const Tensor there = flat.to(place);
        for (const std::int64_t from : {std::int64_t{0}, start}) {
          const auto rows = [&](const Tensor& all, std::int64_t first) {
            return all.narrow(0, first, count).view({one.rows, one.length});
          };
          const std::string what = std::to_string(one.rows) + " rows of " +
                                   std::to_string(one.length) + " " + dtype_name(dtype) + " from " +
                                   std::to_string(from) + " on " + place;
          const Tensor x = rows(there, from);
          expect_softmax(rows(flat, from), x, 1, what);
          // Elsewhere, and in place; nothing is written beside the rows. Other ways to go may add
          // in another order, and the smallest halves have fewer digits.
          const double floor = dtype == Dtype::float16 ? 0x1p-14 : 0;
          const Tensor result = softmax(x, 1);
          const Tensor room = full({count + 8}, 7, {dtype, Device(place)});
          Tensor out = rows(room, 3);
          softmax_out(out, x, 1);
          expect_same(out, result.cpu(), 16, what, floor);
          EXPECT_EQ(values<double>(room.narrow(0, 0, 3)), std::vector<double>(3, 7)) << what;
          EXPECT_EQ(values<double>(room.narrow(0, count + 3, 5)), std::vector<double>(5, 7))
              << what;
          const Tensor own = there.clone();
          Tensor same = rows(own, from);
          softmax_out(same, same, 1);
          expect_same(same, result.cpu(), 16, what, floor);
        }
      }
      if (::testing::Test::HasFailure()) return;
    }
}

// Few rows that are too long for one block of a GPU each.
TEST(Softmax, OfFewLongRows) {
  NEEDS_DEVICES(1);
  const auto expect = [](const Tensor& x, bool logarithm, const std::string& what) {
    const auto in = values<double>(x);
    const Tensor made = logarithm ? log_softmax(x, -1) : softmax(x, -1);
    const auto got = values<double>(made);
    const auto length = static_cast<std::size_t>(x.size(-1));
    const double unit = epsilon(x.dtype());
    for (std::size_t first = 0; first < in.size(); first += length) {
      long double total = 0;  // so many doubles would lose some digits
      for (std::size_t i = first; i < first + length; ++i) total += std::exp(in[i]);
      const auto sum = static_cast<double>(total);
      const auto shift = static_cast<double>(std::log(total));
      for (std::size_t i = first; i < first + length; ++i) {
        const double expected = logarithm ? in[i] - shift : std::exp(in[i]) / sum;
        const double error = logarithm ? 16 * unit * (1 + std::abs(expected))
                                       : 16 * unit * expected + (unit > 1e-5 ? 1e-7 : 1e-300);
        ASSERT_NEAR(got[i], expected, error) << what << ", element " << i;
      }
    }
    // The order of additions does not depend on which block comes first.
    EXPECT_TRUE(values<double>(logarithm ? log_softmax(x, -1) : softmax(x, -1)) == got) << what;
  };
  for (const char* place : {"cpu", kDevice}) {
    expect(scores(Dtype::float32, {3000000}).to(place), false, "one row");
    for (const Dtype dtype : dtypes_in(dtypes::floating)) {
      const Tensor x = scores(dtype, {3, 200001}).to(place);
      const std::string what = std::string(dtype_name(dtype)) + " on " + place;
      expect(x, true, what);
      expect(x.flatten().narrow(0, 1, 400001), false, what + ", one element later");
    }
  }
}

// What is infinite or NaN changes all of its row, and no other one.
TEST(Softmax, SpecialValuesStayInTheirRows) {
  NEEDS_DEVICES(1);
  const float inf = INFINITY;
  constexpr int kKinds = 5;
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16})
      for (const std::int64_t length : {2, 7, 16, 64, 65, 100, 257, 1024, 1025, 16400, 200001}) {
        const std::int64_t rows = length <= 100 ? 200 : kKinds;
        std::vector<float> numbers(static_cast<std::size_t>(rows * length), -inf);
        for (std::int64_t row = 0; row < rows; ++row) {
          float* const x = numbers.data() + row * length;
          const auto kind = row % kKinds;  // of kind 0 all are -inf
          if (kind == 1 || kind == 2) std::fill_n(x, length, 1.0F);
          if (kind == 1) x[length - 1] = NAN;
          if (kind == 2) x[length / 2] = inf;
          if (kind == 3) x[length - 2] = x[length - 1] = 1000;
          if (kind == 4) x[0] = -1000;
        }
        const Tensor x = tensor(numbers).reshape({rows, length}).to(place).to(dtype);
        const auto got = values<float>(softmax(x, 1));
        const auto logs = values<float>(log_softmax(x, 1));
        SCOPED_TRACE(std::string(dtype_name(dtype)) + " on " + place + ", rows of " +
                     std::to_string(length));
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t i = 0; i < length; ++i) {
            const auto at = static_cast<std::size_t>(row * length + i);
            const auto kind = row % kKinds;
            if (kind < 3) {
              ASSERT_TRUE(std::isnan(got[at]) && std::isnan(logs[at]))
                  << "row " << row << ", element " << i;
              continue;
            }
            const bool top = kind == 3 ? i >= length - 2 : i == 0;
            const float share = kind == 3 ? 0.5F : 1.0F;
            ASSERT_EQ(got[at], top ? share : 0.0F) << "row " << row << ", element " << i;
            if (top)
              ASSERT_NEAR(logs[at], std::log(share), epsilon(dtype))
                  << "row " << row << ", element " << i;
            else
              ASSERT_EQ(logs[at], -inf) << "row " << row << ", element " << i;
          }
      }
}

// Infinities and NaN, in rows and columns short and long; large inputs do not overflow.
TEST(Softmax, SpecialValues) {
  NEEDS_DEVICES(1);
  const float inf = INFINITY;
  for (const char* place : {"cpu", kDevice})
    for (const std::int64_t repeats : {1, 500, 30000})
      for (const bool columns : {false, true}) {
        const auto along = [&](std::initializer_list<float> given, bool logarithm = false) {
          // The values, then many -inf, which change nothing.
          Tensor x = full({static_cast<std::int64_t>(given.size()) + repeats}, -inf, place);
          Tensor front = x.narrow(0, 0, static_cast<std::int64_t>(given.size()));
          front.copy_(tensor(std::span(given.begin(), given.size())));
          if (columns) x = x.unsqueeze(1).expand({x.size(0), 3}).contiguous();
          Tensor y = logarithm ? log_softmax(x, 0) : softmax(x, 0);
          if (columns) y = y.select(1, 2);
          return values<float>(y);
        };
        const auto halves = along({1000, 1000});
        EXPECT_EQ(halves[0], 0.5F);
        EXPECT_EQ(halves[1], 0.5F);
        EXPECT_EQ(halves[2], 0);
        EXPECT_EQ(along({-1000}, true)[0], 0);
        EXPECT_EQ(along({-1000}, true)[1], -inf);
        for (const float bad : {NAN, inf, -inf})
          EXPECT_TRUE(std::isnan(along({bad})[0])) << bad << " " << repeats;
        EXPECT_TRUE(std::isnan(along({NAN, 1})[1]));
      }
}

TEST(Softmax, ErrorsTypesAndOutputs) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = ones({2, 4}, place);
    const Tensor n = ones({2, 4}, {Dtype::int64, Device(place)});
    EXPECT_ERROR(softmax(n, 0), NotImplementedError, "\"softmax\" not implemented for 'Long'");
    EXPECT_ERROR(n.log_softmax(0), NotImplementedError,
                 "\"log_softmax\" not implemented for 'Long'");
    EXPECT_ERROR(softmax(x, 2), IndexError, "Dimension out of range");
    EXPECT_EQ(n.softmax(1, Dtype::float64).dtype(), Dtype::float64);
    EXPECT_EQ(values<float>(x.softmax(1)), std::vector<float>(8, 0.25F));
    Tensor out = empty({0}, place);
    softmax_out(out, x, 0);
    EXPECT_EQ(values<float>(out), std::vector<float>(8, 0.5F));
    Tensor gaps = zeros({4, 2}, place);
    Tensor turned = gaps.t();
    log_softmax_out(turned, x, 1);
    EXPECT_NEAR(values<float>(gaps)[3], std::log(0.25F), 1e-6);
    Tensor wide = empty({2, 4}, {Dtype::float64, Device(place)});
    EXPECT_ERROR(softmax_out(wide, x, 1), Error,
                 "Expected out tensor to have dtype float32, but got float64 instead");
    EXPECT_ERROR(log_softmax_out(out, x, 1, Dtype::float64), Error,
                 "Expected out tensor to have dtype float64, but got float32 instead");
    // In place.
    Tensor same = x.clone();
    softmax_out(same, same, 1);
    EXPECT_EQ(values<float>(same), std::vector<float>(8, 0.25F));
  }
}

}  // namespace
}  // namespace ember::test
