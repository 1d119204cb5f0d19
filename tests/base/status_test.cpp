#include "ember/base/status.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>
#include <string>
#include <utility>

#include "ember/base/error.h"

namespace ember {
namespace {

struct CodeRow {
  Code code;
  int number;  // CUDA's
  bool sticky;
  const char* text;
};

const CodeRow kCodes[] = {
    {Code::ok, 0, false, "no error"},
    {Code::invalid_value, 1, false, "invalid argument"},
    {Code::out_of_memory, 2, false, "out of memory"},
    {Code::not_initialized, 3, false, "initialization error"},
    {Code::shutting_down, 4, false, "driver shutting down"},
    {Code::insufficient_driver, 35, false,
     "CUDA driver version is insufficient for CUDA runtime version"},
    {Code::no_device, 100, false, "no CUDA-capable device is detected"},
    {Code::invalid_device, 101, false, "invalid device ordinal"},
    {Code::map_failed, 205, false, "mapping of buffer object failed"},
    {Code::peer_access_unsupported, 217, false,
     "peer access is not supported between these two devices"},
    {Code::invalid_handle, 400, false, "invalid resource handle"},
    {Code::illegal_state, 401, false, "the operation cannot be performed in the present state"},
    {Code::not_ready, 600, false, "device not ready"},
    {Code::illegal_address, 700, true, "an illegal memory access was encountered"},
    {Code::launch_out_of_resources, 701, false, "too many resources requested for launch"},
    {Code::peer_access_already_enabled, 704, false, "peer access is already enabled"},
    {Code::peer_access_not_enabled, 705, false, "peer access has not been enabled"},
    {Code::context_is_destroyed, 709, false, "context is destroyed"},
    {Code::device_assert, 710, true, "device-side assert triggered"},
    {Code::host_memory_already_registered, 712, false,
     "part or all of the requested memory range is already mapped"},
    {Code::host_memory_not_registered, 713, false,
     "pointer does not correspond to a registered memory region"},
    {Code::launch_failure, 719, true, "unspecified launch failure"},
    {Code::not_permitted, 800, false, "operation not permitted"},
    {Code::not_supported, 801, false, "operation not supported"},
    {Code::stream_capture_unsupported, 900, false,
     "operation not permitted when stream is capturing"},
    {Code::stream_capture_invalidated, 901, false,
     "operation failed due to a previous error during capture"},
    {Code::stream_capture_merge, 902, false,
     "operation would result in a merge of separate capture sequences"},
    {Code::stream_capture_unmatched, 903, false,
     "capture was not ended in the same stream as it began"},
    {Code::stream_capture_unjoined, 904, false, "capturing stream has unjoined work"},
    {Code::stream_capture_isolation, 905, false,
     "dependency created on uncaptured work in another stream"},
    {Code::captured_event, 907, false,
     "operation not permitted on an event last recorded in a capturing stream"},
    {Code::stream_capture_wrong_thread, 908, false,
     "attempt to terminate a thread-local capture sequence from another thread"},
    {Code::unknown, 999, false, "unknown error"},
};

TEST(Status, CodesHaveCudasNumbersAndTexts) {
  for (const CodeRow& row : kCodes) {
    EXPECT_EQ(static_cast<int>(row.code), row.number) << row.text;
    EXPECT_STREQ(code_text(row.code), row.text);
    EXPECT_EQ(is_sticky(row.code), row.sticky) << row.text;
  }
}

TEST(Status, EveryKnownCodeHasARow) {
  std::set<int> rows;
  for (const CodeRow& row : kCodes) rows.insert(row.number);
  for (int number = -1; number < 1100; ++number) {
    const bool known =
        std::string(code_text(static_cast<Code>(number))) != "unrecognized error code";
    EXPECT_EQ(known, rows.count(number) == 1) << number;
  }
}

TEST(Status, SuccessIsTheDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.detail(), "");
  EXPECT_EQ(status.text(), "no error");
}

TEST(Status, TextIsCodeThenDetail) {
  EXPECT_EQ(Status(Code::not_ready).text(), "device not ready");
  EXPECT_EQ(Status(Code::invalid_device, "device 7 of 2").text(),
            "invalid device ordinal: device 7 of 2");
  EXPECT_EQ(Status(Code::invalid_value, "").text(), "invalid argument");
}

TEST(Status, CopiesAreIndependent) {
  Status original(Code::out_of_memory, "2 GiB");
  const Status copy = original;
  Status assigned;
  assigned = original;
  original = Code::ok;
  EXPECT_TRUE(original.ok());
  EXPECT_EQ(original.detail(), "");
  for (const Status* status : {&copy, &std::as_const(assigned)}) {
    EXPECT_EQ(status->code(), Code::out_of_memory);
    EXPECT_EQ(status->detail(), "2 GiB");
  }
}

TEST(Status, MovesKeepCodeAndDetail) {
  Status original(Code::illegal_address, "kernel 'add'");
  const Status moved = std::move(original);
  EXPECT_EQ(moved.text(), "an illegal memory access was encountered: kernel 'add'");
}

Status passes_on(const Status& status, bool& went_on) {
  EMBER_TRY(status);
  went_on = true;
  return Code::not_ready;
}

TEST(Status, TryReturnsFailuresEarly) {
  bool went_on = false;
  const Status failed = passes_on(Status(Code::invalid_handle, "null"), went_on);
  EXPECT_EQ(failed.text(), "invalid resource handle: null");
  EXPECT_FALSE(went_on);
  EXPECT_EQ(passes_on({}, went_on).code(), Code::not_ready);
  EXPECT_TRUE(went_on);
}

class Errors : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CUDA_LAUNCH_BLOCKING"); }
  void TearDown() override { ::unsetenv("CUDA_LAUNCH_BLOCKING"); }
};

TEST_F(Errors, CheckThrowsOnlyFailures) {
  EXPECT_NO_THROW(check({}));
  try {
    check(Status(Code::device_assert, "kernel 'gather'"));
    FAIL() << "no exception";
  } catch (const AcceleratorError& error) {
    EXPECT_EQ(error.error_code(), 710);
    EXPECT_EQ(error.code(), Code::device_assert);
    EXPECT_EQ(std::string(error.what())
                  .find("CUDA error: device-side assert triggered\n"
                        "kernel 'gather'\n"),
              0u)
        << error.what();
  }
}

TEST_F(Errors, TheHintIsForAsynchronousLaunchesOnly) {
  const auto text = [] { return std::string(AcceleratorError(Status(Code::unknown)).what()); };
  EXPECT_NE(text().find("CUDA_LAUNCH_BLOCKING=1"), std::string::npos);
  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EQ(text(), "CUDA error: unknown error\n");
}

TEST_F(Errors, EverythingIsAnError) {
  EXPECT_THROW(throw ValueError("v"), Error);
  EXPECT_THROW(throw TypeError("t"), Error);
  EXPECT_THROW(throw AssertionError("a"), Error);
  EXPECT_THROW(throw OutOfMemoryError("o"), Error);
  EXPECT_THROW(check(Code::unknown), Error);
}

}  // namespace
}  // namespace ember
