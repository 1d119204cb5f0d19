// Peer access and copies between devices.
#include <chrono>
#include <future>

#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using test::MoveArgs;
using test::Pinned;
using test::Words;

TEST(Peers, AreAskedForById) {
  EXPECT_FALSE(can_device_access_peer(0, 0));
  EXPECT_ERROR(can_device_access_peer(device_count(), 0), AssertionError, "Invalid device id");
  EXPECT_ERROR(can_device_access_peer(-1, 0), AssertionError, "Invalid device id");
  EXPECT_ERROR(can_device_access_peer(0, device_count()), AssertionError, "Invalid peer device id");
  EXPECT_ERROR(can_device_access_peer(0, -1), AssertionError, "Invalid peer device id");
  EXPECT_ERROR(can_device_access_peer(0, "cuda"), ValueError,
               "Expected a torch.device with a specified index or an integer, but got:cuda");
}

TEST(Peers, AreSymmetricHere) {
  NEEDS_DEVICES(2);
  EXPECT_EQ(can_device_access_peer(0, 1), can_device_access_peer(1, 0));
}

driver::PeerMemory peer(int device) { return {device, test::machine().device_epoch(device)}; }

TEST(PeerCopy, WorksWithoutAccess) {
  NEEDS_DEVICES(2);
  constexpr std::size_t kCount = 5000;
  Words<std::uint32_t> here(kCount, 0);
  Words<std::uint32_t> there(kCount, 1);
  const Stream stream(0);
  launch(stream, test::affine_kernel, test::AffineArgs{here.get(), kCount, 1, 77});
  copy_async(there.get(), here.get(), kCount * 4, stream);
  stream.synchronize();
  EXPECT_EQ(there.read()[kCount - 1], 77u);
  launch(stream, test::affine_kernel, test::AffineArgs{here.get(), kCount, 1, 1});
  check(test::machine().copy(stream.handle(), there.get(), here.get(), kCount * 4, peer(1)));
  stream.synchronize();
  EXPECT_EQ(there.read()[0], 78u);
}

TEST(PeerCopy, IsInTheOrderOfItsStream) {
  NEEDS_DEVICES(2);
  Words<std::uint32_t> here(1, 0);
  Words<std::uint32_t> there(1, 1);
  const Stream stream(1);
  {
    const test::Gate gate(stream);
    copy_async(there.get(), here.get(), 4, stream);
    launch(stream, test::affine_kernel, test::AffineArgs{there.get(), 1, 1, 5});
    EXPECT_FALSE(stream.query());
  }
  EXPECT_EQ(there.read()[0], 5u);
}

/// Copies four bytes from one device to another on a stream, once by the addresses alone, and once
/// naming the other device.
void copy_both_ways(const Words<std::uint32_t>& target, int target_device,
                    const Words<std::uint32_t>& source, int source_device, const Stream& stream) {
  copy_async(target.get(), source.get(), 4, stream);
  const int other = stream.device_index() == target_device ? source_device : target_device;
  check(test::machine().copy(stream.handle(), target.get(), source.get(), 4, peer(other)));
}

TEST(PeerMemory, OfAnotherEpochIsRefused) {
  NEEDS_PEERS();
  enable_peer_access(0, 1);
  const Words<std::uint32_t> here(1, 0);
  const Words<std::uint32_t> there(1, 1);
  const Stream stream(0);
  const test::MoveArgs args{here.get(), there.get(), 1};
  const Params move(args);
  const driver::PeerMemory other_epoch{1, peer(1).epoch + 1};
  for (const driver::PeerMemory& wrong : {other_epoch, driver::PeerMemory{device_count(), 0}}) {
    const Code expected = wrong == other_epoch ? Code::context_is_destroyed : Code::invalid_device;
    for (const Status& status :
         {test::machine().copy(stream.handle(), here.get(), there.get(), 4, wrong),
          test::machine().copy(stream.handle(), there.get(), here.get(), 0, wrong),
          test::machine().launch(stream.handle(), test::move_kernel, move, wrong)})
      EXPECT_EQ(status.code(), expected) << status.text();
  }
  check(test::machine().launch(stream.handle(), test::move_kernel, move, peer(1)));
  check(test::machine().launch(stream.handle(), test::move_kernel, move, {1, driver::kAnyEpoch}));
  check(test::machine().copy(stream.handle(), here.get(), there.get(), 4, {1, driver::kAnyEpoch}));
  stream.synchronize();
  disable_peer_access(0, 1);
}

TEST(PeerCopy, OnADefaultStreamDoesNotWaitForTheOtherDevice) {
  NEEDS_DEVICES(2);
  Words<std::uint32_t> here(1, 0);
  Words<std::uint32_t> there(1, 1);
  // Once before, so that whatever the driver makes at the first copy is there.
  for (const int device : {0, 1}) {
    copy_both_ways(there, 1, here, 0, default_stream(device));
    default_stream(device).synchronize();
  }
  for (const int busy : {0, 1}) {
    const test::Gate gate(default_stream(busy));
    gate.await_running();
    const Stream other = default_stream(1 - busy);
    copy_both_ways(there, 1, here, 0, other);
    copy_both_ways(here, 0, there, 1, other);
    other.synchronize();
    EXPECT_FALSE(default_stream(busy).query());
  }
}

