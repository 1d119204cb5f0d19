// assert_async: a check without a wait, whose failure names itself.
#include "ember/ops/assert_async.h"

#include "tests/ops/support.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"

namespace ember::test {
namespace {

TEST(AssertAsync, RefusesWhatIsNotOneElement) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    EXPECT_ERROR(assert_async(zeros({0}, place)), Error,
                 "Boolean value of Tensor with no values is ambiguous");
    EXPECT_ERROR(assert_async(ones({2}, place), "told"), Error,
                 "Boolean value of Tensor with more than one value is ambiguous");
  }
}

TEST(AssertAsync, AZeroOnTheCpuIsAnErrorAtOnce) {
  EXPECT_ERROR(assert_async(zeros({})), Error,
               "Expected Tensor with single nonzero value, but got zero");
  EXPECT_ERROR(assert_async(zeros({1, 1}, Dtype::bool_), "no sample left"), Error,
               "no sample left");
}

TEST(AssertAsync, WhatIsNotZeroPasses) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    for (const Dtype dtype : all_dtypes())
      assert_async(ones({1}, {dtype, Device(place)}), "one is not zero");
    assert_async(full({}, std::numeric_limits<double>::quiet_NaN(), place));
    assert_async(full({}, std::numeric_limits<float>::denorm_min(), place));
    assert_async(
        full({1, 1, 1}, std::complex<double>(0, 1e-300), {Dtype::complex128, Device(place)}));
    assert_async(arange(4, {Dtype::int64, Device(place)}).select(0, 3));  // behind a zero
  }
  cuda::synchronize();
}

TEST(AssertAsync, WaitsForNothing) {
  NEEDS_DEVICES(1);
  const cuda::Stream side(0);
  const cuda::StreamGuard guard(side);
  const Tensor condition = ones({1}, kDevice);
  Gate gate(side);
  condition.fill_(2);
  assert_async(condition);
  EXPECT_FALSE(side.query()) << "returned while the value was not there";
}

/// Expects it to fault device 0, with a text that holds `text`.
void expect_fault(const Tensor& condition, const char* message, const char* text) {
  try {
    assert_async(condition, message);
    cuda::synchronize(0);
    ADD_FAILURE() << "expected a fault: " << text;
  } catch (const AcceleratorError& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.error_code(), 710) << what;
    EXPECT_NE(what.find("device-side assert triggered"), std::string::npos) << what;
    EXPECT_NE(what.find(text), std::string::npos) << what;
  }
}

TEST(AssertAsync, AZeroOnADeviceIsAFaultThatNamesItself) {
  NEEDS_DEVICES(1);
  IN_CHILD({ expect_fault(zeros({1}, kDevice), "", "_assert_async.float32"); });
  IN_CHILD({
    expect_fault(zeros({1}, {Dtype::bool_, kDevice}), "no sample left",
                 "_assert_async.bool: no sample left");
  });
  if (cuda::is_simulated()) {
    IN_CHILD({
      expect_fault(zeros({1}, {Dtype::int64, kDevice}), "",
                   "Expected Tensor with single nonzero value, but got zero");
    });
  }
}

}  // namespace
}  // namespace ember::test
