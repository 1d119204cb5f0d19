// Waits that could never end are refused, and work that lost what it waited for says so.
#include <atomic>
#include <functional>
#include <thread>

#include "ember/memory/memory.h"
#include "ember/ops/factories.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/tensor/tensor.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/kernels.h"

namespace ember::cuda {
namespace {

using test::Gate;
using test::Pinned;
using test::Words;

/// Whether the call was refused because it would wait for itself.
bool refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const AcceleratorError& error) {
    return error.code() == Code::not_permitted;
  }
  return false;
}

struct Registered {
  Registered() { check(active_driver().host_register(memory, sizeof memory)); }
  ~Registered() { (void)active_driver().host_unregister(memory); }
  alignas(4096) mutable char memory[4096] = {};
};

/// Every call that may wait for a device.
struct Wait {
  const char* name;
  std::function<void()> call;
};
std::vector<Wait> waits(const Stream& stream, const Stream& other, const Event& event,
                        const Words<std::uint32_t>& data, const Tensor& tensor, void* pinned,
                        void* registered) {
  return {
      {"its stream", [&] { stream.synchronize(); }},
      {"another stream", [&] { other.synchronize(); }},
      {"an event", [&] { event.synchronize(); }},
      {"its device", [&] { synchronize(stream.device_index()); }},
      {"a copy to ordinary memory",
       [&] {
         std::uint32_t value = 0;
         copy_async(&value, data.get(), sizeof value, stream);
       }},
      {"a copy from ordinary memory",
       [&] {
         const std::uint32_t value = 0;
         copy_async(data.get(), &value, sizeof value, other);
       }},
      {"freeing memory of the device",
       [&] { check(active_driver().free(stream.device_index(), data.get())); }},
      {"freeing pinned memory", [pinned] { check(active_driver().pinned_free(pinned)); }},
      {"unregistering memory",
       [registered] { check(active_driver().host_unregister(registered)); }},
      {"a copy that waits",
       [&] {
         std::uint32_t value = 0;
         copy(&value, data.get(), sizeof value, stream);
       }},
      {"an element's value", [&] { (void)tensor.item(); }},
      {"giving cached memory back", [] { empty_cache(); }},
      {"a reset", [&] { check(active_driver().device_reset(stream.device_index())); }},
  };
}

TEST(Waits, AreRefusedInHostFunctions) {
  const Stream stream;
  const Stream other;
  Event event;
  event.record(stream);
  const Words<std::uint32_t> data(1);
  const Tensor tensor = ones({}, Device(Device::Type::cuda, 0));
  const Pinned<std::uint32_t> pinned(1);
  const Registered registered;
  for (const Wait& wait :
       waits(stream, other, event, data, tensor, pinned.get(), registered.memory)) {
    std::atomic<bool> was_refused{false};
    host_function([&] { was_refused = refused(wait.call); }, stream);
    stream.synchronize();
    EXPECT_TRUE(was_refused) << wait.name;
  }
  EXPECT_EQ(data.read()[0], 0u) << "nothing was freed, reset or written";
}

TEST(Waits, AreRefusedInHostImplementationsOfKernels) {
  if (!is_simulated()) GTEST_SKIP() << "kernels of real devices do not run on the host";
  static const Stream stream;
  static const Stream other;
  static Event event;
  event.record(stream);
  static const Words<std::uint32_t> data(1);
  static const Tensor tensor = ones({}, Device(Device::Type::cuda, 0));
  static const Pinned<std::uint32_t> pinned(1);
  static const Registered registered;
  static std::vector<Wait> all;
  all = waits(stream, other, event, data, tensor, pinned.get(), registered.memory);
  static std::atomic<int> count{0};
  for (std::size_t i = 0; i < all.size(); ++i)
    launch(stream, "waits", [i](const HostLaunch&) { count += refused(all[i].call); });
  stream.synchronize();
  EXPECT_EQ(count, static_cast<int>(all.size()));
}

TEST(Waits, ForOtherThreadsGoOnBesideARefusedOne) {
  const Stream stream;
  std::atomic<bool> was_refused{false};
  Gate gate(stream);
  host_function([&] { was_refused = refused([&] { stream.synchronize(); }); }, stream);
  std::thread waiter([&] { stream.synchronize(); });
  gate.open();
  waiter.join();
  EXPECT_TRUE(was_refused);
}

std::uint32_t* nowhere() { return reinterpret_cast<std::uint32_t*>(std::uintptr_t{64}); }

template <class Call>
void expect_fault(const Call& call, const char* what) {
  try {
    call();
    ADD_FAILURE() << what << ": expected a fault";
  } catch (const AcceleratorError& error) {
    EXPECT_TRUE(is_sticky(error.code())) << what << ": " << error.what();
  }
}

TEST(LostWork, AWaitOfAnotherDeviceForItFaults) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream source(0);
    const Stream waiting(1);
    Gate gate(source);
    launch(source, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    Event event;
    event.record(source);
    event.wait(waiting);
    launch(waiting, test::nop_kernel, test::NopArgs{});
    gate.open();
    expect_fault([&] { waiting.synchronize(); }, "the stream that waited");
    expect_fault([&] { synchronize(1); }, "its device");
  });
}

TEST(LostWork, AWaitForWhatWasDoneBeforeTheFaultDoesNot) {
  if (!is_simulated()) GTEST_SKIP() << "a fault ends every real device of the process";
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream source(0);
    const Stream waiting(1);
    Gate gate(waiting);
    Event before;
    {
      const Gate still_running(source);
      before.record(source);
      before.wait(waiting);  // enqueued, since the work is not done
    }
    source.synchronize();
    launch(source, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { synchronize(0); }, "the device");
    gate.open();
    waiting.synchronize();
  });
}

TEST(LostWork, ACopyFromADeviceInAFaultFaults) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Words<std::uint32_t> here(4, 0);
    const Words<std::uint32_t> there(4, 1);
    const Stream source(0);
    const Stream copies(1);
    Gate gate(copies);
    copy_async(there.get(), here.get(), 16, copies);
    launch(source, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { source.synchronize(); }, "the source");
    gate.open();
    expect_fault([&] { copies.synchronize(); }, "the copy");
  });
}

TEST(LostWork, AWaitForWorkThatAResetDroppedFaults) {
  if (!is_simulated()) GTEST_SKIP() << "what CUDA does with such a wait is its own";
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream source(0);
    const Stream waiting(1);
    auto gate = std::make_unique<Gate>(source);
    gate->await_running();
    launch(source, test::nop_kernel, test::NopArgs{});
    Event event;
    event.record(source);
    event.wait(waiting);
    std::thread reset([] { reset_device(0); });
    while (active_driver().device_epoch(0) == 0) std::this_thread::yield();
    gate->open();
    reset.join();
    EXPECT_ERROR(waiting.synchronize(), AcceleratorError, "dropped at a reset");
    reset_device(1);
    launch(Stream(1), test::nop_kernel, test::NopArgs{});
    synchronize(1);
  });
}

TEST(LostWork, AResetDoesNotWaitForAnotherDevice) {
  if (!is_simulated()) GTEST_SKIP() << "what CUDA does with such a wait is its own";
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream source(0);
    const Stream waiting(1);
    Gate gate(source);
    Event event;
    event.record(source);
    event.wait(waiting);
    reset_device(1);
    gate.open();
    source.synchronize();
    launch(Stream(1), test::nop_kernel, test::NopArgs{});
    synchronize(1);
  });
}

}  // namespace
}  // namespace ember::cuda
