// The main function of the tests between processes: of the test, or of the process beside it.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ember/runtime/device.h"
#include "peer.h"
#include "stacks.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--peer") == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing outlives a test that ended early
    ember::test::install_stacks(false);
    return ember::test::run_peer(std::atoi(argv[2]));
  }
  // What is mapped is counted, and glibc keeps stacks and arenas of threads that have ended. It
  // reads this when a program starts.
  if (std::getenv("GLIBC_TUNABLES") == nullptr) {
    setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1:glibc.pthread.stack_cache_size=0", 1);
    (void)execv("/proc/self/exe", argv);
  }
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  testing::InitGoogleTest(&argc, argv);
  ember::test::install_stacks(true);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (const char* devices = std::getenv("EMBER_DEVICES"); devices == nullptr || *devices == '\0')
    if (ember::cuda::device_count() == 0) setenv("EMBER_DEVICES", "sim:4@1GiB", 1);
  // Sockets are counted, so there must be none of other programs'.
  char place[] = "/tmp/ember-test-XXXXXX";
  if (mkdtemp(place) == nullptr) return 1;
  setenv("XDG_RUNTIME_DIR", place, 1);
  const int failed = RUN_ALL_TESTS();
  ember::ipc::end_process();
  std::error_code ignored;
  std::filesystem::remove_all(place, ignored);
  return failed;
}