TEST(PeerCopy, DoesNotHoldUpTheOtherDevicesDefaultStream) {
  NEEDS_DEVICES(2);
  Words<std::uint32_t> here(1, 0);
  Words<std::uint32_t> there(1, 1);
  copy_both_ways(there, 1, here, 0, default_stream(0));
  cuda::synchronize(0);
  {
    const test::Gate gate(default_stream(0));
    copy_both_ways(there, 1, here, 0, default_stream(0));
    launch(default_stream(1), test::affine_kernel, test::AffineArgs{there.get(), 1, 1, 1});
    default_stream(1).synchronize();
    EXPECT_FALSE(default_stream(0).query());
  }
  cuda::synchronize(0);
}

/// Work on the default stream of one device that touches the memory of the other is done while the
/// other's default stream is held.
template <class Enqueue>
void expect_waits_for_its_own_stream_only(const Enqueue& enqueue) {
  Words<std::uint32_t> here(1, 0);
  Words<std::uint32_t> there(1, 1);
  for (const int busy : {0, 1}) {
    const Stream other = default_stream(1 - busy);
    std::uint32_t* const memory = (busy == 0 ? here : there).get();
    const auto done = [&] {
      enqueue(memory, other);
      other.synchronize();
    };
    done();
    test::Gate gate(default_stream(busy));
    gate.await_running();
    // In another thread, for what waits for the gate would wait for ever.
    auto enqueued = std::async(std::launch::async, done);
    EXPECT_EQ(enqueued.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_FALSE(default_stream(busy).query());
    gate.open();
    enqueued.get();
  }
}

TEST(PeerCopy, OfPinnedMemoryOnADefaultStreamDoesNotWaitForTheOtherDevice) {
  NEEDS_DEVICES(2);
  const Pinned<std::uint32_t> host(2);
  host[0] = 42;
  expect_waits_for_its_own_stream_only([&](std::uint32_t* memory, const Stream& stream) {
    copy_async(memory, &host[0], 4, stream);
    copy_async(&host[1], memory, 4, stream);
  });
  EXPECT_EQ(host[1], 42U);
}

TEST(PeerCopy, OfOrdinaryMemoryOnADefaultStreamDoesNotWaitForTheOtherDevice) {
  NEEDS_DEVICES(2);
  std::uint32_t host[] = {42, 0};
  expect_waits_for_its_own_stream_only([&](std::uint32_t* memory, const Stream& stream) {
    copy_async(memory, &host[0], 4, stream);
    copy_async(&host[1], memory, 4, stream);
  });
  EXPECT_EQ(host[1], 42U);
}

TEST(PeerFill, OnADefaultStreamDoesNotWaitForTheOtherDevice) {
  NEEDS_PEERS();
  enable_peer_access(0, 1);
  enable_peer_access(1, 0);
  const Pinned<std::uint32_t> host(1);
  expect_waits_for_its_own_stream_only([&](std::uint32_t* memory, const Stream& stream) {
    fill_async(memory, 7, 4, stream);
    copy_async(host.get(), memory, 4, stream);
  });
  EXPECT_EQ(host[0], 0x07070707U);
  disable_peer_access(0, 1);
  disable_peer_access(1, 0);
}

TEST(PeerCopy, IsInTheOrderOfADefaultStream) {
  NEEDS_DEVICES(2);
  constexpr std::size_t kCount = std::size_t{1} << 20;
  for (const int device : {0, 1}) {
    Words<std::uint32_t> near(kCount, device);
    Words<std::uint32_t> far(kCount, 1 - device);
    const Stream stream = default_stream(device);
    Event copied;
    {
      const test::Gate gate(stream);
      launch(stream, test::affine_kernel, test::AffineArgs{near.get(), kCount, 1, 3});
      copy_async(far.get(), near.get(), kCount * 4, stream);
      launch(stream, test::affine_kernel, test::AffineArgs{near.get(), kCount, 0, 5});
      copy_async(near.get(), far.get(), 4, stream);
      copied.record(stream);
      EXPECT_FALSE(stream.query());
      EXPECT_FALSE(copied.query());
    }
    copied.synchronize();
    const auto arrived = far.read();
    EXPECT_EQ(arrived.front(), 3u);
    EXPECT_EQ(arrived.back(), 3u);
    const auto left = near.read();
    EXPECT_EQ(left.front(), 3u);
    EXPECT_EQ(left.back(), 5u);
  }
}

TEST(PeerAccess, LetsKernelsReachTheOtherDevice) {
  NEEDS_PEERS();
  enable_peer_access(0, 1);
  enable_peer_access(0, 1);  // repeating it has no effect
  Words<std::uint32_t> here(100, 0);
  Words<std::uint32_t> there(100, 1);
  const Stream on_one(1);
  launch(on_one, test::affine_kernel, test::AffineArgs{there.get(), 100, 1, 3});
  const Stream stream(0);
  stream.wait_stream(on_one);
  launch(stream, test::move_kernel, MoveArgs{here.get(), there.get(), 100});
  stream.synchronize();
  EXPECT_EQ(here.read()[99], 3u);
  disable_peer_access(0, 1);
  EXPECT_ERROR(disable_peer_access(0, 1), AcceleratorError,
               "CUDA error: peer access has not been enabled");
}

TEST(PeerAccess, OfADeviceToItselfIsRefused) {
  EXPECT_ERROR(enable_peer_access(0, 0), AcceleratorError, "CUDA error:");
}

}  // namespace
}  // namespace ember::cuda
