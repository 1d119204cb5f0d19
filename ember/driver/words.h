// Words of memory that processes share, as the host raises them and waits for them.
#pragma once

#include <cstdint>

#include "ember/driver/driver.h"

namespace ember::inline v0::driver {

/// Raises the word to `value`, unless it is that far, and wakes who waits for it in any process.
void raise_word(Word& word, std::uint64_t value) noexcept;
/// Blocks until the word no longer is `seen`, at most some milliseconds.
void await_change(const Word& word, std::uint64_t seen) noexcept;

}  // namespace ember::inline v0::driver
