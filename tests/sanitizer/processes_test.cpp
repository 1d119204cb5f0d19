// What a watched process says when it ends: its exit status, and the line of its summary.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Ended {
  std::string output;  ///< both streams
  int status = -1;
};

Ended probe(const std::string& settings, const std::string& arguments) {
  // The thread sanitizer would find the bugs, too, and end the program.
  const std::string command =
      "env TSAN_OPTIONS=report_bugs=0 EMBER_SIM_SCHEDULE=random:1 "
      "EMBER_DEVICES=sim:2@64MiB " +
      settings + " " EMBER_WATCHED_PROBE " " + arguments + " 2>&1";
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

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ExitCode, IsThatOfAProcessThatRacedAndWouldHaveSucceeded) {
  const std::string watched = "EMBER_SANITIZER=continue EMBER_SANITIZER_EXITCODE=23";
  EXPECT_EQ(probe(watched, "bug").status, 23);
  EXPECT_EQ(probe(watched, "reuse").status, 23);
  EXPECT_EQ(probe(watched, "bug 3").status, 3) << "it failed by itself";
  EXPECT_EQ(probe(watched, "fixed").status, 0);
  EXPECT_EQ(probe(watched, "lambda").status, 0) << "unchecked is not found";
  EXPECT_EQ(probe(watched, "host").status, 0);
  EXPECT_EQ(probe("EMBER_SANITIZER=continue", "bug").status, 0);
  EXPECT_EQ(probe("EMBER_SANITIZER_EXITCODE=23", "bug").status, 0) << "nobody watched";
  EXPECT_EQ(probe(watched + " EMBER_SANITIZER_SUPPRESS='multi*'", "bug").status, 0);
}

TEST(ExitCode, TakesNothingFromTheEndOfAProgram) {
  const Ended ended = probe(
      "EMBER_SANITIZER=continue EMBER_SANITIZER_EXITCODE=255 "
      "EMBER_SIM_SCHEDULE=random:1 EMBER_SIM_LOG=/dev/stderr",
      "bug 0 goes");
  EXPECT_EQ(ended.status, 255);
  EXPECT_TRUE(says(ended.output, "destroyed")) << ended.output;
  EXPECT_TRUE(says(ended.output, "ember schedule log")) << ended.output;
}

TEST(ExitCode, IsANumberOfAProcess) {
  for (const char* text : {"0", "256", "-1", "x", "1x", " 1", "1.5", "99999999999"}) {
    const Ended ended =
        probe(std::string("EMBER_SANITIZER=1 'EMBER_SANITIZER_EXITCODE=") + text + "'", "fixed");
    EXPECT_TRUE(says(ended.output, std::string("EMBER_SANITIZER_EXITCODE is '") + text +
                                       "', expected a number from 1 to 255"))
        << ended.output;
    EXPECT_NE(ended.status, 0);
  }
  EXPECT_EQ(probe("EMBER_SANITIZER=1 EMBER_SANITIZER_EXITCODE=", "fixed").status, 0) << "unset";
}

/// A program beside whose copies the host uses pinned memory; nothing runs before it is waited for.
Ended guarded(const std::string& what, const std::string& settings = "EMBER_SANITIZER=guard") {
  return probe("EMBER_SIM_SCHEDULE=steps: EMBER_SANITIZER_EXITCODE=23 " + settings, what);
}

TEST(Guard, NamesTheCopyThatAnAccessOfTheHostMeets) {
  const Ended source = guarded("source");
  EXPECT_EQ(source.status, 23) << source.output;
  EXPECT_TRUE(says(source.output, "ember: EMBER_SANITIZER=guard: the host writes 0x"));
  EXPECT_TRUE(says(source.output, ", which a copy from 0x")) << source.output;
  EXPECT_TRUE(says(source.output, " (5000 bytes) on stream 0x")) << source.output;
  EXPECT_TRUE(says(source.output, " of cuda:0 has not read yet; wait for it first\n"));
  EXPECT_EQ(source.output.find("the host writes"), source.output.rfind("the host writes"))
      << "once";
  EXPECT_TRUE(says(source.output, "the device has 7, the host 7\n")) << "it went on";
  const Ended target = guarded("target");
  EXPECT_EQ(target.status, 23) << target.output;
  EXPECT_TRUE(says(target.output, "the host ")) << target.output;
  EXPECT_TRUE(says(target.output, ", which a copy to 0x")) << target.output;
  EXPECT_TRUE(says(target.output, " (100 bytes) on stream 0x")) << target.output;
  EXPECT_TRUE(says(target.output, " has not written yet; wait for it first\n")) << target.output;
}

TEST(Guard, NamesTheCopyOfAReplay) {
  const Ended ended = guarded("replay");
  EXPECT_EQ(ended.status, 23) << ended.output;
  EXPECT_TRUE(says(ended.output, "ember: EMBER_SANITIZER=guard: the host writes 0x"));
  EXPECT_TRUE(says(ended.output, " (5000 bytes) on stream 0x")) << ended.output;
}

