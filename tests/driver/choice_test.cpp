#include "ember/driver/choice.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/bytes.h"

namespace ember::driver {
namespace {

using Kind = Choice::Kind;
using Text = std::optional<std::string>;

constexpr std::uint64_t kDefault = SimulatedSpec::kDefaultMemory;

// ---- EMBER_DEVICES ----------------------------------------------------------------------------

struct GoodRow {
  Text text;
  Kind kind;
  int count = 1;
  std::uint64_t memory_bytes = kDefault;
};

const GoodRow kGood[] = {
    {std::nullopt, Kind::automatic},
    {"", Kind::automatic},
    {"cuda", Kind::cuda},
    {"none", Kind::none},
    {"sim:1", Kind::simulated, 1},
    {"sim:2", Kind::simulated, 2},
    {"sim:64", Kind::simulated, 64},
    {"sim:02", Kind::simulated, 2},
    {"sim:4@2GiB", Kind::simulated, 4, 2 * kGiB},
    {"sim:4@512m", Kind::simulated, 4, 512 * kMiB},
    {"sim:1@2097152", Kind::simulated, 1, 2 * kMiB},
    {"sim:1@2MiB", Kind::simulated, 1, 2 * kMiB},
    {"sim:1@1TiB", Kind::simulated, 1, 1024 * kGiB},
};

TEST(ParseChoice, AcceptsWhatTheTableSays) {
  for (const GoodRow& row : kGood) {
    const std::string name = row.text.value_or("(unset)");
    Choice choice;
    const Status status = parse_choice(row.text, choice);
    ASSERT_TRUE(status.ok()) << name << ": " << status.text();
    EXPECT_EQ(choice.kind, row.kind) << name;
    EXPECT_EQ(choice.simulated.count, row.count) << name;
    EXPECT_EQ(choice.simulated.memory_bytes, row.memory_bytes) << name;
  }
}

TEST(ParseChoice, OverwritesAnEarlierChoice) {
  Choice choice;
  ASSERT_TRUE(parse_choice("sim:4@4GiB", choice).ok());
  ASSERT_TRUE(parse_choice("sim:3", choice).ok());
  EXPECT_EQ(choice.simulated.count, 3);
  EXPECT_EQ(choice.simulated.memory_bytes, kDefault);
}

struct BadRow {
  const char* text;
  const char* why;  // part of the detail
};

const BadRow kBad[] = {
    {"gpu", "unknown kind of device"},
    {"CUDA", "unknown kind of device"},
    {" cuda", "unknown kind of device"},
    {"cuda:0", "unknown kind of device"},
    {"sim", "unknown kind of device"},
    {"sim2", "unknown kind of device"},
    {"2", "unknown kind of device"},
    {"sim:", "'' is not a number of devices"},
    {"sim:two", "'two' is not a number of devices"},
    {"sim: 2", "' 2' is not a number of devices"},
    {"sim:2 ", "'2 ' is not a number of devices"},
    {"sim:+2", "'+2' is not a number of devices"},
    {"sim:2x", "'2x' is not a number of devices"},
    {"sim:2.0", "'2.0' is not a number of devices"},
    {"sim:2,3", "'2,3' is not a number of devices"},
    {"sim:99999999999", "'99999999999' is not a number of devices"},
    {"sim:0", "number of simulated devices is 0, expected 1 to 64"},
    {"sim:-1", "number of simulated devices is -1, expected 1 to 64"},
    {"sim:65", "number of simulated devices is 65, expected 1 to 64"},
    {"sim:@2GiB", "'' is not a number of devices"},
    {"sim:2@", "'' is not a size"},
    {"sim:2@big", "'big' is not a size"},
    {"sim:2@-1", "'-1' is not a size"},
    {"sim:2@1GiB@1GiB", "'1GiB@1GiB' is not a size"},
    {"sim:2@99999999999TiB", "'99999999999TiB' is not a size"},
    {"sim:2@0", "is 0 bytes, expected 2 MiB to 1 TiB"},
    {"sim:2@2097151", "is 2097151 bytes, expected 2 MiB to 1 TiB"},
    {"sim:2@1099511627777", "is 1099511627777 bytes, expected 2 MiB to 1 TiB"},
};

TEST(ParseChoice, RefusesWithVariableValueAndExpectation) {
  for (const BadRow& row : kBad) {
    Choice choice;
    choice.kind = Kind::none;
    choice.simulated.count = 7;
    const Status status = parse_choice(row.text, choice);
    EXPECT_EQ(status.code(), Code::invalid_value) << row.text;
    for (const std::string& part : {"EMBER_DEVICES='" + std::string(row.text) + "'",
                                    std::string(row.why), std::string("expected 'cuda', 'sim:N'")})
      EXPECT_NE(status.detail().find(part), std::string::npos) << part << "\n" << status.detail();
    EXPECT_EQ(choice.kind, Kind::none) << row.text;  // untouched
    EXPECT_EQ(choice.simulated.count, 7) << row.text;
  }
}

// ---- EMBER_SIM_MACHINE -------------------------------------------------------------------------

Choice choice_of(Kind kind) {
  Choice choice;
  choice.kind = kind;
  return choice;
}

TEST(NameMachine, TakesNames) {
  for (const std::string& name :
       {std::string("a"), std::string("7"), std::string("Job_7.a-b"), std::string(64, 'x')}) {
    Choice choice = choice_of(Kind::simulated);
    const Status status = name_machine(name, choice);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(choice.simulated.machine, name);
    EXPECT_EQ(choice.simulated.count, 1);
  }
  Choice choice;
  ASSERT_TRUE(name_machine("x", choice).ok());
  EXPECT_EQ(choice.kind, Kind::simulated) << "a machine says itself what it has";
  EXPECT_EQ(choice.simulated.count, 0);
}

TEST(NameMachine, IsNobodysWithoutAName) {
  for (const Kind kind : {Kind::automatic, Kind::cuda, Kind::simulated, Kind::none})
    for (const Text& text : {Text(), Text("")}) {
      Choice choice = choice_of(kind);
      EXPECT_TRUE(name_machine(text, choice).ok());
      EXPECT_EQ(choice.kind, kind);
      EXPECT_EQ(choice.simulated.machine, "");
    }
}

TEST(NameMachine, KeepsTheMachineOfAChoice) {
  Choice choice = choice_of(Kind::simulated);
  choice.simulated.machine = "parents";
  EXPECT_TRUE(name_machine("other", choice).ok());
  EXPECT_EQ(choice.simulated.machine, "parents");
}

TEST(NameMachine, RefusesOtherNames) {
  for (const std::string& name :
       {std::string("a/b"), std::string("/"), std::string("."), std::string(".."),
        std::string(".hidden"), std::string("-x"), std::string("_x"), std::string("a b"),
        std::string("a\nb"), std::string("a\0b", 3), std::string("\xc3\xa4"), std::string("a*"),
        std::string(65, 'x')}) {
    Choice choice = choice_of(Kind::simulated);
    const Status status = name_machine(name, choice);
    EXPECT_EQ(status.code(), Code::invalid_value) << name;
    EXPECT_EQ(status.detail(), "EMBER_SIM_MACHINE='" + name +
                                   "': expected a name of at most 64 letters, digits, '-', '_' and "
                                   "'.', which begins with a letter or digit");
    EXPECT_EQ(choice.simulated.machine, "");
  }
}

TEST(NameMachine, RefusesDevicesThatAreNotSimulated) {
  Choice choice = choice_of(Kind::cuda);
  Status status = name_machine("x", choice);
  EXPECT_EQ(status.code(), Code::invalid_value);
  EXPECT_EQ(status.detail(),
            "EMBER_SIM_MACHINE='x' names a simulated machine, but EMBER_DEVICES='cuda'; expected "
            "'sim:N' or 'sim:N@SIZE', or one of the two unset");
  choice = choice_of(Kind::none);
  status = name_machine("x", choice);
  EXPECT_NE(status.detail().find("EMBER_DEVICES='none'"), std::string::npos) << status.detail();
}

// ---- CUDA_VISIBLE_DEVICES ---------------------------------------------------------------------

const std::vector<std::string> kUuids = {
    "GPU-11111111-0000-0000-0000-000000000000", "GPU-11112222-0000-0000-0000-000000000000",
    "GPU-33333333-0000-0000-0000-000000000000", "MIG-44444444-0000-0000-0000-000000000000"};

TEST(ParseVisible, DoesNotLookAtTheMachine) {
  EXPECT_EQ(parse_visible(std::nullopt).numbers.size(), 64U);
  EXPECT_EQ(parse_visible(std::nullopt).numbers.back(), 63);
  EXPECT_EQ(parse_visible("7, 1gpu2,2ampere").numbers, (std::vector<std::int64_t>{7, 1, 2}));
  EXPECT_EQ(parse_visible("1,-1,2").numbers, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(parse_visible("1,x,2").numbers, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(parse_visible("99,99").numbers, (std::vector<std::int64_t>{}));
  EXPECT_EQ(parse_visible("").numbers, (std::vector<std::int64_t>{}));
  const VisibleList list = parse_visible("GPU-9,GPU-8, MIG-1,GPU-7");
  EXPECT_EQ(list.prefixes, (std::vector<std::string>{"GPU-9", "GPU-8"}));
  EXPECT_TRUE(list.numbers.empty());
  EXPECT_TRUE(parse_visible("MIG-9,MIG-9").prefixes.empty());
}

TEST(MatchUuids, EndsAtTheFirstThatIsUnknownOrAmbiguous) {
  EXPECT_EQ(match_uuids({"GPU-3", "GPU-11112"}, kUuids), (std::vector<int>{2, 1}));
  EXPECT_EQ(match_uuids({"GPU-3", "GPU-1", "MIG-"}, kUuids), (std::vector<int>{2}));
  EXPECT_EQ(match_uuids({"GPU-9", "GPU-3"}, kUuids), std::vector<int>());
  EXPECT_EQ(match_uuids({"GPU-3", "GPU-33"}, kUuids), std::vector<int>());
  EXPECT_EQ(match_uuids({}, kUuids), std::vector<int>());
}

struct VisibleRow {
  Text text;
  std::vector<int> devices;
};

void check_rows(const std::vector<VisibleRow>& rows) {
  for (const VisibleRow& row : rows)
    EXPECT_EQ(visible_devices(row.text, kUuids), row.devices) << row.text.value_or("(unset)");
}

TEST(VisibleDevices, UnsetIsAllAndEmptyIsNone) {
  check_rows({{std::nullopt, {0, 1, 2, 3}}, {"", {}}, {"  ", {}}, {",", {}}});
  EXPECT_EQ(visible_devices(std::nullopt, {}), std::vector<int>());
  EXPECT_EQ(visible_devices("0", {}), std::vector<int>());
}

TEST(VisibleDevices, NumbersAreReadAsByStrtoul) {
  check_rows({
      {"0", {0}},
      {"3,1,2", {3, 1, 2}},
      {" 1 , 2 ", {1, 2}},
      {"\t1", {1}},
      {"+1", {1}},
      {"01,002", {1, 2}},
      {"1gpu2,2ampere", {1, 2}},
      {"1.9", {1}},
      {"0x2", {0}},
      {"2;1", {2}},
  });
}

TEST(VisibleDevices, TheListEndsAtTheFirstThatIsNoDevice) {
  check_rows({
      {"-1", {}},
      {"0,-1,1", {0}},
      {"1,two,2", {1}},
      {"gpu0", {}},
      {"1,,2", {1}},
      {"1,", {1}},
      {",1", {}},
      {"0,1,4,2", {0, 1}},
      {"4", {}},
      {"0,99999999999999999999,1", {0}},
      {"NoDevFiles", {}},
  });
}

TEST(VisibleDevices, ARepeatedNumberLeavesNothing) {
  check_rows({{"0,0", {}}, {"1,2,1", {}}, {"0,00", {}}, {"2,1, 2x", {}}});
}

TEST(VisibleDevices, UuidsMatchByUniquePrefix) {
  check_rows({
      {kUuids[2], {2}},
      {"GPU-3", {2}},
      {"GPU-33333333,GPU-11112", {2, 1}},
      {" GPU-3 , GPU-11112", {2, 1}},
      {"MIG-4", {3}},
      {"MIG-", {3}},
  });
}

TEST(VisibleDevices, TheListEndsAtTheFirstUuidThatIsUnknownOrAmbiguous) {
  check_rows({
      {"GPU-5", {}},
      {"GPU-3,GPU-5,GPU-11112", {2}},
      {"GPU-1111", {}},
      {"GPU-3,GPU-1111,GPU-11112", {2}},
      {"GPU-", {}},
      {"GPU-3,1", {2}},
      {"GPU-3,MIG-4", {2}},
      {"MIG-4,GPU-3", {3}},
      {"gpu-3", {}},
      {"1,GPU-3", {1}},
      {kUuids[2] + "0", {}},
  });
}

TEST(VisibleDevices, ARepeatedDeviceLeavesNothing) {
  check_rows({{"GPU-3,GPU-3", {}}, {"GPU-3,GPU-33", {}}, {"GPU-3,GPU-11112,GPU-333", {}}});
}

}  // namespace
}  // namespace ember::driver
