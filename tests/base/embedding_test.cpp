#include "ember/base/embedding.h"

#include <gtest/gtest.h>

namespace ember {
namespace {

std::string told;
int waits = 0;

const Embedding kLanguage{
    [](Warning kind, const char* text) noexcept {
      told += std::string(kind == Warning::future ? "future " : "user ") + text + "\n";
    },
    []() noexcept { return std::string("line 1"); }, []() noexcept -> void* { return &waits; },
    [](void* begun) noexcept { ++*static_cast<int*>(begun); }};

TEST(Embedding, WithoutALanguageWarningsGoToStderrOnce) {
  testing::internal::CaptureStderr();
  warn(Warning::user, "one");
  warn(Warning::user, "one");
  warn(Warning::future, "two");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\nFutureWarning: two\n");
  EXPECT_EQ(call_stack(), "");
  const UnexpectedWait nothing_to_do;
}

TEST(Embedding, ALanguageDoesItItsWay) {
  embed(kLanguage);
  warn(Warning::user, "one");
  warn(Warning::future, "two");
  EXPECT_EQ(told, "user one\nfuture two\n");
  EXPECT_EQ(call_stack(), "line 1");
  {
    const UnexpectedWait wait;
    EXPECT_EQ(waits, 0);
  }
  EXPECT_EQ(waits, 1);
  static const Embedding none;
  embed(none);
  EXPECT_EQ(call_stack(), "");
}

}  // namespace
}  // namespace ember