TEST(Guard, SaysNothingOfWhatIsRight) {
  for (const char* right : {"waits", "beside", "reads", "function", "replayed"}) {
    const Ended ended = guarded(right);
    EXPECT_EQ(ended.status, 0) << right << ": " << ended.output;
    EXPECT_FALSE(says(ended.output, "guard")) << right << ": " << ended.output;
    EXPECT_TRUE(says(ended.output, "the device has ")) << right << ": " << ended.output;
  }
  EXPECT_EQ(guarded("fixed").status, 0);
  EXPECT_TRUE(says(guarded("bug").output, "CSAN detected a possible data race"))
      << "it is EMBER_SANITIZER=1 besides";
  // Threads that work beside the host are not taken for it.
  for (const char* right : {"waits", "beside", "reads", "function", "replayed"}) {
    const Ended ended = guarded(right, "EMBER_SANITIZER=guard EMBER_SIM_SCHEDULE=threads");
    EXPECT_EQ(ended.status, 0) << right << ": " << ended.output;
    EXPECT_FALSE(says(ended.output, "guard")) << right << ": " << ended.output;
  }
}

TEST(Guard, IsThereWhenItIsAskedFor) {
  const Ended ended = guarded("source", "EMBER_SANITIZER=continue");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_FALSE(says(ended.output, "guard")) << ended.output;
}

// Pinned memory whose use by the host nobody says is unwatched, but for where the pages are.
TEST(Guard, LeavesNoPinnedMemoryUnwatched) {
  const std::string file = testing::TempDir() + "ember_guarded_summary";
  const auto summary_with = [&](const std::string& how) {
    std::remove(file.c_str());
    const Ended ended =
        guarded("waits", "EMBER_SANITIZER=" + how + " EMBER_SANITIZER_SUMMARY=" + file);
    EXPECT_EQ(ended.status, 0) << ended.output;
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string guards = summary_with("guard"), watches = summary_with("continue");
  EXPECT_TRUE(says(guards, "\"exposed\": 0")) << guards;
  EXPECT_FALSE(says(watches, "\"exposed\": 0")) << watches;
  EXPECT_TRUE(says(watches, "\"clean\": false")) << watches;
}

TEST(Guard, PassesOnWhatIsNotItsOwn) {
  const Ended ended = guarded("crash");
  EXPECT_NE(ended.status, 0);
  EXPECT_NE(ended.status, 23) << ended.output;
  EXPECT_FALSE(says(ended.output, "the device has ")) << ended.output;
}

TEST(Summary, IsOneLineForEachProcess) {
  const std::string file = testing::TempDir() + "ember_sanitizer_summary.jsonl";
  std::remove(file.c_str());
  const std::string watched = "EMBER_SANITIZER=continue EMBER_SANITIZER_SUMMARY=" + file;
  for (const char* what : {"fixed", "bug 3", "reuse", "lambda", "nothing", "host"})
    (void)probe(watched, what);
  const std::vector<std::string> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 5U) << "one for each that used devices";
  // A fill and two kernels, and the copy of the result.
  EXPECT_TRUE(says(lines[0],
                   ", \"checked\": 4, \"unchecked\": 0, \"unchecked_names\": [], \"exposed\": 0, "
                   "\"races\": 0, \"reuses\": 0, \"uses_after_free\": 0, \"by_query\": 0, "
                   "\"possible\": 0, \"unwritten\": 0, \"suppressed\": 0, \"clean\": true}"))
      << lines[0];
  EXPECT_TRUE(says(lines[1], "\"races\": 1, \"reuses\": 0,")) << lines[1];
  EXPECT_TRUE(says(lines[1], "\"clean\": false}")) << lines[1];
  EXPECT_TRUE(says(lines[2], "\"races\": 1, \"reuses\": 1,")) << lines[2];
  EXPECT_TRUE(says(lines[3], "\"unchecked\": 1, \"unchecked_names\": [\"secretive\"],"))
      << lines[3];
  EXPECT_TRUE(says(lines[3], "\"clean\": false}")) << lines[3];
  EXPECT_TRUE(says(lines[4], "\"checked\": 0, \"unchecked\": 0,")) << lines[4];
  std::remove(file.c_str());
}

TEST(Summary, NeedsAFileThatCanBeWritten) {
  const Ended ended = probe("EMBER_SANITIZER=1 EMBER_SANITIZER_SUMMARY=/nowhere/at/all", "fixed");
  EXPECT_TRUE(
      says(ended.output, "EMBER_SANITIZER_SUMMARY is '/nowhere/at/all', which cannot be opened"))
      << ended.output;
  EXPECT_NE(ended.status, 0);
}

}  // namespace
