#include "ember/ipc/devices.h"

#include "ember/base/error.h"
#include "ember/driver/properties.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {
namespace {

/// -1 if the driver has no such device.
int find_device(driver::Driver& driver, const Record& record) {
  for (int i = 0; i < driver.device_count(); ++i) {
    driver::DeviceProperties properties;
    if (driver.device_properties(i, properties).ok() && properties.uuid == record.device) return i;
  }
  return -1;
}

std::string uuid_text(const Record& record) {
  driver::DeviceProperties properties;
  properties.uuid = record.device;
  return "GPU-" + properties.uuid_text();
}

}  // namespace

Device device_of(const Record& record) {
  driver::Driver& driver = cuda::active_driver();
  const int index = find_device(driver, record);
  if (index >= 0) return {Device::Type::cuda, index};
  throw Error("cannot receive: the memory is of the " +
              std::string(record.kind == Kind::file ? "simulated" : "real") + " device " +
              uuid_text(record) + ", which this process does not have among its " +
              std::to_string(driver.device_count()) + " " + driver.name() + " ones");
}

std::string device_text(const Record& record) {
  if (record.kind == Kind::host) return "cpu";
  driver::Driver* driver = cuda::driver_if_made();
  const int index = driver != nullptr ? find_device(*driver, record) : -1;
  return index >= 0 ? "cuda:" + std::to_string(index) : uuid_text(record);
}

}  // namespace ember::inline v0::ipc
