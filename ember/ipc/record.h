// What names shared memory or an event to another process: a record of fixed size, made of plain
// numbers. It may come from anywhere, so whoever gets one checks every field before it is used, and
// the owner compares all of them with what it gave out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ember/base/status.h"
#include "ember/ipc/process.h"

namespace ember::inline v0::ipc {

enum class Kind : std::uint16_t {
  host = 1,    ///< CPU memory, in a file of the owner's
  file = 2,    ///< memory of a simulated device, in the file behind it
  native = 3,  ///< memory of a real device, by its driver's own handle
  event = 4,   ///< a simulated device's event: words in a file of the owner's
  pieces = 5,  ///< memory of a device behind a range of addresses: files come with the lease
};

struct Record {
  static constexpr std::uint32_t kMagic = 0x70696d65;  // "emip"
  static constexpr std::uint16_t kVersion = 2;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  Kind kind = Kind::host;
  std::uint64_t machine = 0;              ///< this_machine() of the owner
  std::array<std::uint8_t, 16> device{};  ///< UUID; zero for the CPU
  std::int32_t owner = 0;                 ///< process
  std::uint32_t epoch = 0;                ///< of the owner's device: how often it had been reset
  std::uint64_t start = 0;                ///< of the owner
  std::uint64_t slot = 0;                 ///< in the owner's table; never used again
  std::uint64_t serial = 0;               ///< of this handle among those of the slot
  std::array<std::uint8_t, 16> secret{};  ///< random, of this handle
  std::uint64_t file = 0;                 ///< which of the owner's files
  std::uint64_t offset = 0;  ///< of the memory in the file, or in the driver's allocation
  std::uint64_t bytes = 0;
  std::uint64_t extent = 0;               ///< of the driver's allocation; zero for other kinds
  std::array<std::uint8_t, 64> native{};  ///< the driver's own handle; zero where there is none

  Process process() const noexcept { return {owner, start}; }
  friend bool operator==(const Record&, const Record&) = default;
};
static_assert(sizeof(Record) == 176, "no gaps: it is compared and sent byte by byte");

/// What is wrong with a record that came from outside: Code::invalid_value with a detail that says
/// which field, or a success. Looks at nothing but the record.
Status check_record(const Record& record);
/// The same for bytes of any length; `out` is set on success.
Status parse_record(std::span<const std::uint8_t> bytes, Record& out);

/// The 64 bytes of an event's handle: the fields that an event's record has.
using EventBytes = std::array<std::uint8_t, 64>;
EventBytes event_bytes(const Record& record) noexcept;
Status parse_event(std::span<const std::uint8_t> bytes, Record& out);

/// Whether two are the same, in a time that does not depend on where they differ.
bool same_secret(const std::array<std::uint8_t, 16>& a,
                 const std::array<std::uint8_t, 16>& b) noexcept;

}  // namespace ember::inline v0::ipc
