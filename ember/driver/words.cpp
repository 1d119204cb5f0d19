#include "ember/driver/words.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ember::inline v0::driver {
namespace {

// A waiter looks again after this time whether it is to go on waiting: a reset wakes nobody here.
constexpr long kLookEvery = 5'000'000;  // nanoseconds

/// The kernel compares 32 bits: the lower half of the word, which lies first.
long futex(const Word& word, int operation, std::uint32_t value, const timespec* until) noexcept {
  return syscall(SYS_futex, &word, operation, value, until, nullptr, 0);
}

}  // namespace

void raise_word(Word& word, std::uint64_t value) noexcept {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_release,
                                                     std::memory_order_relaxed)) {
  }
  (void)futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

void await_change(const Word& word, std::uint64_t seen) noexcept {
  const timespec patience{0, kLookEvery};
  (void)futex(word, FUTEX_WAIT, static_cast<std::uint32_t>(seen), &patience);
}

}  // namespace ember::inline v0::driver
