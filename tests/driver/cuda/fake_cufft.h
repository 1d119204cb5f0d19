// What a test can tell the fake libcufft.so, and ask it.
#pragma once

#include <cstddef>

struct FakeCufft {
  /// So many plans that are made from now on find no memory.
  int without_memory = 0;
  /// What the next execution answers, once: a cufftResult.
  int next_execution = 0;
  /// What each plan needs to work in.
  std::size_t work_bytes = 4096;

  int plans = 0;  ///< that there are
  int made = 0;   ///< in all
  int executions = 0;
  int settings = 0;        ///< of streams and of work areas
  void* stream = nullptr;  ///< of the last execution
  void* work = nullptr;    ///< its work area
};

/// The symbol of the fake that is a FakeCufft.
inline constexpr const char* kFakeCufft = "fake_cufft";
