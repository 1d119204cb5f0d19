#include "ember/runtime/visible.h"

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/driver/open.h"
#include "ember/driver/telemetry.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

std::optional<std::string> visible_text() {
  std::optional<std::string> text;
  (void)detail::with_choice([&](const driver::Choice& choice) {
    text = driver::visible_text(choice);
    return Status();
  });
  return text;
}

/// The devices of the machine that are visible. A number need not exist where nobody can tell.
std::vector<int> visible_numbers() {
  const auto uuids = machine_uuids();
  if (uuids) return driver::visible_devices(visible_text(), *uuids);
  const VisibleList list = driver::parse_visible(visible_text());
  if (!list.prefixes.empty()) throw Error("Can't get device UUIDs");
  return {list.numbers.begin(), list.numbers.end()};
}

}  // namespace

VisibleList parse_visible_devices() {
  return driver::parse_visible(env::get("CUDA_VISIBLE_DEVICES"));
}

std::optional<std::vector<std::string>> machine_uuids() {
  std::vector<std::string> found;
  const Status status = detail::with_choice(
      [&](const driver::Choice& choice) { return driver::uuids_without_opening(choice, found); });
  if (!status.ok()) return std::nullopt;
  return found;
}

int machine_device_count() {
  const auto uuids = machine_uuids();
  return uuids ? static_cast<int>(uuids->size()) : -1;
}

int visible_device_count() {
  const VisibleList list = driver::parse_visible(visible_text());
  if (list.numbers.empty() && list.prefixes.empty()) return 0;
  if (!list.prefixes.empty() && list.prefixes.front().starts_with("MIG-")) return -1;
  const auto uuids = machine_uuids();
  return uuids ? static_cast<int>(driver::visible_devices(visible_text(), *uuids).size()) : -1;
}

int machine_device_index(DeviceArg device) {
  const std::int64_t index = device.index();
  const std::vector<int> numbers = visible_numbers();
  if (index < 0 || index >= static_cast<std::int64_t>(numbers.size()))
    throw Error(driver::not_visible(index, numbers).detail());
  return numbers[static_cast<std::size_t>(index)];
}

}  // namespace ember::inline v0::cuda
