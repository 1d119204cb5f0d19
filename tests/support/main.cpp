// The main function of test programs that need devices: real ones if there are any or if
// EMBER_DEVICES says so, else simulated ones, which it then asks for by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ember/runtime/device.h"
#include "ember/runtime/simulation.h"
#include "ember/sanitizer/sanitizer.h"

namespace {

/// Where the sanitizer watches the suite (<name>.watched), everything in it has to be checked. What
/// it found is in the exit status (EMBER_SANITIZER_EXITCODE).
bool all_checked() {
  const ember::cuda::Sanitizer* const sanitizer = ember::cuda::enabled_sanitizer();
  if (sanitizer == nullptr) return true;
  const ember::cuda::SanitizerSummary summary = sanitizer->summary();
  std::printf("sanitizer: %s\n", summary.str().c_str());
  for (const std::string& name : summary.unchecked_names)
    std::printf("unchecked: %s\n", name.c_str());
  return summary.unchecked == 0;
}

/// Leaves out the tests that the suite is registered without (EMBER_TEST_EXCEPT: patterns of a
/// filter), beside what the user leaves out.
void leave_out() {
  const char* const except = std::getenv("EMBER_TEST_EXCEPT");
  if (except == nullptr || *except == '\0') return;
  std::string filter = testing::GTEST_FLAG(filter);
  filter += filter.find('-') == std::string::npos ? "-" : ":";
  testing::GTEST_FLAG(filter) = filter + except;
}

/// The process that was started, of which forked children are copies.
const pid_t g_started = getpid();

/// Says with each failure how to see it again, where a seed decides the order.
class ReplayLine : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (const std::string line = ember::sim::replay_line(); result.failed() && !line.empty())
      std::printf("the order is that of %s\n", line.c_str());
  }
};

}  // namespace

/// Whether the leak check at the end of the process is left out (an interface of LeakSanitizer's):
/// in forked children. It takes the allocator's locks, which the fork may have copied while another
/// thread held one; what is theirs alone is little, and their parent has its own check.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return getpid() != g_started ? 1 : 0;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  leave_out();
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
  const int failed = RUN_ALL_TESTS();
  return all_checked() ? failed : 1;
}
