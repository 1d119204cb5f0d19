#include "ember/driver/faults.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "ember/driver/recent_launches.h"

namespace ember::driver {
namespace {

using What = Fault::What;

TEST(ParseFaults, AcceptsWhatTheTableSays) {
  const struct {
    std::optional<std::string> text;
    Faults expected;
  } kGoodFaults[] = {
      {std::nullopt, {}},
      {"", {}},
      {"alloc:3", {{.what = What::alloc, .number = 3}}},
      {"pinned:1,stream:2,event:3+,launch:4,copy:5,peer:6,fill:7,host:8,kernel:9",
       {{.what = What::pinned, .number = 1},
        {.what = What::stream, .number = 2},
        {.what = What::event, .number = 3, .and_later = true},
        {.what = What::launch, .number = 4},
        {.what = What::copy, .number = 5},
        {.what = What::peer, .number = 6},
        {.what = What::fill, .number = 7},
        {.what = What::host, .number = 8},
        {.what = What::kernel, .number = 9}}},
      {"alloc:1000000000000", {{.what = What::alloc, .number = 1'000'000'000'000}}},
      {"slow:2@50", {{.what = What::slow, .number = 2, .milliseconds = 50}}},
      {"late:2+@60000",
       {{.what = What::late, .number = 2, .and_later = true, .milliseconds = 60000}}},
      {"lost:63@50", {{.what = What::lost, .number = 50, .device = 63}}},
      {"liar:0-1", {{.what = What::liar, .device = 0, .peer = 1}}},
  };
  for (const auto& row : kGoodFaults) {
    const std::string name = row.text.value_or("(unset)");
    Faults faults{{.what = What::fill, .number = 77}};
    const Status status = parse_faults(row.text, faults);
    ASSERT_TRUE(status.ok()) << name << ": " << status.text();
    EXPECT_EQ(faults, row.expected) << name;
    EXPECT_EQ(faults_text(faults), row.text.value_or(""));
  }
}

TEST(ParseFaults, RefusesWhatTheTableSays) {
  const struct {
    const char* text;
    const char* why;
  } kBadFaults[] = {
      {"alloc", "'alloc': expected alloc:a number from 1 to 10^12"},
      {"alloc:", "'alloc:': expected alloc:a number"},
      {"alloc:0", "'alloc:0': expected"},
      {"alloc:01", "'alloc:01': expected"},
      {"alloc:+1", "'alloc:+1': expected"},
      {"alloc:-1", "'alloc:-1': expected"},
      {"alloc:1000000000001", "expected alloc:a number from 1 to 10^12"},
      {"alloc:18446744073709551617", "expected alloc:a number"},
      {"alloc:3++", "'alloc:3++': expected"},
      {"alloc:3@5", "'alloc:3@5': expected"},
      {"Alloc:3", "'Alloc:3': expected one of alloc, pinned"},
      {"alloc:3,", "'': expected one of"},
      {",alloc:3", "'': expected one of"},
      {"alloc:3, copy:1", "' copy:1': expected one of"},
      {"slow:2", "'slow:2': expected slow:NUMBER@MILLISECONDS"},
      {"slow:2@0", "'slow:2@0': expected"},
      {"slow:2@60001", "'slow:2@60001': expected"},
      {"lost:1", "'lost:1': expected lost:DEVICE@NUMBER"},
      {"lost:64@1", "'lost:64@1': expected"},
      {"lost:1@5+", "'lost:1@5+': expected"},
      {"liar:1-1", "'liar:1-1': expected liar:DEVICE-DEVICE"},
      {"liar:0-64", "'liar:0-64': expected"},
      {"liar:0", "'liar:0': expected"},
  };
  for (const auto& row : kBadFaults) {
    const Faults before{{.what = What::fill, .number = 77}};
    Faults faults = before;
    const Status status = parse_faults(row.text, faults);
    EXPECT_EQ(status.code(), Code::invalid_value) << row.text;
    EXPECT_EQ(status.detail().find("EMBER_SIM_FAULTS='" + std::string(row.text) + "': "), 0u)
        << status.detail();
    EXPECT_NE(status.detail().find(row.why), std::string::npos) << status.detail();
    EXPECT_EQ(faults, before) << row.text;
  }
}

TEST(ParseFaults, AtMost64Items) {
  std::string text = "copy:1";
  for (int i = 1; i < 64; ++i) text += ",copy:" + std::to_string(i + 1);
  Faults faults;
  EXPECT_TRUE(parse_faults(text, faults).ok());
  EXPECT_EQ(faults.size(), 64u);
  EXPECT_NE(parse_faults(text + ",copy:65", faults).detail().find("at most 64"), std::string::npos);
}

TEST(ParseRecordLaunches, Table) {
  for (const auto& [text, expected] :
       {std::pair<const char*, int>{"", 0}, {"0", 0}, {"1", 1}, {"65536", 65536}}) {
    int count = -1;
    EXPECT_TRUE(parse_record_launches(text, count).ok()) << text;
    EXPECT_EQ(count, expected);
  }
  for (const char* text : {"-1", "65537", "1 ", " 1", "1.0", "x", "99999999999999999999"}) {
    int count = -1;
    const Status status = parse_record_launches(text, count);
    EXPECT_EQ(status.code(), Code::invalid_value) << text;
    EXPECT_NE(status.detail().find("EMBER_RECORD_LAUNCHES='" + std::string(text) + "'"),
              std::string::npos);
    EXPECT_EQ(count, -1);
  }
}

}  // namespace
}  // namespace ember::driver
