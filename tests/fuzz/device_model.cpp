// Device models that `model:FILE` reads: parse_device_model.

#include "ember/driver/sim/device_model.h"

#include <string>

#include "fuzz.h"

namespace {

using ember::Status;
using namespace ember::driver::sim;

constexpr std::string_view kExamples[] = {
    "",
    "ember device model 1\nname a\nlike h200\n",
    "ember device model 1\nname a\nlike h100 # as\n\nmemory_rate 4256000\nquery_call 1\n",
    "ember device model 1\nlike h200\nname a\npeer_engines 16\n",
    "ember device model 1\nname a\nlaunch_call 1\ncopy_call 2\nfill_call 3\n",
    "ember device model 1\nname a\nlike h200\nmemory_rate 86400000000001\n",
    "ember device model 2\n"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  DeviceModel model;
  model.name = "before";
  const Status status = parse_device_model(fuzz::text(data, size), model);
  if (!status.ok()) {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(status.detail().find("expected") != std::string::npos,
                 "the error says what was expected");
    fuzz::expect(model.name == "before" && model.memory_rate == 0,
                 "a failure leaves the model untouched");
    return 0;
  }
  DeviceModel again;
  fuzz::expect(parse_device_model(device_model_text(model), again).ok() &&
                   device_model_text(again) == device_model_text(model),
               "what is accepted can be written and read back");
  fuzz::expect(model.memory_rate > 0 && model.query_call > 0 && model.peer_engines > 0,
               "rates are positive");
  return 0;
}
