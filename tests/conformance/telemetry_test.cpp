// What devices say of themselves: the same questions on every kind; a simulated one's answers
// against what was measured of its load.
#include "ember/runtime/telemetry.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "ember/memory/memory.h"
#include "ember/runtime/guard.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

TEST(Telemetry, SensorsAreWithinTheirUnits) {
  NEEDS_DEVICES(1);
  for (int device = 0; device < device_count(); ++device) {
    EXPECT_GE(utilization(device), 0);
    EXPECT_LE(utilization(device), 100);
    EXPECT_GE(memory_usage(device), 0);
    EXPECT_LE(memory_usage(device), 100);
    EXPECT_GE(temperature(device), 0);
    EXPECT_LE(temperature(device), 120);
    EXPECT_GE(power_draw(device), 1'000) << "milliwatts";
    EXPECT_LE(power_draw(device), 2'000'000);
    EXPECT_GE(clock_rate(device), 100) << "MHz";
    EXPECT_LE(clock_rate(device), 5'000);
  }
}

TEST(Telemetry, DevicesThatAreNotVisible) {
  NEEDS_DEVICES(1);
  for (const int device : {-1, device_count(), 1'000'000}) {
    const std::string text =
        "device " + std::to_string(device) + " is not visible (CUDA_VISIBLE_DEVICES=[";
    EXPECT_ERROR((void)utilization(device), Error, text);
    EXPECT_ERROR((void)list_gpu_processes(device), Error, text);
  }
  EXPECT_ERROR((void)temperature("cpu"), ValueError, "Expected a cuda device, but got: cpu");
}

TEST(Telemetry, NoneIsTheCurrentDevice) {
  NEEDS_DEVICES(2);
  const DeviceGuard on(1);
  EXPECT_EQ(gpu_processes().machine_index, gpu_processes(1).machine_index);
  EXPECT_NE(gpu_processes().machine_index, gpu_processes(0).machine_index);
}

TEST(Telemetry, ProcessesAreListed) {
  NEEDS_DEVICES(1);
  const DeviceBuffer memory = allocate(std::size_t{3} << 20);
  const GpuProcesses found = gpu_processes(0);
  EXPECT_EQ(list_gpu_processes(0).rfind("GPU:" + std::to_string(found.machine_index) + "\n", 0),
            0U);
  EXPECT_GE(device_memory_used(0), 3 << 20);
  EXPECT_LE(device_memory_used(0), static_cast<std::int64_t>(mem_get_info(0).second));
  if (!is_simulated()) return;  // others may be there, and this one under another number
  ASSERT_EQ(found.processes.size(), 1U);
  EXPECT_EQ(found.processes[0].pid, static_cast<std::uint32_t>(getpid()));
  const auto [free, total] = mem_get_info(0);
  EXPECT_EQ(found.processes[0].bytes, total - free);
  EXPECT_EQ(device_memory_used(0), static_cast<std::int64_t>(total - free));
  EXPECT_GE(found.processes[0].bytes, std::size_t{3} << 20);
}

/// Keeps device 0 busy for about `duty` of each 20 ms, for two seconds and a half. Returns how much
/// it really was, of the last second: measured by the kernels themselves, since a machine that has
/// other things to do lets them wait.
double load(double duty, bool touch) {
  static std::atomic<std::int64_t> busy;  // nanoseconds
  const DeviceBuffer memory = allocate(64);
  const Stream stream;
  const auto until = Clock::now() + std::chrono::milliseconds(2500);
  double counted = 0;
  auto since = Clock::now();
  auto* words = static_cast<std::uint32_t*>(memory.data());
  while (Clock::now() < until) {
    if (Clock::now() < until - std::chrono::seconds(1)) {
      busy = 0;
      since = Clock::now();
    }
    launch(stream, "load", {writes(words, 16)}, [=](const HostLaunch& on) {
      const auto start = Clock::now();
      if (touch && on.at(words, 16) == nullptr) return on.fault();
      while (Clock::now() - start < duty * std::chrono::milliseconds(20)) {
      }
      busy += (Clock::now() - start).count();
      return Status();
    });
    stream.synchronize();
    std::this_thread::sleep_for((1 - duty) * std::chrono::milliseconds(20));
    counted = 1e-9 * static_cast<double>(busy) / Seconds(Clock::now() - since).count();
  }
  return counted;
}

struct Answers {
  double measured;  ///< percent
  int busy;
  int memory;
};

/// What a load was, and what the device says of it. Asked again where the machine let so much time
/// pass in between that the two speak of different seconds, or between the beginnings and ends of
/// kernels as the device and as they themselves see them.
Answers answers_under(double duty, bool touch) {
  Answers found{};
  for (int attempt = 0; attempt < 5; ++attempt) {
    found.measured = 100 * load(duty, touch);
    const auto then = Clock::now();
    found.busy = utilization(0);
    found.memory = memory_usage(0);
    const bool together = Clock::now() - then < std::chrono::milliseconds(5);
    if (together && std::abs(found.busy - found.measured) <= 5) break;
  }
  return found;
}

TEST(Telemetry, ASimulatedDeviceTellsHowBusyItIs) {
  NEEDS_DEVICES(1);
  NEEDS_CONCURRENCY();
  if (!is_simulated()) GTEST_SKIP() << "what a real device does besides is not known";
  synchronize(0);
  for (const double duty : {0.25, 0.75}) {
    const auto [measured, busy, memory] = answers_under(duty, true);
    EXPECT_NEAR(busy, measured, 5);
    EXPECT_NEAR(memory, measured, 5);
    EXPECT_NEAR(temperature(0), 30 + 0.35 * measured, 3);
    EXPECT_NEAR(power_draw(0), 75'000 + 6'250 * measured, 40'000);
    EXPECT_EQ(clock_rate(0), 1000);
  }
}

TEST(Telemetry, AKernelThatTouchesNoMemory) {
  NEEDS_DEVICES(1);
  NEEDS_CONCURRENCY();
  if (!is_simulated()) GTEST_SKIP() << "what a real device does besides is not known";
  const auto [measured, busy, memory] = answers_under(0.5, false);
  EXPECT_NEAR(busy, measured, 5);
  EXPECT_LE(memory, 2);
}

TEST(Telemetry, WaitingIsNotWorking) {
  NEEDS_DEVICES(1);
  NEEDS_CONCURRENCY();
  if (!is_simulated()) GTEST_SKIP() << "what a real device does besides is not known";
  const Stream held;
  const Stream waiting;
  // One does what the host wants, and the other waits for that.
  std::atomic<bool> open{false};
  host_function(
      [&] {
        while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      held, no_accesses());
  waiting.wait_stream(held);
  launch(waiting, test::nop_kernel, test::NopArgs{});
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const int busy = utilization(0);
  open = true;
  synchronize(0);
  EXPECT_LE(busy, 5);
}

}  // namespace
}  // namespace ember::cuda
