// Names for what memory is used for: a scope tags what its thread allocates, and knows how much
// that was at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ember/base/export.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::memory {
struct ScopeRecord;
}

namespace ember::inline v0::cuda {

/// While it lives, what its thread allocates of any device has its tag: snapshots, histories and
/// memory_holders() show it, as long as a block is in use. Scopes of a thread nest: in one named
/// `b` within `a` the tag is `a/b`, and its memory is part of what `a` holds, too. Every thread may
/// use the same names. From the first scope of a process on, each allocation and each free of the
/// process costs some 20 ns more.
class [[nodiscard]] EMBER_API MemoryScope {
 public:
  /// ValueError for an empty name, and for the 65,536th tag of the process: names are kept for
  /// ever. Does not block or initialise.
  explicit MemoryScope(std::string_view name);
  /// Scopes of a thread end in any order; what is allocated then has the tag of the last one that
  /// is still open.
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// The bytes that memory with this tag, or one within it, has on the device now, also what other
  /// threads and earlier scopes of the name allocated; rounded as in memory_allocated(). And the
  /// most there were since this scope began. No other peak is changed. Any thread may ask.
  std::size_t held(DeviceArg device = {}) const;
  std::size_t peak(DeviceArg device = {}) const;
  /// Such as "train/optimizer".
  std::string tag() const;
  /// Ends it before its destructor does: then nothing more is tagged, and the peak stays as it is.
  /// On another thread than the scope's, that one notices at its next allocation.
  void end() noexcept;

 private:
  memory::ScopeRecord* record_;
};

/// The text of MemoryEvent::tag and the like; empty for 0.
EMBER_API std::string memory_tag_name(std::uint16_t tag);

}  // namespace ember::inline v0::cuda
