#include "ember/ipc/exports.h"

#include <algorithm>
#include <utility>

#include "ember/ipc/event_cell.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {
namespace {

/// Whether the device was reset since the memory was named.
bool is_stale(const Storage& storage) {
  if (!storage.device().is_cuda()) return false;
  driver::Driver* driver = cuda::driver_if_made();
  return driver == nullptr || driver->device_epoch(storage.device().index()) != storage.epoch();
}

}  // namespace

Record Exports::add_handle(std::uint64_t slot, Entry& entry, int receivers, const Ready& ready) {
  Record record = entry.source.record;
  record.slot = slot;
  record.serial = entry.next_serial++;
  record.secret = random_secret();
  entry.handles.emplace(record.serial, Handle{record.secret, receivers, ready});
  unreceived_ += static_cast<std::size_t>(receivers);
  return record;
}

Record Exports::send(const Ref<Storage>& storage, const Source& source, int receivers,
                     const Ready& ready) {
  const auto known = by_storage_.find(storage.get());
  std::uint64_t slot = known != by_storage_.end() ? known->second : 0;
  // A device that was reset has other memory at the place, under another entry.
  if (slot == 0 || !(entries_.at(slot).source.record == source.record)) {
    slot = next_slot_++;
    Entry& made = entries_[slot];
    made.storage = storage;
    made.source = source;
    by_storage_[storage.get()] = slot;
  }
  Entry& entry = entries_.at(slot);
  // What was received, and is written, needs its words no more.
  for (auto each = entry.handles.begin(); each != entry.handles.end();) {
    const auto here = each++;
    if (here->second.left == 0 && here->second.ready.value != 0 &&
        here->second.ready.cell.word->load(std::memory_order_acquire) >= here->second.ready.value)
      drop_handle(entry, here);
  }
  return add_handle(slot, entry, receivers, ready);
}

void Exports::drop_handle(Entry& entry, std::map<std::uint64_t, Handle>::iterator handle) {
  unreceived_ -= static_cast<std::size_t>(handle->second.left);
  const Ready& ready = handle->second.ready;
  if (ready.value != 0) words_.give_back_at(ready.cell, ready.value);
  entry.handles.erase(handle);
}

void Exports::drop_if_unused(std::map<std::uint64_t, Entry>::iterator entry, Gone& gone) {
  Entry& it = entry->second;
  if (it.leases > 0 || it.event_lives) return;
  for (const auto& [serial, handle] : it.handles)
    if (handle.left > 0) return;
  while (!it.handles.empty()) drop_handle(it, it.handles.begin());
  // Records that were asked for may still be going to be done.
  if (it.cell.word != nullptr) words_.give_back_at(it.cell, it.cell.word[kRecordedWord].load());
  if (it.storage) {
    const auto known = by_storage_.find(it.storage.get());
    if (known != by_storage_.end() && known->second == entry->first) by_storage_.erase(known);
    gone.push_back(std::move(it.storage));
  }
  entries_.erase(entry);
}

Answer Exports::find(const Record& record, std::map<std::uint64_t, Entry>::iterator& entry,
                     std::map<std::uint64_t, Handle>::iterator& handle) {
  entry = entries_.find(record.slot);
  if (entry == entries_.end()) return record.slot < next_slot_ ? Answer::received : Answer::unknown;
  Record expected = entry->second.source.record;
  expected.slot = record.slot;
  expected.serial = record.serial;
  expected.secret = record.secret;
  if (!(expected == record)) return Answer::unknown;
  handle = entry->second.handles.find(record.serial);
  if (handle == entry->second.handles.end())
    return record.serial < entry->second.next_serial ? Answer::received : Answer::unknown;
  if (!same_secret(handle->second.secret, record.secret)) return Answer::unknown;
  if (entry->second.storage && is_stale(*entry->second.storage)) return Answer::reset;
  return Answer::granted;
}

std::size_t Exports::undone() const noexcept {
  std::size_t count = 0;
  for (const auto& [slot, entry] : entries_)
    for (const auto& [serial, handle] : entry.handles)
      if (const Ready& ready = handle.ready;
          ready.value != 0 && ready.cell.word->load(std::memory_order_acquire) < ready.value)
        ++count;
  return count;
}

void Exports::use(Entry& entry, std::map<std::uint64_t, Handle>::iterator handle) {
  --handle->second.left;
  --unreceived_;
  // Whoever waits for a word of the handle still has to find it.
  if (handle->second.left == 0 && handle->second.ready.value == 0) entry.handles.erase(handle);
}

void Exports::withdraw(const Record& record, Gone& gone) {
  std::map<std::uint64_t, Entry>::iterator entry;
  std::map<std::uint64_t, Handle>::iterator handle;
  const Answer answer = find(record, entry, handle);
  if (answer != Answer::granted && answer != Answer::reset) return;
  drop_handle(entry->second, handle);
  drop_if_unused(entry, gone);
}

void Exports::withdraw_all(Gone& gone) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    if (here->second.storage)
      while (!here->second.handles.empty()) drop_handle(here->second, here->second.handles.begin());
    drop_if_unused(here, gone);
  }
}

Record Exports::share_event(std::uint64_t& slot, const WordPool::Cell& cell, const Source& source) {
  slot = next_slot_++;
  Entry& entry = entries_[slot];
  entry.source = source;
  entry.source.record.slot = slot;
  entry.source.record.secret = random_secret();
  entry.cell = cell;
  entry.event_lives = true;
  return entry.source.record;
}

