// Captured work with other memory than it was captured with: what Driver::graph_bind is given, and
// how both drivers find addresses in the arguments of work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ember/base/status.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver {

/// Memory, and what takes its place.
struct Rebound {
  const void* captured = nullptr;
  std::size_t bytes = 0;
  const void* now = nullptr;

  /// Whether an address is in what was captured.
  bool holds(std::uintptr_t address) const noexcept {
    return address - reinterpret_cast<std::uintptr_t>(captured) < bytes;
  }
  std::uintptr_t moved(std::uintptr_t address) const noexcept {
    return address - reinterpret_cast<std::uintptr_t>(captured) +
           reinterpret_cast<std::uintptr_t>(now);
  }
  friend bool operator==(const Rebound&, const Rebound&) = default;
};
/// The one that holds an address; null if none does.
const Rebound* find_rebound(std::span<const Rebound> memory, std::uintptr_t address) noexcept;

/// Where an address lies now.
inline const void* rebound_address(std::span<const Rebound> memory, const void* address) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const Rebound* const found = find_rebound(memory, number);
  return found == nullptr ? address : reinterpret_cast<const void*>(found->moved(number));
}

/// One piece of captured work.
struct NodeBinding {
  std::uint64_t node = 0;  ///< as Driver::capture_node has it
  const char* name = "";   ///< for errors; lives as long as the program
  /// Where its accesses of rebound memory begin, as captured. None: it gets back what it had.
  std::vector<const void*> addresses;
};

struct GraphRebinding {
  std::span<const NodeBinding> nodes;
  std::span<const std::uint64_t>
      all_nodes;                    ///< of the whole graph, as Driver::capture_node has them
  std::span<const Rebound> memory;  ///< apart from each other
  /// What a kernel becomes whose context has addresses, too; not null.
  Kernel (*kernel)(const Kernel& kernel, std::span<const Rebound> memory) = nullptr;
};

/// The addresses in the arguments of one piece of work.
class ArgumentBinding {
 public:
  ArgumentBinding(const NodeBinding& node, std::span<const Rebound> memory)
      : node_(node), memory_(memory), found_(node.addresses.size()) {}

  /// Moves the addresses in `bytes`, of which the first one is aligned as words are: those at which
  /// an access of the work begins. Where it is not known which words are addresses, a number that
  /// is the same as one is taken for it. True if some were moved.
  bool change(std::span<std::byte> bytes, AddressPlaces places) noexcept;
  /// After all arguments of the work. Code::not_supported, naming the work, if it has an address
  /// elsewhere than in its arguments.
  Status finish() const;

 private:
  bool change_word(std::byte* at) noexcept;

  const NodeBinding& node_;
  const std::span<const Rebound> memory_;
  std::vector<bool> found_;
};

/// Says why a piece of work cannot be given other memory.
Status cannot_rebind(const char* name, const char* why);

}  // namespace ember::inline v0::driver
