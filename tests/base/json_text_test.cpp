// Text as JSON has it (RFC 8259), whatever bytes it was.
#include "ember/base/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace ember {
namespace {

std::string json(std::string_view text) {
  std::string made = "[";
  append_json_text(made, text);
  return made + "]";
}

TEST(JsonText, QuotesWhatJsonQuotes) {
  EXPECT_EQ(json(""), R"([""])");
  EXPECT_EQ(json("a \"b\" \\ c"), R"(["a \"b\" \\ c"])");
  EXPECT_EQ(json("line\n\ttab\x01"), R"(["line\u000a\u0009tab\u0001"])");
  EXPECT_EQ(json(std::string_view("\0", 1)), R"(["\u0000"])");
  EXPECT_EQ(json("\x7f"), "[\"\x7f\"]") << "JSON has it as it is";
}

// In the script of a page, "</script>" and "<!--" would end it.
TEST(JsonText, EndsNoScript) { EXPECT_EQ(json("</script><!--"), R"(["\u003c/script>\u003c!--"])"); }

TEST(JsonText, KeepsUtf8AndMakesOfOtherBytesUtf8) {
  EXPECT_EQ(json("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "[\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"]");
  EXPECT_EQ(json("caf\xe9"), R"(["caf?"])");
  EXPECT_EQ(json("\xc3"), R"(["?"])") << "cut short";
}

// The examples of RFC 3629, and the first and last of each length.
TEST(JsonText, KnowsUtf8) {
  for (const char* text :
       {"", "A", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "A\xe2\x89\xa2\xce\x91."})
    EXPECT_TRUE(is_utf8(text)) << json(text);
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff",
        "\xe2\x82", "\xc3(", "a\xf0\x9f\x98"})
    EXPECT_FALSE(is_utf8(text)) << json(text);
}

}  // namespace
}  // namespace ember
