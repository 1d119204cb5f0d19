// How memory can be shared, and which setting would change it.
#include "ember/memory/sharing_caps.h"

#include <string>

#include "ember/base/bytes.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

class Sharing : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_CACHING();
    empty_cache();
    set_allocator_settings("expandable_segments:False");
  }
  void TearDown() override {
    set_allocator_settings("expandable_segments:False");
    empty_cache();
  }
  /// The way by which this machine's tensors are sent.
  static const SharingCap& sent_by(const SharingCaps& caps) {
    return test::machine().simulated() ? caps.fd : caps.legacy_ipc;
  }
  static void expect_change(const SharingCap& cap, const char* part) {
    EXPECT_FALSE(cap.possible);
    EXPECT_NE(cap.change.find(part), std::string::npos) << cap.change;
  }
  const Stream stream_{0};
};

TEST_F(Sharing, OfOrdinaryMemory) {
  const DeviceBuffer buffer = allocate(30 * kMiB, stream_);
  const SharingCaps caps = sharing_caps(buffer.as<std::byte>() + 12345);
  EXPECT_EQ(caps.device, 0);
  EXPECT_TRUE(sent_by(caps).possible);
  for (const SharingCap* cap : {&caps.legacy_ipc, &caps.fd, &caps.fabric, &caps.rdma, &caps.peers})
    EXPECT_EQ(cap->possible, cap->change.empty());
  if (!test::machine().simulated()) return;
  expect_change(caps.legacy_ipc, "shares memory by fd");
  expect_change(caps.fabric, "no setting: the device is not part of an NVLink fabric");
  expect_change(caps.rdma, "has no GPUDirect RDMA");
}

TEST_F(Sharing, OfSegmentsThatGrow) {
  set_allocator_settings("expandable_segments:True");
  const DeviceBuffer buffer = allocate(30 * kMiB, stream_);
  const SharingCaps caps = sharing_caps(buffer.data());
  EXPECT_TRUE(caps.fd.possible) << caps.fd.change;
  if (!test::machine().simulated()) expect_change(caps.legacy_ipc, "expandable_segments:False");
  // What it says, is so.
  set_allocator_settings("expandable_segments:False");
  const DeviceBuffer again = allocate(40 * kMiB, stream_);
  EXPECT_TRUE(sent_by(sharing_caps(again.data())).possible);
}

TEST_F(Sharing, WithPeers) {
  const DeviceBuffer buffer = allocate(30 * kMiB, stream_);
  const SharingCaps caps = sharing_caps(buffer.data());
  bool all = device_count() > 1;
  for (int other = 1; other < device_count(); ++other)
    all = all && can_device_access_peer(other, 0);
  EXPECT_EQ(caps.peers.possible, all);
  if (device_count() == 1)
    expect_change(caps.peers, "make another device visible");
  else if (!all)
    expect_change(caps.peers, "no peer access from cuda:");
}

TEST_F(Sharing, OfOtherPeoplesMemory) {
  void* const raw = device_malloc(4096, 0);
  const SharingCaps caps = sharing_caps(raw);
  EXPECT_TRUE(sent_by(caps).possible);
  if (!caps.fabric.possible && !test::machine().simulated() &&
      caps.fabric.change.find("no setting") == std::string::npos)
    expect_change(caps.fabric, "not ember's");
  device_free(raw);
  EXPECT_ERROR((void)sharing_caps(raw), ValueError, "expected device memory in use, got 0x");
}

TEST_F(Sharing, RefusesOtherPointers) {
  const PinnedBuffer pinned = allocate_pinned(100);
  int word = 0;
  EXPECT_ERROR((void)sharing_caps(nullptr), ValueError,
               "sharing_caps: pointer: expected device memory in use, got 0x0");
  EXPECT_ERROR((void)sharing_caps(&word), ValueError, "which is none");
  EXPECT_ERROR((void)sharing_caps(pinned.data()), ValueError, "page-locked memory of the host");
  set_allocator_settings("expandable_segments:True");
  MemPool pool;
  DeviceBuffer buffer;
  {
    const MemPoolGuard guard = use_mem_pool(pool);
    buffer = allocate(20 * kMiB, stream_);
  }
  pool.offload();
  EXPECT_ERROR((void)sharing_caps(buffer.data()), ValueError, "asleep: call its restore()");
  pool.restore();
  EXPECT_EQ(sharing_caps(buffer.data()).device, 0);
}

}  // namespace
}  // namespace ember::cuda
