// The last operations of each stream of a device, and how far the streams came, also after a fault,
// when CUDA's events and queries answer nothing but the fault: every kEvery-th operation of a
// stream is followed by a write of its number to page-locked host memory, by the stream itself.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/cuda/recent_work.h"
#include "ember/driver/recent_launches.h"

namespace ember::inline v0::driver::cuda {

class LaunchLog {
 public:
  static constexpr std::uint64_t kEvery = 16;

  LaunchLog() = default;
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;

  /// See Driver::record_launches.
  void keep(int count, StackNumber stack) noexcept {
    stack_.store(stack, std::memory_order_relaxed);
    kept_.store(count, std::memory_order_release);
  }
  /// Whether anything is kept: one load.
  bool keeps() const noexcept { return kept_.load(std::memory_order_relaxed) != 0; }
  /// An operation was enqueued; the device's context is current. Costs a load while nothing is
  /// kept.
  void add(const RecentWork::Operation& operation, std::uint32_t epoch) noexcept {
    if (const int kept = kept_.load(std::memory_order_acquire); kept != 0) [[unlikely]]
      note(operation, epoch, kept);
  }
  /// Each stream's oldest first. Makes no call of CUDA's.
  std::vector<RecentLaunch> list();
  /// The first kEvery operations of each stream that are not known to be finished, with a fault's
  /// own among them: "; not known to be finished: 'b' number 33 of stream 0x7f10, ..."; "" if
  /// nothing is kept.
  std::string text();
  /// After a reset, with which the streams and the page-locking went.
  void forget();

 private:
  using Word = std::atomic<std::uint64_t>;
  struct OfStream {
    LaunchRing ring;
    std::uint64_t number = 0;  ///< of the newest operation
    Word* reached = nullptr;   ///< null: nobody writes how far it came
  };
  static constexpr std::size_t kWords = 512;  // streams beyond are shown as unfinished

  void note(const RecentWork::Operation& operation, std::uint32_t epoch, int kept) noexcept;
  void open_words() noexcept EMBER_REQUIRES(mutex_);

  std::atomic<int> kept_{0};
  std::atomic<StackNumber> stack_{nullptr};
  Mutex mutex_;
  std::unordered_map<const void*, OfStream> streams_ EMBER_GUARDED_BY(mutex_);
  Word* words_ EMBER_GUARDED_BY(mutex_) = nullptr;  // a mapping that stays for ever
  CUdeviceptr place_ EMBER_GUARDED_BY(mutex_) = 0;  // of the words, for the device; 0: none
  std::size_t used_words_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::driver::cuda
