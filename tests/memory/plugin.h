// What the functions of plugin.cpp have seen.
#pragma once

#include <cstddef>

namespace ember::test {

struct PluginSeen {
  int mallocs = 0, frees = 0;
  int inits = 0, resets = 0;
  int held = 0;           ///< allocations that were not freed yet
  std::size_t bytes = 0;  ///< ... and their sizes, together
  struct Call {
    void* pointer = nullptr;
    std::size_t size = 0;
    int device = -1;
    void* stream = nullptr;
  } last;
};

}  // namespace ember::test
