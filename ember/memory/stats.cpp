#include "ember/memory/stats.h"

namespace ember::inline v0::memory {

void Stats::apply(const AllocEvent& event) noexcept {
  const auto change = [this, &event](std::int64_t sign) {
    const auto bytes = sign * static_cast<std::int64_t>(event.bytes);
    for (const Kinds which : {kAll, kind_of(event.small)}) {
      at(segment, which).change(sign * event.segments);
      at(reserved_bytes, which).change(bytes);
    }
    if (event.oversize) oversize_segments_.change(sign);
    publish_reserved();
  };
  switch (event.kind) {
    case AllocEvent::Kind::segment_allocated:
      change(1);
      ++device_allocs_;
      break;
    case AllocEvent::Kind::segment_freed:
      change(-1);
      ++device_frees_;
      break;
    case AllocEvent::Kind::retried: ++retries_; break;
    case AllocEvent::Kind::synchronized_all: ++syncs_; break;
    case AllocEvent::Kind::out_of_memory: ++ooms_; break;
    default: break;
  }
}

void Stats::publish_reserved() noexcept {
  reserved_.store(at(reserved_bytes, kAll).current, kRelaxed);
  max_reserved_.store(at(reserved_bytes, kAll).peak, kRelaxed);
}

// Of what is active, so much more, or less, only waits for other streams.
void Stats::wait(Kinds which, const Usage& usage) noexcept {
  waiting_[which] += usage;
  waiting_[kAll] += usage;
  find_ceilings();
}

void Stats::raise_peaks() noexcept {
  for (const Kinds which : {kAll, kSmall, kLarge}) {
    active_peak_[which] = Usage::most(active_peak_[which], active_[which]);
    in_use_peak_[which] = Usage::most(in_use_peak_[which], in_use(which));
  }
  find_ceilings();
}

void Stats::find_ceilings() noexcept {
  for (const Kinds which : {kAll, kSmall, kLarge}) {
    Usage in_use = in_use_peak_[which];
    in_use += waiting_[which];
    ceiling_[which] = Usage::least(active_peak_[which], in_use);
    // Requested bytes are counted of what is active only.
    ceiling_[which].requested = active_peak_[which].requested;
  }
  max_allocated_.store(in_use_peak_[kAll].bytes, kRelaxed);
}

bool Stats::within_peaks(bool small, const Usage& usage) const noexcept {
  const Kinds which = kind_of(small);
  return (ceiling_[kAll] - active_[kAll]).covers(usage) &&
         (ceiling_[which] - active_[which]).covers(usage);
}

UsageByKind Stats::share_of_room(int shares, bool small, const Usage& next) const noexcept {
  UsageByKind share;
  const auto part = [shares](std::int64_t room) { return room > 0 ? room / shares : 0; };
  for (const Kinds which : {kAll, kSmall, kLarge}) {
    Usage room = ceiling_[which] - active_[which];
    if (which == kAll || which == kind_of(small)) room -= next;
    share[which] = {part(room.blocks), part(room.bytes), part(room.requested)};
  }
  return share;
}

void Stats::grant(const UsageByKind& quota) noexcept {
  for (const Kinds which : {kAll, kSmall, kLarge}) active_[which] += quota[which];
  shift_allocated(quota[kAll].bytes);
}

void Stats::recall(const UsageByKind& quota) noexcept {
  for (const Kinds which : {kAll, kSmall, kLarge}) active_[which] -= quota[which];
  shift_allocated(-quota[kAll].bytes);
}

void Stats::add_increases(const UsageByKind& increases) noexcept {
  for (const Kinds which : {kSmall, kLarge}) increased_[which] += increases[which];
}

void Stats::reset_peaks() noexcept {
  active_peak_ = active_;
  for (const Kinds which : {kAll, kSmall, kLarge}) in_use_peak_[which] = in_use(which);
  find_ceilings();
  for (auto& which : tallies_)
    for (Tally& tally : which) tally.peak = tally.current;
  for (Tally* tally : {&oversize_allocations_, &oversize_segments_}) tally->peak = tally->current;
  publish_reserved();
}

void Stats::clear_current() noexcept {
  active_ = waiting_ = {};
  allocated_.store(0, kRelaxed);
  find_ceilings();
  for (auto& which : tallies_)
    for (Tally& tally : which) tally.current = 0;
  for (Tally* tally : {&oversize_allocations_, &oversize_segments_}) tally->current = 0;
  publish_reserved();
}

// What sums and counts come to is one from the other (see all_counters), so the sums themselves
// stay.
void Stats::reset_accumulated() noexcept { before_ = all_counters(); }

cuda::MemoryCounters Stats::counters() const noexcept {
  using Counters = cuda::MemoryCounters;
  Counters out = all_counters();
  const auto subtract = [](cuda::Counter& counter, const cuda::Counter& before) {
    counter.allocated -= before.allocated;
    counter.freed -= before.freed;
  };
  for (const auto field :
       {&Counters::allocation, &Counters::segment, &Counters::active, &Counters::inactive_split,
        &Counters::allocated_bytes, &Counters::reserved_bytes, &Counters::active_bytes,
        &Counters::inactive_split_bytes, &Counters::requested_bytes})
    for (const auto pool : {&cuda::PoolCounters::all, &cuda::PoolCounters::small_pool,
                            &cuda::PoolCounters::large_pool})
      subtract(out.*field.*pool, before_.*field.*pool);
  for (const auto field : {&Counters::oversize_allocations, &Counters::oversize_segments})
    subtract(out.*field, before_.*field);
  for (const auto field :
       {&Counters::num_alloc_retries, &Counters::num_ooms, &Counters::num_sync_all_streams,
        &Counters::num_device_alloc, &Counters::num_device_free})
    out.*field -= before_.*field;
  return out;
}

cuda::MemoryCounters Stats::all_counters() const noexcept {
  // What came and is no longer there must have gone.
  const auto counter = [](std::int64_t current, std::int64_t peak, std::int64_t increased) {
    return cuda::Counter{current, peak, increased, increased - current};
  };
  const auto tally_of = [&](const Tally& tally) {
    return counter(tally.current, tally.peak, tally.increased);
  };
  const auto rare = [&](Group group) {
    const auto read = [&](Kinds which) { return tally_of(at(group, which)); };
    return cuda::PoolCounters{read(kAll), read(kSmall), read(kLarge)};
  };
  UsageByKind now, increased = increased_;
  increased[kAll] = increased[kSmall];
  increased[kAll] += increased[kLarge];
  for (const Kinds which : {kAll, kSmall, kLarge}) now[which] = in_use(which);
  const auto of = [&](const UsageByKind& current, const UsageByKind& peak,
                      std::int64_t Usage::*field) {
    const auto read = [&](Kinds which) {
      return counter(current[which].*field, peak[which].*field, increased[which].*field);
    };
    return cuda::PoolCounters{read(kAll), read(kSmall), read(kLarge)};
  };
  cuda::MemoryCounters out;
  out.allocation = of(now, in_use_peak_, &Usage::blocks);
  out.segment = rare(segment);
  out.active = of(active_, active_peak_, &Usage::blocks);
  out.inactive_split = rare(inactive_split);
  out.allocated_bytes = of(now, in_use_peak_, &Usage::bytes);
  out.reserved_bytes = rare(reserved_bytes);
  out.active_bytes = of(active_, active_peak_, &Usage::bytes);
  out.inactive_split_bytes = rare(inactive_split_bytes);
  out.requested_bytes = of(active_, active_peak_, &Usage::requested);
  out.oversize_allocations = tally_of(oversize_allocations_);
  out.oversize_segments = tally_of(oversize_segments_);
  out.num_alloc_retries = retries_;
  out.num_ooms = ooms_;
  out.num_sync_all_streams = syncs_;
  out.num_device_alloc = device_allocs_;
  out.num_device_free = device_frees_;
  return out;
}

}  // namespace ember::inline v0::memory
