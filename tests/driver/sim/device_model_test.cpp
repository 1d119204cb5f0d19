// Device models as text.
#include "ember/driver/sim/device_model.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ember/driver/faults.h"
#include "ember/driver/sim/swarm.h"

namespace ember::driver::sim {
namespace {

constexpr const char* kHead = "ember device model 1\nname mine\n";

TEST(DeviceModel, BuiltInOnesAreComplete) {
  for (const char* name : {"h200", "h100"}) {
    DeviceModel model;
    const Status status = parse_device_model(built_in_model(name), model);
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(model.name, name);
    DeviceModel again;
    ASSERT_TRUE(parse_device_model(device_model_text(model), again).ok());
    EXPECT_EQ(device_model_text(again), device_model_text(model));
  }
  EXPECT_TRUE(built_in_model("b200").empty());
}

TEST(DeviceModel, IsLikeAnotherButForWhatItSays) {
  DeviceModel base, model;
  ASSERT_TRUE(parse_device_model(built_in_model("h200"), base).ok());
  const std::string text = std::string(kHead) + "like h200\n# half as fast\nmemory_rate 7 # MB/s\n";
  ASSERT_TRUE(parse_device_model(text, model).ok());
  EXPECT_EQ(model.name, "mine");
  EXPECT_EQ(model.memory_rate, 7);
  EXPECT_EQ(model.to_device_rate, base.to_device_rate);
}

TEST(DeviceModel, TakesOtherValuesBehindItsName) {
  DeviceModel model;
  ASSERT_TRUE(parse_device_model(built_in_model("h200"), model).ok());
  ASSERT_TRUE(change_device_model("memory_rate=7,peer_engines=2", model).ok());
  EXPECT_EQ(model.memory_rate, 7);
  EXPECT_EQ(model.peer_engines, 2);
  for (const char* bad : {"memory_rate", "memory_rate=8,colour=3", "memory_rate=0", "=", "a"}) {
    const Status status = change_device_model(bad, model);
    EXPECT_EQ(status.code(), Code::invalid_value) << bad;
    EXPECT_NE(status.detail().find("expected"), std::string::npos) << status.detail();
    EXPECT_EQ(model.memory_rate, 7);
  }
}

TEST(Swarm, DrawsEveryPolicyAndTheSameAgain) {
  std::map<Schedule::Kind, int> kinds;
  int faults = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Drawn drawn = draw_swarm(seed);
    ++kinds[drawn.schedule.kind];
    faults += drawn.faults.empty() ? 0 : 1;
    EXPECT_EQ(drawn.schedule, draw_swarm(seed).schedule);
    EXPECT_EQ(drawn.schedule.seed, seed);
    // What is printed can be read.
    Schedule read;
    ASSERT_TRUE(parse_schedule(schedule_text(drawn.schedule), read).ok());
    EXPECT_EQ(read, drawn.schedule);
    Faults read_faults;
    ASSERT_TRUE(parse_faults(faults_text(drawn.faults), read_faults).ok());
    EXPECT_EQ(read_faults, drawn.faults);
    if (drawn.schedule.kind != Schedule::Kind::model) continue;
    DeviceModel model;
    ASSERT_TRUE(parse_device_model(built_in_model("h200"), model).ok());
    const std::size_t comma = drawn.schedule.file.find(',');
    if (comma == std::string::npos) continue;
    EXPECT_TRUE(change_device_model(drawn.schedule.file.substr(comma + 1), model).ok());
  }
  EXPECT_NEAR(kinds[Schedule::Kind::random], 500, 60);
  EXPECT_NEAR(kinds[Schedule::Kind::pct], 250, 60);
  EXPECT_NEAR(kinds[Schedule::Kind::model], 250, 60);
  EXPECT_NEAR(faults, 250, 60);
}

TEST(DeviceModel, TimesAreRoundedUpAndBounded) {
  EXPECT_EQ(DeviceModel::at_rate(0, 1), 0);
  EXPECT_EQ(DeviceModel::at_rate(1, 1000), 1);
  EXPECT_EQ(DeviceModel::at_rate(1, 1'000'000), 1);
  EXPECT_EQ(DeviceModel::at_rate(3, 2000), 2);
  EXPECT_EQ(DeviceModel::at_rate(std::uint64_t{1} << 40, 1'000'000), 1'099'511'628);
  EXPECT_EQ(DeviceModel::at_rate(UINT64_MAX, 1), 86'400'000'000'000);
}

TEST(DeviceModel, RefusesWhatTheTableSays) {
  const std::string head = kHead;
  const struct {
    std::string text, why;
  } kBad[] = {
      {"", "it is empty, expected 'ember device model 1'"},
      {"name x\n", "line 1 is 'name x', expected 'ember device model 1'"},
      {std::string("ember device model 1\0", 21), "there is a zero in it"},
      {"ember device model 1\nlike h200\n", "without 'name'"},
      {head, "it ends after line 2 without 'launch_call'"},
      {head + "name other\n", "line 3 is 'name other', expected one name"},
      {"ember device model 1\nname two words\n", "line 2 is 'name two words', expected a name of"},
      {head + "like b200\n", "line 3 is 'like b200', expected 'like h200' or 'like h100'"},
      {head + "like h200\nlike h200\n", "line 4 is 'like h200', expected 'like' once"},
      {head + "memory_rate 1\nlike h200\n", "expected 'like' once, before all values"},
      {head + "like h200\ncolour 3\n", "line 4 is 'colour 3', expected a value that a model has"},
      {head + "like h200\nmemory_rate\n", "expected a whole number from 1 to"},
      {head + "like h200\nmemory_rate 0\n", "line 4 is 'memory_rate 0', expected a whole number"},
      {head + "like h200\nmemory_rate -1\n", "expected a whole number from 1 to"},
      {head + "like h200\nmemory_rate 1.5\n", "expected a whole number from 1 to"},
      {head + "like h200\nmemory_rate 99999999999999999999\n", "expected a whole number from 1"},
      {head + "like h200\nquery_call 0\n", "expected a whole number from 1 to"},
      {head + "like h200\npeer_engines 17\n", "expected a whole number from 1 to 16"},
      {head + "like h200\nmemory_rate 1\n\nmemory_rate 2\n", "line 6 is 'memory_rate 2', expected"},
  };
  for (const auto& row : kBad) {
    DeviceModel model;
    model.name = "before";
    const Status status = parse_device_model(row.text, model);
    EXPECT_EQ(status.code(), Code::invalid_value) << row.text;
    EXPECT_NE(status.detail().find(row.why), std::string::npos) << status.detail();
    EXPECT_EQ(model.name, "before");
  }
}

}  // namespace
}  // namespace ember::driver::sim
