#include "ember/sanitizer/shadow.h"

#include <utility>

namespace ember::inline v0::cuda::sanitizer {
namespace {

/// Whether `later` stands for `earlier` as well. A write does for all that it covers: what comes
/// after it comes after what it was ordered behind, and what it was not is reported already. A read
/// does for reads of its own actor.
bool replaces(const Entry& later, const Entry& earlier) {
  if (!later.writes &&
      (earlier.writes || earlier.operation.epoch.actor != later.operation.epoch.actor))
    return false;
  return later.bytes.dense() ? later.bytes.contains(earlier.bytes) : later.bytes == earlier.bytes;
}

}  // namespace

void Accesses::add(const Entry& entry, bool whole) {
  if (whole) {
    if (entry.writes) {
      whole_.clear();
      parts_.clear();
      longest_ = 0;
    } else {
      const auto replaced = [&](const Entry& earlier) { return replaces(entry, earlier); };
      std::erase_if(whole_, replaced);
      std::erase_if(parts_, replaced);
    }
    whole_.push_back(entry);
    return;
  }
  const auto before = [](const Entry& at, std::uintptr_t value) { return at.bytes.first < value; };
  auto from = std::lower_bound(parts_.begin(), parts_.end(), entry.bytes.first, before);
  auto to = std::lower_bound(from, parts_.end(), entry.bytes.last, before);
  const auto kept =
      std::remove_if(from, to, [&](const Entry& earlier) { return replaces(entry, earlier); });
  longest_ = std::max(longest_, entry.bytes.last - entry.bytes.first);
  // Into the place of one that went, if there is one: the order is that of first bytes, and all
  // from `from` on begin where this one does or later.
  if (kept != to) {
    std::move_backward(from, kept, std::next(kept));
    *from = entry;
    parts_.erase(std::next(kept), to);
  } else {
    parts_.insert(from, entry);
  }
}

void Accesses::take(std::vector<Entry>& out) {
  std::move(whole_.begin(), whole_.end(), std::back_inserter(out));
  std::move(parts_.begin(), parts_.end(), std::back_inserter(out));
  whole_.clear();
  parts_.clear();
  longest_ = 0;
}

Allocation* Shadow::find(std::uintptr_t address) {
  if (last_ != nullptr && address - last_->first < last_->span) return last_;
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation& found = (--after)->second;
  if (address - found.first >= found.span) return nullptr;
  last_ = &found;
  return last_;
}

std::map<std::uintptr_t, Allocation>::iterator Shadow::first_in(std::uintptr_t address) {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return after;
  const auto before = std::prev(after);
  return before->second.first + before->second.span > address ? before : after;
}

Allocation& Shadow::begin(std::uintptr_t address, std::size_t span) {
  std::vector<Entry> stale;
  std::vector<Allocation> beside;  // what is left of earlier lives on either side
  std::uint64_t free_stack = 0;
  const std::uintptr_t last = address + span;
  auto at = first_in(address);
  while (at != allocations_.end() && at->first < last) {
    Allocation& old = at->second;
    if (old.free_stack != 0) free_stack = old.free_stack;
    const std::size_t before = stale.size();
    old.accesses.take(stale);
    const auto keep = [&](std::uintptr_t from, std::uintptr_t to) {
      if (from >= to) return;
      Allocation& left = beside.emplace_back();
      left.first = from;
      left.bytes = left.span = to - from;
      left.device = old.device;
      left.stack = old.stack;
      left.free_stack = old.free_stack;
      left.freed = old.freed;
      left.of_graph = old.of_graph;
      left.free = old.free;
      left.recorded = old.recorded;
      left.done = old.done;
      left.ordered = old.ordered;
      left.given = old.given;
      left.written.add_all();
      for (std::size_t i = before; i < stale.size(); ++i)
        if (stale[i].bytes.first < to && from < stale[i].bytes.last)
          left.accesses.add(stale[i], false);
    };
    keep(old.first, address);
    keep(last, old.first + old.span);
    at = allocations_.erase(at);
  }
  for (Allocation& left : beside) allocations_.insert_or_assign(left.first, std::move(left));
  last_ = nullptr;
  Allocation& made = allocations_[address];
  made.first = address;
  made.span = span;
  made.free_stack = free_stack;
  for (Entry& entry : stale) {
    entry.stale = true;
    made.accesses.add(entry, false);
  }
  return made;
}

void Shadow::end(std::uintptr_t address, std::size_t span) {
  auto at = allocations_.lower_bound(address);
  while (at != allocations_.end() && at->first < address + span) at = allocations_.erase(at);
  last_ = nullptr;
}

void Shadow::end_device(int device) {
  std::erase_if(allocations_, [&](const auto& at) { return at.second.device == device; });
  last_ = nullptr;
}

}  // namespace ember::inline v0::cuda::sanitizer
