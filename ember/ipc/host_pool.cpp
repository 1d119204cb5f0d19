#include "ember/ipc/host_pool.h"

#include <algorithm>
#include <string>

#include "ember/base/bytes.h"

namespace ember::inline v0::ipc {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMost = std::size_t{1} << 46;

std::size_t up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }
std::size_t down(std::size_t value, std::size_t unit) { return value / unit * unit; }

}  // namespace

bool HostPool::cut(Shared& from, std::size_t bytes, std::size_t& offset) {
  for (auto range = from.free.begin(); range != from.free.end(); ++range) {
    if (range->second < bytes) continue;
    const auto [start, length] = *range;
    from.free.erase(range);
    if (length > bytes) from.free.emplace(start + bytes, length - bytes);
    from.used.emplace(start, bytes);
    offset = start;
    return true;
  }
  return false;
}

/// The free range that the piece is part of now.
std::pair<std::size_t, std::size_t> HostPool::merge(Shared& into, std::size_t offset,
                                                    std::size_t bytes) {
  auto range = into.free.emplace(offset, bytes).first;
  if (auto next = std::next(range);
      next != into.free.end() && range->first + range->second == next->first) {
    range->second += next->second;
    into.free.erase(next);
  }
  if (range != into.free.begin())
    if (auto previous = std::prev(range); previous->first + previous->second == range->first) {
      previous->second += range->second;
      into.free.erase(range);
      range = previous;
    }
  return *range;
}

Status HostPool::allocate(std::size_t bytes, Piece& out) {
  if (bytes > kMost)
    return Status(Code::out_of_memory, format_bytes(bytes) + " of shared memory are too many");
  const std::size_t wanted = up(bytes, kAlignment);
  Piece made;
  Shared* from = nullptr;
  for (auto& [number, shared] : files_)
    if (cut(shared, wanted, made.offset)) {
      made.file = number;
      from = &shared;
      break;
    }
  if (from == nullptr) {
    Shared fresh;
    const std::size_t size = std::max(kFileBytes, up(wanted, kPage));
    EMBER_TRY(make_shared_file("ember-tensors", size, fresh.file));
    EMBER_TRY(fresh.mapping.map(fresh.file, size));
    fresh.free.emplace(0, size);
    made.file = next_file_++;
    from = &files_.emplace(made.file, std::move(fresh)).first->second;
    (void)cut(*from, wanted, made.offset);
  }
  made.data = from->mapping.data() + made.offset;
  const std::size_t first = down(made.offset, kPage);
  if (Status status = commit(from->file, first, up(made.offset + wanted, kPage) - first);
      !status.ok()) {
    free(made);
    return Status(
        status.code(),
        format_bytes(bytes) + " of memory to share with other processes: " + status.detail());
  }
  out = made;
  return {};
}

void HostPool::free(const Piece& piece) noexcept {
  const auto found = files_.find(piece.file);
  if (found == files_.end()) return;
  Shared& shared = found->second;
  const auto used = shared.used.find(piece.offset);
  if (used == shared.used.end()) return;
  const std::size_t bytes = used->second;
  shared.used.erase(used);
  if (shared.used.empty()) {
    files_.erase(found);
    return;
  }
  const auto [start, length] = merge(shared, piece.offset, bytes);
  // The pages that the piece had a part in and that nothing else lies in.
  const std::size_t first = std::max(up(start, kPage), down(piece.offset, kPage));
  const std::size_t last = std::min(down(start + length, kPage), up(piece.offset + bytes, kPage));
  if (last > first) decommit(shared.file, first, last - first);
}

int HostPool::descriptor(std::uint64_t file) const noexcept {
  const auto found = files_.find(file);
  return found == files_.end() ? -1 : found->second.file.get();
}

}  // namespace ember::inline v0::ipc
