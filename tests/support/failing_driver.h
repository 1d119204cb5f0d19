// A driver in which the k-th call fails, and that keeps count of what was made and not given back.
#pragma once

#include <atomic>
#include <string>

#include "ember/driver/forwarding_driver.h"

namespace ember::test {

class FailingDriver : public driver::ForwardingDriver {
 public:
  using Call = driver::Call;
  using ForwardingDriver::ForwardingDriver;

  /// From now on the k-th call (from 1) fails with `code`; 0: none does.
  void arm(int k, Code code) {
    calls_ = 0;
    failed_ = false;
    code_ = code;
    armed_ = k;
  }
  void disarm() { armed_ = 0; }
  /// Whether the call that was to fail came.
  bool failed() const { return failed_; }
  Call failed_call() const { return failed_call_; }

  struct Live {
    int streams = 0, events = 0, memory = 0, pinned = 0, ranges = 0;
    friend bool operator==(const Live&, const Live&) = default;
  };
  Live live() const { return {streams_, events_, memory_, pinned_, ranges_}; }

 protected:
  Status before(Call call) noexcept override {
    if (armed_ == 0 || ++calls_ != armed_) return {};
    failed_ = true;
    failed_call_ = call;
    return Status(code_, std::string("injected failure of ") + driver::call_name(call));
  }
  Status after(Call call, Status status) noexcept override {
    if (!status.ok()) return status;
    switch (call) {
      case Call::stream_create: ++streams_; break;
      case Call::stream_destroy: --streams_; break;
      case Call::event_create: ++events_; break;
      case Call::event_destroy: --events_; break;
      case Call::malloc:
      case Call::range_map: ++memory_; break;
      case Call::free:
      case Call::range_unmap: --memory_; break;
      case Call::range_reserve: ++ranges_; break;
      case Call::range_release: --ranges_; break;
      case Call::pinned_malloc: ++pinned_; break;
      case Call::pinned_free: --pinned_; break;
      default: break;
    }
    return status;
  }

 private:
  std::atomic<int> armed_{0}, calls_{0};
  std::atomic<bool> failed_{false};
  std::atomic<Call> failed_call_{Call::malloc};
  std::atomic<Code> code_{Code::unknown};
  std::atomic<int> streams_{0}, events_{0}, memory_{0}, pinned_{0}, ranges_{0};
};

}  // namespace ember::test
