// A driver that passes every call on to another one. Test and tracing drivers derive from it and
// override what they care about.
#pragma once

#include <memory>
#include <utility>

#include "ember/driver/driver.h"

namespace ember::inline v0::driver {

/// Names every function of the seam that can fail, for drivers that treat all calls alike.
enum class Call {
#define EMBER_SEAM_CALL(name, parameters, arguments) name,
#include "ember/driver/seam_calls.inc"
#undef EMBER_SEAM_CALL
};

/// Derive and override `before` to watch calls or to make them fail: a failed Status is returned to
/// the caller and the real driver is not called. Functions that cannot fail are passed on unasked.
class ForwardingDriver : public Driver {
 public:
  explicit ForwardingDriver(std::unique_ptr<Driver> next) : next_(std::move(next)) {}

  const char* name() const noexcept override { return next_->name(); }
  bool simulated() const noexcept override { return next_->simulated(); }
  int device_count() noexcept override { return next_->device_count(); }
  bool device_active(int device) noexcept override { return next_->device_active(device); }
  std::uint32_t device_epoch(int device) noexcept override { return next_->device_epoch(device); }
  bool epoch_ended(int device, std::uint32_t epoch) noexcept override {
    return next_->epoch_ended(device, epoch);
  }
  bool may_wait() noexcept override { return next_->may_wait(); }
  std::int64_t now() noexcept override { return next_->now(); }
  using Driver::copy;
  using Driver::free;
  using Driver::launch;
  using Driver::malloc;

#define EMBER_SEAM_CALL(name, parameters, arguments)                     \
  Status name parameters noexcept override {                             \
    if (Status status = before(Call::name); !status.ok()) return status; \
    return after(Call::name, next_->name arguments);                     \
  }
#include "ember/driver/seam_calls.inc"
#undef EMBER_SEAM_CALL

 protected:
  virtual Status before(Call) noexcept { return {}; }
  virtual Status after(Call, Status status) noexcept { return status; }
  Driver& next() noexcept { return *next_; }

 private:
  std::unique_ptr<Driver> next_;
};

const char* call_name(Call call) noexcept;

}  // namespace ember::inline v0::driver
