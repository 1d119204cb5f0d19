// Which CUDA objects are refused, and where they are looked for. The object is looked for once, so
// that every case is a process of its own.
#include "ember/driver/open.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ember/driver/cuda_object.h"
#include "tests/support/child.h"

namespace ember::driver {
namespace {

Status open_with(const char* object) {
  if (object != nullptr)
    setenv("EMBER_CUDA_OBJECT", object, 1);
  else
    unsetenv("EMBER_CUDA_OBJECT");
  Choice choice;
  choice.kind = Choice::Kind::cuda;
  EXPECT_EQ(count_without_opening(choice), 0);
  std::unique_ptr<Driver> driver;
  Status status = open(choice, driver);
  EXPECT_EQ(driver, nullptr);
  return status;
}

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, number);
  return text;
}

TEST(OpenObject, RefusesAnotherVersion) {
  IN_CHILD({
    const Status status = open_with(EMBER_TEST_OTHER_VERSION);
    EXPECT_EQ(status.code(), Code::not_initialized);
    EXPECT_EQ(status.detail(), EMBER_TEST_OTHER_VERSION
              " is of version 0.0.7, but this is ember " EMBER_VERSION_STRING);
  });
}

TEST(OpenObject, RefusesAnotherLayout) {
  IN_CHILD({
    const Status status = open_with(EMBER_TEST_OTHER_LAYOUT);
    EXPECT_EQ(status.code(), Code::not_initialized);
    EXPECT_EQ(status.detail(), EMBER_TEST_OTHER_LAYOUT " has the layout " +
                                   hexadecimal(layout_stamp() ^ 1) +
                                   ", but this ember " EMBER_VERSION_STRING " has " +
                                   hexadecimal(layout_stamp()) + ": both must come from one build");
  });
}

TEST(OpenObject, RefusesAKernelThatTakesOtherArguments) {
  IN_CHILD({
    const Status status = open_with(EMBER_TEST_OTHER_ARGUMENTS);
    EXPECT_EQ(status.code(), Code::not_initialized);
    EXPECT_EQ(
        status.detail(), EMBER_TEST_OTHER_ARGUMENTS
        " does not fit: its kernel sleep takes other arguments there; both must come from one "
        "build");
  });
}

TEST(OpenObject, RefusesWhatIsNone) {
  IN_CHILD({
    const Status status = open_with(EMBER_TEST_NO_OBJECT);
    EXPECT_EQ(status.code(), Code::not_initialized);
    EXPECT_EQ(status.detail(),
              EMBER_TEST_NO_OBJECT " is not ember's CUDA object: it has no ember_cuda_object");
  });
}

TEST(OpenObject, NamesTheFileThatIsMissing) {
  IN_CHILD({
    const Status status = open_with("/nowhere/libember_cuda.so");
    EXPECT_EQ(status.code(), Code::not_supported);
    EXPECT_NE(status.detail().find("/nowhere/libember_cuda.so"), std::string::npos)
        << status.detail();
  });
}

}  // namespace
}  // namespace ember::driver
