// Batches: operations that are handed over several at once are the same operations, and start no
// later than somebody could notice.
#include "ember/runtime/batch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common.h"
#include "tests/support/gate.h"

namespace ember::test {
namespace {

using cuda::Batch;
using cuda::Event;
using cuda::Stream;
using cuda::StreamGuard;

/// For tests of when work starts, which a real device tells nobody.
#define NEEDS_KEPT_LAUNCHES()                                             \
  do {                                                                    \
    if (!machine().simulated() || sim::seeded())                          \
      GTEST_SKIP() << "needs simulated devices on which no seed decides"; \
  } while (false)

std::vector<float> values(const Tensor& tensor) {
  const Tensor host = tensor.cpu().contiguous();
  const float* const first = host.data<float>();
  return {first, first + host.numel()};
}

// ---- When work starts

/// Says that it runs.
Status raise(const driver::Params& params, const driver::HostLaunch&) {
  params.as<std::atomic<bool>*>()->store(true);
  return {};
}

class BatchStart : public testing::Test {
 protected:
  /// A kernel that nobody awaited may still write to `raised_`.
  void TearDown() override { cuda::synchronize(0); }

  void launch(const Stream& stream) {
    raised_ = false;
    check(machine().launch(stream.handle(), driver::Kernel{"raise", &raise},
                           driver::Params(&raised_)));
  }
  /// Blocks until the kernel has run; gives up after a while, if it was not handed over.
  void await() const {
    const auto begin = std::chrono::steady_clock::now();
    while (!raised_.load()) {
      std::this_thread::yield();
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    }
  }

  std::atomic<bool> raised_{false};
};

class BatchOrder : public BatchStart {
 protected:
  void log(const Stream& stream, std::uint32_t tag) const {
    check(machine().launch(stream.handle(), log_kernel, driver::Params(LogArgs{log_.get(), tag})));
  }
  const Words<std::uint32_t> log_{64};
};

// Work of another stream that begins and ends in between is what proves that it was not there yet.
TEST_F(BatchOrder, NothingStartsBeforeItIsHandedOver) {
  NEEDS_KEPT_LAUNCHES();
  const Stream stream(0), other(0);
  {
    const Batch batch;
    for (std::uint32_t tag = 1; tag < 8; ++tag) log(stream, tag);
    std::thread([&] {
      log(other, 100);
      other.synchronize();
    }).join();
  }
  EXPECT_EQ(log_.read()[0], 8U);
  EXPECT_EQ(log_.read()[1], 100U);
  for (std::uint32_t tag = 1; tag < 8; ++tag) EXPECT_EQ(log_.read()[tag + 1], tag);
}

TEST_F(BatchOrder, TheInnerOneOfTwoEndsNothing) {
  NEEDS_KEPT_LAUNCHES();
  const Stream stream(0), other(0);
  {
    const Batch batch;
    {
      const Batch inner;
      log(stream, 1);
    }
    std::thread([&] {
      log(other, 2);
      other.synchronize();
    }).join();
  }
  EXPECT_EQ(log_.read()[1], 2U);
  EXPECT_EQ(log_.read()[2], 1U);
}

TEST_F(BatchStart, AFullPieceIsHandedOver) {
  NEEDS_KEPT_LAUNCHES();
  const Stream stream(0);
  const Batch batch;
  for (int i = 0; i < 8; ++i) launch(stream);
  await();
  for (int i = 0; i < 16; ++i) launch(stream);
  await();
}

TEST_F(BatchOrder, WhatCouldTellHandsOverFirst) {
  NEEDS_KEPT_LAUNCHES();
  const Stream stream(0), other(0);
  Event event;
  const Tensor x = zeros({4}, kFloats);
  std::vector<float> host(4);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"query", [&] { (void)stream.query(); }},
      {"record", [&] { event.record(stream); }},
      {"wait",
       [&] {
         event.wait(stream);
         event.record(other);
         stream.wait_event(event);
         stream.record_event(event);
       }},
      {"wait_stream", [&] { other.wait_stream(stream); }},
      {"synchronize", [&] { stream.synchronize(); }},
      {"synchronize of the device", [&] { cuda::synchronize(0); }},
      {"copy", [&] { cuda::copy(host.data(), x.address(), 16, stream); }},
      {"fill", [&] { cuda::fill_async(x.address(), 0, 16, stream); }},
      {"host function", [&] { cuda::host_function([] {}, stream, cuda::no_accesses()); }},
      {"a kernel of the program's own",
       [&] { cuda::launch(stream, "own", {}, [](const cuda::HostLaunch&) { return Status(); }); }},
      {"the native handle", [&] { (void)stream.native(); }},
      {"the address of a tensor", [&] { (void)x.data_ptr(); }},
      {"that of its elements", [&] { (void)x.data<float>(); }},
      {"hand_over", [&] { Batch::hand_over(); }},
      {"empty_cache", [&] { cuda::empty_cache(); }},
      {"another thread's query", [&] { std::thread([&] { (void)stream.query(); }).join(); }},
      {"another thread's launch", [&] { std::thread([&] { log(stream, 1); }).join(); }},
      {"the begin of a capture", [&] {
         check(machine().capture_begin(stream.handle(), driver::CaptureMode::relaxed));
         driver::GraphHandle graph;
         check(machine().capture_end(stream.handle(), graph));
         check(machine().graph_destroy(graph));
       }}};
  const Batch batch;
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    launch(stream);
    call();
    await();
  }
}

