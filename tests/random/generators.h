// Generators for the tests of draws.
#pragma once

#include <cstdint>

#include "ember/random/generator.h"

namespace ember::test {

/// Threads of the grid that the documents describe, on the GPU that all numbers are made for.
inline constexpr std::int64_t kThreads = 132 * 2048;

inline Generator generator_at(const char* place, std::uint64_t seed, std::uint64_t offset = 0) {
  Generator made{Device(place)};
  made.manual_seed(seed).set_offset(offset);
  return made;
}

}  // namespace ember::test
