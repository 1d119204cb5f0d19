// What a device takes for its work, as numbers: the schedule `model` makes an order and times of
// them. docs/order.md describes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/schedule.h"

namespace ember::inline v0::driver::sim {

/// Times are in nanoseconds, rates in bytes or operations per microsecond (MB/s, MFLOP/s).
struct DeviceModel {
  std::string name;

  // Until a call of the host returns.
  std::int64_t launch_call = 0;
  std::int64_t copy_call = 0;
  std::int64_t fill_call = 0;
  std::int64_t host_function_call = 0;
  std::int64_t record_call = 0;
  std::int64_t wait_call = 0;
  std::int64_t query_call = 0;
  std::int64_t synchronize_call = 0;  ///< after what is waited for is done; before that a query

  std::int64_t launch_latency = 0;  ///< from the end of a call until its work can begin
  std::int64_t host_function_time = 0;
  std::int64_t kernel_floor = 0;       ///< what a kernel takes at least
  std::int64_t device_copy_floor = 0;  ///< the same of copies and fills on one device
  std::int64_t memory_rate = 0;        ///< of the device's memory: bytes read and bytes written

  // Operations of matrix products.
  std::int64_t float64_rate = 0;
  std::int64_t float32_rate = 0;
  std::int64_t half_rate = 0;  ///< of float16 and bfloat16

  /// Copies of one kind: how many at once, and what each takes: latency + bytes / rate.
  std::int64_t to_device_engines = 0;
  std::int64_t to_device_latency = 0;
  std::int64_t to_device_rate = 0;
  std::int64_t to_host_engines = 0;
  std::int64_t to_host_latency = 0;
  std::int64_t to_host_rate = 0;
  std::int64_t peer_engines = 0;
  std::int64_t peer_latency = 0;
  std::int64_t peer_rate = 0;
  // Of host memory that is not pinned; by the same engines.
  std::int64_t pageable_to_device_latency = 0;
  std::int64_t pageable_to_device_rate = 0;
  std::int64_t pageable_to_host_latency = 0;
  std::int64_t pageable_to_host_rate = 0;

  /// What `amount` takes at a rate, rounded up; a day at most.
  static std::int64_t at_rate(std::uint64_t amount, std::int64_t rate) noexcept;
};

/// Parses a model. Code::invalid_value with a detail that names the line and what was expected;
/// `out` is untouched.
EMBER_TEST_API Status parse_device_model(std::string_view text, DeviceModel& out);
/// The text that parse_device_model reads as this.
EMBER_TEST_API std::string device_model_text(const DeviceModel& model);

/// The text of a model that is built in, such as "h200"; empty for a name that is none.
EMBER_TEST_API std::string_view built_in_model(std::string_view name) noexcept;

/// Takes values such as "memory_rate=7,peer_engines=2" in place of the model's; the same error.
EMBER_TEST_API Status change_device_model(std::string_view values, DeviceModel& model);

/// The model that a schedule of kind model names, h200 if none, with the values that stand behind
/// the name; nothing for other kinds. The detail names the file.
Status open_model(const Schedule& schedule, std::optional<DeviceModel>& out);

}  // namespace ember::inline v0::driver::sim
