// Runs the same program under seeds FIRST to LAST and prints what each run was: its log and its
// results. In a process of its own for each seed (with EMBER_SIM_SCHEDULE) or for all.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ember/memory/memory.h"
#include "ember/runtime/threads.h"
#include "tests/order/program.h"

namespace ember {
namespace {

constexpr int kStreams = 4;
constexpr int kKernels = 32;
constexpr std::size_t kElements = 256;

/// Without most of its waits, so that the results say in which order it ran.
void program() {
  using cuda::Stream;
  std::vector<Stream> streams(kStreams, Stream(0));
  for (Stream& stream : streams) stream = Stream(0);
  cuda::DeviceBuffer buffer = cuda::allocate(kElements * 4, streams[0]);
  auto* data = static_cast<std::uint32_t*>(buffer.data());
  cuda::fill_async(data, 1, kElements * 4, streams[0]);
  cuda::Event begin(true);
  cuda::Event end(true);
  begin.record(streams[0]);
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    cuda::launch(streams[i % kStreams], test::unordered_affine_kernel,
                 test::AffineArgs{data, kElements, 2 * i + 3, i});
    if (i == 8) streams[1].wait_stream(streams[2]);
    if (i == 12) cuda::host_function([] {}, streams[3]);
  }
  end.record(streams[1]);
  for (const Stream& stream : streams) cuda::record_stream(buffer, stream);
  int asked = 1;
  while (!end.query()) ++asked;
  cuda::synchronize(0);
  std::vector<std::uint32_t> values(kElements);
  cuda::copy(values.data(), data, kElements * 4, cuda::default_stream(0));
  std::uint64_t sum = 14695981039346656037u;
  for (const std::uint32_t value : values) sum = (sum ^ value) * 1099511628211u;
  // What was never written, and numbers that a process gives out.
  const cuda::DeviceBuffer unwritten = cuda::allocate(kElements * 4, streams[2]);
  cuda::copy(values.data(), unwritten.data(), kElements * 4, streams[2]);
  for (const std::uint32_t value : values) sum = (sum ^ value) * 1099511628211u;
  std::printf("%s%016llx after %d looks and %.6f ms\n", sim::log().c_str(),
              static_cast<unsigned long long>(sum), asked, begin.elapsed_time(end));
  for (const Stream& stream : streams)
    std::printf("stream %lld, %llu\n", static_cast<long long>(stream.stream_id()),
                reinterpret_cast<unsigned long long>(stream.native()));
  std::printf("event %llu\n", reinterpret_cast<unsigned long long>(end.native()));
}

/// Two threads that lock two mutexes in different orders. Not every order of turns is a deadlock.
void deadlock() {
  cuda::synchronize(0);
  sim::mutex first, second;
  const auto both = [](sim::mutex& one, sim::mutex& other) {
    const std::lock_guard outer(one);
    const std::lock_guard inner(other);
  };
  sim::thread a([&] { both(first, second); });
  sim::thread b([&] { both(second, first); });
}

/// A thread that has the turn waits for another one by a mutex that takes no part.
void silent() {
  cuda::synchronize(0);
  std::mutex plain;
  std::atomic<int> done = 0;
  plain.lock();
  sim::thread waits([&] {
    const std::lock_guard lock(plain);
    ++done;
  });
  for (int i = 0; i < 8; ++i) sim::yield();
  plain.unlock();
  waits.join();
  std::printf("%d done\n%s", done.load(), sim::log().c_str());
}

/// Four threads that count under a mutex, and tell when they are done.
void counts() {
  cuda::synchronize(0);
  int counted = 0, over = 0;
  sim::mutex mutex;
  sim::condition changed;
  std::vector<sim::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        const std::lock_guard lock(mutex);
        ++counted;
      }
      const std::lock_guard lock(mutex);
      ++over;
      changed.notify_one();
    });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over == 4; });
  }
  std::printf("counted %d\n", counted);
}

/// The first use of a device is in a thread that takes turns.
void first_use() {
  std::uint32_t* data = nullptr;
  sim::mutex mutex;
  const auto add_one = [&] {
    for (int i = 0; i < 3; ++i) {
      const std::lock_guard lock(mutex);
      const cuda::Stream stream(0);
      if (data == nullptr) {
        data = static_cast<std::uint32_t*>(cuda::caching_allocator_alloc(4));
        cuda::fill_async(data, 0, 4, stream);
      }
      std::uint32_t seen = 0;
      cuda::copy(&seen, data, 4, stream);
      ++seen;
      cuda::copy(data, &seen, 4, stream);
    }
  };
  {
    sim::thread one(add_one);
    sim::thread two(add_one);
  }
  std::uint32_t sum = 0;
  cuda::copy(&sum, data, 4, cuda::default_stream(0));
  std::printf("%u\n%s", sum, sim::log().c_str());
}

/// An ordinary thread waits by a condition while the devices are made.
void made_meanwhile() {
  sim::mutex mutex;
  sim::condition changed;
  std::atomic<bool> waits = false;
  bool go = false;
  std::thread waiting([&] {
    std::unique_lock lock(mutex);
    waits = true;
    changed.wait(lock, [&] { return go; });
  });
  while (!waits) std::this_thread::yield();
  cuda::synchronize(0);
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  changed.notify_all();
  waiting.join();
  std::printf("went on\n");
}

}  // namespace
}  // namespace ember

int main(int count, char** arguments) {
  if (count == 1) {  // the environment's schedule
    ember::program();
    return 0;
  }
  if (count == 2 && std::string(arguments[1]) == "forever") {  // for the watchdog
    const ember::cuda::Stream stream(0);
    ember::cuda::host_function(
        [] {
          while (true) std::this_thread::yield();
        },
        stream);
    stream.synchronize();
    return 0;
  }
  if (count == 2 && std::string(arguments[1]) == "deadlock") {
    ember::deadlock();
    return 0;
  }
  if (count == 2 && std::string(arguments[1]) == "silent") {
    ember::silent();
    return 0;
  }
  if (count == 2 && std::string(arguments[1]) == "counts") {
    ember::counts();
    return 0;
  }
  if (count == 2 && std::string(arguments[1]) == "first_use") {
    ember::first_use();
    return 0;
  }
  if (count == 2 && std::string(arguments[1]) == "made_meanwhile") {
    ember::made_meanwhile();
    return 0;
  }
  if (count == 2) {  // another program
    const ember::cuda::Stream stream(0);
    for (int i = 0; i < 3; ++i)
      ember::cuda::launch(stream, ember::test::nop_kernel, ember::test::NopArgs{});
    stream.synchronize();
    ember::program();
    return 0;
  }
  const auto last = std::strtoull(arguments[2], nullptr, 10);
  for (auto seed = std::strtoull(arguments[1], nullptr, 10); seed <= last; ++seed) {
    ember::sim::begin_run(seed);
    ember::program();
  }
}
