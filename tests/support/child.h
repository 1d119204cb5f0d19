// Bodies that need a process of their own: environment variables, first use, forks, faults, exits.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

/// Runs the statements in a fresh process, in which nothing has been initialised, and expects that
/// no expectation fails there and that it exits by itself. (It is a death test of the style
/// "threadsafe": the program is started again and comes straight here.)
#define IN_CHILD(...)                                   \
  EXPECT_EXIT(                                          \
      {                                                 \
        __VA_ARGS__;                                    \
        std::fflush(stdout);                            \
        std::exit(testing::Test::HasFailure() ? 1 : 0); \
      },                                                \
      testing::ExitedWithCode(0), "")
