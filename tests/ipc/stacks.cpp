#include "stacks.h"

#include <dirent.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace ember::test {
namespace {

constexpr unsigned kSeconds = 120;
std::array<std::atomic<pid_t>, 64> others;

void write_own_stack(int) {
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  char head[64];
  const int bytes = std::snprintf(head, sizeof head, "-- process %d, thread %ld\n", getpid(),
                                  syscall(SYS_gettid));
  (void)!write(STDERR_FILENO, head, static_cast<std::size_t>(bytes));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

// What a signal's handler may not do is done here all the same: the process is at its end.
void give_up(int) {
  std::fprintf(stderr, "a test is not over after %u s; the stacks:\n", kSeconds);
  show_stacks(getpid());
  for (const auto& process : others)
    if (process != 0) show_stacks(process);
  std::_Exit(1);
}

class Watch final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { still_alive(); }
  void OnTestEnd(const testing::TestInfo&) override { (void)alarm(0); }
};

}  // namespace

void install_stacks(bool watch) {
  void* frame = nullptr;
  (void)backtrace(&frame, 1);  // which opens a library, the first time
  (void)signal(SIGUSR2, &write_own_stack);
  if (!watch) return;
  (void)signal(SIGALRM, &give_up);
  testing::UnitTest::GetInstance()->listeners().Append(new Watch);
}

void still_alive() { (void)alarm(kSeconds); }

void show_stacks(pid_t process) {
  DIR* const threads = opendir(("/proc/" + std::to_string(process) + "/task").c_str());
  if (threads == nullptr) return;
  while (const dirent* const thread = readdir(threads)) {
    const int number = std::atoi(thread->d_name);
    if (number == 0) continue;
    (void)syscall(SYS_tgkill, process, number, SIGUSR2);
    usleep(20'000);  // one after the other
  }
  (void)closedir(threads);
}

void remember_process(pid_t process) {
  for (auto& place : others)
    if (pid_t none = 0; place.compare_exchange_strong(none, process)) return;
}
void forget_process(pid_t process) {
  for (auto& place : others)
    if (pid_t known = process; place.compare_exchange_strong(known, 0)) return;
}

}  // namespace ember::test
