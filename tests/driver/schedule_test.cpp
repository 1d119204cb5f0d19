#include "ember/driver/schedule.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace ember::driver {
namespace {

TEST(ParseSchedule, AcceptsWhatTheTableSays) {
  const struct {
    std::optional<std::string> text;
    Schedule expected;
  } kGoodSchedules[] = {
      {std::nullopt, {}},
      {"", {}},
      {"threads", {}},
      {"random:0", {Schedule::Kind::random, 0, 0, ""}},
      {"random:18446744073709551615", {Schedule::Kind::random, UINT64_MAX, 0, ""}},
      {"pct:7:1", {Schedule::Kind::pct, 7, 1, ""}},
      {"pct:7:64", {Schedule::Kind::pct, 7, 64, ""}},
      {"replay:a", {Schedule::Kind::replay, 0, 0, "a"}},
      {"replay:/tmp/a:b c", {Schedule::Kind::replay, 0, 0, "/tmp/a:b c"}},
      {"model", {Schedule::Kind::model, 0, 0, ""}},
      {"model:h100", {Schedule::Kind::model, 0, 0, "h100"}},
      {"swarm:7", {Schedule::Kind::swarm, 7, 0, ""}},
      {"model:h200,memory_rate=7", {Schedule::Kind::model, 0, 0, "h200,memory_rate=7"}},
      {"model:h200,memory_rate=7,seed=5", {Schedule::Kind::model, 5, 0, "h200,memory_rate=7"}},
      {"model:/tmp/a:b c", {Schedule::Kind::model, 0, 0, "/tmp/a:b c"}},
      {"steps:", {Schedule::Kind::steps, 0, 0, "", {}}},
      {"steps:3:s2.1", {Schedule::Kind::steps, 0, 0, "", {{3, 2, 1}}}},
      {"steps:3:s2.1,3:s1.7,18446744073709551615:s4294967295.9",
       {Schedule::Kind::steps, 0, 0, "", {{3, 2, 1}, {3, 1, 7}, {UINT64_MAX, UINT32_MAX, 9}}}},
      {"steps:3:s2.1+s1.7,4:s3.2/2",
       {Schedule::Kind::steps, 0, 0, "", {{3, 2, 1, 1, 7}, {4, 3, 2, 0, 0, true}}}},
      {"steps:@/tmp/a,b", {Schedule::Kind::steps, 0, 0, "/tmp/a,b", {}}},
  };
  for (const auto& row : kGoodSchedules) {
    const std::string name = row.text.value_or("(unset)");
    Schedule schedule{Schedule::Kind::pct, 1, 2, "x"};
    const Status status = parse_schedule(row.text, schedule);
    ASSERT_TRUE(status.ok()) << name << ": " << status.text();
    EXPECT_EQ(schedule, row.expected) << name;
    if (row.text && !row.text->empty()) {
      EXPECT_EQ(schedule_text(schedule), *row.text);
    }
    EXPECT_EQ(schedule.seeded(), schedule.kind != Schedule::Kind::threads);
  }
}

TEST(ParseSchedule, RefusesWhatTheTableSays) {
  const struct {
    const char* text;
    const char* why;
  } kBadSchedules[] = {
      {"fifo", "'fifo' is no kind of schedule"},
      {"random", "'' is not a seed from 0"},
      {"random:", "'' is not a seed from 0"},
      {"random:x", "'x' is not a seed from 0"},
      {"random:-1", "'-1' is not a seed from 0"},
      {"random:+1", "'+1' is not a seed from 0"},
      {"random:1 ", "'1 ' is not a seed from 0"},
      {"random:18446744073709551616", "is not a seed from 0"},
      {"Random:1", "'Random' is no kind of schedule"},
      {" random:1", "' random' is no kind of schedule"},
      {"pct:1", "'' is not a depth from 1 to 64"},
      {"pct:1:", "'' is not a depth from 1 to 64"},
      {"pct:1:0", "'0' is not a depth from 1 to 64"},
      {"pct:1:65", "'65' is not a depth from 1 to 64"},
      {"pct:1:2:3", "'2:3' is not a depth from 1 to 64"},
      {"pct::2", "'' is not a seed from 0"},
      {"replay", "no file is named"},
      {"replay:", "no file is named"},
      {"model:", "no file is named"},
      {"model:,seed=1", "no file is named"},
      {"model:h200,seed=x", "'x' is not a seed from 0"},
      {"swarm", "'' is not a seed from 0"},
      {"swarm:1:2", "'1:2' is not a seed from 0"},
      {"threads:4", "'threads' is no kind of schedule"},
      {"steps", "'steps' is no kind of schedule"},
      {"steps:@", "no file is named"},
      {"steps:3", "'3' is no step such as '3:s2.1'"},
      {"steps:s2.1", "'s2.1' is no step"},
      {"steps:3:2.1", "'3:2.1' is no step"},
      {"steps:3:s2", "'3:s2' is no step"},
      {"steps:0:s2.1", "'0:s2.1' is no step"},
      {"steps:3:s0.1", "'3:s0.1' is no step"},
      {"steps:3:s2.0", "'3:s2.0' is no step"},
      {"steps:3:s4294967296.1", "is no step"},
      {"steps:3:s2.1+", "'3:s2.1+' is no step"},
      {"steps:3:s2.1+1.7", "'3:s2.1+1.7' is no step"},
      {"steps:3:s2.1+s2.2", "'3:s2.1+s2.2' is no step"},
      {"steps:3:s2.1+s0.2", "'3:s2.1+s0.2' is no step"},
      {"steps:3:s2.1+s1.2/2", "'3:s2.1+s1.2/2' is no step"},
      {"steps:3:s2.1/3", "'3:s2.1/3' is no step"},
      {"steps:3:/2", "'3:/2' is no step"},
      {"steps:1:s1.1,-1:s1.2", "'-1:s1.2' is no step"},
      {"steps:3:s2.1 4:s2.2", "steps are separated by commas alone"},
      {"steps:3:s2.1\n4:s2.2", "steps are separated by commas alone"},
      {"steps:3:s1.1,2:s1.2", "'2:s1.2' comes after a step at a later point, 3"},
  };
  for (const auto& row : kBadSchedules) {
    const Schedule before{Schedule::Kind::pct, 1, 2, "x"};
    Schedule schedule = before;
    const Status status = parse_schedule(row.text, schedule);
    EXPECT_EQ(status.code(), Code::invalid_value) << row.text;
    EXPECT_NE(status.detail().find(row.why), std::string::npos) << status.detail();
    EXPECT_EQ(status.detail().rfind("EMBER_SIM_SCHEDULE='" + std::string(row.text) + "': ", 0), 0u);
    EXPECT_EQ(schedule, before);
  }
}

TEST(ParseSteps, TakesAFilesLinesAndRemarks) {
  std::vector<Step> steps;
  ASSERT_TRUE(parse_steps("# of a run\n3:s2.1 multiply\n\n5:s1.1 add, or so\n", steps).ok());
  EXPECT_EQ(steps, (std::vector<Step>{{3, 2, 1}, {5, 1, 1}}));
  const Status status = parse_steps("3:s2.1\nx y\n", steps);
  EXPECT_EQ(status.code(), Code::invalid_value);
  EXPECT_EQ(steps.size(), 2u);
}

TEST(ParsePatience, TakesSeconds) {
  int seconds = -1;
  EXPECT_TRUE(parse_patience(std::nullopt, seconds).ok());
  EXPECT_EQ(seconds, 20);
  EXPECT_TRUE(parse_patience("0", seconds).ok());
  EXPECT_EQ(seconds, 0);
  for (const char* text : {"-1", "86401", "2s", " 2", "soon", "99999999999"}) {
    const Status status = parse_patience(text, seconds);
    EXPECT_EQ(status.code(), Code::invalid_value) << text;
    EXPECT_NE(status.detail().find(std::string("EMBER_SIM_PATIENCE='") + text + "'"),
              std::string::npos);
    EXPECT_EQ(seconds, 0);
  }
}

}  // namespace
}  // namespace ember::driver
