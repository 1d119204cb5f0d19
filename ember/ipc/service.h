// What a process does for others and with others: its tables, and the one thread that answers.
//
// The thread is there while there is something to do: it ends, and its socket goes, some time after
// nothing is shared, leased or on its way any more. It never waits for a device or for another
// process. Nothing is waited for while the lock is held, and no call of the driver's that could
// take long is made.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/ipc/exports.h"
#include "ember/ipc/host_pool.h"
#include "ember/ipc/imports.h"
#include "ember/ipc/pieces.h"
#include "ember/ipc/socket.h"
#include "ember/ipc/words.h"
#include "ember/memory/out_of_memory.h"

namespace ember::inline v0::ipc {

/// Milliseconds of a steady clock.
std::int64_t now();

class Service {
 public:
  /// This process's; made at the first call, and anew in a forked child.
  static Service& get();
  /// The same if it is that generation's: null in a child forked since.
  static Service* of_generation(std::uint64_t generation) noexcept;
  static std::uint64_t generation() noexcept;

  Mutex mutex;
  WordPool words EMBER_GUARDED_BY(mutex);
  HostPool host EMBER_GUARDED_BY(mutex);
  Exports exports EMBER_GUARDED_BY(mutex){words};
  Imports imports EMBER_GUARDED_BY(mutex);
  /// Somebody may receive what he waited for another thread to receive.
  Condition receiving_ended;

  const Process& self() const noexcept { return self_; }
  /// Whether a receipt was granted and the receiver not told yet.
  bool replying() const noexcept EMBER_REQUIRES(mutex) { return replying_; }

  /// Makes the thread work, and the socket if others are to reach this process. Error if there can
  /// be none.
  void start(bool listening) EMBER_REQUIRES(mutex);
  /// Makes the thread look at what is new.
  void wake() noexcept EMBER_REQUIRES(mutex);
  /// Files of words that are used no more, if there is no thread that would let go of them.
  WordPool::Files retired_words() noexcept EMBER_REQUIRES(mutex) {
    return running_ ? WordPool::Files() : words.take_retired();
  }

  /// One request and its reply, with the pieces that follow it, which nobody else expects. Blocks
  /// for two seconds at most. Throws Error that says what became of the owner, or why it refused.
  Reply ask(const Process& owner, const Request& request, std::vector<File>& files,
            MemoryInPieces* pieces = nullptr);
  /// Gives a lease back, later and without waiting.
  void give_back(const Process& owner, std::uint64_t lease) EMBER_REQUIRES(mutex);
  /// A number for a lease.
  static std::uint64_t new_lease();

  /// The last tensor of an import went. From any thread; does not block.
  void release(const std::shared_ptr<Import>& import) noexcept;
  /// The work is done that used it.
  void finish(const std::shared_ptr<Import>& import) noexcept;
  /// Looks after everything now that the thread does from time to time.
  void collect();
  /// Takes the socket away: for the end of the process.
  void end() noexcept;

  /// For the child of a fork: closes what only the parent may use.
  static void forget_in_child() noexcept;
  static std::vector<memory::LeasedBlock> leased_blocks(int device);
  /// As memory::AwaitLeases says.
  static bool await_leases(std::uint64_t& seen, int milliseconds);

 private:
  struct Connection {
    File socket;
    std::int64_t until = 0;  // milliseconds
  };
  struct Return {
    Process owner;
    std::uint64_t lease = 0;
  };

  Service();
  void work();
  bool turn(std::int64_t& idle_since);
  int patience() EMBER_REQUIRES(mutex);
  void accept_all();
  void serve(Connection& connection);
  Reply answer(const Request& request, const Process& peer, std::vector<int>& descriptors,
               Ref<Storage>& in_pieces, Exports::Gone& gone) EMBER_REQUIRES(mutex);
  void release_now(const std::shared_ptr<Import>& import);
  void close_now(const std::shared_ptr<Import>& import);
  void return_leases();
  void look_after_owners() EMBER_REQUIRES(mutex);
  void look_after_holders(Exports::Gone& gone) EMBER_REQUIRES(mutex);
  bool idle() const EMBER_REQUIRES(mutex);

  const Process self_;
  bool running_ EMBER_GUARDED_BY(mutex) = false;
  std::deque<std::shared_ptr<Import>> released_ EMBER_GUARDED_BY(mutex);
  std::deque<std::shared_ptr<Import>> finished_ EMBER_GUARDED_BY(mutex);
  std::deque<Return> to_return_ EMBER_GUARDED_BY(mutex);
  std::map<Process, Watch> holders_ EMBER_GUARDED_BY(mutex);
  int in_work_ EMBER_GUARDED_BY(mutex) = 0;        // imports whose streams are waited for
  bool replying_ EMBER_GUARDED_BY(mutex) = false;  // what was granted is on its way
  // For who runs out of memory and waits for what others give back.
  std::uint64_t turns_ EMBER_GUARDED_BY(mutex) = 0;
  std::uint64_t hurried_ EMBER_GUARDED_BY(mutex) = 0;   // until that turn there is no waiting
  std::uint64_t returned_ EMBER_GUARDED_BY(mutex) = 1;  // changes when something came back
  Condition turned_;

  // Written by the thread that starts the service's, read by that one.
  File wake_;
  File listener_;
  std::vector<Connection> connections_;  // the thread's own
  bool came_back_ = false;               // in this turn
};

}  // namespace ember::inline v0::ipc
