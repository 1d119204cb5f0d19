// What ember/testing/gtest.h does, seen from outside.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace {

struct Ended {
  std::string output;
  int status = -1;
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

Ended run_command(const std::string& command) {
  Ended ended;
  // The thread sanitizer would find the bugs, too, and end the program.
  const std::string quietly = "export TSAN_OPTIONS=report_bugs=0; " + command + " 2>&1";
  std::FILE* pipe = popen(quietly.c_str(), "r");
  if (pipe == nullptr) return ended;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    ended.output.append(buffer, got);
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

/// One test of seeds_probe.cpp, where nobody has chosen anything but these settings.
Ended probe(const std::string& test, const std::string& settings = "") {
  return run_command(
      "env -u EMBER_DEVICES -u EMBER_SIM_SCHEDULE -u EMBER_TEST_SEEDS -u EMBER_SANITIZER "
      "-u GTEST_OUTPUT -u GTEST_FILTER " +
      settings + " " EMBER_SEEDS_PROBE " --gtest_filter=Probe." + test);
}

TEST(ForEachSeed, RunsOnceForEach) {
  const Ended ended = probe("Fixed");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_TRUE(ended.says("20 runs\n")) << ended.output;
  EXPECT_TRUE(probe("Fixed", "EMBER_TEST_SEEDS=3").says("\n3 runs\n"));
  EXPECT_TRUE(probe("Fixed", "EMBER_TEST_SEEDS=pct:5:3").says("\n1 runs\n"));
  EXPECT_TRUE(probe("Fixed", "EMBER_TEST_SEEDS=").says("20 runs\n")) << "unset";
}

TEST(ForEachSeed, SaysHowToSeeAFailureAgain) {
  const Ended ended = probe("Bug");
  EXPECT_EQ(ended.status, 1);
  const std::string before = "; to see it again:\n  ";
  const std::size_t at = ended.output.find(before);
  ASSERT_NE(at, std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find(before, at + 1), std::string::npos) << "it stops at the first";
  const std::size_t start = at + before.size();
  const std::string line = ended.output.substr(start, ended.output.find('\n', start) - start);
  EXPECT_EQ(line.find("EMBER_TEST_SEEDS=random:"), 0U) << line;
  const std::string schedule = line.substr(0, line.find(' '));
  EXPECT_EQ(line, schedule + " " EMBER_SEEDS_PROBE " --gtest_filter=Probe.Bug");
  for (int i = 0; i < 3; ++i) {
    const Ended again = run_command("env -u EMBER_DEVICES -u EMBER_SIM_SCHEDULE " + line);
    EXPECT_EQ(again.status, 1) << again.output;
    EXPECT_TRUE(again.says(line)) << again.output;
  }
  EXPECT_EQ(probe("Fixed", schedule).status, 0);
  EXPECT_TRUE(probe("Bug", "EMBER_DEVICES=sim:2").says("EMBER_DEVICES=sim:2 EMBER_TEST_SEEDS="));
}

TEST(ForEachSeed, DecidesAsAskedFor) {
  struct Kind {
    const char* test;
    const char* first;
    const char* last;
  };
  for (const Kind& kind :
       {Kind{"Pct", "pct:0:3", "pct:15:3"}, Kind{"DeepPct", "pct:0:5", "pct:15:5"},
        Kind{"Model", "model:h200 ", "model:h200,seed=15"},
        Kind{"H100", "model:h100 ", "model:h100,seed=15"}}) {
    const Ended ended = probe(kind.test);
    EXPECT_EQ(ended.status, 0) << ended.output;
    for (const char* schedule : {kind.first, kind.last})
      EXPECT_TRUE(ended.says(std::string("EMBER_SIM_SCHEDULE=") + schedule)) << ended.output;
  }
  const Ended swarm = probe("Swarm");
  EXPECT_EQ(swarm.status, 0) << swarm.output;
  for (const char* drawn : {"random:", "pct:", "model:"})
    EXPECT_TRUE(swarm.says(std::string("EMBER_SIM_SCHEDULE=") + drawn)) << swarm.output;
  for (const char* wrong : {"Sorted", "Threads"}) {
    EXPECT_EQ(probe(wrong).status, 1);
    EXPECT_TRUE(probe(wrong).says("for_each_seed: ")) << probe(wrong).output;
  }
}

TEST(ForEachSeed, OfASwarmIsSeenAgain) {
  const Ended ended = probe("BugBySwarm");
  EXPECT_EQ(ended.status, 1) << ended.output;
  const std::size_t at = ended.output.find("EMBER_TEST_SEEDS=swarm:");
  ASSERT_NE(at, std::string::npos) << ended.output;
  const std::string line = ended.output.substr(at, ended.output.find('\n', at) - at);
  EXPECT_TRUE(run_command("env -u EMBER_DEVICES -u EMBER_SIM_SCHEDULE " + line).says(line));
  for (const char* schedule : {"swarm:2", "model", "model:h100", "steps:"})
    EXPECT_TRUE(probe("Fixed", std::string("EMBER_TEST_SEEDS=") + schedule).says("\n1 runs\n"))
        << schedule;
}

TEST(ForEachSeed, FailsForARace) {
  const Ended ended = probe("Race");
  EXPECT_EQ(ended.status, 1);
  EXPECT_TRUE(ended.says("CSAN detected a possible data race")) << ended.output;
  EXPECT_TRUE(ended.says("EMBER_TEST_SEEDS=random:0 ")) << "whatever the seed: " << ended.output;
}

TEST(ForEachSeed, TakesEveryKindOfFailure) {
  EXPECT_TRUE(probe("Asserts").says("as it must"));
  EXPECT_TRUE(probe("Asserts").says("in the order of random:0"));
  EXPECT_TRUE(probe("Throws").says("it threw: thrown"));
  EXPECT_TRUE(probe("Throws").says("in the order of random:0"));
  const Ended skipped = probe("Skips");
  EXPECT_EQ(skipped.status, 0);
  EXPECT_TRUE(skipped.says("1 runs\n")) << skipped.output;
}

TEST(ForEachSeed, HasTheDevicesItNeeds) {
  EXPECT_TRUE(probe("ThreeDevices").says("3 devices\n"));
  EXPECT_TRUE(probe("ThreeDevices", "EMBER_DEVICES=sim:4").says("4 devices\n"));
  const Ended fewer = probe("ThreeDevices", "EMBER_DEVICES=sim:2");
  EXPECT_EQ(fewer.status, 0);
  EXPECT_TRUE(fewer.says("needs 3 devices, and there are 2")) << fewer.output;
  EXPECT_TRUE(probe("ThreeDevices", "EMBER_DEVICES=none").says("needs 3 devices, and there are 0"));
}

TEST(ForEachSeed, NeedsDevicesWhoseOrderASeedDecides) {
  for (const char* settings :
       {"EMBER_DEVICES=sim:1", "EMBER_DEVICES=sim:1 EMBER_SIM_SCHEDULE=threads"}) {
    const Ended ended = probe("DevicesInUse", settings);
    EXPECT_EQ(ended.status, 1);
    EXPECT_TRUE(ended.says("for_each_seed: begin_run: ")) << ended.output;
  }
  const std::string seeded = "EMBER_DEVICES=sim:1 EMBER_SIM_SCHEDULE=random:0";
  EXPECT_EQ(probe("DevicesInUse", seeded).status, 0);
}

TEST(ForEachSeed, RefusesWhatIsMalformed) {
  for (const char* text : {"0", "-1", "x", "3x", " 3", "1e3", "99999999999", "threads"}) {
    const Ended ended = probe("Fixed", std::string("'EMBER_TEST_SEEDS=") + text + "'");
    EXPECT_EQ(ended.status, 1) << text;
    EXPECT_TRUE(ended.says("EMBER_TEST_SEEDS is '" + std::string(text) + "', expected a positive"))
        << ended.output;
  }
  for (const char* text : {"random:x", "pct:1", "replay:/nowhere"}) {
    const Ended ended = probe("Fixed", std::string("EMBER_TEST_SEEDS=") + text);
    EXPECT_EQ(ended.status, 1) << text;
    EXPECT_TRUE(ended.says("for_each_seed: ")) << ended.output;
  }
  EXPECT_TRUE(probe("NoSeeds").says("for_each_seed: seeds is 0, expected a positive number"));
}

}  // namespace
