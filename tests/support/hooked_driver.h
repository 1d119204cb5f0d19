// A driver that lets a test do something right before a call, such as resetting a device at the
// worst moment.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "ember/driver/forwarding_driver.h"
#include "tests/support/installed.h"

namespace ember::test {

class HookedDriver : public driver::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;

  /// Puts one on top of the driver that EMBER_DEVICES asks for. Before the first use only.
  static HookedDriver& install() { return installed<HookedDriver>(); }

  /// Once, before the next call of this kind, on the thread that makes it. One thread only.
  void before_next(driver::Call call, std::function<void()> what) {
    call_ = call;
    what_ = std::move(what);
    failure_ = Status();
  }
  /// The next call of this kind is not made, and fails.
  void fail_next(driver::Call call, Status failure) {
    before_next(call, [] {});
    failure_ = std::move(failure);
  }
  /// Whether that call is still to come.
  bool waits() const { return what_ != nullptr; }

 protected:
  Status before(driver::Call call) noexcept override {
    if (call != call_ || what_ == nullptr) return {};
    const Status failure = std::exchange(failure_, Status());
    std::exchange(what_, nullptr)();  // which may say what is to happen at another call
    return failure;
  }

 private:
  driver::Call call_ = driver::Call::malloc;
  std::function<void()> what_;
  Status failure_;
};

}  // namespace ember::test
