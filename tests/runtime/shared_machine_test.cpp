// The simulated machine of a process that others join.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "ember/base/error.h"
#include "ember/base/sanitizer.h"
#include "ember/memory/memory.h"
#include "ember/runtime/device.h"
#include "ember/runtime/telemetry.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Records in a folder of the test's own. Each test runs in a process that has used no device.
class SharedMachineDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    if (test::in_child()) return;  // stays where its parent is
    char made[] = "/tmp/ember-test-XXXXXX";
    ASSERT_NE(mkdtemp(made), nullptr);
    place_ = made;
    setenv("XDG_RUNTIME_DIR", made, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
  void TearDown() override {
    if (place_.empty()) return;
    EXPECT_TRUE(!std::filesystem::exists(place_ + "/ember") ||
                std::filesystem::is_empty(place_ + "/ember"))
        << "a machine goes with its last process";
    std::filesystem::remove_all(place_);
    unsetenv("XDG_RUNTIME_DIR");
  }

 private:
  std::string place_;
};

/// What a forked child answers: 0 is as it should be.
template <class Body>
int answer_of(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    int answer = 99;
    try {
      answer = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    leave_simulated_machine();
    _exit(answer);
  }
  int status = 0;
  (void)waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void share_and_use() {
  simulate(2, 64 * kMiB);
  const auto shared = share_simulated_machine();
  ASSERT_TRUE(shared);
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(shared->devices, 2);
  EXPECT_EQ(shared->memory_bytes, 64 * kMiB);
  EXPECT_EQ(share_simulated_machine(), shared);
  init();
  EXPECT_EQ(share_simulated_machine(), shared);
  EXPECT_FALSE(join_simulated_machine({3, 64 * kMiB, "other", shared->folder}));
  EXPECT_FALSE(join_simulated_machine({2, 64 * kMiB, "other", shared->folder}));
  EXPECT_TRUE(join_simulated_machine(*shared)) << "where it lives already";
  EXPECT_ERROR(join_simulated_machine({0, 64 * kMiB, "x", ""}), ValueError,
               "join_simulated_machine: number of simulated devices is 0");
}

TEST_F(SharedMachineDeathTest, IsTheProcessesOwnUntilItIsShared) { IN_CHILD(share_and_use()); }

void share_with_children() {
  simulate(2, 64 * kMiB);
  const auto shared = share_simulated_machine();
  ASSERT_TRUE(shared);
  const auto holds = [&] {
    const DeviceBuffer held = allocate(40 * kMiB, Stream(1));
    if (gpu_processes(1).processes.size() != 1) return 1;
    if (share_simulated_machine() != shared) return 2;
    return mem_get_info(1).first < 24 * kMiB ? 0 : 3;
  };
  EXPECT_EQ(answer_of(holds), 0);
  EXPECT_EQ(answer_of(holds), 0) << "what the first one held is free";
  EXPECT_TRUE(gpu_processes(1).processes.empty());
  EXPECT_FALSE(is_initialized());
}

TEST_F(SharedMachineDeathTest, IsJoinedByForkedChildren) {
  if (kThreadSanitizer) GTEST_SKIP() << "the sanitizer lets no child start threads";
  IN_CHILD(share_with_children());
}

void share_what_is_in_use() {
  // Forked before the first use; it comes when the machine is in use.
  int ready[2];
  int free_there[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(free_there), 0);
  const pid_t child = fork();
  if (child == 0) {
    SimulatedMachine machine{2, 64 * kMiB, "", ""};
    char text[256] = {};
    if (read(ready[0], text, sizeof text - 1) <= 0) _exit(1);
    const std::string both = text;
    machine.name = both.substr(0, both.find(' '));
    machine.folder = both.substr(both.find(' ') + 1);
    if (!join_simulated_machine(machine)) _exit(2);
    const std::uint64_t free = mem_get_info(0).first;
    (void)!write(free_there[1], &free, sizeof free);
    leave_simulated_machine();
    _exit(0);
  }
  simulate(2, 64 * kMiB);
  DeviceBuffer held = allocate(40 * kMiB, Stream(0));
  const std::size_t before = mem_get_info(0).first;
  // Others allocate meanwhile; nothing is counted twice or lost.
  std::thread beside([] {
    for (int i = 0; i < 200; ++i) {
      allocate(4 * kMiB, Stream(0)).reset();
      empty_cache();
    }
  });
  const auto shared = share_simulated_machine();
  beside.join();
  ASSERT_TRUE(shared);
  EXPECT_EQ(mem_get_info(0).first, before) << "alone it has as much as before";
  const std::string text = shared->name + " " + shared->folder;
  ASSERT_GT(write(ready[1], text.c_str(), text.size()), 0);
  std::uint64_t theirs = 0;
  ASSERT_EQ(read(free_there[0], &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
  EXPECT_LT(theirs, before);
  EXPECT_GT(theirs, before - kMiB) << "a context's less";
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(mem_get_info(0).first, before);
  held.reset();
  empty_cache();
  EXPECT_GT(mem_get_info(0).first, 60 * kMiB);
  reset_device(0);
  EXPECT_TRUE(gpu_processes(0).processes.empty()) << "a reset ends the context, too";
}

TEST_F(SharedMachineDeathTest, TakesWhatTheProcessHoldsAlong) {
  if (kThreadSanitizer) GTEST_SKIP() << "the sanitizer lets no child start threads";
  IN_CHILD(share_what_is_in_use());
}

}  // namespace
}  // namespace ember::cuda
