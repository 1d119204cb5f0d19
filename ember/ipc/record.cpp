#include "ember/ipc/record.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ember::inline v0::ipc {
namespace {

/// The layout of an event's 64 bytes.
struct EventLayout {
  std::uint32_t magic;
  std::uint16_t version;
  Kind kind;
  std::uint64_t machine;
  std::int32_t owner;
  std::uint32_t zero;
  std::uint64_t start;
  std::uint64_t slot;
  std::uint64_t offset;
  std::array<std::uint8_t, 16> secret;
};
static_assert(sizeof(EventLayout) == sizeof(EventBytes));

Status wrong(const std::string& what) { return Status(Code::invalid_value, "the handle " + what); }

template <class Bytes>
bool is_zero(const Bytes& bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

Status check_record(const Record& record) {
  if (record.magic != Record::kMagic) return wrong("is none of ember's");
  if (record.version != Record::kVersion)
    return wrong("has version " + std::to_string(record.version) + ", expected " +
                 std::to_string(Record::kVersion) + ": do both processes run the same ember?");
  const auto kind = static_cast<unsigned>(record.kind);
  if (kind < 1 || kind > 5) return wrong("is of the unknown kind " + std::to_string(kind));
  if (record.owner <= 0 || record.start == 0) return wrong("names no process");
  if (record.slot == 0) return wrong("names no memory");
  const bool is_event = record.kind == Kind::event;
  if (is_event != (record.bytes == 0)) return wrong("has a size that its kind cannot have");
  if (record.bytes > Record::kMostBytes || record.offset > Record::kMostBytes)
    return wrong("names " + std::to_string(record.bytes) + " bytes from " +
                 std::to_string(record.offset) + " on, expected less than 2^60");
  const bool of_device =
      record.kind == Kind::file || record.kind == Kind::native || record.kind == Kind::pieces;
  if (of_device == is_zero(record.device)) return wrong("names a device that its kind cannot have");
  if (record.kind == Kind::native) {
    if (record.extent > Record::kMostBytes || record.offset > record.extent ||
        record.bytes > record.extent - record.offset)
      return wrong("reaches beyond its allocation");
  } else if (record.kind == Kind::pieces && record.offset != 0) {
    return wrong("has a place, which only its pieces have");
  } else if (record.extent != 0 || !is_zero(record.native)) {
    return wrong("has fields that its kind does not have");
  }
  return {};
}

Status parse_record(std::span<const std::uint8_t> bytes, Record& out) {
  if (bytes.size() != sizeof(Record))
    return wrong("has " + std::to_string(bytes.size()) + " bytes, expected " +
                 std::to_string(sizeof(Record)));
  Record record;
  std::memcpy(&record, bytes.data(), sizeof record);
  EMBER_TRY(check_record(record));
  out = record;
  return {};
}

EventBytes event_bytes(const Record& record) noexcept {
  const EventLayout layout{
      record.magic, record.version, record.kind,   record.machine, record.owner, 0,
      record.start, record.slot,    record.offset, record.secret};
  EventBytes bytes;
  std::memcpy(bytes.data(), &layout, sizeof layout);
  return bytes;
}

Status parse_event(std::span<const std::uint8_t> bytes, Record& out) {
  if (bytes.size() != sizeof(EventLayout))
    return wrong("has " + std::to_string(bytes.size()) + " bytes, expected 64");
  EventLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  Record record;
  record.magic = layout.magic;
  record.version = layout.version;
  record.kind = layout.kind;
  record.machine = layout.machine;
  record.owner = layout.owner;
  record.start = layout.start;
  record.slot = layout.slot;
  record.offset = layout.offset;
  record.secret = layout.secret;
  EMBER_TRY(check_record(record));
  if (record.kind != Kind::event || layout.zero != 0) return wrong("is not an event's");
  out = record;
  return {};
}

bool same_secret(const std::array<std::uint8_t, 16>& a,
                 const std::array<std::uint8_t, 16>& b) noexcept {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace ember::inline v0::ipc
