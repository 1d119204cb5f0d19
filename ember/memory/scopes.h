// The tags of this process, what each of them holds, and the scopes that are open.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/allocators.h"
#include "ember/memory/scope.h"

namespace ember::inline v0::memory {

using BytesByDevice = std::array<std::size_t, kMaxDevices>;

/// One scope. Belongs to the MemoryScope and to the list of its thread; the last one deletes it.
struct ScopeRecord {
  std::uint16_t tag = 0;
  ScopeRecord* outer = nullptr;  ///< in the list of the thread; its own
  std::atomic<int> owners{2};
  std::atomic<bool> open{true};
  BytesByDevice peaks{};  ///< Scopes::mutex_ guards it
};

/// Thread-safe. Its lock comes after a ledger's, and under it nothing is called.
class Scopes {
 public:
  static Scopes& get();

  /// Of the innermost open scope of the calling thread; 0: none.
  static std::uint16_t current_tag() noexcept;

  /// Opens one on the calling thread.
  ScopeRecord* open(std::string_view name);
  void close(ScopeRecord* record) noexcept;
  /// For its owner, once it is closed.
  static void release(ScopeRecord* record) noexcept;

  /// A block with the tag came or went. `tag` may be 0.
  void change(int device, std::uint16_t tag, std::int64_t bytes) noexcept;
  /// The device was reset: nothing of it is held.
  void forget(int device) noexcept;

  std::size_t held(std::uint16_t tag, int device);
  std::size_t peak(const ScopeRecord& record, int device);
  std::string name(std::uint16_t tag);

 private:
  struct Node {
    std::uint16_t outer = 0;
    std::string name;
    BytesByDevice held{};
    std::vector<ScopeRecord*> open;
  };
  Mutex mutex_;
  std::deque<Node> nodes_ EMBER_GUARDED_BY(mutex_);  // tag n is at n - 1
  std::map<std::pair<std::uint16_t, std::string>, std::uint16_t> tags_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::memory
