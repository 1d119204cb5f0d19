// Which devices the program runs on: EMBER_DEVICES, and CUDA_VISIBLE_DEVICES. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/schedule.h"

namespace ember::inline v0::driver {

/// What the simulated driver is asked to be.
struct SimulatedSpec {
  static constexpr int kMaxDevices = 64;
  static constexpr std::uint64_t kDefaultMemory = std::uint64_t{2} << 30;
  static constexpr std::uint64_t kMinMemory = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kMaxMemory = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kMaxTotalMemory = std::uint64_t{1} << 44;  // of address space

  int count = 1;
  std::uint64_t memory_bytes = kDefaultMemory;  ///< per device
  /// Whether the program has named them itself, and no CUDA_VISIBLE_DEVICES, which may speak of the
  /// machine's GPUs, leaves some of them out.
  bool all_visible = false;
  /// The machine that the process shares with others; empty: it has one of its own.
  std::string machine{};
  /// Where that is; empty: in one of the user's private folders.
  std::string folder{};
};

struct Choice {
  enum class Kind { automatic, cuda, simulated, none };
  Kind kind = Kind::automatic;
  SimulatedSpec simulated;
  std::optional<Schedule> schedule{};  ///< of simulated devices; none: as EMBER_SIM_SCHEDULE says
};

/// Parses the value of EMBER_DEVICES: `cuda`, `sim:N`, `sim:N@SIZE`, `none`; nothing or an empty
/// text is automatic (real GPUs if there are any, else none). Otherwise Code::invalid_value with a
/// detail that names the variable, the value and what was expected.
EMBER_API Status parse_choice(const std::optional<std::string>& text, Choice& out);

/// Names the machine, as EMBER_SIM_MACHINE does: letters, digits, '-', '_' and '.', of which the
/// first is a letter or digit, 64 at most. Nothing or an empty text: the process has a machine of
/// its own. Where devices are chosen automatically they are simulated then, zero of them: as many
/// as the machine has. A choice that has a machine keeps it. Code::invalid_value, with a detail,
/// for other names, and where the choice is real devices or none.
EMBER_API Status name_machine(const std::optional<std::string>& text, Choice& choice);

/// Code::invalid_value unless the count is 1..64, the memory 2 MiB..1 TiB, and the sum <= 16 TiB.
EMBER_API Status check_simulated(const SimulatedSpec& spec);

/// What CUDA_VISIBLE_DEVICES asks for, whatever the machine has: numbers, or prefixes of UUIDs.
struct VisibleList {
  std::vector<std::int64_t> numbers;
  std::vector<std::string> prefixes;  ///< of one kind, GPU- or MIG-; then there are no numbers
};

/// Numbers are read as by strtoul, and the list ends at the first element that is negative or no
/// number; one that starts with GPU- or MIG- is a list of prefixes, and ends at the first of
/// another kind; a repeated element leaves nothing. No text means 0 to 63. Never fails.
EMBER_API VisibleList parse_visible(const std::optional<std::string>& text);

/// The places of the UUIDs that start with the prefixes. The list ends at the first prefix that is
/// unknown or ambiguous; a device that is named twice leaves nothing.
EMBER_API std::vector<int> match_uuids(const std::vector<std::string>& prefixes,
                                       const std::vector<std::string>& uuids);

/// The devices that CUDA_VISIBLE_DEVICES leaves, as positions among the machine's devices, whose
/// UUIDs ("GPU-550e8400-...") are given in order: parse_visible, where the list ends at the first
/// number that is out of range, and match_uuids. Chapter 2 of the semantics. Never fails: malformed
/// text leaves the devices named before it.
EMBER_API std::vector<int> visible_devices(const std::optional<std::string>& text,
                                           const std::vector<std::string>& uuids);

}  // namespace ember::inline v0::driver
