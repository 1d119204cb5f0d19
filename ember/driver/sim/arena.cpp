#include "ember/driver/sim/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/sanitizer.h"
#include "ember/driver/sim/pinned.h"

namespace ember::inline v0::driver::sim {
namespace {

/// What is taken even where little memory is to be simulated; the process has 128 TiB, or, with the
/// thread sanitizer, some TiB that it shares with everything else.
constexpr std::size_t kMostAddresses = std::size_t{kThreadSanitizer ? 1 : 8} << 40;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string system_error(const char* what) {
  return std::string(what) + " failed: " + std::strerror(errno);
}

}  // namespace

// Addresses cost nothing, but a process may be given few of them, such as under a sanitizer. A part
// of them is for allocations, so that one finds room where free memory lies apart; the rest is for
// ranges, each longer than the memory, of which a program has two for each stream and pool.
Arena::Arena(int devices, std::size_t bytes)
    : bytes_(bytes), span_(round_up(bytes, kPage)), stride_(span_) {
  for (const std::size_t reach : std::array<std::size_t, 5>{256, 64, 16, 4, 1}) {
    span_ = (reach >= 16 ? 4 : 1) * round_up(bytes, kPage);
    stride_ = reach * round_up(bytes, kPage);
    const std::size_t total = stride_ * static_cast<std::size_t>(devices);
    if (reach > 16 && total > kMostAddresses / 2) continue;
    void* range =
        mmap(nullptr, 2 * total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    base_ = static_cast<std::byte*>(range);
    distance_ = static_cast<std::ptrdiff_t>(total);
    break;
  }
  for (int i = 0; i < devices; ++i) {
    memories_.push_back(std::make_unique<Memory>());
    memories_.back()->free_ranges.emplace(0, span_);
  }
}

Status Arena::make_backing(int device, Memory& memory) {
  if (base_ == nullptr)
    return Status(Code::map_failed, "no address range for simulated device memory: limit its size");
  const int file = memfd_create("ember-simulated-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return Status(Code::map_failed, system_error("memfd_create"));
  if (ftruncate(file, static_cast<off_t>(span_)) != 0) {
    Status status(Code::map_failed, system_error("ftruncate"));
    close(file);
    return status;
  }
  // Other processes map parts of it (imports.h), and want to be sure that it stays there.
  (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* place = mmap(backing(start_of(device)), span_, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0);
  if (place == MAP_FAILED) {
    Status status(Code::map_failed, system_error("mmap"));
    close(file);
    return status;
  }
  memory.file = file;
  return {};
}

std::size_t Arena::context_bytes(std::size_t total) noexcept {
  return std::min(total / 192, std::size_t{512} << 20) / kAlignment * kAlignment;
}

Status Arena::check_epoch(int device, const Memory& memory, std::uint32_t epoch) const {
  if (epoch == memory.epoch) return {};
  return Status(Code::context_is_destroyed,
                "cuda:" + std::to_string(device) + " was reset since the memory was asked for");
}

Status Arena::allocate(int device, std::uint32_t epoch, std::size_t bytes, void*& out) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  EMBER_TRY(check_epoch(device, memory, epoch));
  if (epoch != 0) happens_after(&memory.others_inside);  // it may be what a reset waited to clear
  if (memory.file < 0) EMBER_TRY(make_backing(device, memory));
  if (has_room(memory, bytes)) {
    const std::size_t wanted = round_up(bytes, kAlignment);
    for (auto range = memory.free_ranges.begin(); range != memory.free_ranges.end(); ++range) {
      if (range->second < wanted) continue;
      if (memory.shared != nullptr) EMBER_TRY(memory.shared->claim(memory.ordinal, wanted));
      const auto [offset, length] = *range;
      const RunMemory::Birth birth = memory.run ? memory.run->give_birth() : RunMemory::Birth{};
      memory.allocations.emplace(offset, Allocation{bytes, epoch, birth, {}});
      memory.free_ranges.erase(range);
      if (length > wanted) memory.free_ranges.emplace(offset + wanted, length - wanted);
      memory.used += wanted;
      out = start_of(device) + offset;
      return {};
    }
  }
  return Status(Code::out_of_memory, "cuda:" + std::to_string(device) + " has no free range of " +
                                         format_bytes(bytes) + " (" + format_bytes(memory.used) +
                                         " of " + format_bytes(usable()) + " in use)");
}

std::size_t Arena::usable() const noexcept {
  return (bytes_ - context_bytes(bytes_)) / kAlignment * kAlignment;
}

bool Arena::has_room(const Memory& memory, std::size_t bytes) const noexcept {
  return bytes <= usable() - memory.used;
}

void Arena::take_back(Memory& memory, std::size_t bytes) {
  memory.used -= bytes;
  if (memory.shared != nullptr) memory.shared->give_back(memory.ordinal, bytes);
}

void Arena::release(Memory& memory, int device, std::size_t offset, std::size_t bytes) {
  // Give the pages inside back to the machine. Only whole pages that no neighbour shares.
  const std::size_t first = round_up(offset, kPage);
  const std::size_t last = (offset + bytes) / kPage * kPage;
  if (last > first) (void)madvise(backing(start_of(device) + first), last - first, MADV_REMOVE);

  auto [range, inserted] = memory.free_ranges.emplace(offset, bytes);
  if (auto next = std::next(range);
      next != memory.free_ranges.end() && range->first + range->second == next->first) {
    range->second += next->second;
    memory.free_ranges.erase(next);
  }
  if (range == memory.free_ranges.begin()) return;
  if (auto previous = std::prev(range); previous->first + previous->second == range->first) {
    previous->second += range->second;
    memory.free_ranges.erase(range);
  }
}

Status Arena::find_to_free(int device, const Memory& memory, std::uint32_t epoch,
                           const void* pointer,
                           std::map<std::size_t, Allocation>::const_iterator& out) const {
  EMBER_TRY(check_epoch(device, memory, epoch));
  out = own_device(pointer) == device ? memory.allocations.find(offset_of(device, pointer))
                                      : memory.allocations.end();
  if (out != memory.allocations.end() && out->second.epoch == epoch && !out->second.is_chunk())
    return {};
  char text[96];
  std::snprintf(text, sizeof text, "free of %p: no allocation of cuda:%d starts there", pointer,
                device);
  return Status(Code::invalid_value, text);
}

Status Arena::check_free(int device, std::uint32_t epoch, const void* pointer) const {
  const Memory& memory = memory_of(device);
  const std::shared_lock lock(memory.mutex);
  std::map<std::size_t, Allocation>::const_iterator found;
  return find_to_free(device, memory, epoch, pointer, found);
}

Status Arena::free(int device, std::uint32_t epoch, void* pointer) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  std::map<std::size_t, Allocation>::const_iterator found;
  EMBER_TRY(find_to_free(device, memory, epoch, pointer, found));
  release(memory, device, found->first, found->second);
  memory.allocations.erase(found);
  return {};
}

void Arena::release(Memory& memory, int device, std::size_t offset, const Allocation& allocation) {
  const std::size_t bytes = round_up(allocation.bytes, kAlignment);
  take_back(memory, bytes);
  if (!allocation.is_chunk()) return release(memory, device, offset, bytes);
  unmap_pages(device, offset, bytes);
  for (const Pages& pages : allocation.pages) release(memory, device, pages.offset, pages.bytes);
}

void Arena::begin_epoch(int device, std::uint32_t epoch) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  memory.epoch = epoch;
}

void Arena::clear_earlier_epochs(int device) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  memory.to_clear = memory.others_inside != 0;
  if (!memory.to_clear) clear(memory, device);
}

