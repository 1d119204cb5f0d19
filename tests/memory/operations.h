// How many random operations and states the tests go through.
#pragma once

#include <cstdlib>

#include "ember/base/sanitizer.h"

namespace ember::test {

/// A tenth where a sanitizer looks on: a mistake of the allocator's logic is found without one.
constexpr int fewer_if_sanitized(int usual) {
#if defined(EMBER_SANITIZED_HEAP)
  return usual / 10;
#else
  return usual;
#endif
}

/// EMBER_TEST_OPERATIONS, else a million or fewer.
inline int operations() {
  const char* text = std::getenv("EMBER_TEST_OPERATIONS");
  return text != nullptr ? std::atoi(text) : fewer_if_sanitized(1'000'000);
}

}  // namespace ember::test
