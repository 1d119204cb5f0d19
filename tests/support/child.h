// Bodies that need a process of their own: environment variables, first use, forks, faults, exits.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace ember::test {

/// Whether this is the process of IN_CHILD, which comes past what stands before it as well.
inline bool in_child() { return testing::internal::InDeathTestChild(); }

/// How the process of IN_CHILD ends. GoogleTest prints nothing there, so the failures go to the
/// error stream, which it shows.
[[noreturn]] inline void exit_child() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed())
      std::fprintf(stderr, "%s:%d: %s\n", part.file_name(), part.line_number(), part.message());
  }
  std::fflush(stdout);
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace ember::test

/// Runs the statements in a fresh process, in which nothing has been initialised, and expects that
/// no expectation fails there and that it exits by itself. (It is a death test of the style
/// "threadsafe": the program is started again and comes straight here.)
#define IN_CHILD(...)              \
  EXPECT_EXIT(                     \
      {                            \
        __VA_ARGS__;               \
        ember::test::exit_child(); \
      },                           \
      testing::ExitedWithCode(0), "")
