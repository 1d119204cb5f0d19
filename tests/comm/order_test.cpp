// The order of communication among other work, shown by handshakes: streams are held until the test
// lets them go.
#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "tests/comm/support.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"
#include "tests/support/hooked_driver.h"

namespace ember::test {
namespace {

/// Small enough for kernels, and large enough for chunks on side streams.
constexpr std::int64_t kSizes[] = {1000, (std::int64_t{2} << 20) + 5};

class CommOrder : public OnDevices {
 protected:
  void SetUp() override {
    NEEDS_DEVICES(GetParam());
    NEEDS_CACHING();
    for (int i = 0; i < count(); ++i) streams_.emplace_back(i);
    warm_up();
  }
  /// Streams that are current in a test, one per device.
  const cuda::Stream& stream(int device) const {
    return streams_[static_cast<std::size_t>(device)];
  }
  std::span<const cuda::Stream> streams() const { return streams_; }

 private:
  /// Once without a gate: real devices may want to be idle when memory is mapped for peers, when
  /// peer access is enabled and when streams are made. Then what the tests need is there already.
  void warm_up() const {
    const cuda::MultiStreamGuard guard(streams());
    for (const std::int64_t size : kSizes) {
      std::vector<Tensor> kept;
      for (int i = 0; i < count(); ++i)
        for (int k = 0; k < 8; ++k) kept.push_back(full({size}, 1.0, cuda_device(i)));
      const auto copies = comm::broadcast(kept[0], first_devices(count()));
      static_cast<void>(comm::reduce_add(copies, 0));
      static_cast<void>(comm::gather(copies, 0, 0).cpu());
    }
    for (int i = 0; i < count(); ++i) cuda::synchronize(i);
  }

  std::vector<cuda::Stream> streams_;
};

TEST_P(CommOrder, BroadcastWaitsForItsSource) {
  const cuda::MultiStreamGuard guard(streams());
  for (const std::int64_t size : kSizes) {
    Tensor source = zeros({size}, cuda_device(0));
    Gate gate(stream(0));
    source.fill_(7);
    const auto copies = comm::broadcast(source, first_devices(count()));
    for (int i = 0; i < count(); ++i) EXPECT_FALSE(stream(i).query()) << i;
    gate.open();
    for (const Tensor& copy : copies) expect_equal(copy, full({size}, 7.0), "filled late");
  }
}

// What the source's stream writes after the broadcast is not in the copies.
TEST_P(CommOrder, TheSourceMayChangeAfterwards) {
  const cuda::MultiStreamGuard guard(streams());
  for (const std::int64_t size : kSizes) {
    Tensor source = full({size}, 7.0, cuda_device(0));
    std::vector<std::unique_ptr<Gate>> gates;
    for (int i = 1; i < count(); ++i) gates.push_back(std::make_unique<Gate>(stream(i)));
    const auto copies = comm::broadcast(source, first_devices(count()));
    source.fill_(8);
    for (auto& gate : gates) gate->open();
    for (int i = 1; i < count(); ++i)
      expect_equal(copies[static_cast<std::size_t>(i)], full({size}, 7.0), "changed afterwards");
  }
}

// Copies that are dropped while they are still to be made write into nobody else's memory.
TEST_P(CommOrder, CopiesMayGoAtOnce) {
  const cuda::MultiStreamGuard guard(streams());
  for (const std::int64_t size : kSizes) {
    const Tensor source = full({size}, 7.0, cuda_device(0));
    Gate gate(stream(0));
    static_cast<void>(comm::broadcast(source, first_devices(count())));
    // The memory of the copies, used by new tensors while the copies are still to be made.
    std::vector<Tensor> others;
    for (int i = 1; i < count(); ++i) others.push_back(full({size}, 9.0, cuda_device(i)));
    gate.open();
    for (const Tensor& other : others) expect_equal(other, full({size}, 9.0), "reused");
  }
}

TEST_P(CommOrder, SumsWaitForEveryInput) {
  const cuda::MultiStreamGuard guard(streams());
  for (const std::int64_t size : kSizes)
    for (int late = 0; late < count(); ++late) {
      std::vector<Tensor> inputs;
      for (int i = 0; i < count(); ++i) inputs.push_back(full({size}, 1.0, cuda_device(i)));
      Gate gate(stream(late));
      inputs[static_cast<std::size_t>(late)].fill_(5);
      const Tensor sum = comm::reduce_add(inputs, 0);
      for (Tensor& input : inputs) input.fill_(100);
      gate.open();
      // A single input is its own sum.
      expect_equal(sum, full({size}, count() == 1 ? 100.0 : 4.0 + count()), "late input");
    }
}

// The same for sums so large that they are made piece by piece.
TEST_P(CommOrder, SumsInPiecesWaitForEveryInput) {
  if (count() != 2) GTEST_SKIP() << "two devices show it, and more would need much memory";
  const cuda::MultiStreamGuard guard(streams());
  const std::int64_t size = (std::int64_t{25} << 20) + 3;
  const auto all = [&](double value, int device) {
    return full({size}, value, Options(float64, cuda_device(device)));
  };
  for (int late = 0; late < 2; ++late) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < 2; ++i) inputs.push_back(all(1, i));
    static_cast<void>(comm::reduce_add(inputs, 0));  // makes the streams that it needs
    // Its memory becomes the sum's, while this is still to be written.
    (void)all(3, 0);
    Gate gate(stream(late));
    inputs[static_cast<std::size_t>(late)].fill_(5);
    const Tensor sum = comm::reduce_add(inputs, 0);
    for (Tensor& input : inputs) input.fill_(100);
    EXPECT_FALSE(stream(0).query());
    EXPECT_FALSE(stream(1).query());
    gate.open();
    EXPECT_EQ(sum.max().item<double>(), 6.0);
    EXPECT_EQ(sum.min().item<double>(), 6.0);
  }
}

