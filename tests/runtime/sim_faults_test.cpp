// Faults that simulated devices are asked for.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/ember.h"
#include "ember/runtime/simulation.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

class SimFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_simulated()) GTEST_SKIP() << "real devices fail when they like";
  }
  ~SimFaults() override {
    if (is_simulated()) sim::faults("");
  }
};

struct Refused {
  const char* fault;
  const char* text;
  std::function<void()> call;
};

TEST_F(SimFaults, TheSecondCallFailsAndTheThirdWorks) {
  test::Words<std::uint32_t> data(16);
  test::Pinned<std::uint32_t> pinned(16);
  const Stream stream;
  const std::vector<Refused> calls = {
      {"alloc", "allocation number 2 fails on request",
       [&] { const test::Words<std::uint32_t> more(4); }},
      {"pinned", "allocation of pinned memory number 2 fails on request",
       [&] { const test::Pinned<std::uint32_t> more(4); }},
      {"event", "creation of an event number 2 fails on request",
       [&] {
         Event event;
         event.record(stream);
       }},
      {"launch", "launch number 2 fails on request",
       [&] {
         launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
       }},
      {"copy", "copy number 2 fails on request",
       [&] { copy_async(pinned.get(), data.get(), 64, stream); }},
      {"fill", "fill number 2 fails on request", [&] { fill_async(data.get(), 0, 64, stream); }},
      {"host", "host function number 2 fails on request", [&] { host_function([] {}, stream); }},
      {"stream", "creation of a stream number 2 fails on request",
       [&] {
         driver::StreamHandle made;
         check(active_driver().stream_create(0, 0, made));
         check(active_driver().stream_destroy(made));
       }},
  };
  for (const Refused& each : calls) {
    SCOPED_TRACE(each.fault);
    sim::faults(std::string(each.fault) + ":2");
    each.call();
    EXPECT_EQ(sim::faults_happened(), 0u);
    EXPECT_ERROR(each.call(), AcceleratorError, each.text);
    EXPECT_EQ(sim::faults_happened(), 1u);
    each.call();
    sim::faults(std::string(each.fault) + ":2+");
    each.call();
    EXPECT_ERROR(each.call(), AcceleratorError, each.text);
    EXPECT_ERROR(each.call(), AcceleratorError, " fails on request");
    EXPECT_EQ(sim::faults_happened(), 2u);
    sim::faults("");
    each.call();
  }
  stream.synchronize();
}

TEST_F(SimFaults, OnlyCopiesBetweenDevicesArePeerCopies) {
  NEEDS_DEVICES(2);
  test::Words<std::uint32_t> here(4, 0);
  test::Words<std::uint32_t> there(4, 1);
  const Stream stream(0);
  sim::faults("peer:1");
  EXPECT_EQ(here.read(), std::vector<std::uint32_t>(4));
  EXPECT_ERROR(copy_async(there.get(), here.get(), 16, stream), AcceleratorError,
               "copy between devices number 1 fails on request");
  copy_async(there.get(), here.get(), 16, stream);
  stream.synchronize();
}

TEST_F(SimFaults, AnAllocationThatFailsOnceIsTriedAgain) {
  NEEDS_CACHING();
  empty_cache();
  sim::faults("alloc:1");
  {
    const DeviceBuffer kept = allocate(std::size_t{32} << 20);
  }  // the allocator reclaims, and asks again
  EXPECT_EQ(sim::faults_happened(), 1u);
  empty_cache();
  sim::faults("alloc:1+");
  EXPECT_ERROR(allocate(std::size_t{32} << 20), OutOfMemoryError, "out of memory");
}

TEST_F(SimFaults, AKernelFaultsWhenItRuns) {
  IN_CHILD({
    test::Words<std::uint32_t> data(16);
    const Stream stream;
    record_launches(8);
    sim::faults("kernel:2");
    launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
    stream.synchronize();
    launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
    EXPECT_ERROR(stream.synchronize(), AcceleratorError,
                 "operation 'affine' on cuda:0 faulted: on request (kernel in EMBER_SIM_FAULTS); "
                 "it is number ");
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, "enqueued at:\n");
    reset_device();
    const Stream after;
    test::Words<std::uint32_t> again(16);
    launch(after, test::affine_kernel, test::AffineArgs{again.get(), 16, 1, 4});
    EXPECT_EQ(again.read()[0], 4u);
  });
}

