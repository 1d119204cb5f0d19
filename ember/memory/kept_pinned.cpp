#include "ember/memory/kept_pinned.h"

#include "ember/memory/allocators.h"
#include "ember/memory/pinned_allocator.h"

namespace ember::inline v0::memory {

KeptPinned::~KeptPinned() {
  PinnedAllocator* const allocator = pinned_allocator_if_made();
  if (allocator == nullptr) return;  // in the child of a fork
  for (PinnedBlock* block : blocks_) allocator->release(block, last_);
}

bool KeptPinned::keep(const void* inside) {
  PinnedAllocator* const allocator = pinned_allocator_if_made();
  return allocator != nullptr && allocator->keep(inside, blocks_);
}

}  // namespace ember::inline v0::memory
