// Resets while other threads use the device. EMBER_TEST_SECONDS makes the stress longer.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/comm/comm.h"
#include "ember/memory/memory.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/runtime.h"
#include "ember/tensor/tensor.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/gate.h"
#include "tests/support/kernels.h"

namespace ember::cuda {
namespace {

double seconds() {
  const char* given = std::getenv("EMBER_TEST_SECONDS");
  return given != nullptr ? std::atof(given) : 0.5;
}

/// The texts of failures in a child are those on stderr.
void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  ADD_FAILURE() << what;
}

void expect_result(double got, double expected) {
  if (got == expected) return;
  throw std::runtime_error("a stale result: " + std::to_string(got) + ", expected " +
                           std::to_string(expected));
}

/// Eight threads that call `use` again and again until they are stopped. What it does may fail as
/// `expected` says, and must not fail otherwise.
class Users {
 public:
  Users(std::function<void(int thread, int round)> use, bool (*expected)(Code))
      : use_(std::move(use)), expected_(expected) {
    for (int thread = 0; thread < 8; ++thread)
      threads_.emplace_back([this, thread] { run(thread); });
  }
  int done() const noexcept { return done_; }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void run(int thread) {
    for (int round = 0; !stop_; ++round) {
      try {
        use_(thread, round);
        ++done_;
      } catch (const AcceleratorError& error) {
        if (!expected_(error.code())) return fail(error.what());
      } catch (const std::exception& error) {
        return fail(error.what());
      }
    }
  }

  const std::function<void(int thread, int round)> use_;
  bool (*const expected_)(Code);
  std::atomic<bool> stop_{false};
  std::atomic<int> done_{0};
  std::vector<std::thread> threads_;
};

/// `use` on eight threads, beside resets of device 0, which are all that may refuse it.
void beside_resets(const std::function<void(int thread, int round)>& use) {
  Users users(use, [](Code code) { return code == Code::context_is_destroyed; });
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds());
  int resets = 0;
  while (resets < 2 || std::chrono::steady_clock::now() < until) {
    reset_device(0);
    // Uses must come through between two resets, or nothing would be shown.
    for (const int before = users.done();
         users.done() < before + 4 && !testing::Test::HasFailure();)
      std::this_thread::yield();
    ++resets;
  }
  users.stop();
  synchronize(0);
  Tensor x = full({1000}, 3, Device("cuda:0"));
  EXPECT_EQ((x + 1).sum().item<double>(), 4000) << "the device works, and is in no fault";
}

TEST(ResetBeside, Launches) {
  IN_CHILD(beside_resets([](int thread, int round) {
    const auto value = thread * 1000 + round % 1000;
    Tensor x = full({64}, value, Device("cuda:0"));
    x += 1;
    expect_result(x.max().item<double>(), value + 1);
  }));
}

TEST(ResetBeside, LaunchesOnStreamsOfTheirOwn) {
  IN_CHILD(beside_resets([](int, int) {
    const Stream stream(0);
    const StreamGuard on(stream);
    Tensor x = arange(64, Device("cuda:0"));
    Event event;
    event.record(stream);
    const Stream other(0);
    event.wait(other);
    double there = 0;
    {
      const StreamGuard elsewhere(other);
      there = (x + 1).sum().item<double>();  // waits for `other` alone
    }
    expect_result(there, 64 * 63 / 2 + 64);
    stream.synchronize();
    expect_result((x * 2).sum().item<double>(), 64 * 63);
  }));
}

TEST(ResetBeside, Copies) {
  IN_CHILD(beside_resets([](int thread, int round) {
    // Large enough for the staging memory of copies between a device and ordinary memory.
    const std::int64_t count = round % 8 == 0 ? std::int64_t{3} << 20 : 1000;
    const Tensor host = full({count}, thread + round, Options(Dtype::float32));
    const Tensor back = host.to(Device("cuda:0")).cpu();
    expect_result(back[count - 1].item<double>(), thread + round);
  }));
}

TEST(ResetBeside, AllocationsAndFrees) {
  IN_CHILD(beside_resets([](int thread, int round) {
    std::vector<DeviceBuffer> buffers;
    for (int i = 0; i < 8; ++i)
      buffers.push_back(allocate(static_cast<std::size_t>((round + i) % 50 + 1) * 4096));
    const Stream other(0);
    record_stream(buffers[0], other);
    if (thread == 0 && round % 16 == 0) empty_cache();
  }));
}

TEST(ResetBeside, HostFunctions) {
  static std::atomic<std::int64_t> made{0};
  IN_CHILD({
    beside_resets([](int, int) {
      struct Counted {
        Counted() { ++made; }
        ~Counted() { --made; }
      };
      const Stream stream(0);
      auto owned = std::make_shared<Counted>();
      // What it owns may be the last that holds memory of the device.
      auto buffer = std::make_shared<DeviceBuffer>(allocate(4096, stream));
      host_function([owned, buffer] {}, stream);
      owned.reset();
      buffer.reset();
      stream.synchronize();
    });
    synchronize(0);
    // The last ones are destroyed right after their call.
    while (made > 0) std::this_thread::yield();
  });
}

