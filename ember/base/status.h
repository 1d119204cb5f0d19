// The outcome of a call across the driver seam. Drivers never throw: they return a Status, and the
// runtime above the seam turns failures into exceptions (see error.h).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ember/base/export.h"

namespace ember::inline v0 {

/// What went wrong. The numbers are CUDA's (cudaError_t), on every driver, so that
/// `AcceleratorError::error_code()` means the same on simulated and on real devices.
enum class Code : int {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  shutting_down = 4,
  insufficient_driver = 35,
  no_device = 100,
  invalid_device = 101,
  map_failed = 205,
  peer_access_unsupported = 217,
  invalid_handle = 400,
  illegal_state = 401,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  context_is_destroyed = 709,
  device_assert = 710,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failure = 719,
  not_permitted = 800,
  not_supported = 801,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_merge = 902,
  stream_capture_unmatched = 903,
  stream_capture_unjoined = 904,
  stream_capture_isolation = 905,
  captured_event = 907,
  stream_capture_wrong_thread = 908,
  unknown = 999,
  interrupted = 10004,  ///< by the user, while a simulated device was waited for; not one of CUDA's
};

/// The text CUDA gives for a code ("invalid device ordinal"); "unrecognized error code" otherwise.
EMBER_API const char* code_text(Code code) noexcept;

/// True for faults that leave a device unusable until it is reset (illegal address, assert, ...).
EMBER_API bool is_sticky(Code code) noexcept;

/// Success, or a code with an optional explanation. A success and a bare code cost no heap
/// allocation, so that `not_ready` can be an ordinary answer of a polling loop.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code) noexcept : code_(code) {}  // NOLINT: a bare code is a status
  Status(Code code, std::string detail)
      : code_(code), detail_(std::make_unique<std::string>(std::move(detail))) {}

  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other)
      : code_(other.code_),
        detail_(other.detail_ ? std::make_unique<std::string>(*other.detail_) : nullptr) {}
  Status& operator=(const Status& other) { return *this = Status(other); }
  ~Status() = default;

  bool ok() const noexcept { return code_ == Code::ok; }
  Code code() const noexcept { return code_; }
  /// Which argument, which value, what was expected; or which operation faulted. May be empty.
  std::string detail() const { return detail_ ? *detail_ : std::string(); }
  /// "invalid device ordinal: device 7 was asked for ...": for logs and test failures.
  EMBER_API std::string text() const;

 private:
  Code code_ = Code::ok;
  std::unique_ptr<std::string> detail_;
};

}  // namespace ember::inline v0

/// Returns early with a failed Status; for driver code, which does not throw.
#define EMBER_TRY(expression)                                                    \
  do {                                                                           \
    if (::ember::Status ember_try_status = (expression); !ember_try_status.ok()) \
      return ember_try_status;                                                   \
  } while (false)
