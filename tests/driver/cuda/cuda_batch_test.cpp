// Batches of the CUDA driver: when launches are handed over, and as what. The fake libcuda runs a
// kernel within the call that launches it, so what has run is what was handed over.
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "ember/driver/piece_size.h"
#include "fake_machine.h"

struct CUfunc_st;

namespace ember::driver {
namespace {

/// What ran, in order.
std::vector<std::int64_t> ran;
/// The streams on which it did.
std::vector<void*> ran_on;

void run(const void*, unsigned, unsigned, void* stream, const void* argument) {
  ran.push_back(*static_cast<const std::int64_t*>(argument));
  ran_on.push_back(stream);
}

using Launch = int(CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   CUstream_st*, void**, void**);
Launch* launch_kernel = nullptr;

/// As an implementation of the library's: its kernel is the function 0, or 1 for large numbers, of
/// which more than a million cannot be launched.
Status implementation(const Params& params, const CudaLaunch& on) {
  std::int64_t number = params.as<std::int64_t>();
  if (number > 1'000'000) return Status(Code::invalid_value, "the number is too large");
  void* arguments[] = {&number, nullptr};
  auto* const function = reinterpret_cast<CUfunc_st*>(std::uintptr_t{number >= 1000 ? 32U : 16U});
  const int result = launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, on.stream(), arguments, nullptr);
  return result == 0 ? Status() : Status(static_cast<Code>(result));
}

class BatchOnFakeCuda : public OnFakeCuda {
 protected:
  void SetUp() override {
    OnFakeCuda::SetUp();
    fake().run = &run;
    launch_kernel = foreign<Launch>("cuLaunchKernel");
    ran.clear();
    ran_on.clear();
  }
  void TearDown() override { (void)cuda().batch_end(); }

  static void launch(StreamHandle stream, std::int64_t number) {
    const Kernel kernel{"numbered", nullptr, &implementation};
    const Status status = cuda().launch(stream, kernel, Params(number));
    EXPECT_TRUE(status.ok()) << status.text();
  }
  static void launch_from_to(StreamHandle stream, std::int64_t first, std::int64_t last) {
    for (std::int64_t number = first; number < last; ++number) launch(stream, number);
  }
  static std::vector<std::int64_t> numbers(std::int64_t count) {
    std::vector<std::int64_t> made(static_cast<std::size_t>(count));
    std::iota(made.begin(), made.end(), 0);
    return made;
  }
};

TEST_F(BatchOnFakeCuda, PiecesGrow) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  std::vector<std::size_t> handed_over;
  for (std::int64_t number = 0; number < 1000; ++number) {
    launch(stream, number % 7);
    if (handed_over.empty() ? !ran.empty() : ran.size() != handed_over.back())
      handed_over.push_back(ran.size());
  }
  EXPECT_EQ(handed_over, (std::vector<std::size_t>{8, 24, 56, 120, 248, 504, 760}));
  ASSERT_TRUE(cuda().batch_end().ok());
  EXPECT_EQ(ran.size(), 1000U);
}

TEST_F(BatchOnFakeCuda, EveryOtherCallHandsOverFirst) {
  const StreamHandle stream = stream_on(0), other = stream_on(0);
  const EventHandle event = event_on(0);
  void* const memory = memory_on(0, 64);
  std::byte host[64]{};
  std::size_t expected = 0;
  const auto hands_over = [&](const char* what, const auto& call) {
    launch(stream, 1);
    EXPECT_EQ(ran.size(), expected) << what << ": nothing asked for it yet";
    EXPECT_TRUE(call().ok()) << what;
    EXPECT_EQ(ran.size(), ++expected) << what;
  };
  ASSERT_TRUE(cuda().batch_begin().ok());
  hands_over("stream_query", [&] { return cuda().stream_query(stream); });
  hands_over("stream_synchronize", [&] { return cuda().stream_synchronize(stream); });
  hands_over("device_synchronize", [&] { return cuda().device_synchronize(0); });
  hands_over("event_record", [&] { return cuda().event_record(event, stream); });
  hands_over("event_wait", [&] { return cuda().event_wait(other, event); });
  hands_over("event_query", [&] { return cuda().event_query(event); });
  hands_over("event_synchronize", [&] { return cuda().event_synchronize(event); });
  hands_over("copy", [&] { return cuda().copy(stream, memory, host, sizeof host); });
  hands_over("fill", [&] { return cuda().fill(stream, memory, 0, 1, 64); });
  hands_over("host_function", [&] {
    return cuda().host_function(
        stream, [](void*) {}, [](void*) {}, nullptr);
  });
  hands_over("malloc", [&] {
    void* more = nullptr;
    return cuda().malloc(0, 64, more);
  });
  hands_over("free", [&] { return cuda().free(0, memory); });
  hands_over("capture_begin", [&] { return cuda().capture_begin(other, CaptureMode::relaxed); });
  hands_over("capture_end", [&] {
    GraphHandle graph;
    return cuda().capture_end(other, graph);
  });
  hands_over("another thread's query", [&] {
    Status status;
    std::thread([&] { status = cuda().event_query(event); }).join();
    return status;
  });
  hands_over("the end of the batch", [&] { return cuda().batch_end(); });
  launch(stream, 2);
  EXPECT_EQ(ran.size(), ++expected) << "outside of a batch nothing is kept";
}

