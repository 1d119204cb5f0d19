// EMBER_SIM_SCHEDULE: parse_schedule.

#include "ember/driver/schedule.h"

#include <string>

#include "fuzz.h"

namespace {

using ember::Status;
using ember::driver::Schedule;

constexpr std::string_view kExamples[] = {"",
                                          "threads",
                                          "random:0",
                                          "random:18446744073709551615",
                                          "pct:7:3",
                                          "pct:7",
                                          "pct::1",
                                          "pct:1:65",
                                          "replay:a",
                                          "steps:3:s2.1,5:s1.7",
                                          "steps:3:s2.1+s1.7,4:s3.2/2",
                                          "steps:@a",
                                          "replay:",
                                          "random:",
                                          "random:-1",
                                          "model",
                                          "pct:1:3:4",
                                          "random:1 ",
                                          "steps:3:s2.1,5:s1.7",
                                          "steps:3:s2.1+s1.7,4:s3.2/2",
                                          "steps:@a",
                                          "steps:3:s1.1,2:s1.2",
                                          "steps:",
                                          "model:a",
                                          "model:",
                                          "swarm:7",
                                          "model:h200,memory_rate=7,seed=5"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text(data, size));
  const Schedule before{.kind = Schedule::Kind::pct, .seed = 5, .depth = 6, .file = ""};
  Schedule schedule = before;
  const Status status = parse_schedule(text, schedule);
  if (status.ok()) {
    Schedule again = before;
    fuzz::expect(parse_schedule(schedule_text(schedule), again).ok() && again == schedule,
                 "what is accepted can be written and read back");
  } else {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(status.detail().find("EMBER_SIM_SCHEDULE='" + text + "'") == 0,
                 "the error names the variable and the value");
    fuzz::expect(schedule == before, "a failure leaves the schedule untouched");
  }
  int patience = -5;
  const Status waits = ember::driver::parse_patience(text, patience);
  fuzz::expect(waits.ok() ? patience >= 0 && patience <= 86400 : patience == -5,
               "a patience is in its range, or untouched");
  return 0;
}
