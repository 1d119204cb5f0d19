#include "ember/base/env.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

namespace ember {
namespace {

constexpr const char* kName = "EMBER_TEST_VARIABLE";

/// Gives a variable a value for as long as it lives; nothing removes it.
class Setting {
 public:
  explicit Setting(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(kName, value->c_str(), 1);
    } else {
      ::unsetenv(kName);
    }
  }
  ~Setting() { ::unsetenv(kName); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
};

TEST(Env, GetTellsUnsetFromEmpty) {
  for (const std::optional<std::string>& value :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>("sim:2"), std::optional<std::string>(" a=b ")}) {
    const Setting setting(value);
    EXPECT_EQ(env::get(kName), value);
  }
}

TEST(Env, GetReturnsACopy) {
  const Setting setting("before");
  const std::optional<std::string> value = env::get(kName);
  ::setenv(kName, "after, and longer than before", 1);
  EXPECT_EQ(value, "before");
}

TEST(Env, FlagIsAnythingButEmptyAndZero) {
  const struct {
    std::optional<std::string> value;
    bool flag;
  } rows[] = {{std::nullopt, false}, {"", false},     {"0", false}, {"1", true},
              {"00", true},          {"false", true}, {" 0", true}, {"no", true}};
  for (const auto& row : rows) {
    const Setting setting(row.value);
    EXPECT_EQ(env::flag(kName), row.flag) << row.value.value_or("(unset)");
  }
}

}  // namespace
}  // namespace ember
