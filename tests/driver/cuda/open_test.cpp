// What opening the CUDA driver says on machines where it cannot work. Each test runs in a process
// of its own, with a libcuda.so.1 (or none) that CMakeLists.txt puts on the loader's path.
#include "ember/driver/open.h"

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "ember/base/env.h"
#include "ember/runtime/visible.h"

namespace ember::driver {
namespace {

Choice choice() {
  Choice choice;
  EXPECT_TRUE(parse_choice(env::get("EMBER_DEVICES"), choice).ok());
  EXPECT_EQ(choice.kind, Choice::Kind::cuda);
  return choice;
}

Status open_chosen() {
  std::unique_ptr<Driver> driver;
  Status status = open(choice(), driver);
  EXPECT_EQ(driver, nullptr);
  return status;
}

TEST(OpenCuda, NamesADriverThatIsTooOld) {
  const Status status = open_chosen();
  EXPECT_EQ(status.code(), Code::insufficient_driver);
  EXPECT_EQ(status.detail(), "found version 11080, at least " +
                                 std::to_string(CUDA_VERSION / 1000 * 1000) + " is needed");
}

TEST(OpenCuda, SaysThatThereIsNoDevice) {
  const Status status = open_chosen();
  EXPECT_EQ(status.code(), Code::no_device);
  EXPECT_EQ(status.detail(),
            "the NVIDIA driver finds no device; CUDA_VISIBLE_DEVICES is 'none of them'");
}

TEST(OpenCuda, NamesTheLibraryThatIsMissing) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr)
    GTEST_SKIP() << "this machine has a libcuda.so.1 where the loader always looks";
  const Status status = open_chosen();
  EXPECT_EQ(status.code(), Code::no_device);
  EXPECT_EQ(status.detail().rfind("libcuda.so.1 cannot be opened: ", 0), 0u) << status.detail();
}

TEST(OpenCuda, NamesTheArchitecturesCompiledIn) {
  // Machine code and PTX; PTX alone where no kernel will run (EMBER_CUDA_OPTIMIZE=OFF).
  const std::string all = compiled_architectures();
  EXPECT_TRUE(all.rfind("sm_", 0) == 0 || all.rfind("compute_", 0) == 0) << all;
}

class CountWithoutCuda : public testing::Test {
 protected:
  static int count(const char* visible) {
    if (visible == nullptr)
      unsetenv("CUDA_VISIBLE_DEVICES");
    else
      setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    return count_without_opening(choice());
  }
};

TEST_F(CountWithoutCuda, AsksNvml) { EXPECT_EQ(count(nullptr), 3); }

TEST_F(CountWithoutCuda, FollowsTheVisibleDevices) {
  EXPECT_EQ(count("2,0"), 2);
  EXPECT_EQ(count(""), 0);
  EXPECT_EQ(count("0,7,1"), 1);
  EXPECT_EQ(count("GPU-11,GPU-2"), 2);
}

TEST_F(CountWithoutCuda, LeavesMigToCuda) { EXPECT_EQ(count("MIG-0"), -1); }

TEST_F(CountWithoutCuda, KnowsTheMachinesDevices) {
  std::vector<std::string> uuids;
  EXPECT_TRUE(uuids_without_opening(choice(), uuids).ok());
  ASSERT_EQ(uuids.size(), 3U);
  for (const std::string& uuid : uuids) EXPECT_EQ(uuid.substr(0, 4), "GPU-");
  EXPECT_EQ(count("2,0"), 2);
  EXPECT_EQ(cuda::machine_uuids(), uuids);
  EXPECT_EQ(cuda::machine_device_count(), 3);
  EXPECT_EQ(cuda::visible_device_count(), 2);
  EXPECT_EQ(cuda::machine_device_index(1), 0);
  EXPECT_EQ(count(uuids[1].c_str()), 1);
  EXPECT_EQ(cuda::machine_device_index(0), 1);
  EXPECT_EQ(count("MIG-0"), -1);
  EXPECT_EQ(cuda::visible_device_count(), -1);
  EXPECT_FALSE(cuda::is_initialized());
}

}  // namespace
}  // namespace ember::driver
