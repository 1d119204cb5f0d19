// The main function of test programs that need devices: real ones if there are any or if
// EMBER_DEVICES says so, else simulated ones, which it then asks for by name.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ember/runtime/device.h"
#include "ember/runtime/simulation.h"

namespace {

/// Says with each failure how to see it again, where a seed decides the order.
class ReplayLine : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (const std::string line = ember::sim::replay_line(); result.failed() && !line.empty())
      std::printf("the order is that of %s\n", line.c_str());
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new ReplayLine);
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  // A kernel that is loaded at its first launch may wait for kernels that are running, and those
  // may be waiting for this test.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  // With fewer hardware queues than streams, streams wait for each other that should not.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (const char* devices = std::getenv("EMBER_DEVICES"); devices == nullptr || *devices == '\0') {
    if (ember::cuda::device_count() == 0) {
      std::printf("No GPU here: running on four simulated ones (EMBER_DEVICES=sim:4@1GiB).\n");
      setenv("EMBER_DEVICES", "sim:4@1GiB", 1);
    }
  }
  return RUN_ALL_TESTS();
}