TEST_P(CommOrder, GatherWaitsForEveryInput) {
  const cuda::MultiStreamGuard guard(streams());
  for (int late = 0; late < count(); ++late) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < count(); ++i) inputs.push_back(full({50, 10}, 1.0, cuda_device(i)));
    Gate gate(stream(late));
    inputs[static_cast<std::size_t>(late)].fill_(5);
    const Tensor whole = comm::gather(inputs, 0, 0);
    EXPECT_FALSE(stream(0).query());
    for (Tensor& input : inputs) input.fill_(100);
    gate.open();
    for (int i = 0; i < count(); ++i)
      expect_equal(whole.narrow(0, 50 * i, 50), full({50, 10}, i == late ? 5.0 : 1.0), "late");
  }
}

TEST_P(CommOrder, ScatterUsesTheGivenStreams) {
  if (count() < 2) GTEST_SKIP() << "one device gets a view";
  const Tensor source = numbers({count() * 4, 100}, float32, cuda_device(0), 3);
  comm::Streams given;
  for (int i = 0; i < count(); ++i) given.emplace_back(stream(i));
  // The devices' own current streams are busy, which pieces on other streams need not wait for.
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 1; i < count(); ++i)
    gates.push_back(std::make_unique<Gate>(cuda::current_stream(i)));
  const auto pieces = comm::scatter(source, first_devices(count()), {}, 0, given);
  for (int i = 1; i < count(); ++i) {
    stream(i).synchronize();
    const cuda::StreamGuard guard(stream(i));
    expect_equal(pieces[static_cast<std::size_t>(i)], source.narrow(0, 4 * i, 4), "piece");
  }
  for (auto& gate : gates) gate->open();
  for (int i = 1; i < count(); ++i) cuda::synchronize(i);
}

// Work on streams that are not current is not waited for.
TEST_P(CommOrder, OtherStreamsDoNotMatter) {
  std::vector<cuda::Stream> busy;
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < count(); ++i) {
    busy.emplace_back(i);
    gates.push_back(std::make_unique<Gate>(busy.back()));
  }
  const cuda::MultiStreamGuard guard(streams());
  for (const std::int64_t size : kSizes) {
    const Tensor source = numbers({size}, float32, cuda_device(0), 1);
    const auto copies = comm::broadcast(source, first_devices(count()));
    const Tensor sum = comm::reduce_add(copies, 0);
    for (int i = 0; i < count(); ++i) stream(i).synchronize();
    expect_equal(sum, source.cpu() * static_cast<double>(count()), "sum");
  }
  for (auto& gate : gates) gate->open();
}

