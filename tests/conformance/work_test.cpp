// Chapter 15 as far as it needs no tensors: launches, copies, fills, host functions, and their
// order.
#include "ember/runtime/work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include "ember/runtime/event.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using test::AffineArgs;
using test::Gate;
using test::Pinned;
using test::Words;

TEST(Launch, RunsTheKernelWithItsArguments) {
  Words<std::uint32_t> data(1000);
  const Stream stream;
  launch(stream, test::affine_kernel, AffineArgs{data.get(), 1000, 1, 5});
  launch(stream, test::affine_kernel, AffineArgs{data.get(), 999, 3, 1});
  const std::vector<std::uint32_t> values = data.read();
  EXPECT_EQ(values[0], 16u);
  EXPECT_EQ(values[998], 16u);
  EXPECT_EQ(values[999], 5u);
}

TEST(Launch, ReturnsBeforeTheWorkIsDone) {
  Words<std::uint32_t> data(1);
  const Stream stream;
  Gate gate(stream);
  launch(stream, test::affine_kernel, AffineArgs{data.get(), 1, 1, 1});
  EXPECT_FALSE(stream.query());
  gate.open();
  EXPECT_EQ(data.read()[0], 1u);
}

/// What is queued takes memory, and time when somebody waits for it.
TEST(Launch, WaitsWhereTheHostIsFarAhead) {
  if (!is_simulated() || ember::sim::seeded())
    GTEST_SKIP() << "a real device has a limit of its own, and a seed runs tasks when it likes";
  const Stream stream;
  constexpr std::int64_t kCount = 150000;
  std::atomic<std::int64_t> done{0};
  std::int64_t ahead = 0;
  for (std::int64_t i = 1; i <= kCount; ++i) {
    const auto work = [&done] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(3);
      while (std::chrono::steady_clock::now() < until) continue;
      ++done;
    };
    host_function(work, stream, no_accesses());
    ahead = std::max(ahead, i - done);
  }
  stream.synchronize();
  EXPECT_EQ(done, kCount);
  EXPECT_LE(ahead, 65536 + 1024 + 1);
}

TEST(Launch, CopiesItsArguments) {
  Words<std::uint32_t> data(1);
  const Stream stream;
  {
    Gate gate(stream);
    AffineArgs args{data.get(), 1, 1, 7};
    launch(stream, test::affine_kernel, args);
    args.summand = 1000;
    args.data = nullptr;
  }
  EXPECT_EQ(data.read()[0], 7u);
}

TEST(Launch, OfOneStreamIsInOrder) {
  constexpr std::uint32_t kCount = 500;
  Words<std::uint32_t> log(kCount + 1);
  const Stream stream;
  for (std::uint32_t i = 0; i < kCount; ++i)
    launch(stream, test::log_kernel, test::LogArgs{log.get(), i, kCount});
  const std::vector<std::uint32_t> entries = log.read();
  ASSERT_EQ(entries[0], kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(entries[i + 1], i);
}

TEST(Launch, OfTwoStreamsIsConcurrent) {
  // Each waits for the other: both have to run at the same time.
  const Stream first;
  const Stream second;
  Gate one(first);
  Gate two(second);
  one.await_running();
  two.await_running();
  one.open();
  first.synchronize();
  EXPECT_FALSE(second.query());
  two.open();
  second.synchronize();
}

TEST(Launch, OfManyStreamsIsConcurrent) {
  std::vector<Stream> streams;
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < 16; ++i) {
    streams.emplace_back(0);
    gates.push_back(std::make_unique<Gate>(streams.back()));
  }
  for (const auto& gate : gates) gate->await_running();
}

TEST(Launch, FromManyThreadsToOneStreamLosesNothing) {
  Words<std::uint32_t> data(1);
  const Stream stream;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i)
        launch(stream, test::affine_kernel, AffineArgs{data.get(), 1, 1, 1});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(data.read()[0], 1000u);
}

TEST(Launch, WithoutAnImplementationNamesTheKernel) {
  static constexpr Kernel kNowhere{"nowhere", nullptr, nullptr};
  EXPECT_ERROR(launch(Stream(), kNowhere, Params(test::NopArgs{})), AcceleratorError,
               "kernel 'nowhere' has no ");
  EXPECT_ERROR(launch(Stream(), kNowhere, Params(test::NopArgs{})), AcceleratorError,
               "CUDA error: operation not supported");
}

TEST(Launch, NeedsAName) {
  EXPECT_ERROR(launch(Stream(), Kernel{}, Params(test::NopArgs{})), ValueError,
               "the kernel has no name");
}

