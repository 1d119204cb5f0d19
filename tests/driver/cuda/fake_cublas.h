// What a test can tell the fake libcublas.so.13, and ask it.
#pragma once

#include <cstddef>

struct FakeHandle {
  void* stream;
  void* workspace;
  std::size_t bytes;
  int mode;
};

struct FakeCublas {
  static constexpr int kMost = 16;
  FakeHandle handles[kMost];
  int made;
  bool no_more_handles;
};

/// The symbol of the fake that is a FakeCublas.
inline constexpr const char* kFakeCublas = "fake_cublas";