TEST(ResetBeside, TensorsThatDieElsewhere) {
  IN_CHILD({
    Mutex mutex;
    std::vector<Tensor> shared(16);
    beside_resets([&](int thread, int round) {
      Tensor made = zeros({round % 100 + 1}, Device("cuda:0"));
      const MutexLock lock(mutex);
      std::swap(shared[static_cast<std::size_t>(thread * 7 + round) % shared.size()], made);
    });
  });
}

// Copies, collectives and products, with two devices that are reset in turn. A copy that lost the
// other device's memory is a fault of its own device, until that is reset as well.
TEST(ResetBeside, WorkBetweenTwoDevices) {
  if (!is_simulated()) GTEST_SKIP() << "a fault ends every real device of the process";
  NEEDS_DEVICES(2);
  IN_CHILD({
    const auto use = [](int thread, int round) {
      const auto value = thread * 1000 + round % 1000;
      const Tensor x = full({4, 256}, value, Device("cuda:0"));
      const Tensor y = x.to(Device("cuda:1"));
      expect_result(y.max().item<double>(), value);
      const auto both = comm::broadcast(x, {"cuda:0", "cuda:1"});
      expect_result(comm::reduce_add(both, 1).max().item<double>(), 2.0 * value);
      const Tensor half = full({256, 2}, 0.5, Options(Dtype::float32, Device("cuda:0")));
      const Tensor product = x.to(Dtype::float32).matmul(half);
      expect_result(product.max().item<double>(), 128.0 * value);
    };
    Users users(use,
                [](Code code) { return code == Code::context_is_destroyed || is_sticky(code); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds());
    while (users.done() < 8 || std::chrono::steady_clock::now() < until) {
      reset_device(0);
      reset_device(1);
      // Time for some work, which may end in a fault.
      const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      for (const int before = users.done();
           users.done() < before + 4 && std::chrono::steady_clock::now() < patience;)
        std::this_thread::yield();
    }
    users.stop();
    reset_device(0);
    reset_device(1);
    use(1, 1);
  });
}

// A reset waits for work that runs before the memory of before is there again. Whoever asks for it
// meanwhile waits for that, too.
TEST(ResetBeside, MemoryOfBeforeIsThereForWhoeverAsksMeanwhile) {
  if (!is_simulated()) GTEST_SKIP() << "memory of real devices is their driver's";
  NEEDS_CONCURRENCY();
  IN_CHILD({
    const std::size_t most = mem_get_info(0).first / 8 * 7;
    DeviceBuffer before = allocate(most, default_stream(0));
    const Stream stream(0);
    test::Gate gate(stream);
    gate.await_running();
    const std::uint32_t epoch = active_driver().device_epoch(0);
    std::thread resets([] { reset_device(0); });
    while (active_driver().device_epoch(0) == epoch) std::this_thread::yield();
    std::atomic<bool> asks{false};
    std::thread user([&] {
      for (bool done = false; !done;) try {
          asks = true;
          const DeviceBuffer again = allocate(most, default_stream(0));
          done = true;
        } catch (const AcceleratorError& error) {  // the reset had only just begun
          done = error.code() != Code::context_is_destroyed;
          if (done) fail(error.what());
        } catch (const std::exception& error) {
          done = true;
          fail(error.what());
        }
    });
    while (!asks) std::this_thread::yield();
    // Long enough that a request which does not wait has failed by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
    user.join();
    resets.join();
    before.reset();
  });
}

TEST(StaleStream, SaysHowAThreadGoesOn) {
  IN_CHILD({
    set_stream(Stream(0));
    reset_device(0);
    EXPECT_ERROR(ones({2}, Device("cuda:0")), AcceleratorError,
                 "if it is the thread's current stream, make another one current (set_stream)");
    set_stream(default_stream(0));
    EXPECT_EQ(ones({2}, Device("cuda:0")).sum().item().to<int>(), 2);
  });
}

TEST(StaleMemory, IsRefusedByName) {
  IN_CHILD({
    Tensor x = ones({4}, Device("cuda:0"));
    Tensor view = x.narrow(0, 1, 2);
    DeviceBuffer buffer = allocate(4096, default_stream(0));
    reset_device(0);
    const Tensor fresh = ones({4}, Device("cuda:0"));
    const auto is_refused = [](auto call) {
      EXPECT_ERROR(call(), AcceleratorError, "context is destroyed");
    };
    is_refused([&] { (void)x.data_ptr(); });
    is_refused([&] { (void)(x + 1); });
    is_refused([&] { (void)(fresh + x); });
    is_refused([&] { (void)view.sum(); });
    is_refused([&] { (void)x.cpu(); });
    is_refused([&] { (void)x[0].item<float>(); });
    is_refused([&] { x.fill_(1); });
    is_refused([&] { x.copy_(fresh); });
    is_refused([&] { fresh.clone().copy_(view.expand({4, 2}).select(1, 0)); });
    is_refused([&] { (void)x.sort(); });
    is_refused([&] { (void)x.cumsum(0); });
    is_refused([&] { (void)x.matmul(fresh); });
    EXPECT_EQ(fresh.sum().item<float>(), 4) << "others go on";
    // Going silently.
    x = view = Tensor();
    buffer.reset();
  });
}

}  // namespace
}  // namespace ember::cuda
