// CUDA_VISIBLE_DEVICES: visible_devices.

#include <set>
#include <string>
#include <vector>

#include "ember/driver/choice.h"
#include "fuzz.h"

namespace {

using ember::driver::match_uuids;
using ember::driver::parse_visible;
using ember::driver::visible_devices;

constexpr std::string_view kExamples[] = {
    "",         "0",        "3,1,2",       "1gpu2,2ampere", "0,-1,1", "0,0", " 1 , 2 ", "4",
    "GPU-1111", "GPU-3333", "GPU-3,GPU-5", "MIG-4,MIG-4",   "-1",     "+1",  "GPU-",    "0,1,2,3"};

const std::vector<std::string> kUuids = {"GPU-11111111-0000", "GPU-11112222-0000",
                                         "GPU-33333333-0000", "MIG-44444444-0000"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text(data, size));
  const std::vector<int> devices = visible_devices(text, kUuids);
  for (const int device : devices)
    fuzz::expect(device >= 0 && device < 4, "every device is one of the machine's");
  fuzz::expect(std::set<int>(devices.begin(), devices.end()).size() == devices.size(),
               "no device appears twice");
  fuzz::expect(visible_devices(text + ",!", kUuids) == devices,
               "an element that names nothing ends the list and changes nothing before it");
  std::string numbers;
  for (const int device : devices) numbers += std::to_string(device) + ",";
  fuzz::expect(visible_devices(numbers, kUuids) == devices, "the answer means itself");
  const ember::driver::VisibleList list = parse_visible(text);
  fuzz::expect(list.numbers.empty() || list.prefixes.empty(), "a list has elements of one kind");
  for (const std::int64_t number : list.numbers)
    fuzz::expect(number >= 0, "a negative number ends the list");
  if (!list.prefixes.empty())
    fuzz::expect(match_uuids(list.prefixes, kUuids) == devices, "UUIDs are matched in one way");
  fuzz::expect(visible_devices(text, {}).empty(), "a machine without devices has none visible");
  return 0;
}
