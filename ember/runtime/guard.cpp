#include "ember/runtime/guard.h"

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::cuda {

using detail::exchange_current;
using detail::thread_state;

DeviceGuard::DeviceGuard(DeviceArg device)
    : original_(cuda::current_device()), current_(original_) {
  set_device(device);
}

DeviceGuard::~DeviceGuard() { thread_state().device = original_; }

void DeviceGuard::set_device(DeviceArg device) {
  const int wanted = device.index();
  if (wanted < 0) return;
  const int index = DeviceArg(wanted).existing();
  check(driver().device_activate(index));
  thread_state().device = current_ = index;
}

void StreamGuard::enter(const Stream& stream) {
  detail::ThreadState& state = thread_state();
  original_device_ = state.device;
  current_ = stream.state_;
  replaced_ = exchange_current(stream.device_index(), stream.state_);
  state.device = stream.device_index();
}

void StreamGuard::leave() noexcept {
  exchange_current(current_->handle.device, std::move(replaced_));
  thread_state().device = original_device_;
}

void StreamGuard::reset_stream(const Stream& stream) {
  leave();
  enter(stream);
}

Stream StreamGuard::original_stream() const {
  if (original_device_ != current_->handle.device)
    return Stream(detail::current_state(original_device_));
  return Stream(replaced_ ? replaced_ : detail::default_state(original_device_));
}

Stream StreamGuard::current_stream() const { return Stream(current_); }

MultiStreamGuard::MultiStreamGuard(std::span<const Stream> streams) {
  replaced_.reserve(streams.size());
  for (const Stream& stream : streams)
    replaced_.emplace_back(stream.device_index(),
                           exchange_current(stream.device_index(), stream.state_));
}

MultiStreamGuard::~MultiStreamGuard() {
  // Backwards, so that of two streams of one device the older state is what remains.
  for (auto entry = replaced_.rbegin(); entry != replaced_.rend(); ++entry)
    exchange_current(entry->first, std::move(entry->second));
}

}  // namespace ember::cuda
