// Fewer values where a sanitizer looks on, which makes each of them several times as slow.
#pragma once

#include <cstddef>
#include <vector>

#include "ember/base/sanitizer.h"

namespace ember::test {

/// The first, the fourth and so on.
template <class T>
std::vector<T> one_of_three(const std::vector<T>& all) {
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); i += 3) some.push_back(all[i]);
  return some;
}

/// For the thread sanitizer only: which threads touch what does not depend on the dtype.
template <class T>
std::vector<T> one_of_three_under_tsan(const std::vector<T>& all) {
  return kThreadSanitizer ? one_of_three(all) : all;
}

/// For every sanitizer.
template <class T>
std::vector<T> one_of_three_if_sanitized(const std::vector<T>& all) {
#if defined(EMBER_SANITIZED_HEAP)
  return one_of_three(all);
#else
  return all;
#endif
}

}  // namespace ember::test