TEST_F(BatchStart, AFaultNamesTheKernel) {
  NEEDS_KEPT_LAUNCHES();
  const Stream stream(0);
  const driver::Kernel kernel{"broken", [](const driver::Params&, const driver::HostLaunch&) {
                                return Status(Code::illegal_address, "on purpose");
                              }};
  {
    const Batch batch;
    check(machine().launch(stream.handle(), kernel, driver::Params()));
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, "broken");
  }
  cuda::reset_device(0);
}

// What is kept when the device is reset is dropped, as what waits in a queue is.
TEST_F(BatchStart, AResetDropsWhatIsKept) {
  NEEDS_KEPT_LAUNCHES();
  {
    const Stream stream(0);
    const Batch batch;
    launch(stream);
    cuda::reset_device(0);
    EXPECT_THROW(stream.synchronize(), AcceleratorError);
    const Stream after(0);
    launch(after);
    after.synchronize();
    EXPECT_TRUE(raised_);
  }
  EXPECT_EQ(values(ones({2}, kFloats) + 1), (std::vector<float>{2, 2}));
}

// ---- Results

/// A program of small operations over three streams, ordered by events as such programs are.
/// `between` is called before each operation: a batch may begin or end there.
std::vector<float> run_random(std::uint64_t seed, const std::function<void()>& between) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<Stream> streams{cuda::current_stream(), Stream(0), Stream(0)};
  std::vector<Tensor> x;
  // Each stream works on two tensors of its own, and takes others' only behind them.
  for (std::size_t i = 0; i < 6; ++i) {
    const StreamGuard on(streams[i / 2]);
    x.push_back(full({33}, static_cast<double>(i + 1), kFloats));
  }
  for (int step = 0; step < 120; ++step) {
    between();
    const std::size_t s = below(3);
    const StreamGuard on(streams[s]);
    Tensor& mine = x[2 * s + below(2)];
    switch (below(8)) {
      case 0: mine.add_(1); break;
      case 1: mine.mul_(0.5); break;
      case 2: mine = mine + x[2 * s]; break;
      case 3: mine = (mine * 2).relu(); break;
      case 4: mine.sub_(x[2 * s + 1]); break;
      case 5: {
        const std::size_t from = below(3);
        if (from == s) break;
        streams[s].wait_stream(streams[from]);
        mine = mine + x[2 * from];
        streams[from].wait_stream(streams[s]);
        break;
      }
      case 6: mine.clamp_(-1e3, 1e3); break;
      default: mine = cat({mine, mine}).slice(0, 0, 33).contiguous(); break;
    }
  }
  cuda::synchronize(0);
  std::vector<float> all;
  for (const Tensor& each : x) {
    const std::vector<float> some = values(each);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(Batches, RandomProgramsComputeTheSame) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<float> eager = run_random(seed, [] {});
    std::optional<Batch> batch;
    batch.emplace();
    EXPECT_EQ(run_random(seed, [] {}), eager) << "all in one batch";
    EXPECT_EQ(run_random(seed, [] {}), eager) << "again, by graphs";
    batch.reset();
    std::mt19937_64 random(seed + 1000);
    const auto now_and_then = [&] {
      if (random() % 10 != 0) return;
      if (batch)
        batch.reset();
      else
        batch.emplace();
    };
    EXPECT_EQ(run_random(seed, now_and_then), eager) << "in and out of batches";
    batch.reset();
  }
}

TEST(Batches, LongOnesAreInOrder) {
  const Tensor x = zeros({1024}, kFloats), expected = zeros({1024}, kFloats);
  const auto work = [](const Tensor& on) {
    for (int i = 0; i < 1000; ++i) {
      on.add_(1);
      if (i % 100 == 99) on.mul_(2);
    }
    on.div_(2048);
  };
  for (int turn = 0; turn < 3; ++turn) {
    work(expected);
    const Batch batch;
    work(x);
  }
  EXPECT_EQ(values(x), values(expected));
  EXPECT_NE(values(x)[0], 0);
}

