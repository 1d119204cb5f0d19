#include "ember/driver/schedule.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

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
      {"threads:4", "'threads' is no kind of schedule"},
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
