// The files of words through which processes wait for each other: when they go.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "ember/driver/forwarding_driver.h"
#include "ember/ipc/process.h"
#include "ember/memory/memory.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/runtime.h"
#include "peer.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/gate.h"
#include "tests/support/installed.h"

namespace ember {
namespace {

using test::Gate;
using test::Peer;

/// Waits for the device before it lets go of words, as CUDA does of what is page-locked. (What a
/// test::HookedDriver does is for one thread.)
class WaitsToClose final : public driver::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;

  std::atomic<int> closing{0};

 protected:
  Status before(driver::Call call) noexcept override {
    if (call != driver::Call::words_close) return {};
    ++closing;
    return next().device_synchronize(0);
  }
};

// Whoever lets go of words waits for all work, host functions among it, and what is called when the
// work on received memory is done needs the lock of the service's tables.
TEST(FilesOfWords, AreNotLetGoOfUnderALockThatHostFunctionsTake) {
  IN_CHILD({
    WaitsToClose& driver = test::installed<WaitsToClose>();
    const cuda::Stream one(0);
    const cuda::Stream other(0);
    Peer peer;
    EXPECT_EQ(peer.ask("make y cuda:0 1000 1"), "ok");
    Ref<Storage> theirs = ipc::receive(test::to_handle(peer.ask("send y")));
    EXPECT_TRUE(test::has_bytes(*theirs, 1));

    // A word is in use until the first gate opens ...
    Gate writing(one);
    Ref<Storage> mine;
    {
      const cuda::StreamGuard on_it(one);
      mine = test::make_memory(Device("cuda:0"), 1000, 2);
      ipc::withdraw(ipc::send(mine));
    }
    // ... and received memory goes back when the second one does.
    Gate reading(other);
    {
      const cuda::StreamGuard on_it(other);
      theirs = {};
    }
    writing.open();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (driver.closing == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    EXPECT_GT(driver.closing, 0);
    reading.open();
    std::promise<void> over;
    std::future<void> is_over = over.get_future();
    std::thread([&] {
      cuda::synchronize(0);
      over.set_value();
    }).detach();
    if (is_over.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      ADD_FAILURE() << "the device waits for a lock that is held until it is idle";
      peer.kill_now();
      std::_Exit(1);
    }
    EXPECT_TRUE(test::has_bytes(*mine, 2));
  });
}

}  // namespace
}  // namespace ember
