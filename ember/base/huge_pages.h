// Large host memory that is handed over in huge pages.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace ember::inline v0 {

/// `bytes` of host memory at a multiple of `alignment`, for std::free; null if there is none. From
/// 4 MiB on it begins at a huge page and asks for such pages: new memory is handed over page by
/// page at the first touch, which otherwise takes longer than most operations. Thread-safe.
inline void* allocate_in_huge_pages(std::size_t alignment, std::size_t bytes) noexcept {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const bool large = bytes >= 2 * kHugePage;
  if (large) alignment = std::max(alignment, kHugePage);
  void* const data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#if defined(MADV_HUGEPAGE)
  if (large && data != nullptr) ::madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return data;
}

}  // namespace ember::inline v0
