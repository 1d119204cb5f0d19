// Ranges of addresses whose memory comes and goes in chunks: the part of the arena behind
// Driver::range_reserve and its like. What workers use lies at the same distance as for all memory.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "ember/base/bytes.h"
#include "ember/driver/sim/arena.h"
#include "ember/driver/sim/pinned.h"

namespace ember::inline v0::driver::sim {
namespace {

Status refuse(const char* what, int device, const void* at, std::size_t bytes, const char* why) {
  char text[160];
  std::snprintf(text, sizeof text, "%s %zu bytes at %p of cuda:%d: %s", what, bytes, at, device,
                why);
  return Status(Code::invalid_value, text);
}

}  // namespace

Status Arena::reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& out) {
  if (bytes == 0 || bytes % kUnit != 0)
    return Status(Code::invalid_value, "a range of " + std::to_string(bytes) +
                                           " bytes, expected a positive multiple of 2 MiB");
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  EMBER_TRY(check_epoch(device, memory, epoch));
  std::size_t offset = (span_ + kUnit - 1) / kUnit * kUnit;  // the lowest gap
  for (const auto& [start, range] : memory.ranges) {
    if (start - offset >= bytes) break;
    offset = start + range.bytes;
  }
  if (base_ == nullptr || offset > stride_ || bytes > stride_ - offset)
    return Status(Code::out_of_memory, "cuda:" + std::to_string(device) + " has no " +
                                           format_bytes(bytes) + " of addresses left");
  memory.ranges[offset] = {bytes, epoch};
  out = start_of(device) + offset;
  return {};
}

Status Arena::release_range(int device, std::uint32_t epoch, void* base) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  EMBER_TRY(check_epoch(device, memory, epoch));
  const auto found = own_device(base) == device ? memory.ranges.find(offset_of(device, base))
                                                : memory.ranges.end();
  if (found == memory.ranges.end() || found->second.epoch != epoch)
    return refuse("releasing", device, base, 0, "no range begins there");
  const auto& [offset, range] = *found;
  const auto chunk = memory.allocations.lower_bound(offset);
  if (chunk != memory.allocations.end() && chunk->first < offset + range.bytes)
    return refuse("releasing", device, base, range.bytes, "there is memory behind them");
  memory.ranges.erase(found);
  return {};
}

Status Arena::map(int device, std::uint32_t epoch, void* start, std::size_t bytes) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  EMBER_TRY(check_epoch(device, memory, epoch));
  if (epoch != 0) happens_after(&memory.others_inside);  // as in allocate()
  const std::size_t offset = own_device(start) == device ? offset_of(device, start) : 0;
  auto range = memory.ranges.upper_bound(offset);
  if (range == memory.ranges.begin() || (--range)->second.epoch != epoch ||
      offset - range->first >= range->second.bytes ||
      bytes > range->second.bytes - (offset - range->first))
    return refuse("mapping", device, start, bytes, "that does not lie within one range");
  if (bytes == 0 || bytes % kUnit != 0 || (offset - range->first) % kUnit != 0)
    return refuse("mapping", device, start, bytes, "expected multiples of 2 MiB");
  auto next = memory.allocations.lower_bound(offset);
  if ((next != memory.allocations.end() && next->first < offset + bytes) ||
      (next != memory.allocations.begin() && (--next)->first + next->second.bytes > offset))
    return refuse("mapping", device, start, bytes, "there is memory behind them already");
  if (memory.file < 0) EMBER_TRY(make_backing(device, memory));
  std::vector<Pages> pages;
  if (has_room(memory, bytes)) pages = take_pages(memory, bytes);
  Status status;
  if (pages.empty())
    status = Status(Code::out_of_memory, "cuda:" + std::to_string(device) +
                                             " has no free pages of " + format_bytes(bytes) + " (" +
                                             format_bytes(memory.used) + " in use)");
  else if (memory.shared != nullptr)
    status = memory.shared->claim(memory.ordinal, bytes);
  if (status.ok()) {
    memory.used += bytes;
    status = map_pages(device, memory, offset, pages);
    if (!status.ok()) take_back(memory, bytes);
  }
  if (!status.ok()) {
    for (const Pages& each : pages) release(memory, device, each.offset, each.bytes);
    return status;
  }
  const RunMemory::Birth birth = memory.run ? memory.run->give_birth() : RunMemory::Birth{};
  memory.allocations.emplace(offset, Allocation{bytes, epoch, birth, std::move(pages)});
  return {};
}

