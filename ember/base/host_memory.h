// Host memory of tensors and of kernels; large blocks of it lie in huge pages.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ember/base/sanitizer.h"

namespace ember::inline v0 {

/// `bytes` of host memory at a multiple of `alignment`, a power of two, for free_host_memory();
/// null if there is none. From 4 MiB on it asks for huge pages: new memory is handed over page by
/// page at the first touch, which otherwise takes longer than most operations. From 32 MiB on it
/// begins at such a page; below, that would keep the C library from using the same memory again,
/// which is faster still. Thread-safe.
inline void* allocate_host_memory(std::size_t alignment, std::size_t bytes) noexcept {
#if defined(EMBER_SANITIZED_HEAP)
  // With nothing of ours before it, so that the sanitizer sees what is read or written there.
  alignment = std::max(alignment, sizeof(void*));
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#else
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  // Not aligned_alloc(): glibc's looks for more than it hands out, so that until 2.38 a block that
  // was freed is never found again for the same size, and memory is new each time.
  constexpr std::size_t kBefore = alignof(std::max_align_t);
  alignment = std::max(alignment, bytes >= 16 * kHugePage ? kHugePage : kBefore);
  void* const base = std::malloc(bytes + alignment);
  if (base == nullptr) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  // At least kBefore bytes lie before it: malloc()'s are at a multiple of that.
  char* const data = static_cast<char*>(base) + (alignment - begin % alignment);
  static_assert(sizeof(void*) <= kBefore);
  std::memcpy(data - kBefore, &base, sizeof base);
#if defined(MADV_HUGEPAGE)
  if (bytes >= 2 * kHugePage) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::size_t before = (kHugePage - address % kHugePage) % kHugePage;
    ::madvise(data + before, (bytes - before) / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#endif
  return data;
#endif
}

/// Frees what allocate_host_memory() returned; null is nothing. Thread-safe.
inline void free_host_memory(void* data) noexcept {
#if defined(EMBER_SANITIZED_HEAP)
  std::free(data);
#else
  if (data == nullptr) return;
  void* base = nullptr;
  std::memcpy(&base, static_cast<char*>(data) - alignof(std::max_align_t), sizeof base);
  std::free(base);
#endif
}

}  // namespace ember::inline v0
