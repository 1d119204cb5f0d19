#include "ember/runtime/device.h"

#include <array>
#include <atomic>
#include <charconv>
#include <optional>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/runtime/enqueueing.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0 {

Device::Device(std::string_view text) : type_(Type::cpu), index_(-1) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string quoted = "'" + std::string(text) + "'";
  if (kind == "cuda") {
    type_ = Type::cuda;
  } else if (kind != "cpu") {
    const bool looks_like_device = kind.rfind("cuda", 0) == 0 || kind.rfind("cpu", 0) == 0;
    throw Error("Invalid device string: " + quoted +
                (looks_like_device || kind.empty()
                     ? "; expected 'cpu', 'cuda' or 'cuda:N'"
                     : "; expected one of cpu, cuda device type at start of device string"));
  }
  if (colon == std::string_view::npos) return;
  const std::string_view digits = text.substr(colon + 1);
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, index_);
  const bool leading_zero = digits.size() > 1 && digits.front() == '0';
  if (digits.empty() || error != std::errc() || rest != end || index_ < 0 || leading_zero)
    throw Error("Invalid device string: " + quoted + "; expected a device number after the colon");
}

std::string_view Device::not_null(const char* text) {
  if (text == nullptr)
    throw Error("Invalid device string: got a null pointer; expected 'cpu', 'cuda' or 'cuda:N'");
  return text;
}

std::string Device::str() const {
  std::string text = is_cuda() ? "cuda" : "cpu";
  if (has_index()) text += ":" + std::to_string(index_);
  return text;
}

namespace cuda {
namespace {

struct PropertyCache {
  Mutex mutex;
  // Grows only before the first reference is handed out: sized to the device count at once.
  std::vector<std::optional<DeviceProperties>> devices EMBER_GUARDED_BY(mutex);
};

PropertyCache& property_cache() {
  static NoDestructor<PropertyCache> cache;
  return *cache;
}

/// One more than the epoch in which a device was made ready last; a few of a great many may be
/// asked again, which does no harm.
constinit std::array<std::atomic<std::uint64_t>, 64> activated{};

/// An index as it was given, checked the way the documents' AssertionErrors want it.
int checked_id(DeviceArg device, bool required, const char* message) {
  const std::int64_t index = required ? device.required_index() : device.index();
  const int count = active_driver().device_count();
  if (index < 0 || index >= count)
    throw AssertionError(std::string(message) + ": got " + std::to_string(index) +
                         ", expected 0 to " + std::to_string(count - 1));
  return static_cast<int>(index);
}

/// Apart from the test, which every operation makes.
[[noreturn, gnu::cold, gnu::noinline]] void refuse_index(std::int64_t wanted, int count) {
  throw AcceleratorError(Status(Code::invalid_device, "device " + std::to_string(wanted) +
                                                          " was asked for, expected 0 to " +
                                                          std::to_string(count - 1)));
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_kind(const Device& device) {
  throw ValueError("Expected a cuda device, but got: " + device.str());
}

}  // namespace

std::int64_t DeviceArg::index() const {
  switch (given_) {
    case Given::nothing: return current_device();
    case Given::index: return index_;
    case Given::device: break;
  }
  if (!device_.is_cuda()) [[unlikely]]
    refuse_kind(device_);
  return device_.has_index() ? device_.index() : current_device();
}

std::int64_t DeviceArg::required_index() const {
  if (means_current())
    throw ValueError("Expected a torch.device with a specified index or an integer, but got:" +
                     (given_ == Given::nothing ? std::string("None") : device_.str()));
  return index();
}

int DeviceArg::existing() const {
  const std::int64_t wanted = index();
  const int count = static_cast<int>(detail::thread_state().streams.size());
  if (wanted >= count) [[unlikely]]
    refuse_index(wanted, count);
  return wanted < 0 ? current_device() : static_cast<int>(wanted);
}

int detail::count_devices() { return active_driver().device_count(); }

void detail::activate(int device) {
  const auto slot = static_cast<std::size_t>(device);
  const std::uint64_t epoch = device_epoch(device);
  if (slot < activated.size() && activated[slot].load(std::memory_order_acquire) == epoch + 1)
    return;
  check(active_driver().device_activate(device));
  if (slot < activated.size()) activated[slot].store(epoch + 1, std::memory_order_release);
}

int current_device() { return detail::thread_state().device; }

void set_device(DeviceArg device) {
  const std::int64_t wanted = device.required_index();
  if (wanted < 0) return;
  const int index = DeviceArg(wanted).existing();
  detail::activate(index);
  detail::thread_state().device = index;
}

const DeviceProperties& get_device_properties(DeviceArg device) {
  const int index = checked_id(device, false, "Invalid device id");
  driver::Driver& machine = active_driver();
  const MutexLock lock(property_cache().mutex);
  auto& devices = property_cache().devices;
  if (devices.empty()) devices.resize(static_cast<std::size_t>(machine.device_count()));
  auto& slot = devices[static_cast<std::size_t>(index)];
  if (!slot) {
    DeviceProperties properties;
    check(machine.device_properties(index, properties));
    slot = std::move(properties);
  }
  return *slot;
}

std::string get_device_name(DeviceArg device) { return get_device_properties(device).name; }

std::pair<int, int> get_device_capability(DeviceArg device) {
  const DeviceProperties& properties = get_device_properties(device);
  return {properties.major, properties.minor};
}

void synchronize(DeviceArg device) {
  const int index = device.existing();
  const HostWait wait(WaitKind::device, "synchronize");
  detail::activate(index);
  detail::told_wait([&]() -> Activity { return {.device = index}; },
                    Activity::Kind::device_synchronized, [&] { wait.device(index); });
}

bool has_primary_context(DeviceArg device) {
  driver::Driver* made = driver_if_made();
  if (made == nullptr) return false;
  const std::int64_t wanted = device.required_index();
  const int count = made->device_count();
  if (wanted < 0 || wanted >= count) refuse_index(wanted, count);
  return made->device_active(static_cast<int>(wanted));
}

bool can_device_access_peer(DeviceArg device, DeviceArg peer) {
  const int from = checked_id(device, false, "Invalid device id");
  const int to = checked_id(peer, true, "Invalid peer device id");
  bool possible = false;
  check(active_driver().peer_possible(from, to, possible));
  return possible;
}

void enable_peer_access(DeviceArg device, DeviceArg peer) {
  const int from = checked_id(device, false, "Invalid device id");
  const int to = checked_id(peer, true, "Invalid peer device id");
  check(active_driver().peer_enable(from, to));
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::peer_enabled, .device = from, .peer = to};
  });
}

void disable_peer_access(DeviceArg device, DeviceArg peer) {
  const int from = checked_id(device, false, "Invalid device id");
  const int to = checked_id(peer, true, "Invalid peer device id");
  check(active_driver().peer_disable(from, to));
  detail::forget_peer(from, to);
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::peer_disabled, .device = from, .peer = to};
  });
}

}  // namespace cuda
}  // namespace ember::inline v0