TEST(Batches, AStepOfProductsAndElementwiseOperations) {
  const Tensor x = full({32, 256}, 0.5, kFloats), w = full({256, 256}, 0.004, kFloats);
  const auto step = [&] {
    Tensor out = x;
    for (int layer = 0; layer < 5; ++layer) out = (matmul(out, w) + 0.01).relu() * 1.01;
    return out;
  };
  const std::vector<float> eager = values(step());
  for (int turn = 0; turn < 4; ++turn) {
    const Batch batch;
    EXPECT_EQ(values(step()), eager) << turn;
  }
}

TEST(Batches, AnExceptionLeavesIt) {
  const Tensor x = zeros({4}, kFloats);
  try {
    const Batch batch;
    x.add_(1);
    throw std::runtime_error("of the program's");
  } catch (const std::runtime_error&) {
  }
  x.add_(1);
  EXPECT_EQ(values(x), std::vector<float>(4, 2));
}

TEST(Batches, RunningOutOfMemoryInsideLosesNothing) {
  const Tensor x = zeros({4}, kFloats);
  const Batch batch;
  x.add_(1);
  EXPECT_THROW((void)empty({std::int64_t{1} << 40}, kFloats), OutOfMemoryError);
  x.add_(1);
  EXPECT_EQ(values(x), std::vector<float>(4, 2));
}

TEST(Batches, OfTwoThreadsAreEachTheirOwn) {
  std::vector<Tensor> x{zeros({64}, kFloats), zeros({64}, kFloats)};
  cuda::synchronize(0);
  const auto work = [&](std::size_t which) {
    const Stream stream(0);
    const StreamGuard on(stream);
    for (int turn = 0; turn < 20; ++turn) {
      const Batch batch;
      for (int i = 0; i < 37; ++i) x[which].add_(1);
      if (turn % 3 == 0) stream.synchronize();
    }
    stream.synchronize();
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (const Tensor& each : x) EXPECT_EQ(values(each), std::vector<float>(64, 20 * 37));
}

TEST(Batches, OnOneStreamOfTwoThreadsKeepTheOrderBetweenThem) {
  const Tensor x = zeros({64}, kFloats);
  const Batch batch;
  for (int turn = 0; turn < 10; ++turn) {
    x.add_(1);
    std::thread([&] {
      const Batch own;
      x.mul_(2);
    }).join();
  }
  float expected = 0;
  for (int turn = 0; turn < 10; ++turn) expected = (expected + 1) * 2;
  EXPECT_EQ(values(x), std::vector<float>(64, expected));
}

TEST(Batches, ACaptureInsideIsACaptureAndABatchInsideACaptureIsNothing) {
  NEEDS_CACHING();
  const Tensor x = zeros({4}, kFloats);
  cuda::CUDAGraph graph;
  {
    const Batch batch;
    x.add_(1);
    auto scope = cuda::graph(graph);
    x.mul_(3);
    {
      const Batch inner;
      x.add_(1);
    }
    scope.end();
    EXPECT_EQ(values(x), std::vector<float>(4, 1));
    graph.replay();
    x.add_(0.5);
  }
  EXPECT_EQ(values(x), std::vector<float>(4, 4.5F));
  cuda::CUDAGraph whole;
  auto scope = cuda::graph(whole);
  {
    const Batch batch;
    for (int i = 0; i < 20; ++i) x.add_(1);
  }
  scope.end();
  EXPECT_EQ(values(x), std::vector<float>(4, 4.5F));
  whole.replay();
  EXPECT_EQ(values(x), std::vector<float>(4, 24.5F));
}

TEST(Batches, MemoryThatIsFreedInsideIsUsedAgainInOrder) {
  const Tensor sum = zeros({512}, kFloats);
  {
    const Batch batch;
    for (int i = 0; i < 200; ++i) sum.add_(full({512}, i, kFloats) * 2);
  }
  EXPECT_EQ(values(sum), std::vector<float>(512, 199 * 200));
}

TEST(Batches, MemoryOfOtherStreamsIsKeptUntilTheyAreDone) {
  const Stream other(0);
  const Tensor sum = zeros({512}, kFloats);
  const Batch batch;
  for (int i = 0; i < 50; ++i) {
    const Tensor x = full({512}, i, kFloats);
    other.wait_stream(cuda::current_stream());
    {
      const StreamGuard on(other);
      sum.add_(x);
    }
    x.record_stream(other);
    cuda::current_stream().wait_stream(other);
  }
  EXPECT_EQ(values(sum), std::vector<float>(512, 49 * 25));
}

}  // namespace
}  // namespace ember::test