void Exports::end_event(std::uint64_t slot) {
  const auto entry = entries_.find(slot);
  if (entry == entries_.end()) return;
  entry->second.event_lives = false;
  Gone none;
  drop_if_unused(entry, none);
}

Exports::Resolved Exports::resolve(const Record& record, Gone& gone) {
  Resolved resolved;
  std::map<std::uint64_t, Entry>::iterator entry;
  std::map<std::uint64_t, Handle>::iterator handle;
  resolved.answer = find(record, entry, handle);
  if (resolved.answer != Answer::granted) return resolved;
  if (handle->second.left <= 0) {
    resolved.answer = Answer::received;
    return resolved;
  }
  resolved.storage = entry->second.storage;
  resolved.ready = handle->second.ready;
  use(entry->second, handle);
  drop_if_unused(entry, gone);
  return resolved;
}

Exports::Granted Exports::lease(const Record& record, const Process& holder, std::uint64_t id,
                                Gone& gone) {
  Granted granted;
  const Key key{holder, id};
  if (leases_.contains(key)) {
    granted.answer = Answer::malformed;
    return granted;
  }
  if (record.kind == Kind::event) {
    const auto entry = entries_.find(record.slot);
    if (entry == entries_.end() || entry->second.storage) {
      granted.answer = record.slot < next_slot_ ? Answer::received : Answer::unknown;
      return granted;
    }
    Record expected = entry->second.source.record;
    expected.secret = record.secret;
    if (!(expected == record) || !same_secret(entry->second.source.record.secret, record.secret))
      return granted;
    granted.answer = Answer::granted;
    granted.ready = {entry->second.cell, 1};
    ++entry->second.leases;
    leases_.emplace(key, LeaseEntry{record.slot, record});
    return granted;
  }
  std::map<std::uint64_t, Entry>::iterator entry;
  std::map<std::uint64_t, Handle>::iterator handle;
  granted.answer = find(record, entry, handle);
  if (granted.answer != Answer::granted) return granted;
  if (handle->second.left <= 0) {
    granted.answer = Answer::received;
    return granted;
  }
  granted.memory = entry->second.source.descriptor;
  if (record.kind == Kind::pieces) granted.in_pieces = entry->second.storage;
  if (const Ready& ready = handle->second.ready; ready.value != 0) {
    const std::uint64_t now = ready.cell.word->load(std::memory_order_acquire);
    if (now == driver::kWordLost) {
      granted.answer = Answer::reset;  // a fault dropped the work that was to write the memory
      drop_handle(entry->second, handle);
      drop_if_unused(entry, gone);
      return granted;
    }
    if (now < ready.value) granted.ready = ready;
  }
  use(entry->second, handle);
  ++entry->second.leases;
  leases_.emplace(key, LeaseEntry{record.slot, record});
  return granted;
}

Answer Exports::give_back(const Process& holder, std::uint64_t id, Gone& gone) {
  const auto lease = leases_.find({holder, id});
  if (lease == leases_.end()) return Answer::not_yours;
  const auto entry = entries_.find(lease->second.slot);
  leases_.erase(lease);
  --entry->second.leases;
  drop_if_unused(entry, gone);
  return Answer::granted;
}

Answer Exports::forward(const Process& holder, std::uint64_t id, Record& out) {
  const auto lease = leases_.find({holder, id});
  if (lease == leases_.end()) return Answer::not_yours;
  Entry& entry = entries_.at(lease->second.slot);
  if (!entry.storage) return Answer::malformed;
  if (is_stale(*entry.storage)) return Answer::reset;
  out = add_handle(lease->second.slot, entry, 1, {});
  return Answer::granted;
}

void Exports::drop_holder(const Process& holder, Gone& gone) {
  auto lease = leases_.lower_bound({holder, 0});
  while (lease != leases_.end() && lease->first.first == holder) {
    const auto here = lease++;
    (void)give_back(holder, here->first.second, gone);
  }
}

std::vector<Exports::Lease> Exports::leases() const {
  std::vector<Lease> all;
  for (const auto& [key, lease] : leases_) all.push_back({lease.record, key.first});
  return all;
}

std::vector<Exports::Lent> Exports::lent() const {
  std::map<std::uint64_t, Lent> by_slot;
  for (const auto& [slot, entry] : entries_) {
    const bool on_its_way = std::any_of(entry.handles.begin(), entry.handles.end(),
                                        [](const auto& handle) { return handle.second.left > 0; });
    if (entry.storage && !is_stale(*entry.storage) && (on_its_way || entry.leases > 0))
      by_slot[slot] = {entry.storage.get(), {}, entry.storage.is_only() && !on_its_way};
  }
  for (const auto& [key, lease] : leases_)
    if (const auto at = by_slot.find(lease.slot); at != by_slot.end() && !at->second.holder)
      at->second.holder = key.first;
  std::vector<Lent> all;
  all.reserve(by_slot.size());
  for (const auto& [slot, each] : by_slot) all.push_back(each);
  return all;
}

std::vector<Process> Exports::holders() const {
  std::vector<Process> all;
  for (const auto& [key, lease] : leases_)
    if (all.empty() || !(all.back() == key.first)) all.push_back(key.first);
  return all;
}

bool Exports::has_holder(const Process& holder) const {
  const auto lease = leases_.lower_bound({holder, 0});
  return lease != leases_.end() && lease->first.first == holder;
}

std::vector<WordPool::Cell> Exports::event_cells() const {
  std::vector<WordPool::Cell> all;
  for (const auto& [slot, entry] : entries_)
    if (entry.cell.word != nullptr) all.push_back(entry.cell);
  return all;
}

}  // namespace ember::inline v0::ipc
