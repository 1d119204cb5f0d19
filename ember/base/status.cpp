#include "ember/base/status.h"

namespace ember::inline v0 {

const char* code_text(Code code) noexcept {
  switch (code) {
    case Code::ok: return "no error";
    case Code::invalid_value: return "invalid argument";
    case Code::out_of_memory: return "out of memory";
    case Code::not_initialized: return "initialization error";
    case Code::shutting_down: return "driver shutting down";
    case Code::insufficient_driver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case Code::no_device: return "no CUDA-capable device is detected";
    case Code::invalid_device: return "invalid device ordinal";
    case Code::map_failed: return "mapping of buffer object failed";
    case Code::peer_access_unsupported:
      return "peer access is not supported between these two devices";
    case Code::invalid_handle: return "invalid resource handle";
    case Code::illegal_state: return "the operation cannot be performed in the present state";
    case Code::not_ready: return "device not ready";
    case Code::illegal_address: return "an illegal memory access was encountered";
    case Code::launch_out_of_resources: return "too many resources requested for launch";
    case Code::peer_access_already_enabled: return "peer access is already enabled";
    case Code::peer_access_not_enabled: return "peer access has not been enabled";
    case Code::context_is_destroyed: return "context is destroyed";
    case Code::device_assert: return "device-side assert triggered";
    case Code::host_memory_already_registered:
      return "part or all of the requested memory range is already mapped";
    case Code::host_memory_not_registered:
      return "pointer does not correspond to a registered memory region";
    case Code::launch_failure: return "unspecified launch failure";
    case Code::not_permitted: return "operation not permitted";
    case Code::not_supported: return "operation not supported";
    case Code::stream_capture_unsupported:
      return "operation not permitted when stream is capturing";
    case Code::stream_capture_invalidated:
      return "operation failed due to a previous error during capture";
    case Code::stream_capture_merge:
      return "operation would result in a merge of separate capture sequences";
    case Code::stream_capture_unmatched:
      return "capture was not ended in the same stream as it began";
    case Code::stream_capture_unjoined: return "capturing stream has unjoined work";
    case Code::stream_capture_isolation:
      return "dependency created on uncaptured work in another stream";
    case Code::captured_event:
      return "operation not permitted on an event last recorded in a capturing stream";
    case Code::stream_capture_wrong_thread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    case Code::unknown: return "unknown error";
    case Code::interrupted: return "interrupted";
  }
  return "unrecognized error code";
}

bool is_sticky(Code code) noexcept {
  // CUDA's own list of errors after which "any further CUDA work will return the same error".
  const int n = static_cast<int>(code);
  return n == 214 || n == 700 || n == 702 || n == 710 || (n >= 714 && n <= 719);
}

std::string Status::text() const {
  std::string text = code_text(code_);
  if (detail_ && !detail_->empty()) text += ": " + *detail_;
  return text;
}

}  // namespace ember::inline v0