void Arena::enter(int device) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  ++memory.others_inside;
}

void Arena::leave(int device) {
  Memory& memory = memory_of(device);
  happens_before(&memory.others_inside);
  const Unseen leaving;  // the tasks of two devices learn nothing of each other here
  const std::unique_lock lock(memory.mutex);
  if (--memory.others_inside == 0 && std::exchange(memory.to_clear, false)) clear(memory, device);
}

void Arena::clear(Memory& memory, int device) {
  for (auto each = memory.allocations.begin(); each != memory.allocations.end();) {
    if (each->second.epoch == memory.epoch) {
      ++each;
      continue;
    }
    release(memory, device, each->first, each->second);
    each = memory.allocations.erase(each);
  }
  std::erase_if(memory.ranges,
                [&](const auto& range) { return range.second.epoch != memory.epoch; });
}

Status Arena::follow_runs(std::uint64_t seed) {
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    memories_[i]->run = std::make_unique<RunMemory>(stride_, static_cast<int>(i), seed);
    if (!memories_[i]->run->made())
      return Status(Code::map_failed,
                    "no address range to follow simulated device memory: limit its size");
  }
  follows_runs_ = true;
  return {};
}

void Arena::begin_run(std::uint64_t seed) {
  for (int device = 0; device < static_cast<int>(memories_.size()); ++device) {
    Memory& memory = memory_of(device);
    const std::unique_lock lock(memory.mutex);
    if (memory.run == nullptr) continue;
    memory.run->begin_run(static_cast<std::byte*>(backing(start_of(device))), seed,
                          [&](std::size_t offset, std::uint64_t serial) {
                            const auto* found = allocation_at(memory, offset);
                            return found != nullptr && found->second.birth.serial == serial;
                          });
  }
}

