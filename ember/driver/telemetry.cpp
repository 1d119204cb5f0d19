#include "ember/driver/telemetry.h"

namespace ember::inline v0::driver {

Status not_visible(std::int64_t device, const std::vector<int>& visible) {
  std::string list;
  for (const int number : visible) list += (list.empty() ? "" : ", ") + std::to_string(number);
  return Status(Code::invalid_device, "device " + std::to_string(device) +
                                          " is not visible (CUDA_VISIBLE_DEVICES=[" + list + "])");
}

}  // namespace ember::inline v0::driver
