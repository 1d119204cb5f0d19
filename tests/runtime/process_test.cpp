// What concerns a whole process: first use, environment variables, and its end. Forks are in
// fork_test.cpp.

#include <optional>
#include <thread>

#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using test::Gate;

TEST(FirstUse, IsNeitherAskingNorCounting) {
  IN_CHILD({
    EXPECT_FALSE(is_initialized());
    EXPECT_TRUE(is_available());
    EXPECT_GE(device_count(), 1);
    EXPECT_FALSE(is_initialized());
    EXPECT_EQ(current_device(), 0);
    EXPECT_TRUE(is_initialized());
  });
}

TEST(FirstUse, OfManyThreadsMakesOneDriver) {
  IN_CHILD({
    std::vector<std::thread> threads;
    std::atomic<driver::Driver*> seen{nullptr};
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        driver::Driver* mine = &active_driver();
        driver::Driver* expected = nullptr;
        EXPECT_TRUE(seen.compare_exchange_strong(expected, mine) || expected == mine);
      });
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(FirstUse, TouchesNoDeviceBeforeItIsNeeded) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    init();
    (void)get_device_properties(0);
    EXPECT_FALSE(active_driver().device_active(0));
    {
      const DeviceGuard guard(1);
      const Stream stream;
      EXPECT_EQ(stream.device_index(), 1);
      Event event;
      event.record(stream);
      stream.synchronize();
    }
    EXPECT_EQ(current_device(), 0);
    EXPECT_TRUE(active_driver().device_active(1));
    EXPECT_FALSE(active_driver().device_active(0)) << "leaving a guard must not wake device 0";
  });
}

// What programs warm devices up with, before they time anything.
TEST(FirstUse, MakingCurrentAndWaitingBringADeviceUp) {
  NEEDS_DEVICES(2);
  const auto brings_up = [](const char* what, auto&& call) {
    SCOPED_TRACE(what);
    IN_CHILD({
      const auto active = [](int device) { return active_driver().device_active(device); };
      const Stream stream = default_stream(1);
      (void)current_stream(1);
      EXPECT_FALSE(active(1)) << "asking for a stream is no use of it";
      call(stream);
      EXPECT_TRUE(active(1));
      EXPECT_FALSE(active(0)) << "the device that was current before";
    });
  };
  brings_up("synchronize", [](const Stream&) { synchronize(1); });
  brings_up("set_device", [](const Stream&) { set_device(1); });
  brings_up("DeviceGuard", [](const Stream&) { const DeviceGuard guard(1); });
  brings_up("StreamGuard", [](const Stream& stream) { const StreamGuard guard(stream); });
  brings_up("set_stream", [](const Stream& stream) { set_stream(stream); });
  IN_CHILD({
    synchronize();
    EXPECT_TRUE(active_driver().device_active(0));
    EXPECT_FALSE(active_driver().device_active(1));
  });
}

TEST(FirstUse, WaitingInAHostFunctionBringsNothingUp) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    host_function([] { EXPECT_ERROR(synchronize(1), AcceleratorError, "operation not permitted"); },
                  default_stream(0));
    default_stream(0).synchronize();
    EXPECT_FALSE(active_driver().device_active(1));
  });
}

