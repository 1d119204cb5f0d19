#include "ember/driver/sim/machine_record.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ember::inline v0::driver::sim {
namespace {

Status differs(const char* what, std::uint64_t found, std::uint64_t expected) {
  return Status(Code::invalid_value, std::string(what) + " " + std::to_string(found) +
                                         ", expected " + std::to_string(expected));
}

}  // namespace

RecordHeader make_header(const SimulatedSpec& spec) noexcept {
  const RecordShape shape{.devices = static_cast<std::uint32_t>(spec.count)};
  return {.magic = RecordHeader::kMagic,
          .version = RecordHeader::kVersion,
          .layout = kRecordLayout,
          .bytes = spec.memory_bytes,
          .devices = shape.devices,
          .slots = RecordShape::kSlots,
          .size = shape.size()};
}

Status check_record(std::span<const std::byte> beginning, std::uint64_t size, RecordHeader& out) {
  RecordHeader header{};
  if (beginning.size() < sizeof header || size < sizeof header)
    return differs("it is too short: bytes", std::min<std::uint64_t>(beginning.size(), size),
                   sizeof header);
  std::memcpy(&header, beginning.data(), sizeof header);
  if (header.magic != RecordHeader::kMagic)
    return Status(Code::invalid_value, "it does not begin as one");
  if (header.version != RecordHeader::kVersion)
    return differs("another ember made it: version", header.version, RecordHeader::kVersion);
  if (header.layout != kRecordLayout || header.slots != RecordShape::kSlots)
    return differs("another ember made it: layout", header.layout, kRecordLayout);
  if (header.devices < 1 || header.devices > static_cast<unsigned>(SimulatedSpec::kMaxDevices))
    return differs("its number of devices is", header.devices, SimulatedSpec::kMaxDevices);
  SimulatedSpec spec;
  spec.count = static_cast<int>(header.devices);
  spec.memory_bytes = header.bytes;
  EMBER_TRY(check_simulated(spec));
  const RecordShape shape{.devices = header.devices};
  if (header.size != shape.size())
    return differs("its size is said to be", header.size, shape.size());
  if (size != header.size) return differs("it was cut off or extended: bytes", size, header.size);
  out = header;
  return {};
}

}  // namespace ember::inline v0::driver::sim
