// EMBER_DEVICES: parse_choice.

#include "ember/driver/choice.h"

#include <string>

#include "fuzz.h"

namespace {

using ember::Status;
using ember::driver::Choice;

constexpr std::string_view kExamples[] = {"",       "cuda",       "none",        "sim:1",
                                          "sim:64", "sim:4@2GiB", "sim:2@512M",  "sim:8@2097152",
                                          "sim:0",  "sim:2@1TiB", "sim:2@64KiB", "sim:-1"};

std::string written(const Choice& choice) {
  switch (choice.kind) {
    case Choice::Kind::automatic: return "";
    case Choice::Kind::cuda: return "cuda";
    case Choice::Kind::none: return "none";
    case Choice::Kind::simulated:
      return "sim:" + std::to_string(choice.simulated.count) + "@" +
             std::to_string(choice.simulated.memory_bytes);
  }
  return "?";
}

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text(data, size));
  Choice choice;
  choice.kind = Choice::Kind::none;
  choice.simulated.count = 7;
  const Status status = parse_choice(text, choice);
  if (status.ok()) {
    fuzz::expect(choice.kind != Choice::Kind::simulated || check_simulated(choice.simulated).ok(),
                 "what is accepted can be made");
    Choice again;
    fuzz::expect(parse_choice(written(choice), again).ok() && written(again) == written(choice),
                 "what is accepted can be written and read back");
  } else {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(status.detail().find("EMBER_DEVICES='" + text + "'") == 0,
                 "the error names the variable and the value");
    fuzz::expect(choice.kind == Choice::Kind::none && choice.simulated.count == 7,
                 "a failure leaves the choice untouched");
  }
  return 0;
}
