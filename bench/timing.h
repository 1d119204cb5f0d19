// Timing of short calls, the same for ember, for raw CUDA and for PyTorch: bursts of calls, each
// burst short enough that no launch queue fills, and the median over many bursts. Includes nothing
// of ember, so that programs that measure something else can use it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <latch>
#include <random>
#include <thread>
#include <vector>

namespace ember::bench {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// How often something is called: `warm_up` calls before, then `rounds` bursts of `calls` calls.
struct Bursts {
  int calls = 200;
  int rounds = 101;
  int warm_up = 300;

  /// The same work in a hundredth of the time, for a look at whether everything runs.
  Bursts quick() const {
    return {.calls = std::min(calls, 20), .rounds = 3, .warm_up = std::min(warm_up, 3)};
  }
};

/// Calls that put work on a device. 200 of them don't fill its queue.
inline constexpr Bursts kDeviceCalls;
/// Calls that never reach a device: longer bursts, so that reading the clock counts for nothing.
inline constexpr Bursts kHostCalls{.calls = 20000, .rounds = 31, .warm_up = 20000};
/// Calls that take a millisecond or so.
inline constexpr Bursts kSlowCalls{.calls = 10, .rounds = 7, .warm_up = 3};

/// Microseconds per call of each work: the median over the rounds. The works take turns, burst by
/// burst, so that whatever changes on the machine meanwhile meets all of them. `drain` waits,
/// unmeasured, for what a burst put on the device.
template <class Drain, class... Works>
std::array<double, sizeof...(Works)> burst_medians(const Bursts& bursts, const Drain& drain,
                                                   const Works&... works) {
  std::array<std::vector<double>, sizeof...(Works)> times;
  const auto burst = [&](const auto& work, int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) work();
    const auto end = Clock::now();
    drain();
    return microseconds(end - start) / calls;
  };
  (burst(works, bursts.warm_up), ...);
  for (int round = 0; round < bursts.rounds; ++round) {
    std::size_t which = 0;
    (times[which++].push_back(burst(works, bursts.calls)), ...);
  }
  std::array<double, sizeof...(Works)> medians{};
  for (std::size_t which = 0; which < medians.size(); ++which)
    medians[which] = median(std::move(times[which]));
  return medians;
}

/// The same for work that counts only once it is done: `drain` is part of the time.
template <class Drain, class... Works>
std::array<double, sizeof...(Works)> completion_medians(const Bursts& bursts, const Drain& drain,
                                                        const Works&... works) {
  Bursts whole = bursts;
  whole.calls = 1;
  whole.warm_up = 1;
  const auto all = [&](const auto& work) {
    return [&work, &drain, &bursts] {
      for (int i = 0; i < bursts.calls; ++i) work();
      drain();
    };
  };
  auto medians = burst_medians(
      whole, [] {}, all(works)...);
  for (double& time : medians) time /= bursts.calls;
  return medians;
}

/// How often to copy so many bytes: about 0.1 s each way at the rates of a PCIe link.
inline Bursts bursts_for(std::size_t bytes) {
  if (bytes >= std::size_t{512} << 20) return {.calls = 3, .rounds = 5, .warm_up = 1};
  if (bytes >= std::size_t{8} << 20) return {.calls = 10, .rounds = 11, .warm_up = 1};
  if (bytes >= std::size_t{512} << 10) return {.calls = 50, .rounds = 11, .warm_up = 1};
  return {.calls = 200, .rounds = 21, .warm_up = 1};
}

/// An allocator's everyday: `threads` threads, each with 256 places, go to a random place each step
/// and free what is there, or allocate there a random power of two from 512 bytes to 4 MiB.
/// Returns microseconds per step of a thread (the mean over the threads), the median of `rounds`.
struct Mix {
  int threads = 1;
  int warm_up = 20'000;
  int steps = 200'000;
  int rounds = 3;
};

template <class Allocate, class Free>
double mix_median(const Mix& mix, const Allocate& allocate, const Free& free) {
  const auto run = [&](int thread, std::latch& start, double& result) {
    constexpr std::size_t kPlaces = 256;
    std::vector<void*> places(kPlaces, nullptr);
    std::mt19937 random(static_cast<unsigned>(thread));
    const auto step = [&] {
      void*& place = places[random() % kPlaces];
      if (place != nullptr) {
        free(place);
        place = nullptr;
      } else {
        place = allocate(std::size_t{512} << (random() % 14));
      }
    };
    start.arrive_and_wait();
    for (int i = 0; i < mix.warm_up; ++i) step();
    const auto begin = Clock::now();
    for (int i = 0; i < mix.steps; ++i) step();
    result = microseconds(Clock::now() - begin) / mix.steps;
    for (void* place : places)
      if (place != nullptr) free(place);
  };
  std::vector<double> medians;
  for (int round = 0; round < mix.rounds; ++round) {
    std::vector<double> results(static_cast<std::size_t>(mix.threads));
    std::latch start(mix.threads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < mix.threads; ++thread)
      threads.emplace_back(run, thread, std::ref(start),
                           std::ref(results[static_cast<std::size_t>(thread)]));
    for (std::thread& thread : threads) thread.join();
    double sum = 0;
    for (const double result : results) sum += result;
    medians.push_back(sum / mix.threads);
  }
  return median(std::move(medians));
}

}  // namespace ember::bench
