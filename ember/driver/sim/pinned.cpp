#include "ember/driver/sim/pinned.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace ember::inline v0::driver::sim {
namespace {

Status bad_pointer(Code code, const char* call, const void* pointer, const char* expected) {
  char text[160];
  std::snprintf(text, sizeof text, "%s of %p: expected %s", call, pointer, expected);
  return Status(code, text);
}

/// Whether all of a range, which does not wrap, is mapped.
bool is_mapped(std::uintptr_t start, std::size_t bytes) {
  const std::uintptr_t first = start / kPage * kPage;
  // Which changes nothing, but fails where there is no memory.
  return msync(reinterpret_cast<void*>(first), start + bytes - first, MS_ASYNC) == 0;  // NOLINT
}

}  // namespace

Status PinnedMemory::insert(void* pointer, Range range) {
  const auto start = reinterpret_cast<std::uintptr_t>(pointer);
  if (range.bytes > UINTPTR_MAX - start)
    return bad_pointer(Code::invalid_value, "registering", pointer, "a range that does not wrap");
  const std::unique_lock lock(mutex_);
  const auto next = ranges_.lower_bound(start);
  const bool meets_next = next != ranges_.end() && next->first < start + range.bytes;
  const bool meets_previous =
      next != ranges_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > start;
  if (meets_next || meets_previous)
    return bad_pointer(Code::host_memory_already_registered, "registering", pointer,
                       "memory that is not pinned yet");
  ranges_.emplace(start, range);
  return {};
}

Status PinnedMemory::erase(void* pointer, bool owned) {
  const std::unique_lock lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == ranges_.end() || found->second.owned != owned)
    return owned ? bad_pointer(Code::invalid_value, "freeing pinned memory", pointer,
                               "an address that pinned_malloc returned")
                 : bad_pointer(Code::host_memory_not_registered, "unregistering", pointer,
                               "an address that host_register was given");
  ranges_.erase(found);
  return {};
}

Status PinnedMemory::allocate(std::size_t bytes, void*& out) {
  if (bytes > (std::size_t{1} << 60)) return Code::out_of_memory;
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) return Code::out_of_memory;
  if (Status status = insert(memory, {bytes, true}); !status.ok()) {
    std::free(memory);
    return status;
  }
  out = memory;
  return {};
}

Status PinnedMemory::free(void* pointer) {
  EMBER_TRY(erase(pointer, true));
  std::free(pointer);
  return {};
}

Status PinnedMemory::add(void* pointer, std::size_t bytes) {
  if (pointer == nullptr || bytes == 0)
    return bad_pointer(Code::invalid_value, "registering", pointer,
                       "an address and a positive size");
  const auto start = reinterpret_cast<std::uintptr_t>(pointer);
  if (bytes <= UINTPTR_MAX - start && !is_mapped(start, bytes))
    return bad_pointer(Code::invalid_value, "registering", pointer, "memory of this process");
  return insert(pointer, {bytes, false});
}

Status PinnedMemory::remove(void* pointer) { return erase(pointer, false); }

bool PinnedMemory::find(const void* pointer, PointerInfo& out) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::shared_lock lock(mutex_);
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return false;
  const auto& [start, range] = *std::prev(next);
  if (address >= start + range.bytes) return false;
  out = {PointerInfo::Kind::pinned, -1, reinterpret_cast<void*>(start), range.bytes};  // NOLINT
  return true;
}

bool PinnedMemory::contains(const void* pointer, std::size_t bytes) const {
  PointerInfo info;
  return find(pointer, info) && info.holds(pointer, bytes);
}

}  // namespace ember::inline v0::driver::sim
