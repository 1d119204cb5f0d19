// Forks beside products that other threads compute, the first of which load the library. A BLAS may
// end its threads before a fork, and those must not have been given work just then.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ember/base/sanitizer.h"
#include "tests/linalg/support.h"

namespace ember::test {
namespace {

TEST(Products, ForksBesideThem) {
#if defined(EMBER_SANITIZED_HEAP)
  GTEST_SKIP() << "children start a library's threads again, which sanitizers do not survive";
#endif
  alarm(100);  // a fork that waits for ever
  const Tensor a = ones({300, 300});
  // The library is there: while it is loaded, nothing can be put before its own handler of forks
  // (open_library in blas.cpp).
  EXPECT_EQ(matmul(a, a)[7][9].item<float>(), 300.F);
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (!enough.load()) EXPECT_EQ(matmul(a, a)[7][9].item<float>(), 300.F);
    });
  int right = 0;
  constexpr int kForks = 60;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      std::_Exit(matmul(a, a)[7][9].item<float>() == 300.F ? 0 : 1);
    }
    int status = -1;
    right += waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  enough.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kForks);
  alarm(0);
}

}  // namespace
}  // namespace ember::test