TEST_F(BatchOnFakeCuda, ALaunchOfAnotherThreadComesBehind) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  launch_from_to(stream, 0, 3);
  std::thread([&] { launch(stream, 3); }).join();
  EXPECT_EQ(ran, numbers(4));
}

TEST_F(BatchOnFakeCuda, WhatComesAgainIsOneLaunch) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  for (int turn = 0; turn < 5; ++turn) {
    launch_from_to(stream, 0, 8);
    EXPECT_EQ(ran.size(), 8U);
    EXPECT_EQ(ran, numbers(8));
    EXPECT_EQ(ran_on.back(), stream.native);
    ran.clear();
    EXPECT_TRUE(cuda().stream_query(stream).ok());
  }
  EXPECT_EQ(fake().graphs_made, 1) << "the second time";
  EXPECT_EQ(fake().graphs_launched, 4);
  EXPECT_EQ(fake().graphs_updated, 0);
}

TEST_F(BatchOnFakeCuda, OtherArgumentsUpdateTheGraph) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  for (int turn = 0; turn < 5; ++turn) {
    launch_from_to(stream, 10 * turn, 10 * turn + 8);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], 10 * turn + i);
    ran.clear();
    EXPECT_TRUE(cuda().stream_query(stream).ok());
  }
  EXPECT_EQ(fake().graphs_made, 1);
  EXPECT_EQ(fake().graphs_updated, 3);
  // Kernels that cannot be exchanged are another graph.
  launch_from_to(stream, 1000, 1008);
  EXPECT_EQ(ran.back(), 1007);
  EXPECT_EQ(fake().graphs_made, 2);
  EXPECT_EQ(fake().graphs_ready, 1);
}

TEST_F(BatchOnFakeCuda, TwoBuffersInTurnAreTwoGraphs) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  for (int turn = 0; turn < 10; ++turn) {
    launch_from_to(stream, turn % 2, turn % 2 + 8);
    EXPECT_EQ(ran.back(), turn % 2 + 7);
    EXPECT_TRUE(cuda().stream_query(stream).ok());
  }
  EXPECT_EQ(fake().graphs_made, 2);
  EXPECT_EQ(fake().graphs_updated, 0);
}

TEST_F(BatchOnFakeCuda, FewAndNewAreLaunchedOneByOne) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  for (int turn = 0; turn < 3; ++turn) {
    launch_from_to(stream, 0, 7);
    EXPECT_TRUE(cuda().stream_query(stream).ok());
  }
  EXPECT_EQ(ran.size(), 21U);
  EXPECT_EQ(fake().graphs_made, 0);
}

TEST_F(BatchOnFakeCuda, GraphsAreBounded) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  // Shapes of 8 kernels and as many of another size as the bits of a number.
  const auto shape = [&](int bits) {
    for (int i = 0; i < 8; ++i) {
      const Kernel kernel{"numbered", nullptr, &implementation};
      const std::int64_t pair[2] = {bits, 0};
      const std::size_t size = (bits >> i & 1) != 0 ? sizeof pair : sizeof pair[0];
      EXPECT_TRUE(cuda().launch(stream, kernel, Params(pair, size)).ok());
    }
    EXPECT_TRUE(cuda().stream_query(stream).ok());
  };
  for (int bits = 0; bits < 100; ++bits) shape(bits), shape(bits);
  EXPECT_EQ(fake().graphs_made, 100);
  EXPECT_EQ(fake().graphs_ready, 32);
  EXPECT_TRUE(cuda().stream_destroy(stream).ok());
  EXPECT_EQ(fake().graphs_ready, 0);
}

