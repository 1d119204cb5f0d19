// Page-locked host memory of the simulated machine: ordinary memory that is known by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

#include "ember/base/status.h"
#include "ember/driver/handles.h"

namespace ember::inline v0::driver::sim {

constexpr std::size_t kPage = 4096;

class PinnedMemory {
 public:
  Status allocate(std::size_t bytes, void*& out);
  Status free(void* pointer);
  Status add(void* pointer, std::size_t bytes);
  Status remove(void* pointer);
  /// The pinned range that an address lies in; false if there is none.
  bool find(const void* pointer, PointerInfo& out) const;
  bool contains(const void* pointer, std::size_t bytes) const;

 private:
  struct Range {
    std::size_t bytes = 0;
    bool owned = false;
  };
  Status insert(void* pointer, Range range);
  Status erase(void* pointer, bool owned);

  mutable std::shared_mutex mutex_;  // shared: every access of every worker is checked under it
  std::map<std::uintptr_t, Range> ranges_;
};

}  // namespace ember::inline v0::driver::sim
