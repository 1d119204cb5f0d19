// `ember top`: what a process tells of itself, and to whom.
#include "ember/memory/top.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/sanitizer.h"
#include "ember/driver/forwarding_driver.h"
#include "ember/memory/memory.h"
#include "ember/memory/top_socket.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/installed.h"

namespace ember::cuda::top {
namespace {

ProcessUse sample() {
  ProcessUse process{.pid = 7, .command = "python train.py"};
  process.devices.push_back({.device = 1,
                             .simulated = true,
                             .allocated = 512,
                             .reserved = 2 << 20,
                             .total = std::uint64_t{1} << 40,
                             .utilization = 3,
                             .temperature = 30,
                             .power_draw = 75'000,
                             .clock_rate = 1000,
                             .uuid = "GPU-6",
                             .name = "Simulated GPU"});
  process.devices.push_back({});
  return process;
}

TEST(TopRecord, ReadsWhatItWrites) {
  EXPECT_EQ(parse(to_text(sample())), sample());
  EXPECT_EQ(parse(to_text({.pid = 1})), (ProcessUse{.pid = 1}));
}

TEST(TopRecord, RefusesEverythingElse) {
  const std::string good = to_text(sample());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(parse(good.substr(0, length))) << length;
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_FALSE(parse(good + "more"));
  EXPECT_FALSE(parse(changed("top\t1", "top\t2")));
  EXPECT_FALSE(parse(changed("\t7\t", "\tseven\t")));
  EXPECT_FALSE(parse(changed("\t7\t", "\t7seven\t")));
  EXPECT_FALSE(parse(changed("\t7\t", "\t-7\t")));
  EXPECT_FALSE(parse(changed("\t7\t", "\t4294967296\t")));
  EXPECT_FALSE(parse(changed("\t512\t", "\t4194304\t"))) << "in use, and not held";
  EXPECT_FALSE(parse(changed("\t-1\t", "\t-2\t")));
  EXPECT_FALSE(parse(changed("device", "devices")));
  EXPECT_FALSE(parse(changed("Simulated GPU", "Simulated\tGPU")));
}

TEST(TopRecord, KeepsTerminalsSafe) {
  ProcessUse process{.pid = 7, .command = "a\x1b[2J\nend\n\tb\xc2\x9b"};
  EXPECT_EQ(parse(to_text(process))->command, "a?[2J?end??b??");
  EXPECT_EQ(parse("ember-top\t1\nprocess\t7\ta\x1b[2J\nend\n")->command, "a?[2J");
  process.command = std::string(1000, 'x');
  EXPECT_EQ(parse(to_text(process))->command, std::string(256, 'x'));
}

/// Sockets in a folder of the test's own.
class Top : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    // The process of a death test comes here as well, and stays where its parent is.
    if (!test::in_child()) {
      char made[] = "ember_top_XXXXXX";
      const char* home = std::getenv("TMPDIR");
      place_ = std::string(home != nullptr ? home : P_tmpdir) + "/" + made;
      ASSERT_NE(mkdtemp(place_.data()), nullptr);
      setenv("XDG_RUNTIME_DIR", place_.c_str(), 1);
    }
  }
  void TearDown() override {
    for (const std::string& path : sockets()) unlink(path.c_str());
    rmdir(folder().c_str());
    rmdir(place_.c_str());
  }

 private:
  std::string place_;
};
using TopDeathTest = Top;

const ProcessUse* own(const std::vector<ProcessUse>& all, pid_t id = getpid()) {
  const auto found = std::find_if(all.begin(), all.end(), [id](const ProcessUse& process) {
    return process.pid == static_cast<std::uint32_t>(id);
  });
  return found == all.end() ? nullptr : &*found;
}

/// What there is to see, once a process is among it: who does not answer in time is left out, as on
/// a machine that is busy.
std::vector<ProcessUse> processes_with(pid_t id) {
  for (int times = 0; times < 30; ++times)
    if (auto all = processes(); own(all, id) != nullptr) return all;
  return {};
}
std::vector<ProcessUse> processes_with_own() { return processes_with(getpid()); }

