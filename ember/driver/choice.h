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

/// Code::invalid_value unless the count is 1..64, the memory 2 MiB..1 TiB, and the sum <= 16 TiB.
EMBER_API Status check_simulated(const SimulatedSpec& spec);

/// The devices that CUDA_VISIBLE_DEVICES leaves, as positions among the machine's devices, whose
/// UUIDs ("GPU-550e8400-...") are given in order. Follows chapter 2 of the semantics: numbers are
/// read as by strtoul and the list ends at the first element that is negative, no number, or out of
/// range; a list that starts with GPU- or MIG- is a list of UUID prefixes and ends at the first
/// that is unknown or ambiguous; a repeated element leaves nothing. Never fails: malformed text
/// leaves the devices named before it.
EMBER_API std::vector<int> visible_devices(const std::optional<std::string>& text,
                                           const std::vector<std::string>& uuids);

}  // namespace ember::inline v0::driver
