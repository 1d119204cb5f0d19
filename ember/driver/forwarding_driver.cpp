#include "ember/driver/forwarding_driver.h"

namespace ember::inline v0::driver {

const char* call_name(Call call) noexcept {
  switch (call) {
#define EMBER_SEAM_CALL(name, parameters, arguments) \
  case Call::name:                                   \
    return #name;
#include "ember/driver/seam_calls.inc"
#undef EMBER_SEAM_CALL
  }
  return "unknown";
}

}  // namespace ember::inline v0::driver
