// Traces from the histories in snapshots.
#include <map>
#include <utility>

#include "ember/base/error.h"
#include "ember/memory/pickle.h"
#include "ember/replay/trace.h"

namespace ember::inline v0::replay {
namespace {

using Action = Entry::Action;
using memory::Pickled;
using Kind = Pickled::Kind;

[[noreturn]] void refuse(const std::string& what) {
  throw ValueError("trace: not a snapshot with a history: " + what);
}

/// Null if there is none. The last one of equal keys counts, as in Python.
const Pickled::Value* find(const Pickled& pickled, const Pickled::Value& dict,
                           std::string_view key) {
  if (dict.kind != Kind::dict) refuse("expected a dict with '" + std::string(key) + "'");
  for (std::size_t i = dict.items.size(); i >= 2; i -= 2)
    if (pickled.at(dict.items[i - 2]).text == key) return &pickled.at(dict.items[i - 1]);
  return nullptr;
}

std::uint64_t whole(const Pickled& pickled, const Pickled::Value& entry, std::string_view key) {
  const Pickled::Value* const value = find(pickled, entry, key);
  if (value == nullptr || value->kind != Kind::integer)
    refuse("an entry's '" + std::string(key) + "' is not there, or no integer");
  return static_cast<std::uint64_t>(value->whole);
}

/// Numbers things from 0 in the order in which they come.
template <class T>
class Numbers {
 public:
  std::uint32_t of(const T& thing) {
    if (numbers_.size() == kEndOfNumbers) refuse("65536 streams or pools");
    return numbers_.try_emplace(thing, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<T, std::uint32_t> numbers_;
};

using PoolId = std::pair<std::int64_t, std::int64_t>;

PoolId pool_of(const Pickled& pickled, const Pickled::Value& entry) {
  for (const std::string_view key : {"pool_id", "segment_pool_id"}) {
    const Pickled::Value* const pool = find(pickled, entry, key);
    if (pool == nullptr || pool->items.size() != 2) continue;
    return {pickled.at(pool->items[0]).whole, pickled.at(pool->items[1]).whole};
  }
  return {0, 0};
}

}  // namespace

Trace trace_of_snapshot(std::string_view pickle, std::size_t device) {
  Pickled pickled;
  if (const Status status = memory::read_pickle(pickle, pickled); !status.ok())
    throw ValueError("trace: " + status.detail());
  const Pickled::Value* const traces = find(pickled, pickled.at(pickled.root), "device_traces");
  if (traces == nullptr || traces->kind != Kind::list) refuse("no list 'device_traces'");
  if (device >= traces->items.size())
    refuse("device " + std::to_string(device) + " is asked for, and there are " +
           std::to_string(traces->items.size()));
  const Pickled::Value& entries = pickled.at(traces->items[device]);
  if (entries.kind != Kind::list || entries.items.empty())
    refuse("device " + std::to_string(device) + " has no entries");

  static const std::map<std::string_view, Action> kActions = {
      {"alloc", Action::alloc},
      {"free_requested", Action::free_requested},
      {"free_completed", Action::free_completed},
      {"segment_alloc", Action::segment_alloc},
      {"segment_free", Action::segment_free},
      {"segment_map", Action::segment_map},
      {"segment_unmap", Action::segment_unmap}};
  Trace trace;
  Follower follower;
  Numbers<std::uint64_t> streams;
  Numbers<PoolId> pools;
  (void)pools.of({0, 0});  // is number 0
  const auto add = [&](Entry entry) {
    if (const std::string why = follower.add(entry); !why.empty())
      refuse("entry " + std::to_string(trace.entries.size() + trace.dropped) + ": " + why);
    trace.entries.push_back(entry);
  };
  for (const Pickled::Index at : entries.items) {
    const Pickled::Value& from = pickled.at(at);
    const Pickled::Value* const action = find(pickled, from, "action");
    if (action == nullptr || action->kind != Kind::text) refuse("an entry without an action");
    const auto known = kActions.find(action->text);
    if (known == kActions.end()) continue;  // snapshot, oom, and what there may be in future
    Entry entry;
    entry.action = known->second;
    entry.address = whole(pickled, from, "addr");
    if (entry.address % 512 != 0 || entry.address >= kEndOfAddresses)
      refuse("an address that is no multiple of 512 below 2^57");
    if (entry.sized()) {
      entry.size = whole(pickled, from, "size");
      if (entry.size >= kEndOfSizes) refuse("a size of 2^48 bytes or more");
      if (entry.action == Action::alloc && entry.size == 0) continue;
    }
    // Of chunks that go back together some may be from before the history.
    if (entry.action == Action::segment_unmap && !follower.knows(entry)) {
      ++trace.dropped;
      for (const auto& [address, size] : follower.mapped(entry.address, entry.size))
        add({entry.action, address, size});
      continue;
    }
    if (!follower.knows(entry)) {
      ++trace.dropped;
      continue;
    }
    if (entry.comes()) {
      entry.stream = streams.of(whole(pickled, from, "stream"));
      entry.pool = pools.of(pool_of(pickled, from));
    }
    add(entry);
  }
  return trace;
}

Trace trace_of(std::string_view bytes, std::size_t device) {
  if (bytes.starts_with('\x80')) return trace_of_snapshot(bytes, device);
  Trace trace = read_trace(bytes);
  if (device != 0)
    throw ValueError("trace: device " + std::to_string(device) +
                     " is asked for, and a text has device 0");
  return trace;
}

}  // namespace ember::inline v0::replay
