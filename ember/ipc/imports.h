// What this process uses of others': leases, and what is mapped for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/ipc/messages.h"
#include "ember/ipc/shared_file.h"
#include "ember/ipc/words.h"
#include "ember/runtime/stream.h"
#include "ember/tensor/storage.h"

namespace ember::inline v0::ipc {

/// Memory of another process, as the storage over it, the service and pending work share it.
struct Import {
  Process owner;
  Record record;
  std::uint64_t lease = 0;
  Device device{Device::Type::cpu};
  std::uint32_t epoch = 0;  ///< of the device, when it was opened
  void* data = nullptr;

  /// The process ended before the work was done that was to write the memory.
  std::atomic<bool> failed{false};

  /// A word that work waits for, and the value that it waits for.
  struct Awaited {
    Ref<WordsFile> file;
    driver::Word* word = nullptr;
    std::uint64_t value = 0;
  };

  Mutex mutex;  // after the service's
  std::vector<Awaited> awaited EMBER_GUARDED_BY(mutex);
  /// Whose work the memory is kept for.
  std::vector<cuda::Stream> streams EMBER_GUARDED_BY(mutex);
  /// Handles by which it was received, the last few: receiving one again is no error.
  std::deque<Record> handles EMBER_GUARDED_BY(mutex);
};

/// The keeper of an import's storage.
class ImportedMemory final : public ForeignMemory {
 public:
  explicit ImportedMemory(std::shared_ptr<Import> import, std::uint64_t generation) noexcept
      : import_(std::move(import)), generation_(generation) {}
  ~ImportedMemory() override;
  void record_stream(const cuda::Stream& stream) override;
  void require_alive() const override;

  const std::shared_ptr<Import>& import() const noexcept { return import_; }

 private:
  /// Where a seed decides: does the work that the memory is kept for, and forgets the streams.
  void finish_streams() noexcept;
  const std::shared_ptr<Import> import_;
  const std::uint64_t generation_;  // of the process: a forked child gives nothing back
};

/// An event of another process.
struct ImportedEvent {
  Process owner;
  std::uint64_t lease = 0;
  Ref<WordsFile> file;
  driver::Word* word = nullptr;  ///< the first of its cell
};

/// By owner and slot. Not thread-safe: guarded by the service's lock.
class Imports {
 public:
  using Key = std::pair<Process, std::uint64_t>;

  /// What all imports of one process share.
  struct Owner {
    Watch watch;
    bool ended = false;
    int users = 0;                   ///< imports and events
    Ref<WordsFile> words;            ///< the one that was used last
    std::uint64_t words_number = 0;  ///< among the owner's
    struct HostFile {
      Mapping mapping;
      int users = 0;
    };
    std::map<std::uint64_t, HostFile> files;  ///< CPU memory, by the owner's numbers
  };

  /// The owner, known from here on; must be followed by leave().
  Owner& enter(const Process& owner);
  /// The words that nobody needs any more, to be retired; null while somebody does.
  Ref<WordsFile> leave(const Process& owner);
  Owner* find_owner(const Process& owner);
  std::map<Process, Owner>& owners() noexcept { return owners_; }

  /// The storage that is there already, or null.
  Ref<Storage> find(const Key& key) const;
  void add(const Key& key, Storage* storage, std::shared_ptr<Import> import);
  /// The last tensor of the import went; nothing if another one took its place.
  void remove(const Key& key, const Import* import);

  /// Whether another thread is receiving it, which one waits for; else marks that this one is.
  bool begin(const Key& key) { return receiving_.insert(key).second; }
  void end(const Key& key) { receiving_.erase(key); }

  /// Imports until their lease is given back, and events.
  std::set<std::shared_ptr<Import>> held;
  std::set<ImportedEvent*> events;

  bool empty() const noexcept { return owners_.empty() && receiving_.empty() && held.empty(); }

 private:
  struct Live {
    Storage* storage = nullptr;
    std::shared_ptr<Import> import;
  };
  std::map<Process, Owner> owners_;
  std::map<Key, Live> live_;
  std::set<Key> receiving_;
};

}  // namespace ember::inline v0::ipc