// Threads with streams of their own get their own results.
TEST_P(CommOrder, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::vector<cuda::Stream> own;
      for (int i = 0; i < count(); ++i) own.emplace_back(i);
      const cuda::MultiStreamGuard guard(own);
      for (int round = 0; round < 6; ++round) {
        const std::int64_t size = kSizes[static_cast<std::size_t>((round + t) % 2)];
        const Tensor source = full({size}, t + round, {float32, cuda_device(0)});
        const auto copies = comm::broadcast(source, first_devices(count()));
        const Tensor sum = comm::reduce_add(copies, count() - 1);
        const Tensor whole = comm::gather({copies.back(), sum}, 0, 0);
        expect_equal(whole.narrow(0, size, size),
                     full({size}, static_cast<double>((t + round) * count())), "a thread's sum");
      }
    });
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, CommOrder, ::testing::Range(1, 5));

// After a reset of every device the streams and events that were kept are made anew.
TEST(CommReset, WorksAgain) {
  NEEDS_DEVICES(3);
  if (!cuda::is_simulated()) GTEST_SKIP() << "other tests' tensors live on real devices";
  const auto round = [] {
    const Tensor source = numbers({std::int64_t{2} << 20}, float32, cuda_device(0), 1);
    const auto copies = comm::broadcast(source, first_devices(3));
    expect_equal(comm::reduce_add(copies, 1), source.cpu() * 3.0, "sum");
    expect_equal(comm::broadcast(source.narrow(0, 0, 10), first_devices(3))[2],
                 source.narrow(0, 0, 10), "small");
  };
  round();
  for (int i = 0; i < 3; ++i) cuda::reset_device(i);
  round();
}

// A reset right before the first side stream is made: the addresses are from before it, the stream
// from after it. What lies at the addresses by then is not sent.
TEST(CommReset, OldMemoryIsNotReadOnANewStream) {
  NEEDS_DEVICES(3);
  IN_CHILD({
    HookedDriver& driver = HookedDriver::install();
    const Tensor source = full({std::int64_t{8} << 20}, 1, Options(uint8, cuda_device(0)));
    Tensor young;
    driver.before_next(driver::Call::stream_create, [&] {
      cuda::reset_device(0);
      young = full({std::int64_t{8} << 20}, 2, Options(uint8, cuda_device(0)));
    });
    EXPECT_ERROR(comm::broadcast(source, first_devices(3)), AcceleratorError,
                 "context is destroyed");
    EXPECT_FALSE(driver.waits());
    for (int i = 0; i < 3; ++i) cuda::synchronize(i);
    EXPECT_EQ(comm::broadcast(young, first_devices(3))[2].sum().item<double>(), 2 << 23);
  });
}

// The same before the pair of devices is tried, whose pattern has memory of its own.
TEST(CommReset, ATrialWritesNoMemoryOfOthers) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    HookedDriver& driver = HookedDriver::install();
    const Tensor source = full({64}, 1, Options(uint8, cuda_device(0)));
    Tensor young;
    driver.before_next(driver::Call::stream_create, [&] {
      cuda::reset_device(0);
      young = full({std::int64_t{64} << 20}, 2, Options(uint8, cuda_device(0)));  // there, too
    });
    EXPECT_ERROR(comm::broadcast(source, first_devices(2)), AcceleratorError,
                 "context is destroyed");
    EXPECT_FALSE(driver.waits());
    for (int i = 0; i < 2; ++i) cuda::synchronize(i);
    EXPECT_EQ(young.sum().item<double>(), 2 << 26);
  });
}

TEST(CommReset, OldMemoryIsNotWrittenOnANewStream) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    HookedDriver& driver = HookedDriver::install();
    const Shape sizes{(std::int64_t{192} << 20) + 1};  // the least that a copy engine takes
    const Tensor root = zeros(sizes, Options(uint8, cuda_device(0)));
    const Tensor other = zeros(sizes, Options(uint8, cuda_device(1)));
    driver.before_next(driver::Call::stream_create, [] { cuda::reset_device(0); });
    EXPECT_ERROR(comm::reduce_add({root, other}, 0), AcceleratorError, "context is destroyed");
    EXPECT_FALSE(driver.waits());
    for (int i = 0; i < 2; ++i) cuda::synchronize(i);
  });
}

