// The record of a simulated machine that processes share: check_record, and what is computed of
// whatever lies in a record.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ember/driver/sim/machine_record.h"
#include "fuzz.h"

namespace {

using namespace ember::driver;       // NOLINT
using namespace ember::driver::sim;  // NOLINT

std::vector<std::string> make_texts() {
  std::vector<std::string> texts;
  for (const int devices : {1, 2, 64}) {
    SimulatedSpec spec;
    spec.count = devices;
    const RecordHeader header = make_header(spec);
    texts.emplace_back(reinterpret_cast<const char*>(&header), sizeof header);
  }
  const std::uint64_t full = ~std::uint64_t{0};
  texts.push_back(texts[0] + std::string(reinterpret_cast<const char*>(&full), sizeof full));
  return texts;
}

}  // namespace

std::span<const std::string_view> fuzz::examples() {
  static const std::vector<std::string> texts = make_texts();
  static const std::vector<std::string_view> views(texts.begin(), texts.end());
  return views;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  RecordHeader header{};
  std::uint64_t claimed = size;  // the size of the file, which may be what the header says
  if (size >= sizeof header) {
    std::memcpy(&header, data, sizeof header);
    claimed = header.size;
  }
  RecordHeader out{};
  if (const ember::Status status = check_record(bytes, claimed, out); status.ok()) {
    fuzz::expect(std::memcmp(&out, data, sizeof out) == 0, "a header is its bytes");
    SimulatedSpec spec;
    spec.count = static_cast<int>(out.devices);
    spec.memory_bytes = out.bytes;
    fuzz::expect(check_simulated(spec).ok(), "what is accepted can be made");
    const RecordHeader again = make_header(spec);
    fuzz::expect(std::memcmp(&again, &out, sizeof out) == 0, "and is the same then");
    const RecordShape shape{.devices = out.devices};
    fuzz::expect(
        shape.meters_at(RecordShape::kSlots - 1) + out.devices * sizeof(RecordMeters) <= out.size,
        "the last meter lies in the file");
    fuzz::expect(!check_record(bytes, claimed - 1, out).ok(), "a file that was cut off is refused");
  } else {
    fuzz::expect(!status.detail().empty(), "a refusal says why");
  }
  const auto meter = std::make_unique<MeterRecord>();
  std::memcpy(static_cast<void*>(meter.get()), data, std::min(size, sizeof *meter));
  if (size % 2 == 0) meter->made = 0;
  const MeterRecord* const records[] = {meter.get(), meter.get()};
  for (const std::int64_t now : {std::int64_t{0}, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
    const double share =
        share_of(records, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(now)));
    fuzz::expect(share >= 0 && share <= 1, "a share is one");
  }
  return 0;
}