Status Arena::unmap(int device, std::uint32_t epoch, void* start, std::size_t bytes) {
  Memory& memory = memory_of(device);
  const std::unique_lock lock(memory.mutex);
  EMBER_TRY(check_epoch(device, memory, epoch));
  const auto found = own_device(start) == device ? memory.allocations.find(offset_of(device, start))
                                                 : memory.allocations.end();
  if (found == memory.allocations.end() || !found->second.is_chunk() ||
      found->second.epoch != epoch || found->second.bytes != bytes)
    return refuse("unmapping", device, start, bytes, "that is no chunk");
  release(memory, device, found->first, found->second);
  memory.allocations.erase(found);
  return {};
}

bool Arena::pieces_of(const void* pointer, std::size_t bytes, std::vector<IpcPiece>& out,
                      std::size_t& in_front) const {
  if (bytes == 0 || !is_of_range(pointer) || !contains(pointer, bytes)) return false;
  if (follows_runs_) touch(pointer, bytes, true);  // nobody sees what other processes do
  const int device = own_device(pointer);
  const Memory& memory = memory_of(device);
  const std::shared_lock lock(memory.mutex);
  const std::size_t first = offset_of(device, pointer);
  auto chunk = memory.allocations.upper_bound(first);
  if (chunk == memory.allocations.begin()) return false;
  std::size_t at = (--chunk)->first;
  for (; chunk != memory.allocations.end() && at < first + bytes; ++chunk) {
    if (chunk->first != at || !chunk->second.is_chunk()) return false;  // a reset took it meanwhile
    for (const Pages& pages : chunk->second.pages) {
      if (at + pages.bytes > first && at < first + bytes) {
        if (out.empty()) in_front = first - at;
        if (!out.empty() && out.back().offset + out.back().bytes == pages.offset)
          out.back().bytes += pages.bytes;
        else
          out.push_back({memory.file, pages.offset, pages.bytes});
      }
      at += pages.bytes;
    }
  }
  return at >= first + bytes;
}

// Whole pages that are free, the lowest first. None if there are not enough.
std::vector<Arena::Pages> Arena::take_pages(Memory& memory, std::size_t bytes) {
  std::vector<Pages> taken;
  std::size_t missing = bytes;
  for (const auto& [offset, length] : memory.free_ranges) {
    if (missing == 0) break;
    const std::size_t first = (offset + kPage - 1) / kPage * kPage;
    const std::size_t last = (offset + length) / kPage * kPage;
    if (last <= first) continue;
    taken.push_back({first, std::min(last - first, missing)});
    missing -= taken.back().bytes;
  }
  if (missing != 0) return {};
  for (const Pages& pages : taken) {
    const auto range = std::prev(memory.free_ranges.upper_bound(pages.offset));
    const std::size_t end = range->first + range->second;
    if (pages.offset + pages.bytes < end)
      memory.free_ranges.emplace(pages.offset + pages.bytes, end - pages.offset - pages.bytes);
    range->second = pages.offset - range->first;
    if (range->second == 0) memory.free_ranges.erase(range);
  }
  return taken;
}

Status Arena::map_pages(int device, const Memory& memory, std::size_t offset,
                        const std::vector<Pages>& pages) {
  std::size_t done = 0;
  for (const Pages& each : pages) {
    if (mmap(backing(start_of(device) + offset + done), each.bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, memory.file,
             static_cast<off_t>(each.offset)) == MAP_FAILED) {
      Status status(Code::map_failed, std::string("mmap failed: ") + std::strerror(errno));
      unmap_pages(device, offset, done);
      return status;
    }
    done += each.bytes;
  }
  return {};
}

// What a worker may still do there, by a program's mistake, is done to nobody's memory.
void Arena::unmap_pages(int device, std::size_t offset, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  (void)mmap(backing(start_of(device) + offset), bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace ember::inline v0::driver::sim