TEST(Launch, OfALambdaRunsOnItsKindOfDevice) {
  const Stream stream;
  Words<std::uint32_t> data(1);
  std::uint32_t* word = data.get();
  launch(
      stream, "lambda", {writes(word, 1)},
      [=](const HostLaunch& on) {
        std::uint32_t* value = on.at(word, 1);
        if (value == nullptr) return on.fault();
        *value = 11;
        return Status();
      },
      [=](const CudaLaunch& on) {
        return test::affine_kernel.cuda == nullptr
                   ? Status(Code::not_supported)
                   : test::affine_kernel.cuda.run(Params(AffineArgs{word, 1, 0, 11}), on);
      });
  EXPECT_EQ(data.read()[0], 11u);
}

TEST(Copy, GoesInAllDirections) {
  constexpr std::size_t kCount = 70'001;
  Words<std::uint32_t> first(kCount);
  Words<std::uint32_t> second(kCount);
  Pinned<std::uint32_t> pinned(kCount);
  std::vector<std::uint32_t> ordinary(kCount);
  std::iota(ordinary.begin(), ordinary.end(), 3u);
  const Stream stream;
  copy_async(first.get(), ordinary.data(), kCount * 4, stream);
  copy_async(second.get(), first.get(), kCount * 4, stream);
  copy_async(pinned.get(), second.get(), kCount * 4, stream);
  stream.synchronize();
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(pinned[i], i + 3);
  pinned[7] = 1;
  copy_async(second.get(), pinned.get(), kCount * 4, stream);
  std::vector<std::uint32_t> back(kCount);
  copy(back.data(), second.get(), kCount * 4, stream);
  EXPECT_EQ(back[7], 1u);
  EXPECT_EQ(back[kCount - 1], kCount + 2);
  copy(ordinary.data(), back.data(), kCount * 4, stream);
  EXPECT_EQ(ordinary[7], 1u) << "host to host works as well";
}

TEST(Copy, OfOrdinaryMemoryMayBeReusedAtOnce) {
  Words<std::uint32_t> data(1);
  const Stream stream;
  std::uint32_t value = 5;
  copy_async(data.get(), &value, 4, stream);
  value = 6;
  EXPECT_EQ(data.read()[0], 5u);
}

// Real devices take large copies of ordinary memory in pieces, by several threads.
TEST(Copy, OfMuchOrdinaryMemoryIsCompleteAndInOrder) {
  for (const std::size_t bytes :
       {std::size_t{4} << 20, (std::size_t{17} << 20) + 12, (std::size_t{130} << 20) + 12}) {
    const std::size_t count = bytes / 4;
    Words<std::uint32_t> data(count);
    std::vector<std::uint32_t> out(count);
    std::iota(out.begin(), out.end(), 1u);
    const Stream stream;
    copy_async(data.get(), out.data(), bytes, stream);
    std::fill(out.begin(), out.end(), 0u);  // the source was read before the call returned
    fill_async(data.get() + count / 2, 0xff, 4, stream);
    std::vector<std::uint32_t> back(count);
    copy_async(back.data(), data.get(), bytes, stream);
    stream.synchronize();
    std::iota(out.begin(), out.end(), 1u);
    out[count / 2] = ~0u;
    const auto differs = std::mismatch(out.begin(), out.end(), back.begin()).first;
    EXPECT_EQ(differs - out.begin(), static_cast<std::ptrdiff_t>(count)) << "words are right";
  }
}

