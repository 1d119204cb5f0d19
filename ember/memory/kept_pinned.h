// Page-locked memory of the allocator's that a graph's work uses.
#pragma once

#include <optional>
#include <vector>

#include "ember/driver/handles.h"
#include "ember/memory/pinned_block.h"

namespace ember::inline v0::memory {

/// As long as it lives, nobody else gets the memory that it keeps, whoever frees it: a captured
/// copy reads or writes it again in each replay (chapter 14 of the documents). Of one thread at a
/// time.
class KeptPinned {
 public:
  KeptPinned() = default;
  /// What was freed meanwhile can be used again once the work is done that used_on() tells of.
  ~KeptPinned();
  KeptPinned(const KeptPinned&) = delete;
  KeptPinned& operator=(const KeptPinned&) = delete;

  /// Keeps the block in which an address lies; false if it lies in none that is in use.
  bool keep(const void* inside);
  /// Work that uses what is kept is enqueued there, behind all that was before.
  void used_on(const driver::StreamHandle& stream) {
    if (!blocks_.empty()) last_ = stream;
  }

 private:
  std::vector<PinnedBlock*> blocks_;  // each once
  std::optional<driver::StreamHandle> last_;
};

}  // namespace ember::inline v0::memory
