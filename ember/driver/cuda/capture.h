// Work that is captured into a graph instead of being done.
#pragma once

#include <atomic>

#include "ember/base/ref.h"
#include "ember/base/status.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::cuda {

/// Captures that were begun by this driver and have not ended.
inline constinit std::atomic<int> captures_here{0};

/// The graph that a stream's work is captured into; null when it is not, or the capture is invalid.
inline CUgraph captured_graph(CUstream stream) noexcept {
  if (stream == nullptr) return nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  const CUresult result =
      api.cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr);
  return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : nullptr;
}

/// Refuses what cannot be done on a stream whose work is captured by a capture of this driver's,
/// and makes that invalid.
Status refuse_captured(CUstream stream, const char* what) noexcept;

/// Makes the graph and what is made ready of it share in owning a thing, which is destroyed after
/// the last replay, on a thread of CUDA's on which no call is permitted. After a failure it is the
/// caller's as before.
CUresult keep_for_graph(CUgraph graph, void* thing, void (*destroy)(void*)) noexcept;
/// The same for a kernel's context, if the stream is captured. (An implementation has read it by
/// then, but what it has passed on by value may be the context's, such as code that it loaded.)
CUresult keep_for_capture(CUstream stream, const Ref<const Context>& context) noexcept;

/// While it lives, no call of its thread disturbs a capture. Making things does, elsewhere: memory,
/// events, streams, modules, handles of libraries.
class RelaxedMode {
 public:
  explicit RelaxedMode(bool wanted = true) noexcept : wanted_(wanted) { exchange(); }
  ~RelaxedMode() { exchange(); }
  RelaxedMode(const RelaxedMode&) = delete;
  RelaxedMode& operator=(const RelaxedMode&) = delete;

 private:
  void exchange() noexcept {
    if (wanted_) (void)api.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  const bool wanted_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace ember::inline v0::driver::cuda