/// Whether a test may go on to its child. There the question would come before the driver is
/// installed.
bool are_peers(int device, int peer) {
  return in_child() || cuda::can_device_access_peer(device, peer);
}

/// Resets device 1 right before a call that touches memory of it, as well as a tensor of device 0,
/// and has others use the memory.
void expect_refused_after_a_late_reset(
    driver::Call call, const std::function<void(const Tensor& near, const Tensor& old)>& use) {
  HookedDriver& driver = HookedDriver::install();
  const Shape sizes{1000};
  const Options far(uint8, cuda_device(1));
  const Tensor near = full(sizes, 3, Options(uint8, cuda_device(0)));
  const Tensor old = full(sizes, 1, far);
  void* const address = old.data_ptr();
  Tensor young;
  (void)cuda::use_peer_access(0, 1);                 // what it copies to try the pair is not meant
  for (int i = 0; i < 2; ++i) cuda::synchronize(i);  // a wait for work that is dropped is a fault
  driver.before_next(call, [&] {
    cuda::reset_device(1);
    young = full(sizes, 2, far);
    cuda::synchronize(1);
  });
  EXPECT_ERROR(use(near, old), AcceleratorError, "cuda:1 was made before the device was reset");
  EXPECT_FALSE(driver.waits());
  EXPECT_TRUE(young.data_ptr() == address || !cuda::is_simulated()) << "or this shows nothing";
  for (int i = 0; i < 2; ++i) cuda::synchronize(i);
  expect_equal(young, full(sizes, 2, uint8), "young");
}

TEST(CommReset, OldMemoryOfAPeerIsNotCopied) {
  NEEDS_DEVICES(2);
  IN_CHILD({
    expect_refused_after_a_late_reset(
        driver::Call::copy, [](const Tensor& near, const Tensor& old) { old.copy_(near); });
  });
  IN_CHILD({
    expect_refused_after_a_late_reset(
        driver::Call::copy, [](const Tensor& near, const Tensor& old) { near.copy_(old); });
  });
  IN_CHILD({
    expect_refused_after_a_late_reset(driver::Call::copy,
                                      [](const Tensor& near, const Tensor& old) {
                                        (void)comm::gather({near, old}, 0, "cuda:0");
                                      });
  });
}

TEST(CommReset, OldMemoryOfAPeerIsNotAdded) {
  NEEDS_DEVICES(2);
  if (!are_peers(0, 1)) GTEST_SKIP() << "inputs are copied before they are added";
  IN_CHILD({
    expect_refused_after_a_late_reset(driver::Call::launch,
                                      [](const Tensor& near, const Tensor& old) {
                                        (void)comm::reduce_add({near, old}, 0);
                                      });
  });
}

/// Calls `use`, which enqueues work behind a gate on stream 0 of device 1 and fails before the
/// other streams that it concerns wait for that work. What the work touches of device 0 stays out
/// of use until it is done: `held`, whose last owner is `use`; `other` lies on device 1.
void expect_kept_after_a_failure(
    const std::function<void(HookedDriver&, Tensor held, const Tensor& other)>& use) {
  HookedDriver& driver = HookedDriver::install();
  const Shape sizes{1000};
  const Options here(uint8, cuda_device(0));
  const Tensor other = full(sizes, 3, Options(uint8, cuda_device(1)));
  Tensor held = full(sizes, 1, here);
  const void* const address = held.data_ptr();
  const cuda::Stream busy(1);
  busy.wait_stream(cuda::default_stream(1));
  {
    // Once without the gate, so that behind it nothing is made and nobody waited for.
    const cuda::StreamGuard guard(busy);
    use(driver, full(sizes, 1, here), other);
  }
  for (int i = 0; i < 2; ++i) cuda::synchronize(i);
  Gate gate(busy);
  {
    const cuda::StreamGuard guard(busy);
    use(driver, std::move(held), other);
  }
  EXPECT_FALSE(driver.waits());
  const Tensor young = full(sizes, 2, here);
  EXPECT_NE(young.data_ptr(), address);
  gate.open();
  for (int i = 0; i < 2; ++i) cuda::synchronize(i);
  EXPECT_EQ(empty(sizes, here).data_ptr(), address) << "lost for good";
}

