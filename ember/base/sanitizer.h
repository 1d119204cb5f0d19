// Whether the build is instrumented by a sanitizer, and what the thread sanitizer should not see.
#pragma once

// GCC says it with a macro each, Clang on request.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMBER_SANITIZED_HEAP 1
#endif
#if __has_feature(thread_sanitizer)
#define EMBER_SANITIZED_HEAP 1
#define EMBER_SANITIZED_THREADS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMBER_SANITIZED_HEAP 1
#endif
#if defined(__SANITIZE_THREAD__)
#define EMBER_SANITIZED_HEAP 1
#define EMBER_SANITIZED_THREADS 1
#endif

#if defined(EMBER_SANITIZED_THREADS)
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_release(void* address);
void __tsan_acquire(void* address);
}
#endif

namespace ember::inline v0 {

/// True in builds for the thread sanitizer.
#if defined(EMBER_SANITIZED_THREADS)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// While it lives, the thread sanitizer sees nothing that the thread does: neither accesses nor the
/// order that locks and atomics make. For the machinery of simulated devices, whose own locks would
/// otherwise order kernels that nothing in the user's program orders, and hide races between them.
class Unseen {
 public:
#if defined(EMBER_SANITIZED_THREADS)
  Unseen() noexcept {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unseen() noexcept {}  // NOLINT: not trivial, so that an object of it is no unused variable
  ~Unseen() {}          // NOLINT
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// What the thread has done, also out of the sanitizer's sight, comes before what any thread does
/// that calls happens_after() for the same address later. For an order that Unseen hides and that
/// users may rely on.
inline void happens_before([[maybe_unused]] const void* address) noexcept {
#if defined(EMBER_SANITIZED_THREADS)
  __tsan_release(const_cast<void*>(address));
#endif
}
inline void happens_after([[maybe_unused]] const void* address) noexcept {
#if defined(EMBER_SANITIZED_THREADS)
  __tsan_acquire(const_cast<void*>(address));
#endif
}

}  // namespace ember::inline v0