void Arena::touch(const void* pointer, std::size_t bytes, bool writes) const {
  const int device = own_device(pointer);
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  std::size_t offset = offset_of(device, pointer);
  while (bytes > 0) {  // chunk by chunk
    const auto* found = allocation_at(memory, offset);
    if (found == nullptr) return;  // a reset has taken it in this moment
    const auto& [at, allocation] = *found;
    const std::size_t part =
        allocation.is_chunk() ? std::min(bytes, at + allocation.bytes - offset) : bytes;
    memory.run->touch(static_cast<std::byte*>(backing(start_of(device))), {offset, part}, at,
                      allocation.birth, writes);
    offset += part;
    bytes -= part;
  }
}

MemoryInfo Arena::info(int device) const {
  const Memory& memory = memory_of(device);
  const std::shared_lock lock(memory.mutex);
  if (memory.shared == nullptr) return {bytes_ - context_bytes(bytes_) - memory.used, bytes_};
  const std::uint64_t used = memory.shared->used(memory.ordinal);
  return {used < bytes_ ? bytes_ - static_cast<std::size_t>(used) : 0, bytes_};
}

void Arena::share(int device, SharedMachine& machine, int ordinal) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  machine.add(ordinal, memory.used + (memory.context ? context_bytes(bytes_) : 0));
  memory.shared = &machine;
  memory.ordinal = ordinal;
}

Status Arena::make_context(int device) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  if (memory.context) return {};
  if (memory.shared != nullptr)
    EMBER_TRY(memory.shared->claim(memory.ordinal, context_bytes(bytes_)));
  memory.context = true;
  return {};
}

void Arena::end_context(int device) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  if (std::exchange(memory.context, false) && memory.shared != nullptr)
    memory.shared->give_back(memory.ordinal, context_bytes(bytes_));
}

int Arena::owner(const void* pointer) const noexcept {
  const int own = own_device(pointer);
  return own >= 0 || !imports_.any() ? own : imports_.device_of(pointer);
}

int Arena::own_device(const void* pointer) const noexcept {
  if (base_ == nullptr || pointer < base_) return -1;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_);
  const std::size_t device = offset / stride_;
  return device < memories_.size() ? static_cast<int>(device) : -1;
}

const std::pair<const std::size_t, Arena::Allocation>* Arena::allocation_at(const Memory& memory,
                                                                            std::size_t offset) {
  const auto next = memory.allocations.upper_bound(offset);
  return next == memory.allocations.begin() ? nullptr : &*std::prev(next);
}

bool Arena::find(const void* pointer, PointerInfo& out) const {
  const int device = owner(pointer);
  if (device < 0) return false;
  const Memory& memory = memory_of(device);
  const std::shared_lock lock(memory.mutex);
  if (!is_own(pointer)) {
    const Ref<const Imported> imported = imports_.find(pointer);
    if (!imported || imported->epoch() != memory.epoch) return false;
    out = {PointerInfo::Kind::device, device, imported->address(), imported->bytes()};
    return true;
  }
  const std::size_t offset = offset_of(device, pointer);
  auto next = memory.allocations.upper_bound(offset);
  if (next == memory.allocations.begin()) return false;
  auto first = std::prev(next);
  std::size_t end = first->first + first->second.bytes;
  if (offset >= end || first->second.epoch != memory.epoch) return false;
  for (auto last = first; next != memory.allocations.end() && follows(last, next); last = next++)
    end = next->first + next->second.bytes;
  while (first != memory.allocations.begin() && follows(std::prev(first), first)) --first;
  out = {PointerInfo::Kind::device, device, start_of(device) + first->first, end - first->first};
  return true;
}

bool Arena::file_of(const void* pointer, int& file, std::size_t& offset) const {
  PointerInfo info;
  if (!is_own(pointer) || !find(pointer, info)) return false;
  if (is_of_range(pointer)) return false;
  if (follows_runs_) touch(info.base, info.bytes, true);  // nobody sees what other processes do
  const Memory& memory = memory_of(info.device);
  const std::shared_lock lock(memory.mutex);
  file = memory.file;
  offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - start_of(info.device));
  return true;
}

bool Arena::contains(const void* pointer, std::size_t bytes) const {
  if (!is_own(pointer)) {
    PointerInfo info;
    return find(pointer, info) && info.holds(pointer, bytes);
  }
  const int device = own_device(pointer);
  const Memory& memory = memory_of(device);
  const std::shared_lock lock(memory.mutex);
  const std::size_t offset = offset_of(device, pointer);
  auto next = memory.allocations.upper_bound(offset);
  if (next == memory.allocations.begin()) return false;
  auto last = std::prev(next);
  std::size_t end = last->first + last->second.bytes;
  if (offset >= end || last->second.epoch != memory.epoch) return false;
  for (; end - offset < bytes && next != memory.allocations.end() && follows(last, next);
       last = next++)
    end += next->second.bytes;
  return bytes <= end - offset;
}

}  // namespace ember::inline v0::driver::sim