TEST(Environment, MalformedChoiceIsNamedAndCanBeMended) {
  IN_CHILD({
    for (const char* text : {"sim", "sim:", "sim:0", "sim:-1", "sim:65", "sim:2@", "sim:2@big",
                             "sim:2@1", "sim:2@99999999999999999999", "sim:2@2TiB", "sim:64@1TiB",
                             "cuda:0", "SIM:2", "gpu", " sim:2", "sim:2 ", "sim:2x", "sim:1e1"}) {
      setenv("EMBER_DEVICES", text, 1);
      EXPECT_FALSE(is_available()) << text;
      EXPECT_EQ(device_count(), 0) << text;
      EXPECT_ERROR(init(), ValueError, "EMBER_DEVICES='" + std::string(text) + "'");
      EXPECT_ERROR(Stream{}, ValueError, "expected 'cuda', 'sim:N', 'sim:N@SIZE'");
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("EMBER_DEVICES", "sim:3@64MiB", 1);
    EXPECT_EQ(device_count(), 3);
    init();
    EXPECT_EQ(get_device_properties(2).total_memory, std::size_t{64} << 20);
  });
}

TEST(Environment, NoneMeansNoDevices) {
  IN_CHILD({
    setenv("EMBER_DEVICES", "none", 1);
    EXPECT_FALSE(is_available());
    EXPECT_EQ(device_count(), 0);
    EXPECT_ERROR(init(), Error, "No CUDA GPUs are available: EMBER_DEVICES=none");
  });
}

TEST(Environment, WithoutTheCudaObject) {
  IN_CHILD({
    setenv("EMBER_CUDA_OBJECT", "/nowhere/libember_cuda.so", 1);
    for (const char* devices : {"", "cuda"}) {
      setenv("EMBER_DEVICES", devices, 1);
      EXPECT_FALSE(is_available());
      EXPECT_ERROR(init(), AssertionError, "Torch not compiled with CUDA enabled");
      EXPECT_ERROR(init(), AssertionError, "EMBER_DEVICES=sim:2");
      EXPECT_ERROR(init(), AssertionError, "in Python ember.cuda.simulate(2)");
    }
    EXPECT_TRUE(get_arch_list().empty());
    unsetenv("CUDA_VISIBLE_DEVICES");
    simulate(2);
    EXPECT_EQ(device_count(), 2);
  });
}

TEST(Environment, WithABrokenCudaObject) {
  IN_CHILD({
    setenv("EMBER_CUDA_OBJECT", "/proc/self/status", 1);
    setenv("EMBER_DEVICES", "cuda", 1);
    EXPECT_EQ(device_count(), 0);
    EXPECT_ERROR(init(), AssertionError,
                 "libcudart functions unavailable. It looks like you have a broken build?");
  });
}

TEST(Simulate, ChoosesDevicesBeforeFirstUse) {
  IN_CHILD({
    setenv("EMBER_DEVICES", "none", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    EXPECT_ERROR(simulate(0), ValueError, "number of simulated devices is 0, expected 1 to 64");
    EXPECT_ERROR(simulate(2, 5), ValueError, "5 bytes, expected 2 MiB to 1 TiB");
    simulate(5, std::uint64_t{32} << 20);
    EXPECT_FALSE(is_initialized());
    EXPECT_EQ(device_count(), 5);
    EXPECT_TRUE(is_simulated());
    EXPECT_EQ(get_device_properties(4).total_memory, std::size_t{32} << 20);
    EXPECT_ERROR(simulate(2), Error, "must be called before their first use");
    EXPECT_EQ(device_count(), 5);
  });
}

TEST(VisibleDevices, ChooseAndOrderSimulatedOnes) {
  IN_CHILD({
    setenv("EMBER_DEVICES", "sim:4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    EXPECT_EQ(device_count(), 2);
    setenv("CUDA_VISIBLE_DEVICES", "3,1,0", 1);
    EXPECT_EQ(device_count(), 3) << "not initialised yet: a change is seen";
    EXPECT_EQ(get_device_properties(0).uuid[15], 3);
    EXPECT_EQ(get_device_properties(1).uuid[15], 1);
    EXPECT_EQ(get_device_properties(2).uuid[15], 0);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    EXPECT_EQ(device_count(), 3) << "constant once initialised";
  });
}

TEST(VisibleDevices, ThatLeaveNothingSaySo) {
  IN_CHILD({
    setenv("EMBER_DEVICES", "sim:2", 1);
    for (const char* text : {"", "-1", "7", "0,0", "x", "GPU-nothing"}) {
      setenv("CUDA_VISIBLE_DEVICES", text, 1);
      EXPECT_EQ(device_count(), 0) << text;
      EXPECT_FALSE(is_available());
      EXPECT_ERROR(init(), Error, "No CUDA GPUs are available");
      EXPECT_ERROR(init(), Error, "CUDA_VISIBLE_DEVICES='" + std::string(text) + "'");
    }
    setenv("CUDA_VISIBLE_DEVICES", "1gpu2,0ampere", 1);
    EXPECT_EQ(device_count(), 2);
    init();
  });
}

TEST(Exit, WithWorkInFlightEnds) {
  IN_CHILD({
    static std::vector<int> destroyed_early(1000, 1);
    static auto* log = new test::Words<std::uint32_t>(9);  // never freed, on purpose
    std::vector<Stream> streams;
    for (int i = 0; i < 4; ++i) {
      launch(streams.emplace_back(0), test::busy_kernel, test::BusyArgs{log->get(), 1, 5000, 8});
      launch(streams.back(), test::busy_kernel, test::BusyArgs{log->get(), 1, 5000, 8});
      host_function([i] { destroyed_early[static_cast<std::size_t>(999 - i)] = 2; },
                    streams.back());
    }
  });
}

TEST(Exit, WithAKernelThatNeverEndsEnds) {
  if (!is_simulated()) GTEST_SKIP() << "on a real GPU the driver decides how long an exit may take";
  IN_CHILD({
    static const Stream* stream = new Stream;  // never destroyed, on purpose
    static Gate* gate = new Gate(*stream);
    gate->await_running();
    Stream waiting;
    waiting.wait_stream(*stream);
  });
}

TEST(Exit, WithThreadsThatWaitEnds) {
  IN_CHILD({
    static const Stream* stream = new Stream;  // used by the thread until the process ends
    static Gate* gate = new Gate(*stream);
    std::thread([] { stream->synchronize(); }).detach();
    gate->await_running();
    if (!is_simulated()) gate->open();
  });
}

/// A static object whose destructor still uses devices, made before the first use of one: it is
/// destroyed after ember has stopped.
struct LateUser {
  std::optional<Stream> stream;
  ~LateUser() {
    if (!stream) return;
    try {
      (void)current_stream();
      launch(*stream, test::nop_kernel, test::NopArgs{});
      stream->synchronize();
    } catch (const Error& error) {
      std::fprintf(stderr, "late: %s", error.what());
    }
  }
};

TEST(Exit, StaticObjectsThatStillUseDevicesDoNotHang) {
  IN_CHILD({
    static LateUser late;
    late.stream = Stream();
    Gate* const gate = new Gate(*late.stream);
    gate->await_running();
    launch(*late.stream, test::nop_kernel, test::NopArgs{});
    if (!is_simulated()) gate->open();
  });
}

TEST(LaunchBlocking, MakesLaunchesSynchronous) {
  IN_CHILD({
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    test::Words<std::uint32_t> log(8);
    const Stream stream;
    launch(stream, test::busy_kernel, test::BusyArgs{log.get(), 1, 3000});
    EXPECT_TRUE(stream.query());
  });
}

TEST(LaunchBlocking, ReportsTheFaultAtItsOwnCall) {
  IN_CHILD({
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    const Stream stream;
    auto* nowhere = reinterpret_cast<std::uint32_t*>(64);  // NOLINT
    try {
      launch(stream, test::bad_access_kernel, test::BadAccessArgs{nowhere});
      ADD_FAILURE() << "the launch should have reported its fault";
    } catch (const AcceleratorError& error) {
      EXPECT_EQ(error.error_code(), 700);
      EXPECT_NE(std::string(error.what()).find("bad_access"), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("CUDA_LAUNCH_BLOCKING"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace ember::cuda
