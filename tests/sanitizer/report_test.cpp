// What is said of a conflict.
#include "ember/sanitizer/report.h"

#include <gtest/gtest.h>

#include "tests/sanitizer/program.h"

namespace ember::test {
namespace {

using cuda::sanitizer::report_json;
using cuda::sanitizer::report_text;

Conflict a_race() {
  Program p;
  p.allocate(4096, 512, 1);
  p.launch(1, {write(4096, 512)}, "add.float32");
  p.launch(2, {read(4096, 512)}, "sum.float32");
  EXPECT_EQ(p.conflicts(), 1U);
  return p.last.at(0);
}

TEST(Report, HasTheLinesOfTheDocuments) {
  const std::string text = report_text(a_race());
  EXPECT_EQ(text.find("============================\n"
                      "CSAN detected a possible data race on tensor with data pointer 4096\n"
                      "Access by stream 32 during kernel:\n"
                      "sum.float32\n"
                      "reading from argument(s) 0\n"
                      "With stack trace:\n"),
            0U)
      << text;
  EXPECT_NE(text.find("\n\nPrevious access by stream 16 during kernel:\n"
                      "add.float32\n"
                      "writing to argument(s) 0\n"
                      "With stack trace:\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Trace for tensor allocation not found."), std::string::npos) << text;
}

/// The same with a name.
cuda::Access named(cuda::Access access, const char* argument) {
  access.argument = argument;
  return access;
}

TEST(Report, NamesArguments) {
  Program p;
  p.allocate(4096, 512, 1);
  p.launch(1, {named(write(4096, 512), cuda::kOutputArgument)}, "add.float32");
  p.launch(2, {named(write(8192, 512), "output"), named(read(4096, 512), "other")}, "sub.float32");
  ASSERT_EQ(p.conflicts(), 1U);
  const std::string text = report_text(p.last[0]);
  EXPECT_NE(text.find("sub.float32\nreading from argument(s) other\nWith stack trace:\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("add.float32\nwriting to the output\nWith stack trace:\n"), std::string::npos)
      << text;
  const std::string json = report_json(p.last[0]);
  EXPECT_NE(json.find("\"argument\": 1, \"argument_name\": \"other\", "), std::string::npos)
      << json;
  EXPECT_NE(json.find("\"argument\": 0, \"argument_name\": \"output\", "), std::string::npos)
      << json;
}

TEST(Report, NamesAllArgumentsOfTheSameBytes) {
  Program p;
  p.launch(1,
           {named(write(4096, 8), "self"), named(read(4096, 8), "self"),
            named(read(4096, 8), "other"), named(read(4096, 8), "self")},
           "add.float32");
  p.launch(2,
           {named(write(8192, 8), "output"), named(read(4096, 8), "self"),
            named(read(4096, 8), "other")},
           "mul.float32");
  ASSERT_EQ(p.conflicts(), 1U);
  const std::string text = report_text(p.last[0]);
  EXPECT_NE(text.find("mul.float32\nreading from argument(s) self, other\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("add.float32\nwriting to argument(s) self, other, and to the output\n"),
            std::string::npos)
      << text;
}

TEST(Report, OfWhatWasNeverWrittenHasOneSide) {
  Program p;
  p.engine.expect_writes();
  p.allocate(4096, 512, 1);
  p.launch(1, {write(4096, 100)}, "fill.float32");
  p.launch(1, {read(4096, 512)}, "sum.float32");
  ASSERT_EQ(p.conflicts(), 1U);
  const std::string text = report_text(p.last[0]);
  EXPECT_NE(text.find("a read of memory that was never written on tensor with data pointer 4096\n"
                      "Access by stream 16 during kernel:\nsum.float32\nreading from"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nKind: never written\nBytes: 0x1000 + 512, of which never written from "
                      "0x1064 + 412 on\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("Previous access"), std::string::npos) << text;
  const std::string json = report_json(p.last[0]);
  EXPECT_EQ(json.find("{\"kind\": \"never written\", "), 0U) << json;
  EXPECT_NE(json.find("\"never_written\": \"0x1064\", \"never_written_bytes\": 412"),
            std::string::npos)
      << json;
  EXPECT_EQ(json.find("\"previous\""), std::string::npos) << json;
}

TEST(Report, SaysWhatWouldHaveOrderedThem) {
  EXPECT_NE(report_text(a_race()).find(
                "What would have ordered them: a wait of stream 0x20 (cuda:0) for an event "
                "recorded on stream 0x10 (cuda:0) after add.float32, before sum.float32\n"),
            std::string::npos);
  Program p;
  p.launch(1, {write(4096, 512)}, "copy");
  p.host({read(4096, 512)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_NE(report_text(p.last[0]).find("a wait of the host for stream 0x10 (cuda:0)"),
            std::string::npos);
}

TEST(Report, IsOneLineOfJson) {
  const std::string json = report_json(a_race());
  EXPECT_EQ(json.find('\n'), std::string::npos);
  EXPECT_EQ(
      json.find("{\"kind\": \"race\", \"certainty\": \"certain\", \"access\": {\"operation\": "
                "\"sum.float32\", \"access\": \"read\", \"by\": \"stream\", \"device\": 0, "
                "\"stream\": 32"),
      0U)
      << json;
  EXPECT_EQ(json.back(), '}');
}

}  // namespace
}  // namespace ember::test
