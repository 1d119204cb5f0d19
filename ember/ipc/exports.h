// What this process lets others use: memory and events by slot, handles by serial, and leases.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/ipc/host_pool.h"
#include "ember/ipc/messages.h"
#include "ember/ipc/words.h"
#include "ember/tensor/storage.h"

namespace ember::inline v0::ipc {

/// The memory behind a storage as records name it, and the file behind that.
struct Source {
  Record record;        ///< without slot, serial and secret
  int descriptor = -1;  ///< of the memory's file, if it has one; stays open while it is shared
};

/// A number in words that an importer waits for. Without a cell there is nothing to wait for.
struct Ready {
  WordPool::Cell cell;
  std::uint64_t value = 0;
};

/// Not thread-safe: guarded by the service's lock. Storages that go with an entry are handed to
/// `gone`, to be let go without the lock.
class Exports {
 public:
  explicit Exports(WordPool& words) : words_(words) {}

  using Gone = std::vector<Ref<Storage>>;

  /// A handle that `receivers` processes may use; the memory stays until they did, and until no
  /// lease is left. `ready` belongs to the handle from here on.
  Record send(const Ref<Storage>& storage, const Source& source, int receivers, const Ready& ready);
  /// Nobody may use the handle any more; leases stay.
  void withdraw(const Record& record, Gone& gone);
  /// The same for all handles.
  void withdraw_all(Gone& gone);
  /// How often handles may still be used.
  std::size_t unreceived() const noexcept { return unreceived_; }
  /// For how many of them the work is not done that they were sent behind.
  std::size_t undone() const noexcept;

  /// An event: its cell stays until the event goes and no lease is left.
  Record share_event(std::uint64_t& slot, const WordPool::Cell& cell, const Source& source);
  void end_event(std::uint64_t slot);

  /// The storage of a handle that came back, and what its work has to wait for; null, and why, if
  /// there is none by it.
  struct Resolved {
    Ref<Storage> storage;
    Answer answer = Answer::unknown;
    Ready ready;
  };
  Resolved resolve(const Record& record, Gone& gone);
  struct Granted {
    Answer answer = Answer::unknown;
    int memory = -1;
    Ref<Storage> in_pieces;
    Ready ready;
  };
  Granted lease(const Record& record, const Process& holder, std::uint64_t id, Gone& gone);
  Answer give_back(const Process& holder, std::uint64_t id, Gone& gone);
  /// Another handle of what a lease is of, for one receiver.
  Answer forward(const Process& holder, std::uint64_t id, Record& out);
  /// All of a process's leases.
  void drop_holder(const Process& holder, Gone& gone);

  struct Lease {
    Record record;
    Process holder;
  };
  std::vector<Lease> leases() const;
  struct Lent {
    const Storage* storage;
    std::optional<Process> holder;  ///< one that has a lease; none while it is on its way
    bool only;                      ///< nobody owns the storage but this, because of the lease
  };
  /// Storages that other processes have, or are to get.
  std::vector<Lent> lent() const;
  std::vector<Process> holders() const;
  bool has_holder(const Process& holder) const;
  /// Cells of events, in which a process that ended may have left work undone.
  std::vector<WordPool::Cell> event_cells() const;
  bool empty() const noexcept { return entries_.empty(); }

 private:
  struct Handle {
    std::array<std::uint8_t, 16> secret{};
    int left = 0;
    Ready ready;
  };
  struct Entry {
    Ref<Storage> storage;  // null for events
    Source source;
    WordPool::Cell cell;  // of an event
    bool event_lives = false;
    std::uint64_t next_serial = 1;
    std::map<std::uint64_t, Handle> handles;
    int leases = 0;
  };
  struct LeaseEntry {
    std::uint64_t slot = 0;
    Record record;
  };
  using Key = std::pair<Process, std::uint64_t>;

  Record add_handle(std::uint64_t slot, Entry& entry, int receivers, const Ready& ready);
  /// The entry and the handle that a record names, every field compared; else why not.
  Answer find(const Record& record, std::map<std::uint64_t, Entry>::iterator& entry,
              std::map<std::uint64_t, Handle>::iterator& handle);
  void use(Entry& entry, std::map<std::uint64_t, Handle>::iterator handle);
  void drop_handle(Entry& entry, std::map<std::uint64_t, Handle>::iterator handle);
  void drop_if_unused(std::map<std::uint64_t, Entry>::iterator entry, Gone& gone);

  WordPool& words_;
  std::map<std::uint64_t, Entry> entries_;
  std::unordered_map<const Storage*, std::uint64_t> by_storage_;
  std::map<Key, LeaseEntry> leases_;
  std::uint64_t next_slot_ = 1;
  std::size_t unreceived_ = 0;
};

}  // namespace ember::inline v0::ipc
