// What a seed decides, seen from outside: the same in every process, and how processes end that
// cannot go on.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Ended {
  std::string output;  ///< both streams
  int status = -1;
};

Ended probe(const std::string& settings, const std::string& arguments = "") {
  const std::string command = "env " + settings + " " EMBER_ORDER_PROBE " " + arguments + " 2>&1";
  Ended ended;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ended;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    ended.output.append(buffer, got);
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

std::string file_with(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string log_of(const std::string& output) {
  return output.substr(0, output.find('\n', output.find("\nend ") + 1) + 1);
}

TEST(Processes, RunTheSameBySeedUnderLoad) {
  const Ended calm = probe("", "0 99");
  ASSERT_EQ(calm.status, 0) << calm.output;
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (unsigned i = 0; i < 2; ++i)
    load.emplace_back([&] {
      while (!stop) {
      }
    });
  const Ended busy = probe("EMBER_SIZE_OF_ENVIRONMENT=" + std::string(50'000, 'x'), "0 99");
  stop = true;
  for (std::thread& each : load) each.join();
  ASSERT_EQ(busy.status, 0) << busy.output;
  EXPECT_EQ(calm.output, busy.output);
  EXPECT_EQ(calm.output.find("0x"), std::string::npos) << "an address";
}

// begin_run leaves nothing behind that the next run would see.
TEST(Processes, TakeTurnsFromTheFirstThreadOn) {
  for (const std::string schedule : {"random:1", "random:2", "pct:3:2", "model"}) {
    const std::string settings = "EMBER_SIM_SCHEDULE=" + schedule;
    const Ended first = probe(settings, "first_use");
    EXPECT_EQ(first.status, 0) << first.output;
    EXPECT_EQ(first.output.substr(0, 2), "6\n") << first.output;
    EXPECT_NE(first.output.find("\nturn "), std::string::npos) << first.output;
    EXPECT_EQ(probe(settings, "first_use").output, first.output) << schedule;
  }
  EXPECT_EQ(probe("EMBER_SIM_SCHEDULE=threads", "first_use").output, "6\n");
  EXPECT_NE(probe("EMBER_SIM_SCHEDULE=random", "first_use").output.find("expected"),
            std::string::npos);
}

TEST(Processes, WaitOnWhenASeedBeginsToDecide) {
  for (const char* schedule : {"random:1", "threads"})
    EXPECT_EQ(probe(std::string("EMBER_SIM_SCHEDULE=") + schedule, "made_meanwhile").output,
              "went on\n");
}

TEST(Processes, RunTheSameAsTheFirstRunOrALaterOne) {
  const Ended later = probe("", "0 5");
  ASSERT_EQ(later.status, 0) << later.output;
  for (const char* seed : {"0", "3", "5"}) {
    const Ended first = probe(std::string("EMBER_SIM_SCHEDULE=random:") + seed);
    EXPECT_EQ(first.status, 0);
    EXPECT_NE(later.output.find(first.output), std::string::npos) << "seed " << seed << " first:\n"
                                                                  << first.output << "later:\n"
                                                                  << later.output;
  }
}

TEST(Processes, ReplayTheLogOfAnother) {
  const std::string file = testing::TempDir() + "ember_order_saved.log";
  const Ended recorded = probe("EMBER_SIM_SCHEDULE=random:11 EMBER_SIM_LOG=" + file);
  ASSERT_EQ(recorded.status, 0) << recorded.output;
  EXPECT_EQ(probe("EMBER_SIM_SCHEDULE=replay:" + file).output, recorded.output);
  const Ended pct = probe("EMBER_SIM_SCHEDULE=pct:11:3 EMBER_SIM_LOG=" + file);
  const Ended replayed = probe("EMBER_SIM_SCHEDULE=replay:" + file);
  EXPECT_EQ(replayed.status, 0);
  EXPECT_EQ(replayed.output.substr(replayed.output.find("\nend ")),
            pct.output.substr(pct.output.find("\nend ")));
}

TEST(Processes, RunTheSameByAModel) {
  const std::string file = testing::TempDir() + "ember_order_model.log";
  const Ended first = probe("EMBER_SIM_SCHEDULE=model EMBER_SIM_LOG=" + file);
  ASSERT_EQ(first.status, 0) << first.output;
  const Ended second =
      probe("EMBER_SIM_SCHEDULE=model EMBER_SIZE_OF_ENVIRONMENT=" + std::string(50'000, 'x'));
  EXPECT_EQ(first.output, second.output) << "the log, the results and the times";
  EXPECT_EQ(probe("EMBER_SIM_SCHEDULE=replay:" + file, "").output, first.output);
  const Ended other = probe("EMBER_SIM_SCHEDULE=replay:" + file, "other");
  EXPECT_EQ(other.status, 70) << other.output;
}

// The line that a swarm prints is the run that it made.
TEST(Processes, RunAgainWhatASwarmHasDrawn) {
  std::set<std::string> kinds;
  for (int seed = 0; seed < 12; ++seed) {
    const Ended swarm = probe("EMBER_SIM_SCHEDULE=swarm:" + std::to_string(seed));
    const std::string said = "ember: the run is ";
    ASSERT_EQ(swarm.output.rfind(said, 0), 0u) << swarm.output;
    const std::size_t end = swarm.output.find('\n');
    const std::string line = swarm.output.substr(said.size(), end - said.size());
    kinds.insert(line.substr(line.find('=') + 1, 3));
    const Ended again = probe(line);
    EXPECT_EQ(again.output, swarm.output.substr(end + 1)) << line;
    EXPECT_EQ(again.status, swarm.status);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"mod", "pct", "ran"}));
}

TEST(Processes, StopWhereAReplayLeavesItsRecording) {
  const Ended recorded = probe("EMBER_SIM_SCHEDULE=random:11");
  const std::string file = file_with("ember_order_other.log", log_of(recorded.output));
  const Ended other = probe("EMBER_SIM_SCHEDULE=replay:" + file, "other");
  EXPECT_EQ(other.status, 70) << other.output;
  EXPECT_NE(other.output.find("the replay leaves its recording at decision "), std::string::npos)
      << other.output;
  EXPECT_NE(other.output.find(" s1.1 fill', found '"), std::string::npos) << other.output;
}

TEST(Processes, RefuseWhatIsNoLog) {
  const std::string log = log_of(probe("EMBER_SIM_SCHEDULE=random:11").output);
  const auto refusal = [](const std::string& text) {
    const Ended ended =
        probe("EMBER_SIM_SCHEDULE=replay:" + file_with("ember_order_bad.log", text));
    EXPECT_NE(ended.status, 0);
    return ended.output;
  };
  EXPECT_NE(refusal(log.substr(0, log.size() / 2)).find("it ends after line"), std::string::npos);
  EXPECT_NE(refusal("").find("it ends after line 0"), std::string::npos);
  EXPECT_NE(refusal("hello\n").find("line 1 is 'hello', expected"), std::string::npos);
  const Ended settings = probe("EMBER_SIM_SCHEDULE=fifo");
  EXPECT_NE(settings.output.find("EMBER_SIM_SCHEDULE='fifo': 'fifo' is no kind of schedule"),
            std::string::npos)
      << settings.output;
  EXPECT_NE(probe("EMBER_SIM_PATIENCE=soon").output.find("EMBER_SIM_PATIENCE='soon'"),
            std::string::npos);
}

TEST(Processes, EndWhereATaskNeverDoes) {
  const Ended ended = probe("EMBER_SIM_SCHEDULE=random:9 EMBER_SIM_PATIENCE=1", "forever");
  EXPECT_EQ(ended.status, 70) << ended.output;
  EXPECT_NE(ended.output.find("task 'host function'"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("EMBER_SIM_SCHEDULE=random:9\n"), std::string::npos) << ended.output;
}

TEST(Processes, EndInADeadlockThatIsNamed) {
  std::string line;
  int ended = 0;
  for (int seed = 0; seed < 20; ++seed) {
    const std::string schedule = "EMBER_SIM_SCHEDULE=random:" + std::to_string(seed);
    const Ended found = probe(schedule, "deadlock");
    if (found.status == 0) continue;
    ++ended;
    EXPECT_EQ(found.status, 70) << found.output;
    EXPECT_NE(found.output.find("deadlock: thread 1 waits for thread "), std::string::npos)
        << found.output;
    EXPECT_NE(found.output.find("thread 2 waits for a mutex that thread 3 holds; thread 3 waits "
                                "for a mutex that thread 2 holds"),
              std::string::npos)
        << found.output;
    EXPECT_NE(found.output.find(schedule), std::string::npos) << found.output;
  }
  EXPECT_GE(ended, 1);
  EXPECT_LE(ended, 19);
}

TEST(Processes, GoOnWithoutTurnsAfterAThreadWasSilent) {
  int silent = 0;
  for (int seed = 0; seed < 3 && silent == 0; ++seed) {
    const Ended ended = probe("EMBER_SIM_SCHEDULE=random:" + std::to_string(seed), "silent");
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_EQ(ended.output.rfind("1 done\n", 0), 0u) << ended.output;
    if (ended.output.find("\nnote ") != std::string::npos) ++silent;
  }
  EXPECT_EQ(silent, 1);
}

TEST(Processes, CountWithEverySchedule) {
  for (const char* schedule : {"threads", "random:3", "pct:3:3", "model", "steps:", "swarm:0"}) {
    const Ended ended = probe(std::string("EMBER_SIM_SCHEDULE=") + schedule, "counts");
    EXPECT_EQ(ended.status, 0) << schedule << ended.output;
    EXPECT_NE(ended.output.find("counted 400\n"), std::string::npos) << schedule << ended.output;
  }
}

}  // namespace