TEST_F(BatchOnFakeCuda, WithoutMemoryForGraphsItIsOneByOne) {
  const StreamHandle stream = stream_on(0);
  fake().no_more_graphs = true;
  ASSERT_TRUE(cuda().batch_begin().ok());
  for (int turn = 0; turn < 3; ++turn) {
    launch_from_to(stream, 0, 8);
    EXPECT_EQ(ran, numbers(8));
    ran.clear();
    EXPECT_TRUE(cuda().stream_query(stream).ok());
  }
}

TEST_F(BatchOnFakeCuda, StreamsOfOthersAreLeftAlone) {
  const StreamHandle own = stream_on(0);
  StreamHandle foreign_one = own;
  ASSERT_EQ(
      foreign<int(void**, unsigned, int)>("cuStreamCreateWithPriority")(&foreign_one.native, 1, 0),
      0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  launch(foreign_one, 0);
  EXPECT_EQ(ran.size(), 1U);
  launch({nullptr, 0, own.epoch}, 1);
  EXPECT_EQ(ran.size(), 1U) << "the default stream is covered";
}

TEST_F(BatchOnFakeCuda, WhatIsCapturedIsNotKept) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  ASSERT_TRUE(cuda().capture_begin(stream, CaptureMode::relaxed).ok());
  launch_from_to(stream, 0, 3);
  GraphHandle graph;
  ASSERT_TRUE(cuda().capture_end(stream, graph).ok());
  EXPECT_TRUE(ran.empty());
  GraphExecHandle exec;
  ASSERT_TRUE(cuda().graph_instantiate(graph, exec).ok());
  launch(stream, 100);
  ASSERT_TRUE(cuda().graph_launch(exec, stream).ok());
  EXPECT_EQ(ran, (std::vector<std::int64_t>{100, 0, 1, 2}));
}

TEST_F(BatchOnFakeCuda, AFailureIsSaidByTheNextCallByName) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  launch(stream, 1);
  launch(stream, 2'000'000);
  launch(stream, 2);
  expect(cuda().stream_query(stream), Code::invalid_value,
         "launching kernel 'numbered': the number is too large");
  EXPECT_EQ(ran, (std::vector<std::int64_t>{1, 2})) << "the others are launched";
  EXPECT_TRUE(cuda().stream_query(stream).ok()) << "once";
}

TEST_F(BatchOnFakeCuda, AFaultNamesWhatWasKept) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  launch_from_to(stream, 0, 3);
  fake().fault[0] = static_cast<int>(Code::illegal_address);
  const Status status = cuda().stream_synchronize(stream);
  EXPECT_EQ(status.code(), Code::illegal_address);
  EXPECT_NE(status.detail().find("'numbered'"), std::string::npos) << status.detail();
}

TEST_F(BatchOnFakeCuda, AResetDropsWhatIsKept) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  launch_from_to(stream, 0, 3);
  ASSERT_TRUE(cuda().device_reset(0).ok());
  EXPECT_TRUE(ran.empty());
  const Kernel kernel{"numbered", nullptr, &implementation};
  EXPECT_EQ(cuda().launch(stream, kernel, Params(std::int64_t{1})).code(),
            Code::context_is_destroyed);
  const StreamHandle after = stream_on(0);
  launch(after, 7);
  EXPECT_TRUE(cuda().stream_synchronize(after).ok());
  EXPECT_EQ(ran, std::vector<std::int64_t>{7});
}

/// Notes its end, and calls the driver in it, which would wait for itself under a lock of the
/// batch's.
struct Noted final : Context {
  Noted(Driver& called, bool& over) : driver(called), gone(over) {}
  ~Noted() override { gone = driver.device_synchronize(0).ok(); }
  Driver& driver;
  bool& gone;
};

TEST_F(BatchOnFakeCuda, ContextsLiveWhileTheyAreKept) {
  const StreamHandle stream = stream_on(0);
  ASSERT_TRUE(cuda().batch_begin().ok());
  bool gone = false;
  {
    const Kernel kernel{"numbered", nullptr, &implementation, make_ref<Noted>(cuda(), gone)};
    ASSERT_TRUE(cuda().launch(stream, kernel, Params(std::int64_t{1})).ok());
  }
  EXPECT_FALSE(gone);
  ASSERT_TRUE(cuda().stream_query(stream).ok());
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace ember::driver
