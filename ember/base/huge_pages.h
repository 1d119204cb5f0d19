// Large host memory that is handed over in huge pages.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace ember::inline v0 {

/// `bytes` of host memory at a multiple of `alignment`, for std::free; null if there is none. From
/// 4 MiB on it asks for huge pages: new memory is handed over page by page at the first touch,
/// which otherwise takes longer than most operations. From 32 MiB on it begins at such a page;
/// below, that would keep the C library from using the same memory again, which is faster still.
/// Thread-safe.
inline void* allocate_in_huge_pages(std::size_t alignment, std::size_t bytes) noexcept {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (bytes >= 16 * kHugePage) alignment = std::max(alignment, kHugePage);
  void* const data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#if defined(MADV_HUGEPAGE)
  if (bytes >= 2 * kHugePage && data != nullptr) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::size_t before = (kHugePage - address % kHugePage) % kHugePage;
    ::madvise(static_cast<char*>(data) + before, (bytes - before) / kHugePage * kHugePage,
              MADV_HUGEPAGE);
  }
#endif
  return data;
}

}  // namespace ember::inline v0
