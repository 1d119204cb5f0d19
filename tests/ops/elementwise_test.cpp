// Element-wise operations: the device's results are the CPU's, whatever shapes and strides.
#include <numeric>

#include "ember/ops/elementwise_kernels.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

using ops::OpId;

/// Values that every type can hold, with the awkward ones.
Tensor sample(Dtype dtype, std::int64_t count, int seed) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<double>((i * 37 + seed * 11) % 61 - 30) / 8.0);
  if (is_floating_point(dtype) && count > 8) {
    numbers[1] = INFINITY;
    numbers[2] = -INFINITY;
    numbers[3] = NAN;
    numbers[4] = -0.0;
  }
  Tensor made = tensor(numbers);
  if (dtype == Dtype::uint8) made = made.abs();
  return made.to(dtype);
}

class EveryOp : public ::testing::TestWithParam<int> {};

TEST_P(EveryOp, IsTheSameOnTheDevice) {
  NEEDS_DEVICES(1);
  const auto op = static_cast<OpId>(GetParam());
  const OpInfo& info = ops::op_info(op);
  for (const Dtype dtype : dtypes_in(info.dtypes)) {
    for (const std::int64_t count : {0, 1, 7, 1000, 70001}) {
      std::vector<Tensor> here;
      std::vector<Tensor> there;
      for (int k = 0; k < info.operands; ++k) {
        here.push_back(sample(op == OpId::where && k == 0 ? Dtype::bool_ : dtype, count, k));
        there.push_back(here.back().to(kDevice));
      }
      const auto run = [&](const std::vector<Tensor>& inputs) {
        std::vector<Operand> operands(inputs.begin(), inputs.end());
        std::vector<const Operand*> list;
        for (const Operand& operand : operands) list.push_back(&operand);
        return ops::elementwise(op, list);
      };
      // lgamma crosses zero where its own terms are as large as one.
      const double floor = op == OpId::lgamma ? 1 : 0;
      expect_same(run(there), run(here), info.ulp,
                  std::string(info.name) + " of " + std::to_string(count) + " " + dtype_name(dtype),
                  floor);
    }
  }
}

std::string op_name(const ::testing::TestParamInfo<int>& info) {
  return ops::op_info(static_cast<OpId>(info.param)).name;
}
INSTANTIATE_TEST_SUITE_P(All, EveryOp, ::testing::Range(0, static_cast<int>(OpId::where) + 1),
                         op_name);

}  // namespace
}  // namespace ember::test
