// Whether the build is instrumented by a sanitizer that follows the heap.
#pragma once

// GCC says it with a macro each, Clang on request.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EMBER_SANITIZED_HEAP 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EMBER_SANITIZED_HEAP 1
#endif