TEST(Copy, OfMuchOrdinaryMemoryBySeveralThreads) {
  constexpr std::size_t kBytes = std::size_t{9} << 20;
  constexpr std::size_t kCount = kBytes / 4;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      const Stream stream;
      Words<std::uint32_t> data(kCount);
      std::vector<std::uint32_t> out(kCount, t + 1);
      std::vector<std::uint32_t> back(kCount);
      for (int round = 0; round < 4; ++round) {
        copy_async(data.get(), out.data(), kBytes, stream);
        copy(back.data(), data.get(), kBytes, stream);
        wrong += back != out;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Copy, OfPinnedMemoryDoesNotBlock) {
  Words<std::uint32_t> data(4);
  Pinned<std::uint32_t> in(4);
  Pinned<std::uint32_t> out(4);
  const Stream stream;
  Gate gate(stream);
  in[3] = 17;
  copy_async(data.get(), in.get(), 16, stream);
  copy_async(out.get(), data.get(), 16, stream);
  EXPECT_FALSE(stream.query()) << "both calls returned while the stream was held";
  EXPECT_EQ(out[3], 0u);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(out[3], 17u);
}

TEST(Copy, OfRegisteredMemoryDoesNotBlock) {
  Words<std::uint32_t> data(1024);
  std::vector<std::uint32_t> mine(4096);
  mine[1] = 23;
  check(test::machine().host_register(mine.data(), mine.size() * 4));
  {
    const Stream stream;
    const Gate gate(stream);
    copy_async(data.get(), mine.data(), 4096, stream);
    EXPECT_FALSE(stream.query());
  }
  EXPECT_EQ(data.read()[1], 23u);
  check(test::machine().host_unregister(mine.data()));
}

TEST(Copy, OfNothingDoesNothing) {
  copy_async(nullptr, nullptr, 0);
  Words<std::uint32_t> data(1);
  fill_async(data.get(), 1, 0);
  EXPECT_EQ(data.read()[0], 0u);
}

TEST(Copy, RefusesNullAndWrongAddresses) {
  Words<std::uint32_t> data(128);
  std::uint32_t host[4] = {};
  EXPECT_ERROR(copy_async(nullptr, data.get(), 16), AcceleratorError,
               "CUDA error: invalid argument");
  EXPECT_ERROR(copy_async(data.get(), nullptr, 16), AcceleratorError,
               "CUDA error: invalid argument");
  EXPECT_ERROR(fill_async(nullptr, 0, 16), AcceleratorError, "CUDA error: invalid argument");
  EXPECT_ERROR(fill_async(host, 0, 16), AcceleratorError, "CUDA error: invalid argument");
  copy(host, data.get(), 16);
  EXPECT_EQ(data.read()[0], 0u) << "work goes on";
}

TEST(Fill, WritesEveryWidth) {
  Words<std::uint32_t> data(8);
  const Stream stream;
  driver::Driver& machine = test::machine();
  check(machine.fill(stream.handle(), data.get(), 0x11223344, 4, 2));
  check(machine.fill(stream.handle(), data.get() + 2, 0x11223344, 2, 4));
  check(machine.fill(stream.handle(), data.get() + 4, 0x11223344, 1, 8));
  stream.synchronize();
  const std::vector<std::uint32_t> values = data.read();
  EXPECT_EQ(values, (std::vector<std::uint32_t>{0x11223344, 0x11223344, 0x33443344, 0x33443344,
                                                0x44444444, 0x44444444, 0, 0}));
  EXPECT_EQ(
      machine.fill(stream.handle(), reinterpret_cast<std::byte*>(data.get()) + 2, 0, 4, 1).code(),
      Code::invalid_value);
  for (const unsigned width : {0u, 3u, 8u}) {
    const Status status = machine.fill(stream.handle(), data.get(), 0, width, 1);
    EXPECT_EQ(status.code(), Code::invalid_value);
    EXPECT_NE(status.detail().find("width is " + std::to_string(width)), std::string::npos);
  }
}

TEST(HostFunction, IsCalledInOrderAndOnce) {
  const Stream stream;
  Words<std::uint32_t> data(1);
  Pinned<std::uint32_t> seen(1);
  std::atomic<std::uint32_t> value_at_call{0};
  std::atomic<int> calls{0};
  Gate gate(stream);
  launch(stream, test::affine_kernel, AffineArgs{data.get(), 1, 1, 9});
  copy_async(seen.get(), data.get(), 4, stream);
  host_function(
      [&] {
        value_at_call = seen[0];
        ++calls;
      },
      stream, {reads(seen.get(), 1)});
  EXPECT_EQ(calls, 0);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(value_at_call, 9u);
}

TEST(HostFunction, GivesBackWhatItCaptured) {
  const auto token = std::make_shared<int>(1);
  const Stream stream;
  host_function([token] {}, stream, no_accesses());
  stream.synchronize();
  // The call returned; what it captured is destroyed on the same thread right after it.
  while (token.use_count() > 1) std::this_thread::yield();
  EXPECT_ERROR(host_function(nullptr, stream), ValueError, "empty function");
}

TEST(HostFunction, MustNotWaitForItself) {
  const Stream stream;
  std::atomic<int> refused{0};
  const auto refuses = [&](auto wait) {
    try {
      wait();
    } catch (const AcceleratorError& error) {
      refused += error.code() == Code::not_permitted &&
                 std::string(error.what()).find("would wait for itself") != std::string::npos;
    }
  };
  host_function(
      [&] {
        refuses([&] { stream.synchronize(); });
        refuses([&] { synchronize(stream.device_index()); });
      },
      stream, no_accesses());
  stream.synchronize();
  EXPECT_EQ(refused, 2);
}

TEST(HostFunction, HoldsBackLaterWork) {
  NEEDS_CONCURRENCY();
  const Stream stream;
  std::atomic<bool> go{false};
  std::atomic<bool> waited{false};
  host_function(
      [&] {
        while (!go) std::this_thread::yield();
        waited = true;
      },
      stream, no_accesses());
  Event after;
  after.record(stream);
  EXPECT_FALSE(after.query());
  go = true;
  after.synchronize();
  EXPECT_TRUE(waited);
}

TEST(Sleep, TakesTime) {
  Event start(true);
  Event end(true);
  const Stream stream;
  start.record(stream);
  sleep_cycles(4'000'000, stream);
  end.record(stream);
  end.synchronize();
  EXPECT_GT(start.elapsed_time(end), 1.0);
}

}  // namespace
}  // namespace ember::cuda