TEST_F(SimFaults, ADeviceFallsOffTheBus) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream stream(1);
    const Stream elsewhere(0);
    test::Words<std::uint32_t> data(16, 1);
    sim::faults("lost:1@3");
    launch(elsewhere, test::nop_kernel, test::NopArgs{});  // counts for its own device
    for (int i = 0; i < 2; ++i)
      launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
    const auto another = [&] {
      launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
    };
    constexpr const char* kText = "cuda:1 fell off the bus, on request";
    EXPECT_ERROR(another(), AcceleratorError, kText);
    EXPECT_ERROR(another(), AcceleratorError, kText);
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, kText);
    EXPECT_ERROR(reset_device(1), AcceleratorError, kText);
    EXPECT_EQ(sim::faults_happened(), 1u);
    launch(elsewhere, test::nop_kernel, test::NopArgs{});
    elsewhere.synchronize();
    sim::faults("");
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, kText);
    reset_device(1);
    const test::Words<std::uint32_t> again(4, 1);
    EXPECT_EQ(again.read()[0], 0u);
  });
}

TEST_F(SimFaults, AKernelBeginsLateOrIsSeenLate) {
  NEEDS_CONCURRENCY();
  test::Words<std::uint32_t> data(1);
  const Stream stream;
  for (const char* fault : {"slow:1@30", "late:1@30"}) {
    sim::faults(fault);
    const auto began = std::chrono::steady_clock::now();
    launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 1, 1, 1});
    stream.synchronize();
    EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(30)) << fault;
    EXPECT_EQ(sim::faults_happened(), 1u);
  }
  EXPECT_EQ(data.read()[0], 2u);
}

TEST_F(SimFaults, BadTextsChangeNothing) {
  sim::faults("fill:1+");
  EXPECT_ERROR(sim::faults("fill"), ValueError, "EMBER_SIM_FAULTS='fill': 'fill': expected fill:");
  EXPECT_ERROR(sim::faults("lost:63@1"), ValueError,
               "'lost:63@1' names a device that does not exist");
  EXPECT_ERROR(fill_async(nullptr, 0, 1), AcceleratorError, "fill number 1 fails on request");
}

// ---- Peer access that lies

std::vector<std::string>& warned() {
  static std::vector<std::string> all;
  return all;
}
constexpr Embedding kCollects{
    .warn = [](Warning, const char* text) noexcept { warned().emplace_back(text); }};

Tensor on(int device) { return arange(5000, {Dtype::float32, Device(Device::Type::cuda, device)}); }
/// Copies between two devices both ways, and whether all bytes have arrived.
bool arrives(int device, int peer) {
  const Tensor there = on(device).cuda(peer);
  const Tensor back = there.cuda(device);
  const Tensor expected = on(device).cpu();
  return all(there.cpu() == expected).item().to<bool>() &&
         all(back.cpu() == expected).item().to<bool>();
}

TEST_F(SimFaults, APairThatLiesIsUsedThroughTheHost) {
  NEEDS_PEERS();
  IN_CHILD({
    embed(kCollects);
    sim::faults("liar:0-1");
    EXPECT_FALSE(use_peer_access(0, 1));
    EXPECT_GE(sim::faults_happened(), 1u);
    EXPECT_TRUE(arrives(0, 1));
    EXPECT_TRUE(arrives(1, 0));
    EXPECT_FALSE(use_peer_access(1, 0));
    ASSERT_EQ(warned().size(), 1u);
    EXPECT_EQ(warned()[0],
              "peer access between cuda:0 and cuda:1 delivers wrong bytes, so copies between them "
              "go through the host");
    // Access is taken back in both directions, so a kernel has none.
    EXPECT_ERROR(disable_peer_access(0, 1), AcceleratorError, "peer access");
    // It is found out anew after a reset, and told once.
    reset_device(1);
    EXPECT_TRUE(arrives(0, 1));
    EXPECT_EQ(warned().size(), 1u);
    EXPECT_TRUE(device_count() < 3 || use_peer_access(0, 2));
  });
}

// The lie is real: without the verdict the bytes are wrong.
TEST_F(SimFaults, ALieIsSeenWhereNobodyAsked) {
  NEEDS_PEERS();
  IN_CHILD({
    sim::faults("liar:0-1");
    const test::Words<std::uint32_t> here(4, 0);
    const test::Words<std::uint32_t> there(4, 1);
    copy(there.get(), here.get(), 16, default_stream(0));
    EXPECT_EQ(there.read()[0], 0u);  // through the host
    enable_peer_access(0, 1);
    copy(there.get(), here.get(), 16, default_stream(0));
    EXPECT_EQ(there.read()[0], 0x5a5a5a5au);
  });
}