/// The event that would order what follows behind a call cannot be recorded.
void fail_after_next(HookedDriver& driver, driver::Call call) {
  driver.before_next(call, [&driver] {
    driver.fail_next(driver::Call::event_record, Status(Code::launch_out_of_resources, "injected"));
  });
}

TEST(CommFailure, KeepsWhatACopyFromAPeerWrites) {
  NEEDS_DEVICES(2);
  NEEDS_CACHING();
  IN_CHILD({
    expect_kept_after_a_failure([](HookedDriver& driver, const Tensor& held, const Tensor& other) {
      fail_after_next(driver, driver::Call::copy);
      EXPECT_ERROR(held.copy_(other), AcceleratorError, "injected");
    });
  });
}

TEST(CommFailure, KeepsWhatAGatherWrites) {
  NEEDS_DEVICES(2);
  NEEDS_CACHING();
  if (!are_peers(1, 0)) GTEST_SKIP() << "bytes go through the host";
  IN_CHILD({
    expect_kept_after_a_failure([](HookedDriver& driver, const Tensor& held, const Tensor& other) {
      fail_after_next(driver, driver::Call::copy);
      EXPECT_ERROR(comm::gather({other}, 0, {}, held), AcceleratorError, "injected");
    });
  });
}

TEST(CommFailure, KeepsWhatABroadcastReads) {
  NEEDS_DEVICES(2);
  NEEDS_CACHING();
  if (!are_peers(1, 0)) GTEST_SKIP() << "bytes go through the host";
  IN_CHILD({
    expect_kept_after_a_failure([](HookedDriver& driver, const Tensor& held, const Tensor& other) {
      fail_after_next(driver, driver::Call::launch);
      EXPECT_ERROR(comm::broadcast(held, {}, {{other}}), AcceleratorError, "injected");
    });
  });
}

TEST(CommFailure, KeepsWhatASumReads) {
  NEEDS_DEVICES(2);
  NEEDS_CACHING();
  if (!are_peers(1, 0)) GTEST_SKIP() << "inputs are copied before they are added";
  IN_CHILD({
    expect_kept_after_a_failure([](HookedDriver& driver, const Tensor& held, const Tensor& other) {
      fail_after_next(driver, driver::Call::launch);
      EXPECT_ERROR(comm::reduce_add({held, other}, 1), AcceleratorError, "injected");
    });
  });
}

// The first hop of a chain is under way when the second one cannot be made.
TEST(CommFailure, KeepsWhatAChainUses) {
  NEEDS_DEVICES(3);
  for (int i = 0; i < 2; ++i)
    if (!are_peers(i, i + 1)) GTEST_SKIP() << "there is no chain";
  NEEDS_CACHING();
  IN_CHILD({
    HookedDriver& driver = HookedDriver::install();
    const Shape sizes{std::int64_t{8} << 20};
    const Options on_second(uint8, cuda_device(1));
    const Tensor source = full(sizes, 1, Options(uint8, cuda_device(0)));
    const Tensor last = full(sizes, 1, Options(uint8, cuda_device(2)));
    Tensor next = full(sizes, 1, on_second);
    const void* const address = next.data_ptr();
    const cuda::Stream busy(0);
    busy.wait_stream(cuda::default_stream(0));
    (void)comm::broadcast(source, {0, 1, 2});  // makes the streams that it needs
    for (int i = 0; i < 3; ++i) cuda::synchronize(i);
    Gate gate(busy);
    {
      const cuda::StreamGuard guard(busy);
      driver.before_next(driver::Call::copy, [&driver] {
        driver.fail_next(driver::Call::copy, Status(Code::launch_out_of_resources, "injected"));
      });
      EXPECT_ERROR(comm::broadcast(source, {}, {{std::move(next), last}}), AcceleratorError,
                   "injected");
      EXPECT_FALSE(driver.waits());
    }
    next = Tensor();
    EXPECT_NE(empty(sizes, on_second).data_ptr(), address);
    gate.open();
    for (int i = 0; i < 3; ++i) cuda::synchronize(i);
    EXPECT_EQ(empty(sizes, on_second).data_ptr(), address) << "lost for good";
  });
}

}  // namespace
}  // namespace ember::test
