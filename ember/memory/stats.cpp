#include "ember/memory/stats.h"

namespace ember::memory {

void Stats::apply_rare(const AllocEvent& event) noexcept {
  const auto bytes = static_cast<std::int64_t>(event.bytes);
  switch (event.kind) {
    case AllocEvent::Kind::segment_allocated:
      grow(event.small, segment, 1);
      grow(event.small, reserved_bytes, bytes);
      ++device_allocs_;
      break;
    case AllocEvent::Kind::segment_freed:
      shrink(event.small, segment, 1);
      shrink(event.small, reserved_bytes, bytes);
      ++device_frees_;
      break;
    case AllocEvent::Kind::retried: ++retries_; break;
    case AllocEvent::Kind::synchronized_all: ++syncs_; break;
    case AllocEvent::Kind::out_of_memory: ++ooms_; break;
    default: break;
  }
}

Usage Stats::headroom(Pool pool) const noexcept {
  return {std::min(at(allocation, pool).headroom(), at(active, pool).headroom()),
          std::min(at(allocated_bytes, pool).headroom(), at(active_bytes, pool).headroom()),
          at(requested_bytes, pool).headroom()};
}

bool Stats::within_peaks(bool small, const Usage& usage) const noexcept {
  return headroom(kAll).covers(usage) && headroom(pool_of(small)).covers(usage);
}

PoolUsage Stats::share_of_room(int shares, bool small, const Usage& next) const noexcept {
  PoolUsage share;
  const auto part = [shares](std::int64_t room) { return room > 0 ? room / shares : 0; };
  for (const Pool pool : {kAll, kSmall, kLarge}) {
    Usage room = headroom(pool);
    if (pool == kAll || pool == pool_of(small)) room -= next;
    share[pool] = {part(room.blocks), part(room.bytes), part(room.requested)};
  }
  return share;
}

void Stats::lend(const PoolUsage& credit) noexcept {
  for (const Pool pool : {kAll, kSmall, kLarge}) {
    at(allocation, pool).shift(credit[pool].blocks);
    at(allocated_bytes, pool).shift(credit[pool].bytes);
    at(active, pool).shift(credit[pool].blocks);
    at(active_bytes, pool).shift(credit[pool].bytes);
    at(requested_bytes, pool).shift(credit[pool].requested);
  }
}

void Stats::take_back(const PoolUsage& credit) noexcept {
  PoolUsage negative;
  for (const Pool pool : {kAll, kSmall, kLarge}) negative[pool] -= credit[pool];
  lend(negative);
}

void Stats::add_increases(const PoolUsage& gained) noexcept {
  for (const Pool pool : {kSmall, kLarge}) {
    at(allocation, pool).increased += gained[pool].blocks;
    at(allocated_bytes, pool).increased += gained[pool].bytes;
    at(active, pool).increased += gained[pool].blocks;
    at(active_bytes, pool).increased += gained[pool].bytes;
    at(requested_bytes, pool).increased += gained[pool].requested;
  }
}

void Stats::reset_peaks() noexcept {
  for (auto& pool : tallies_)
    for (Tally& tally : pool) tally.peak.store(tally.current.load(kRelaxed), kRelaxed);
}

void Stats::clear_current() noexcept {
  for (auto& pool : tallies_)
    for (Tally& tally : pool) tally.current.store(0, kRelaxed);
}

cuda::PoolCounters Stats::read(Group group) const noexcept {
  const auto counter = [](const Tally& tally, std::int64_t increased) {
    const std::int64_t current = tally.current.load(kRelaxed);
    // What came and is no longer there must have gone.
    return cuda::Counter{current, tally.peak.load(kRelaxed), increased, increased - current};
  };
  const Tally& small = at(group, kSmall);
  const Tally& large = at(group, kLarge);
  return {counter(at(group, kAll), small.increased + large.increased),
          counter(small, small.increased), counter(large, large.increased)};
}

cuda::MemoryCounters Stats::counters() const noexcept {
  cuda::MemoryCounters out;
  out.allocation = read(allocation);
  out.segment = read(segment);
  out.active = read(active);
  out.inactive_split = read(inactive_split);
  out.allocated_bytes = read(allocated_bytes);
  out.reserved_bytes = read(reserved_bytes);
  out.active_bytes = read(active_bytes);
  out.inactive_split_bytes = read(inactive_split_bytes);
  out.requested_bytes = read(requested_bytes);
  out.num_alloc_retries = retries_;
  out.num_ooms = ooms_;
  out.num_sync_all_streams = syncs_;
  out.num_device_alloc = device_allocs_;
  out.num_device_free = device_frees_;
  return out;
}

}  // namespace ember::memory
