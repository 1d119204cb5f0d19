// EMBER_SIM_FAULTS and EMBER_RECORD_LAUNCHES: parse_faults, parse_record_launches.
#include "ember/driver/faults.h"

#include <string>

#include "ember/driver/recent_launches.h"
#include "fuzz.h"

namespace {

using ember::Status;
using ember::driver::Fault;
using ember::driver::Faults;

constexpr std::string_view kExamples[] = {
    "",          "alloc:3",   "alloc:3+",      "launch:10,copy:2,event:1",
    "lost:1@50", "slow:2@50", "late:2+@60000", "pinned:1,stream:2,peer:3,fill:4,host:5,kernel:6",
    "liar:0-1",  "liar:1-1",  "alloc:0",       "alloc:1000000000001",
    "alloc:01",  "alloc:1,",  ",alloc:1",      "slow:1@0",
    "lost:64@1", "alloc",     "lost:1",        "alloc:18446744073709551616",
    "64",        "65536",     "65537",         "-1"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text(data, size));
  const Faults before{{.what = Fault::What::copy, .number = 5}};
  Faults faults = before;
  const Status status = parse_faults(text, faults);
  if (status.ok()) {
    fuzz::expect(faults_text(faults) == text, "what is accepted is what would be written");
    fuzz::expect(faults.size() <= 64, "there are at most 64");
    for (const Fault& fault : faults) {
      fuzz::expect(fault.number <= Fault::kMostNumber, "a number is in its range");
      fuzz::expect(fault.device >= 0 && fault.device < 64 && fault.peer >= 0 && fault.peer < 64,
                   "devices are in their range");
      fuzz::expect(fault.milliseconds <= Fault::kMostMilliseconds, "milliseconds, too");
    }
  } else {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(status.detail().find("EMBER_SIM_FAULTS='" + text + "': ") == 0,
                 "the error names the variable and the value");
    fuzz::expect(faults == before, "a failure leaves the faults untouched");
  }
  int count = -5;
  const Status counted = ember::driver::parse_record_launches(text, count);
  if (counted.ok())
    fuzz::expect(count >= 0 && count <= ember::driver::kMostRecentLaunches,
                 "a count is in its range");
  else
    fuzz::expect(count == -5 && counted.detail().find("EMBER_RECORD_LAUNCHES='" + text + "'") == 0,
                 "a failure leaves the count untouched, and names the variable");
  return 0;
}
