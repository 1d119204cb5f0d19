// What a test can tell the fake libcupti.so, and ask it.
#pragma once

#include <cstddef>
#include <cstdint>

struct FakeCupti {
  /// Another tool of the process has subscribed.
  bool taken = false;
  /// The next call of that name fails, once.
  const char* failing_call = nullptr;
  /// Buffers have room for so many records.
  std::size_t records_of_buffer = 100;

  int subscribers = 0;
  int kinds = 0;  ///< that are asked for
  int flushes = 0;
  int buffers = 0;  ///< that CUPTI has
  int pushed = 0;   ///< by the calling threads, and not popped

  /// A call of CUDA's by this thread: its number. What it was named is in a record.
  std::uint32_t (*call)() = nullptr;
  /// The record of what came of a call: of a kernel (10), copy (1), fill (2), copy between devices
  /// (22). One whose end is 0 is not complete: its buffer stays until it is forced.
  void (*record)(int kind, std::uint32_t call, std::int64_t begin, std::int64_t end) = nullptr;
};

/// The symbol of the fake that is a FakeCupti.
inline constexpr const char* kFakeCupti = "fake_cupti";
