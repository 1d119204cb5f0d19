// Threads of the host that share the work of one call.
#pragma once

#include <cstdint>

#include "ember/base/export.h"

namespace ember::inline v0 {

/// How many threads an operation on CPU tensors uses at most, the caller among them; those on
/// devices never use more than one of the host. At first as OMP_NUM_THREADS says, else as many as
/// the processors that this process may run on. Matrix products ask their BLAS instead, which has
/// threads and settings of its own. Thread-safe, does not block.
/// (PyTorch: torch.get_num_threads)
EMBER_API int get_num_threads() noexcept;
/// Sets it for all threads of the process, from their next operation on. ValueError unless it is
/// positive. Results do not depend on it. Thread-safe, does not block.
/// (PyTorch: torch.set_num_threads)
EMBER_API void set_num_threads(int threads);

namespace detail {
EMBER_API void share(std::int64_t pieces, int threads, void (*work)(const void*, std::int64_t),
                     const void* context) noexcept;
}

/// Calls `work(i)` for every i in [0, pieces), by this thread and up to `threads` - 1 others, in
/// any order, and returns when all of it is done. This thread never waits for others to begin:
/// where they are busy, or do not exist since the process is the child of a fork, it does
/// everything itself. `work` must not throw and not fork. Thread-safe; may be
/// called by `work` itself.
template <class Work>
void share(std::int64_t pieces, int threads, const Work& work) noexcept {
  detail::share(
      pieces, threads,
      [](const void* context, std::int64_t piece) { (*static_cast<const Work*>(context))(piece); },
      &work);
}

}  // namespace ember::inline v0