TEST_F(TopDeathTest, ShowsWhatAProcessHolds) {
  NEEDS_CACHING();
  IN_CHILD({
    setenv("EMBER_TOP", "1", 1);
    EXPECT_TRUE(processes().empty());
    DeviceBuffer kept = allocate(std::size_t{3} << 20);
    allocate(std::size_t{30} << 20).reset();
    const auto all = processes_with_own();
    const ProcessUse* self = own(all);
    EXPECT_NE(self, nullptr);
    if (self == nullptr) std::_Exit(1);
    EXPECT_EQ(self->devices.size(), static_cast<std::size_t>(device_count()));
    EXPECT_NE(self->command.find("test_top"), std::string::npos);
    const DeviceUse& use = self->devices[0];
    EXPECT_EQ(use.allocated, memory_allocated(0));
    EXPECT_EQ(use.reserved, memory_reserved(0));
    EXPECT_EQ(use.name, get_device_name(0));
    EXPECT_EQ(use.total, get_device_properties(0).total_memory);
    const std::string text = table();
    EXPECT_NE(text.find(std::to_string(getpid())), std::string::npos) << text;
    EXPECT_NE(text.find("3.00 MiB"), std::string::npos) << text;
    EXPECT_FALSE(processes_with_own().empty()) << "a second question is answered, too";
  });
  EXPECT_TRUE(sockets().empty()) << "the socket goes with the process";
}

/// A driver that many programs use: all sensors of a device take half a second.
class SlowSensors : public driver::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;

 protected:
  Status before(driver::Call call) noexcept override {
    if (call == driver::Call::device_sensor)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return {};
  }
};

// Before the first answer is there, nobody waits for it any more, and again and again.
TEST_F(TopDeathTest, AProcessWhoseSensorsAreSlowIsSeen) {
  IN_CHILD({
    // So many readings that together they take longer than anybody waits.
    EXPECT_EQ(setenv("EMBER_DEVICES", "sim:4@64MiB", 1), 0);
    EXPECT_EQ(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    test::installed<SlowSensors>();
    allow();
    synchronize(0);
    const auto all = processes_with_own();
    const ProcessUse* self = own(all);
    EXPECT_NE(self, nullptr);
    if (self == nullptr) std::_Exit(1);
    EXPECT_EQ(self->devices.size(), 4U);
    for (const DeviceUse& use : self->devices) EXPECT_NE(use.temperature, DeviceUse::kUnknown);
  });
}

TEST_F(TopDeathTest, IsSilentUnlessAsked) {
  IN_CHILD({
    unsetenv("EMBER_TOP");
    const DeviceBuffer kept = allocate(512);
    EXPECT_TRUE(sockets().empty());
    allow();
    allow();
    EXPECT_EQ(sockets().size(), 1U);
    struct stat made {};
    EXPECT_EQ(stat(folder().c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 0777, 0700U);
  });
}

TEST_F(TopDeathTest, RefusesAFolderThatIsOpenToOthers) {
  IN_CHILD({
    ASSERT_EQ(mkdir(folder().c_str(), 0755), 0);
    EXPECT_ERROR(allow(), Error, "closed to others (0700)");
    EXPECT_EQ(rmdir(folder().c_str()), 0);
  });
}

TEST_F(TopDeathTest, AChildIsAProcessOfItsOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << "the sanitizer lets no child start threads";
  IN_CHILD({
    allow();
    // Once it has answered, the parent's thread waits. While it begins it allocates, and the
    // address sanitizers of old compilers leave their locks taken in a child that is forked then.
    EXPECT_FALSE(processes_with_own().empty());
    const pid_t child = fork();
    if (child == 0) {
      // The parent's socket answers for the parent.
      const auto all = processes_with(getppid());
      const bool right = own(all) == nullptr && all.size() == 1;
      allow();
      _exit(right && !processes_with_own().empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(processes_with_own().empty()) << "the socket of the parent has stayed";
    EXPECT_EQ(sockets().size(), 1U) << "that of the child, which nobody is behind, was removed";
  });
}

TEST_F(TopDeathTest, DoesNotWaitForAProcessThatDoesNotAnswer) {
  IN_CHILD({
    std::string path;
    const int silent = listen_for_questions(path);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(ask(path));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    close(silent);
    EXPECT_FALSE(ask(path));
    EXPECT_TRUE(sockets().empty());
  });
}

pid_t forked_in_answer = 0;

TEST_F(TopDeathTest, AnAnswerEndsThoughAChildHasItsSocket) {
  IN_CHILD({
    std::string path;
    const int listener = listen_for_questions(path);
    std::thread answering([&] {
      answer_one(listener, [] {
        forked_in_answer = fork();
        if (forked_in_answer == 0)
          for (;;) pause();
        return std::string("said");
      });
    });
    EXPECT_EQ(ask(path), "said");
    answering.join();
    kill(forked_in_answer, SIGKILL);
    EXPECT_EQ(waitpid(forked_in_answer, nullptr, 0), forked_in_answer);
    close(listener);
    unlink(path.c_str());
  });
}

}  // namespace
}  // namespace ember::cuda::top
