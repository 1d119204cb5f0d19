#include "ember/driver/cuda/peer_stream.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// `later` goes on when `earlier` has done what it holds now.
CUresult order(CUstream earlier, CUevent event, CUstream later) noexcept {
  const CUresult result = api.cuEventRecordWithFlags(event, earlier, 0);
  return result == CUDA_SUCCESS ? api.cuStreamWaitEvent(later, event, 0) : result;
}

}  // namespace

// Each step is kept as it succeeds, so that a failed one is tried again by the next copy. The
// stream comes last: if it is there, everything is.
CUresult PeerStream::make() noexcept {
  CUresult result = CUDA_SUCCESS;
  for (CUevent* event : {&before_, &after_})
    if (result == CUDA_SUCCESS && *event == nullptr)
      result = api.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS)
    result = api.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
  return result;
}

// The lock holds each pair of calls together: a wait is for the last record before it. Others may
// enter before this copy leaves; what they wait for then is earlier still, so that nothing waits in
// a circle.
CUresult PeerStream::enter(CUstream& stream) noexcept {
  const MutexLock lock(mutex_);
  if (stream_ == nullptr) [[unlikely]]
    if (const CUresult result = make(); result != CUDA_SUCCESS) return result;
  stream = stream_;
  return order(nullptr, before_, stream_);
}

CUresult PeerStream::leave(CUstream stream) noexcept {
  const MutexLock lock(mutex_);
  if (stream != stream_) return CUDA_ERROR_CONTEXT_IS_DESTROYED;  // the device was reset meanwhile
  return order(stream_, after_, nullptr);
}

void PeerStream::forget() noexcept {
  const MutexLock lock(mutex_);
  stream_ = nullptr;
  before_ = after_ = nullptr;
}

}  // namespace ember::inline v0::driver::cuda
