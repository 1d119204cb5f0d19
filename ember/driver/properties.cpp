#include "ember/driver/properties.h"

namespace ember::inline v0::driver {

std::string DeviceProperties::uuid_text() const {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHex[uuid[i] >> 4];
    text += kHex[uuid[i] & 15];
  }
  return text;
}

std::string DeviceProperties::str() const {
  return "_CudaDeviceProperties(name='" + name + "', major=" + std::to_string(major) +
         ", minor=" + std::to_string(minor) +
         ", total_memory=" + std::to_string(total_memory >> 20) +
         "MB, multi_processor_count=" + std::to_string(multi_processor_count) + ")";
}

}  // namespace ember::inline v0::driver
