#include "ember/driver/cuda/launch_log.h"

#include <sys/mman.h>

#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/capture.h"

namespace ember::inline v0::driver::cuda {

// The pages are mapped here and only registered with CUDA, so that they can be read after a fault
// and used again after a reset.
void LaunchLog::open_words() noexcept {
  if (place_ != 0) return;
  constexpr std::size_t kBytes = kWords * sizeof(Word);
  if (words_ == nullptr) {
    void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return;
    words_ = static_cast<Word*>(pages);  // zeros, which are words
  }
  if (api.cuMemHostRegister_v2(words_, kBytes, CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS)
    return;
  if (api.cuMemHostGetDevicePointer_v2(&place_, words_, 0) != CUDA_SUCCESS) {
    (void)api.cuMemHostUnregister(words_);
    place_ = 0;
  }
}

void LaunchLog::note(const RecentWork::Operation& operation, std::uint32_t epoch,
                     int kept) noexcept {
  const StackNumber stack = stack_.load(std::memory_order_relaxed);
  const std::uint64_t stands = stack != nullptr ? stack() : 0;
  const MutexLock lock(mutex_);
  OfStream& stream = streams_[operation.stream];
  if (stream.number == 0) {
    open_words();
    if (place_ != 0 && used_words_ < kWords) stream.reached = words_ + used_words_++;
  }
  const std::uint64_t number = ++stream.number;
  stream.ring.add({.name = operation.name,
                   .stream = operation.stream,
                   .number = number,
                   .bytes = operation.bytes,
                   .stack = stands,
                   .epoch = epoch},
                  kept);
  if (stream.reached == nullptr || number % kEvery != 0) return;
  // A replay would write it again, when others have been written.
  auto* const native = static_cast<CUstream>(const_cast<void*>(operation.stream));
  if (captured_graph(native) != nullptr) return;
  // Whatever has a number up to this one was enqueued before, so it is done when this is written.
  const CUdeviceptr place =
      place_ + static_cast<std::size_t>(stream.reached - words_) * sizeof(Word);
  (void)api.cuStreamWriteValue64_v2(native, place, number, CU_STREAM_WRITE_VALUE_DEFAULT);
}

std::vector<RecentLaunch> LaunchLog::list() {
  const MutexLock lock(mutex_);
  std::vector<RecentLaunch> all;
  for (const auto& [native, stream] : streams_) {
    const std::uint64_t reached =
        stream.reached != nullptr ? stream.reached->load(std::memory_order_acquire) : 0;
    for (RecentLaunch launch : stream.ring.list()) {
      if (launch.number <= reached) launch.state = LaunchState::finished;
      all.push_back(launch);
    }
  }
  return all;
}

// A stream that had come further would have written its next number, so a fault of its work lies in
// the first kEvery operations of those listed here.
std::string LaunchLog::text() {
  std::string text;
  const void* last = this;  // no stream's handle
  std::uint64_t shown = 0;
  for (const RecentLaunch& launch : list()) {
    if (launch.state == LaunchState::finished) continue;
    shown = launch.stream == last ? shown + 1 : 1;
    last = launch.stream;
    if (shown > kEvery) continue;
    text.append(text.empty() ? "; not known to be finished: '" : ", '").append(launch.name);
    text.append("' ").append(launch_place(launch.stream, launch.number, launch.stack));
  }
  return text;
}

void LaunchLog::forget() {
  const MutexLock lock(mutex_);
  streams_.clear();
  for (std::size_t i = 0; i < used_words_; ++i) words_[i].store(0, std::memory_order_relaxed);
  used_words_ = 0;
  place_ = 0;
}

}  // namespace ember::inline v0::driver::cuda
