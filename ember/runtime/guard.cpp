#include "ember/runtime/guard.h"

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {

using detail::exchange_current;
using detail::thread_state;

DeviceGuard::DeviceGuard(DeviceArg device) : original_(thread_state().device), current_(original_) {
  set_device(device);
}

// A guard that is left in a forked child finds no state of the thread: there is nothing to restore.

DeviceGuard::~DeviceGuard() {
  if (detail::this_thread != nullptr) detail::this_thread->device = original_;
}

void DeviceGuard::set_device(DeviceArg device) {
  const std::int64_t wanted = device.index();
  if (wanted < 0) return;
  const int index = DeviceArg(wanted).existing();
  detail::activate(index);
  thread_state().device = current_ = index;
}

void StreamGuard::enter(const Stream& stream) {
  detail::activate(stream.device_index());
  detail::ThreadState& state = thread_state();
  original_device_ = state.device;
  device_ = stream.device_index();
  if (device_ != original_device_)
    original_ = state.streams[static_cast<std::size_t>(original_device_)];
  replaced_ = std::exchange(state.streams[static_cast<std::size_t>(device_)], stream.state_);
  state.device = device_;
}

void StreamGuard::leave() noexcept {
  detail::ThreadState* state = detail::this_thread;
  if (state == nullptr) return;
  state->streams[static_cast<std::size_t>(device_)] = std::move(replaced_);
  if (device_ != original_device_)
    state->streams[static_cast<std::size_t>(original_device_)] = std::move(original_);
  state->device = original_device_;
}

void StreamGuard::reset_stream(const Stream& stream) {
  detail::activate(stream.device_index());  // before anything changes: it may throw
  leave();
  enter(stream);
}

Stream StreamGuard::original_stream() const {
  const auto& original = original_device_ == device_ ? replaced_ : original_;
  return Stream(original ? original : detail::default_state(original_device_));
}

Stream StreamGuard::current_stream() const { return Stream(detail::current_state(device_)); }

MultiStreamGuard::MultiStreamGuard(std::span<const Stream> streams) {
  replaced_.reserve(streams.size());
  for (const Stream& stream : streams)
    replaced_.emplace_back(stream.device_index(),
                           exchange_current(stream.device_index(), stream.state_));
}

MultiStreamGuard::~MultiStreamGuard() {
  if (detail::this_thread == nullptr) return;
  // Backwards, so that of two streams of one device the older state is what remains.
  for (auto entry = replaced_.rbegin(); entry != replaced_.rend(); ++entry)
    exchange_current(entry->first, std::move(entry->second));
}

}  // namespace ember::inline v0::cuda
