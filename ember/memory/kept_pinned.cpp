#include "ember/memory/kept_pinned.h"

#include <algorithm>

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
  PinnedBlock* const block = allocator != nullptr ? allocator->keep(inside) : nullptr;
  if (block == nullptr) return false;
  if (std::find(blocks_.begin(), blocks_.end(), block) == blocks_.end())
    blocks_.push_back(block);
  else
    allocator->release(block, {});
  return true;
}

}  // namespace ember::inline v0::memory
