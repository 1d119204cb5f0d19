// Kernels with reductions as real devices have them, run by a thread for each lane, beside loops.
#include "tests/fuse/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ember/fuse/rows.h"
#include "tests/fuse/graphs.h"
#include "tests/fuse/support.h"

namespace ember::test {
namespace {

using fusion::Graph;
using fusion::Step;
using fusion::Sweeps;
using fusion::Value;
using jit::Instance;
using ops::OpId;
using ops::RowReduction;

/// Steps one behind the other, as the recorder makes them.
struct Builder {
  Graph graph;

  Value add(const Step& step) {
    graph.steps.push_back(step);
    return {Value::Kind::step, static_cast<std::uint8_t>(graph.steps.size() - 1)};
  }
  Value operation(OpId op, Dtype dtype, bool of_row, Value x, Value y = {}) {
    const std::uint8_t count = ops::op_info(op).operands == 1 ? 1 : 2;
    return add({.op = op,
                .of_row = of_row,
                .computed = dtype,
                .result = dtype,
                .count = count,
                .operands = {x, y}});
  }
  Value reduction(RowReduction reduction, Dtype dtype, Dtype result, Value x) {
    return add({.kind = Step::Kind::reduction,
                .reduction = reduction,
                .of_row = true,
                .computed = dtype,
                .result = result,
                .count = 1,
                .operands = {x}});
  }
};
constexpr Value input(std::uint8_t index) { return {Value::Kind::input, index}; }

Instance instance_on_lanes(const Graph& graph, std::int64_t rows, std::int64_t length, int pack) {
  // Offsets of either size, half of the cases each.
  Instance made = instance_of(graph, rows % 2 == 0 ? jit::Layout::wide : jit::Layout::narrow);
  made.rows = fusion::share_rows(rows, length, pack, Sweeps(graph, true, true).needs());
  for (std::size_t k = 0; k < made.outputs; ++k)
    made.rows.once |= std::uint64_t{graph.steps[graph.outputs[k]].of_row} << k;
  for (std::size_t k = 0; k < graph.inputs.size(); ++k)
    made.rows.once |= std::uint64_t{graph.is_row_input(k)} << (made.outputs + k);
  return made;
}

/// exp(x - the largest) / (their sum * w), and the sums, w being there once for each row.
Graph softmax() {
  Builder build;
  build.graph.inputs = {Dtype::float32, Dtype::float32};
  build.graph.row_inputs = 0b10;
  const Value largest =
      build.reduction(RowReduction::largest, Dtype::float32, Dtype::float32, input(0));
  const Value below = build.operation(OpId::sub, Dtype::float32, false, input(0), largest);
  const Value power = build.operation(OpId::exp, Dtype::float32, false, below);
  const Value sum = build.reduction(RowReduction::sum, Dtype::float32, Dtype::float32, power);
  const Value scaled = build.operation(OpId::mul, Dtype::float32, true, sum, input(1));
  const Value made = build.operation(OpId::div, Dtype::float32, false, power, scaled);
  build.graph.outputs = {made.index, sum.index};
  return build.graph;
}

/// Rows to be walked.
struct Walk {
  std::int64_t rows, length;
  int pack;
  std::int64_t planned_rows;  ///< for which threads are shared
};

void expect_softmax(const Walk& each) {
  const Graph graph = softmax();
  const Instance instance = instance_on_lanes(graph, each.planned_rows, each.length, each.pack);
  const auto count = static_cast<std::size_t>(each.rows * each.length);
  std::vector<float> x(count), y(count), w, sums(static_cast<std::size_t>(each.rows));
  for (std::size_t i = 0; i < count; ++i) x[i] = std::sin(static_cast<float>(i) * 0.37F) * 4;
  for (std::int64_t row = 0; row < each.rows; ++row) w.push_back(static_cast<float>(row + 1));
  const std::string what =
      std::to_string(each.length) + " elements, " + std::to_string(instance.rows.lanes) +
      " lanes, packs " + std::to_string(instance.rows.packs) + " of " +
      std::to_string(instance.rows.pack) + (instance.rows.whole ? ", whole" : "");
  run_on_lanes(Sweeps(graph, true, instance.rows.whole).statements(), kernel_name(), instance,
               each.rows, each.length, {y.data(), sums.data(), x.data(), w.data()});
  for (std::int64_t row = 0; row < each.rows; ++row) {
    const float* const first = &x[static_cast<std::size_t>(row * each.length)];
    const float largest = *std::max_element(first, first + each.length);
    double sum = 0;
    for (std::int64_t i = 0; i < each.length; ++i) sum += std::exp(double{first[i]} - largest);
    EXPECT_NEAR(sums[static_cast<std::size_t>(row)] / sum, 1, 2e-6) << what;
    double off = 0;
    for (std::int64_t i = 0; i < each.length; ++i) {
      const double right =
          std::exp(double{first[i]} - largest) / (sum * static_cast<double>(row + 1));
      off = std::max(off, std::abs(y[static_cast<std::size_t>(row * each.length + i)] / right - 1));
    }
    EXPECT_LT(off, 4e-6) << what;
  }
}

/// Also few rows, which get many threads, stay in registers where they can.
TEST(FuseLanes, RowsThatAreKept) {
  Sweeps::Needs needs;
  needs.kept = 4;
  for (const bool loads_beside : {false, true}) {
    needs.loads_beside = loads_beside;
    for (const std::int64_t rows : {1, 512, 1023, 1024, 100'000})
      for (const int pack : {4, 8})
        for (const std::int64_t length : {512, 1024, 2048, 4096, 8192, 16'384}) {
          const jit::RowPlan plan = fusion::share_rows(rows, length, pack, needs);
          EXPECT_TRUE(plan.whole) << rows << " rows of " << length << ", packs of " << pack;
          EXPECT_GE(std::int64_t{plan.lanes} * plan.packs * pack, length);
        }
  }
  needs.kept = 12;
  EXPECT_TRUE(fusion::share_rows(5000, 1024, 8, needs).whole);
}

/// Groups of lanes from one to a block; the last block has fewer of them.
TEST(FuseLanes, Softmax) {
  if (kThreadSanitizer) GTEST_SKIP() << "the kernel's barriers are unknown to the sanitizer";
  for (const Walk& each :
       {Walk{5, 1, 1, 5}, Walk{70, 3, 1, 70}, Walk{20, 31, 1, 20}, Walk{9, 128, 4, 9},
        Walk{3, 1024, 4, 5000}, Walk{2, 1000, 1, 2}, Walk{1, 16384, 4, 1}, Walk{2, 20'004, 4, 2}})
    expect_softmax(each);
}

/// Each element once, and none behind the last one, however many packs a thread has.
template <class T>
void expect_each_once(Dtype dtype, std::size_t pack) {
  Builder build;
  build.graph.inputs = {dtype, dtype};
  const Value sum = build.operation(OpId::add, dtype, false, input(0), input(1));
  build.graph.outputs = {sum.index};
  const Instance instance = instance_of(build.graph, jit::Layout::flat);
  ASSERT_EQ(jit::pack_of(instance), pack) << "of " << dtype_name(dtype);
  const auto run = compiled_for_lanes(build.graph.statements(true), kernel_name(), instance);
  for (const bool packed : {false, true})
    for (const unsigned packs : {1U, 2U, 4U})
      for (const std::size_t count : {1U, 3U, 4U, 1023U, 1024U, 1025U, 4095U, 4096U, 9001U}) {
        // In place, so that a second time would be seen.
        alignas(16) std::array<T, 9100> x, y{};
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i % 251);
        run_elements_on_lanes(run, instance, static_cast<std::int64_t>(count), packed, packs,
                              {y.data(), y.data(), x.data()});
        for (std::size_t i = 0; i < y.size(); ++i)
          ASSERT_EQ(y[i], i < count ? x[i] : T(0))
              << i << " of " << count << " of " << dtype_name(dtype)
              << (packed ? ", packed, " : ", ") << packs << " packs";
      }
}

TEST(FuseLanes, Elements) {
  expect_each_once<std::uint8_t>(Dtype::uint8, 8);
  expect_each_once<std::int16_t>(Dtype::int16, 8);
  expect_each_once<float>(Dtype::float32, 4);
  expect_each_once<double>(Dtype::float64, 2);
  expect_each_once<Complex<double>>(Dtype::complex128, 1);
}

/// Numbers of all kinds, divided by what is there once for each row: as the machine divides them.
template <class T, class Bits>
void expect_quotients(Dtype dtype, const Walk& each) {
  Builder build;
  build.graph.inputs = {dtype, dtype};
  build.graph.row_inputs = 0b10;
  const Value largest = build.reduction(RowReduction::largest, dtype, dtype, input(0));
  const Value made = build.operation(OpId::div, dtype, false, input(0), input(1));
  build.graph.outputs = {made.index, largest.index};
  const Graph& graph = build.graph;
  const int pack = std::max(1, each.pack * 4 / static_cast<int>(sizeof(T)));  // 16 bytes at most
  const Instance instance = instance_on_lanes(graph, each.planned_rows, each.length, pack);
  std::mt19937_64 random(11);
  const auto any = [&] {
    const auto bits = static_cast<Bits>(random());
    return std::bit_cast<T>(bits);
  };
  const auto usual = [&] {
    return std::ldexp(static_cast<T>(random() >> 11) + 1, static_cast<int>(random() % 40) - 70);
  };
  std::vector<T> x, y, largest_ones(static_cast<std::size_t>(each.rows));
  // Halves of the smallest number of all are borders between it and zero.
  const auto small = [&](std::int64_t row) {
    return static_cast<T>(1 + row / 5) * std::numeric_limits<T>::denorm_min();
  };
  for (std::int64_t i = 0; i < each.rows * each.length; ++i)
    x.push_back(i % 11 == 3   ? T(0)
                : i % 11 == 5 ? -T(0)
                : i % 11 == 7 ? small(i / each.length) * static_cast<T>(i % 2 == 0 ? 1 : -1)
                : i % 3 == 0  ? any()
                              : usual());
  for (std::int64_t row = 0; row < each.rows; ++row)
    y.push_back(row % 5 == 4   ? any()
                : row % 5 == 3 ? std::nextafter(static_cast<T>(2 + row / 5 * 2), T(0))
                : row % 5 == 2 ? std::nextafter(T(2), T(0))
                               : usual());
  std::vector<T> quotients(x.size());
  run_on_lanes(Sweeps(graph, true, instance.rows.whole).statements(), kernel_name(), instance,
               each.rows, each.length, {quotients.data(), largest_ones.data(), x.data(), y.data()});
  int off = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T right = x[i] / y[i / static_cast<std::size_t>(each.length)];
    const bool same = std::isnan(right)
                          ? std::isnan(quotients[i])
                          : std::bit_cast<Bits>(right) == std::bit_cast<Bits>(quotients[i]);
    if (!same && off++ < 5)
      ADD_FAILURE() << dtype_name(dtype) << ": " << x[i] << " / "
                    << y[i / static_cast<std::size_t>(each.length)] << " is " << quotients[i];
  }
  EXPECT_EQ(off, 0);
}

TEST(FuseLanes, Divisions) {
  if (kThreadSanitizer) GTEST_SKIP() << "the kernel's barriers are unknown to the sanitizer";
  for (const Walk& each : {Walk{400, 1000, 4, 5000}, Walk{60, 300, 1, 5000}, Walk{7, 9000, 4, 7}}) {
    expect_quotients<float, std::uint32_t>(Dtype::float32, each);
    expect_quotients<double, std::uint64_t>(Dtype::float64, each);
  }
}

/// Of elements of one type, all reductions, in place of what they are of.
template <class T>
void expect_reductions(Dtype dtype, const Walk& each) {
  Builder build;
  build.graph.inputs = {dtype};
  for (const RowReduction reduction :
       {RowReduction::sum, RowReduction::prod, RowReduction::largest, RowReduction::smallest,
        RowReduction::any, RowReduction::all})
    build.graph.outputs.push_back(
        build.reduction(reduction, dtype, Dtype::float64, input(0)).index);
  const Graph& graph = build.graph;
  const Instance instance = instance_on_lanes(graph, each.planned_rows, each.length, each.pack);
  std::vector<T> x;
  for (std::int64_t i = 0; i < each.rows * each.length; ++i)
    x.push_back(static_cast<T>(i % 7 == 3 ? 2 : i % 5 == 1 ? 3 : 1));
  x[static_cast<std::size_t>(each.length - 1)] = 0;
  for (std::int64_t i = 0; i < each.length; ++i) x[x.size() - 1 - static_cast<std::size_t>(i)] = 0;
  std::vector<std::vector<double>> made(6,
                                        std::vector<double>(static_cast<std::size_t>(each.rows)));
  std::vector<void*> operands;
  for (std::vector<double>& one : made) operands.push_back(one.data());
  operands.push_back(x.data());
  run_on_lanes(Sweeps(graph, true, instance.rows.whole).statements(), kernel_name(), instance,
               each.rows, each.length, operands);
  for (std::int64_t row = 0; row < each.rows; ++row) {
    double right[6] = {0, 1, -1e300, 1e300, 0, 1};
    for (std::int64_t i = 0; i < each.length; ++i) {
      const auto value = static_cast<double>(x[static_cast<std::size_t>(row * each.length + i)]);
      right[0] += value;
      right[1] *= value;
      right[2] = std::max(right[2], value);
      right[3] = std::min(right[3], value);
      right[4] = right[4] != 0 || value != 0 ? 1 : 0;
      right[5] = right[5] != 0 && value != 0 ? 1 : 0;
    }
    for (std::size_t k = 0; k < 6; ++k)
      EXPECT_EQ(made[k][static_cast<std::size_t>(row)], right[k])
          << dtype_name(dtype) << ", output " << k << ", row " << row;
  }
}

TEST(FuseLanes, EveryReduction) {
  if (kThreadSanitizer) GTEST_SKIP() << "the kernel's barriers are unknown to the sanitizer";
  for (const Walk& each : {Walk{7, 24, 8, 7}, Walk{3, 40, 1, 3}}) {
    expect_reductions<std::int8_t>(Dtype::int8, each);
    expect_reductions<std::int64_t>(Dtype::int64, {each.rows, each.length, 1, each.rows});
    expect_reductions<double>(Dtype::float64, {each.rows, each.length, 2, each.rows});
  }
}

}  // namespace
}  // namespace ember::test
