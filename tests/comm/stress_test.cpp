// Sixteen threads that send numbers between devices and the host, in all directions, on streams of
// their own, and hand tensors to each other, so that memory is freed by other threads and on other
// streams than it was made on. Every number is compared in the end. EMBER_TEST_SECONDS=300 makes it
// run that long.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/comm/support.h"

namespace ember::test {
namespace {

using Random = std::mt19937_64;

int pick(Random& random, int count) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(count));
}

/// A tensor of int64 whose element i is factor * i + offset, in memory of a device or pinned.
struct Numbers {
  Tensor tensor;
  std::int64_t factor = 1;
  std::int64_t offset = 0;
  cuda::Event ready;  ///< recorded behind its last use, before it goes to another thread
};

/// What a thread has left for another.
class Shelf {
 public:
  void put(Numbers numbers) {
    const std::lock_guard lock(mutex_);
    list_.push_back(std::move(numbers));
  }
  std::optional<Numbers> take(Random& random) {
    const std::lock_guard lock(mutex_);
    if (list_.empty()) return std::nullopt;
    const auto at = list_.begin() + pick(random, static_cast<int>(list_.size()));
    std::optional<Numbers> taken(std::move(*at));
    *at = std::move(list_.back());
    list_.pop_back();
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<Numbers> list_;
};

/// One thread: streams of its own on every device, which are current while it runs.
class Worker {
 public:
  Worker(int devices, std::uint64_t seed, Shelf& shelf)
      : devices_(devices), random_(seed), shelf_(shelf), guard_(make_streams(devices)) {}

  void step() {
    Numbers numbers = next();
    for (int i = pick(random_, 4); i > 0; --i) change(numbers);
    if (pick(random_, 3) == 0) return check(numbers);
    if (pick(random_, 8) == 0) return;  // freed with its work in flight
    numbers.ready = cuda::Event();
    numbers.ready.record(stream_of(numbers));
    shelf_.put(std::move(numbers));
  }
  int checked() const noexcept { return checked_; }

 private:
  static std::vector<cuda::Stream> make_streams(int devices) {
    std::vector<cuda::Stream> list;
    for (int i = 0; i < devices; ++i) list.emplace_back(i);
    return list;
  }
  int device() { return pick(random_, devices_); }
  /// The stream on which its work is enqueued: for host memory that of device 0.
  static cuda::Stream stream_of(const Numbers& numbers) {
    return cuda::current_stream(numbers.tensor.is_cuda() ? numbers.tensor.device().index() : 0);
  }

  Numbers next() {
    if (pick(random_, 4) != 0) {
      if (std::optional<Numbers> taken = shelf_.take(random_)) {
        const cuda::Stream stream = stream_of(*taken);
        taken->ready.wait(stream);
        taken->tensor.record_stream(stream);
        return std::move(*taken);
      }
    }
    Numbers made;
    // Sizes below and above those at which collectives and copies change their ways.
    const int kind = pick(random_, 20);
    const std::int64_t size = kind == 0  ? (std::int64_t{1} << 20) + pick(random_, 1000)
                              : kind < 5 ? 100000 + pick(random_, 100000)
                                         : 1 + pick(random_, 5000);
    made.tensor = arange(size, {Dtype::int64, cuda_device(device())});
    return made;
  }

  void change(Numbers& numbers) {
    Tensor& x = numbers.tensor;
    if (!x.is_cuda()) {
      // Host memory can be sent only. The copy is enqueued on the stream of the target.
      const int target = device();
      const cuda::Stream from = cuda::current_stream(0);
      const cuda::Stream to = cuda::current_stream(target);
      to.wait_stream(from);
      x.record_stream(to);
      x = x.to(cuda_device(target), /*non_blocking=*/true);
      return;
    }
    switch (pick(random_, 7)) {
      case 0:
        x.add_(3);
        numbers.offset += 3;
        return;
      case 1:
        if (large(numbers)) return;
        x = x * 2;
        return multiply(numbers, 2);
      case 2:
      case 3: x = x.to(cuda_device(device()), /*non_blocking=*/true); return;
      case 4: {
        Tensor host = empty(x.sizes(), {Dtype::int64, "cpu", /*pinned=*/true});
        host.copy_(x, /*non_blocking=*/true);
        const cuda::Stream from = stream_of(numbers);
        host.record_stream(from);
        cuda::current_stream(0).wait_stream(from);
        x = host;
        return;
      }
      case 5: {
        if (large(numbers)) return;
        const auto copies = cuda::comm::broadcast(x, first_devices(devices_));
        x = cuda::comm::reduce_add(copies, device());
        return multiply(numbers, devices_);
      }
      default: {
        if (x.numel() < devices_) return;
        x = cuda::comm::gather(cuda::comm::scatter(x, first_devices(devices_)), 0, device());
        return;
      }
    }
  }

  /// Whether a larger factor might overflow.
  static bool large(const Numbers& numbers) {
    return numbers.factor > (1 << 20) || numbers.offset > (1 << 20);
  }
  static void multiply(Numbers& numbers, int by) {
    numbers.factor *= by;
    numbers.offset *= by;
  }

  void check(const Numbers& numbers) {
    if (!numbers.tensor.is_cuda()) cuda::current_stream(0).synchronize();
    const Tensor host = numbers.tensor.cpu();
    const auto* got = static_cast<const std::int64_t*>(host.data_ptr());
    for (std::int64_t i = 0; i < host.numel(); ++i) {
      if (got[i] == numbers.factor * i + numbers.offset) continue;
      ADD_FAILURE() << "element " << i << " of " << host.numel() << " on "
                    << numbers.tensor.device().str() << " is " << got[i] << ", expected "
                    << numbers.factor << " * i + " << numbers.offset;
      return;
    }
    ++checked_;
  }

  const int devices_;
  Random random_;
  Shelf& shelf_;
  cuda::MultiStreamGuard guard_;
  int checked_ = 0;
};

double seconds() {
  const char* given = std::getenv("EMBER_TEST_SECONDS");
  return given != nullptr ? std::atof(given) : 0.5;
}

TEST(CommStress, NumbersArriveWhateverTheWay) {
  NEEDS_DEVICES(2);
  NEEDS_CONCURRENCY();
  const int devices = std::min(cuda::device_count(), 4);
  std::vector<std::size_t> before;
  for (int i = 0; i < devices; ++i) before.push_back(cuda::memory_allocated(i));
  std::atomic<int> checked{0};
  {
    Shelf shelf;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds());
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] {
        Worker worker(devices, i, shelf);
        do worker.step();
        while (std::chrono::steady_clock::now() < end && !::testing::Test::HasFailure());
        for (int k = 0; k < devices; ++k) cuda::current_stream(k).synchronize();
        checked += worker.checked();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_GT(checked, 0);
  RecordProperty("checked", checked);
  std::printf("%d tensors compared\n", checked.load());
  for (int i = 0; i < devices; ++i) {
    cuda::synchronize(i);
    EXPECT_EQ(cuda::memory_allocated(i), before[static_cast<std::size_t>(i)]) << i;
  }
}

}  // namespace
}  // namespace ember::test