TEST_F(SimFaults, ThePairIsTriedOnceWithoutWaitingForTheUsersWork) {
  NEEDS_PEERS();
  IN_CHILD({
    const Stream stream(0);
    const Stream other(1);
    const test::Gate gate(stream);  // what the user has in progress does not end
    const test::Gate there(other);
    sim::faults("peer:1000000");  // counts, and does nothing
    set_sync_debug_mode("error");
    const auto before = host_waits();
    EXPECT_TRUE(use_peer_access(0, 1));
    EXPECT_TRUE(use_peer_access(1, 0));
    const auto after = host_waits();
    for (std::size_t i = 0; i < kWaitKinds; ++i)
      EXPECT_EQ(after[i] - before[i], static_cast<WaitKind>(i) == WaitKind::library ? 2u : 0u);
  });
}

TEST_F(SimFaults, APairThatCannotBeTriedIsTriedLater) {
  NEEDS_PEERS();
  IN_CHILD({
    embed(kCollects);
    sim::faults("alloc:1+,liar:0-1");  // no memory
    EXPECT_TRUE(use_peer_access(0, 1));
    sim::faults("liar:0-1");
    EXPECT_FALSE(use_peer_access(0, 1));
    EXPECT_EQ(warned().size(), 1u);
  });
}

// ---- The sweep

/// A bit of everything, whose result is known.
double use_everything() {
  const bool two = device_count() > 1;
  const Options here{Dtype::float32, Device("cuda:0")};
  const Tensor x = arange(1024, here).reshape({32, 32});
  const Stream side(0);
  Tensor y;
  {
    side.wait_stream(current_stream(0));
    const StreamGuard guard(side);
    y = matmul(x, x.t());
    y.storage()->record_stream(current_stream(0));
  }
  current_stream(0).wait_stream(side);
  const Tensor pinned = y.to({Device("cpu")}, /*non_blocking=*/true);
  Event copied;
  copied.record(current_stream(0));
  const Tensor there = y.to({Device(two ? "cuda:1" : "cuda:0")});
  host_function([] {}, side);
  const Tensor chosen = there.index({nonzero(there.index({0}) >= 0.0).reshape({-1})});
  copied.synchronize();
  return sum(chosen).item().to<double>() + sum(pinned).item().to<double>();
}

struct InUse {
  std::vector<std::int64_t> bytes;
  friend bool operator==(const InUse&, const InUse&) = default;
};
InUse in_use() {
  InUse now;
  for (int device = 0; device < device_count(); ++device)
    now.bytes.push_back(static_cast<std::int64_t>(memory_allocated(device)));
  return now;
}

/// Makes devices in a fault usable again, and what is kept for later goes: the next run asks anew.
void restore() {
  sim::faults("");
  for (int device = 0; device < device_count(); ++device) {
    try {
      synchronize(device);
    } catch (const AcceleratorError&) {
      reset_device(device);
    }
  }
  empty_cache();
  pinned_empty_cache();
}

/// Each of the program's calls or tasks of a kind in turn: it ends with an error that says why, or
/// is right all the same; and works again afterwards, with as much memory in use as before.
void sweep(const std::string& kind, int device = -1) {
  const double expected = use_everything();
  restore();
  const InUse before = in_use();
  for (int k = 1;; ++k) {
    ASSERT_LT(k, 1000);
    const std::string text = device < 0
                                 ? kind + ":" + std::to_string(k)
                                 : kind + ":" + std::to_string(device) + "@" + std::to_string(k);
    SCOPED_TRACE(text);
    sim::faults(text);
    try {
      EXPECT_EQ(use_everything(), expected);
      for (int i = 0; i < device_count(); ++i) synchronize(i);
    } catch (const Error& error) {
      EXPECT_GT(sim::faults_happened(), 0u) << error.what();
      const std::string said = error.what();
      EXPECT_TRUE(said.find("on request") != std::string::npos ||
                  dynamic_cast<const OutOfMemoryError*>(&error) != nullptr)
          << said;
    }
    const bool happened = sim::faults_happened() > 0;
    restore();
    EXPECT_EQ(use_everything(), expected);
    restore();
    EXPECT_EQ(in_use(), before);
    if (!happened) {
      std::printf("%s: %d in turn\n", kind.c_str(), k - 1);
      EXPECT_GT(k, 1) << "the program has none of that kind";
      return;
    }
  }
}

TEST_F(SimFaults, EachCallOfAProgramInTurn) {
  NEEDS_DEVICES(2);
  for (const char* kind : {"alloc", "pinned", "event", "launch", "copy", "peer", "host"}) {
    SCOPED_TRACE(kind);
    IN_CHILD(sweep(kind));
  }
}

TEST_F(SimFaults, EachKernelOfAProgramInTurn) { IN_CHILD(sweep("kernel")); }

TEST_F(SimFaults, ADeviceIsLostAtEachOperationInTurn) {
  NEEDS_DEVICES(2);
  IN_CHILD(sweep("lost", 0));
  IN_CHILD(sweep("lost", 1));
}

}  // namespace
}  // namespace ember::cuda
