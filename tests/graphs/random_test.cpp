// Random numbers in captures: each replay draws what the operations would draw if they were called
// then. Chapter 7 of the documents.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::Stream;
using cuda::StreamGuard;

using test::kFloats;

const Device kDevice(Device::Type::cuda, 0);

std::vector<double> values(const Tensor& tensor) {
  cuda::synchronize();
  const Tensor host = tensor.to(float64).cpu().contiguous();
  const auto* first = static_cast<const double*>(host.data_ptr());
  return {first, first + host.numel()};
}

using Draw = std::function<Tensor(const Generator&)>;

/// Every operation that draws, with some whose numbers take several steps of a subsequence.
const std::vector<std::pair<const char*, Draw>>& draws() {
  static const Options whole(int64, kDevice);
  static const auto* const kDraws = new std::vector<std::pair<const char*, Draw>>{
      {"rand", [](const Generator& g) { return rand({100}, kFloats, g); }},
      {"rand of many", [](const Generator& g) { return rand({1100000}, kFloats, g); }},
      {"uniform_ of a view",
       [](const Generator& g) {
         Tensor x = zeros({6, 5}, Options(float64, kDevice));
         x.t().uniform_(-1, 1, g);
         return x;
       }},
      {"randn", [](const Generator& g) { return randn({33}, Options(float16, kDevice), g); }},
      {"normal", [](const Generator& g) { return normal(full({9}, 3, kFloats), 2, g); }},
      {"exponential_", [](const Generator& g) { return zeros({7}, kFloats).exponential_(2, g); }},
      {"bernoulli", [](const Generator& g) { return bernoulli(full({50}, 0.25, kFloats), g); }},
      {"bernoulli_", [](const Generator& g) { return zeros({50}, whole).bernoulli_(0.5, g); }},
      {"randint", [](const Generator& g) { return randint(5, 1000, {40}, whole, g); }},
      {"random_ of 64 bits", [](const Generator& g) { return zeros({8}, whole).random_(g); }},
      {"random_ of 128 bits",
       [](const Generator&
              g) { return zeros({8}, whole).random_(0, (std::int64_t{1} << 62) - 1, g); }},
      {"randperm", [](const Generator& g) { return randperm(50, whole, g); }},
      {"randperm of many", [](const Generator& g) { return randperm(5000, whole, g); }},
      {"multinomial", [](const Generator& g) {
         return multinomial(full({3, 8}, 0.5, kFloats), 20, true, g);
       }}};
  return *kDraws;
}

class GraphRandom : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }

  static Generator seeded(std::uint64_t seed) {
    Generator made(kDevice);
    made.manual_seed(seed);
    return made;
  }
  static void capture(CUDAGraph& graph, const std::function<void()>& work) {
    auto scope = cuda::graph(graph);
    work();
    scope.end();
  }
};

TEST_F(GraphRandom, EveryDrawOfAReplayIsTheEagerOne) {
  for (const auto& [name, draw] : draws()) {
    SCOPED_TRACE(name);
    Generator generator = seeded(11), eager = seeded(11);
    CUDAGraph graph;
    graph.register_generator_state(generator);
    Tensor first, second;
    capture(graph, [&, &of = draw] {
      first = of(generator);
      second = of(generator);
    });
    EXPECT_EQ(generator.get_offset(), 0U) << "a capture draws nothing";
    for (int i = 0; i < 3; ++i) {
      graph.replay();
      EXPECT_EQ(values(first), values(draw(eager)));
      EXPECT_EQ(values(second), values(draw(eager)));
      EXPECT_EQ(generator.get_offset(), eager.get_offset());
      EXPECT_EQ(values(draw(generator)), values(draw(eager))) << "between replays";
    }
  }
}

TEST_F(GraphRandom, TheDefaultGeneratorIsRegistered) {
  cuda::manual_seed(5);
  CUDAGraph graph;
  Tensor x, y;
  capture(graph, [&] {
    x = rand({1000}, kFloats);
    y = randn({10}, kFloats) + rand({10}, kFloats);
  });
  for (int i = 0; i < 3; ++i) graph.replay();
  const std::vector<double> got_x = values(x), got_y = values(y),
                            after = values(rand({4}, kFloats));
  cuda::manual_seed(5);
  Tensor eager_x, eager_y;
  for (int i = 0; i < 3; ++i) {
    eager_x = rand({1000}, kFloats);
    eager_y = randn({10}, kFloats) + rand({10}, kFloats);
  }
  EXPECT_EQ(got_x, values(eager_x));
  EXPECT_EQ(got_y, values(eager_y));
  EXPECT_EQ(after, values(rand({4}, kFloats)));
}

TEST_F(GraphRandom, WhatIsSetBetweenReplaysCounts) {
  Generator generator = seeded(1);
  CUDAGraph graph;
  graph.register_generator_state(generator);
  Tensor x;
  capture(graph, [&] { x = rand({64}, kFloats, generator); });
  const auto replayed = [&] {
    graph.replay();
    return values(x);
  };
  const std::vector<double> first = replayed(), second = replayed();
  EXPECT_NE(first, second);
  generator.manual_seed(1);
  EXPECT_EQ(replayed(), first);
  const Tensor state = generator.get_state();
  EXPECT_EQ(replayed(), second);
  generator.set_state(state);
  EXPECT_EQ(replayed(), second);
  generator.set_offset(0);
  EXPECT_EQ(replayed(), first);
  generator.manual_seed(2);
  EXPECT_EQ(replayed(), values(rand({64}, kFloats, seeded(2))));
}

TEST_F(GraphRandom, GraphsShareAGenerator) {
  Generator generator = seeded(3), eager = seeded(3);
  CUDAGraph one, two;
  Tensor x, y;
  one.register_generator_state(generator);
  two.register_generator_state(generator);
  capture(one, [&] { x = rand({8}, kFloats, generator); });
  capture(two, [&] { y = randn({1100000}, kFloats, generator); });
  for (int i = 0; i < 2; ++i) {
    two.replay();
    EXPECT_EQ(values(y), values(randn({1100000}, kFloats, eager)));
    one.replay();
    EXPECT_EQ(values(x), values(rand({8}, kFloats, eager)));
  }
}

TEST_F(GraphRandom, ReplaysOnSeveralStreamsKeepTheirNumbers) {
  Generator generator = seeded(4), eager = seeded(4);
  const Tensor sum = zeros({64}, kFloats), expected = zeros({64}, kFloats);
  const auto step = [](const Tensor& into, const Generator& from) {
    into.mul_(0.5).add_(rand({64}, kFloats, from));
  };
  CUDAGraph graph;
  graph.register_generator_state(generator);
  capture(graph, [&] { step(sum, generator); });
  cuda::synchronize();
  const Stream first(0), second(0);
  test::Gate gate(first);
  {
    const StreamGuard on(first);
    graph.replay();
  }
  {
    // Its seed and offset must not come before the first replay has read its own.
    const StreamGuard on(second);
    graph.replay();
    EXPECT_FALSE(second.query());
  }
  gate.open();
  graph.replay();
  for (int i = 0; i < 3; ++i) step(expected, eager);
  EXPECT_EQ(values(sum), values(expected));
}

TEST_F(GraphRandom, BranchesDrawInTheOrderOfTheCalls) {
  Generator generator = seeded(9), eager = seeded(9);
  const Stream side(0);
  const auto work = [&](const Generator& from) {
    std::vector<Tensor> drawn(4);
    const Stream main = cuda::current_stream();
    side.wait_stream(main);
    {
      const StreamGuard on(side);
      drawn[0] = rand({64}, kFloats, from);
    }
    drawn[1] = rand({64}, kFloats, from);
    {
      const StreamGuard on(side);
      drawn[2] = randn({64}, kFloats, from);
    }
    drawn[3] = randperm(64, Options(int64, kDevice), from);
    main.wait_stream(side);
    return drawn;
  };
  CUDAGraph graph;
  graph.register_generator_state(generator);
  std::vector<Tensor> drawn;
  capture(graph, [&] { drawn = work(generator); });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    const std::vector<Tensor> expected = work(eager);
    for (std::size_t k = 0; k < drawn.size(); ++k) EXPECT_EQ(values(drawn[k]), values(expected[k]));
  }
}

TEST_F(GraphRandom, StatesAreSwitchedInACapture) {
  Generator generator = seeded(0), eager = seeded(0);
  const auto steps = [](Generator& from, const Generator& old, const Generator& other) {
    std::vector<Tensor> drawn;
    from.graphsafe_set_state(other);
    drawn.push_back(rand({5}, kFloats, from));
    from.graphsafe_set_state(old);
    drawn.push_back(rand({5}, kFloats, from));
    drawn.push_back(rand({5}, kFloats, from));
    return drawn;
  };
  const Generator old = generator.graphsafe_get_state(), other = generator.clone_state();
  const Generator eager_old = eager.graphsafe_get_state(), eager_other = eager.clone_state();
  CUDAGraph graph;
  graph.register_generator_state(old);
  graph.register_generator_state(other);
  graph.register_generator_state(generator);  // the state of `old`, which is drawn from once
  std::vector<Tensor> drawn;
  capture(graph, [&] { drawn = steps(generator, old, other); });
  for (int i = 0; i < 2; ++i) {
    graph.replay();
    const std::vector<Tensor> expected = steps(eager, eager_old, eager_other);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(values(drawn[k]), values(expected[k])) << k;
  }
  EXPECT_EQ(old.get_offset(), eager_old.get_offset());
  EXPECT_EQ(other.get_offset(), eager_other.get_offset());
}

TEST_F(GraphRandom, ACaptureKnowsNoState) {
  Generator generator = seeded(1);
  const Tensor state = generator.get_state();
  CUDAGraph graph;
  graph.register_generator_state(generator);
  Tensor x;
  const auto refuses = [](const auto& call, const std::string& name) {
    EXPECT_ERROR(call(), Error, name + " during CUDA graph capture. ");
  };
  const std::string call = "Cannot call CUDAGeneratorImpl::";
  capture(graph, [&] {
    refuses([&] { generator.manual_seed(3); }, call + "set_current_seed");
    refuses([&] { (void)generator.initial_seed(); }, call + "current_seed");
    refuses([&] { (void)generator.get_state(); }, call + "current_seed");
    refuses([&] { generator.set_offset(4); }, call + "set_offset");
    refuses([&] { (void)generator.get_offset(); }, call + "get_offset");
    refuses([&] { (void)generator.seed(); }, call + "seed");
    refuses([&] { generator.set_state(state); }, call + "set_state");
    refuses([&] { cuda::manual_seed(3); }, call + "set_current_seed");
    refuses([&] { (void)cuda::get_rng_state(); }, call + "current_seed");
    refuses([&] { (void)Generator(kDevice); }, "Cannot construct a new CUDAGeneratorImpl");
    EXPECT_ERROR(graph.register_generator_state(generator), Error,
                 "Cannot register the state during capturing stage. ");
    EXPECT_ERROR(generator.manual_seed(3), Error,
                 "only if new seed is the same as the original seed.");
    generator.manual_seed(1);  // which it has: no effect, as in torch
    x = rand({64}, kFloats, generator);
  });
  graph.replay();
  EXPECT_EQ(values(x), values(rand({64}, kFloats, seeded(1)))) << "and the capture went on";
}

TEST_F(GraphRandom, OthersHaveToBeRegistered) {
  Generator generator = seeded(1);
  EXPECT_ERROR(CUDAGraph().register_generator_state(Generator()), Error,
               "expected a generator for a CUDA device, got one for cpu");
  CUDAGraph graph;
  capture(graph, [&] {
    EXPECT_ERROR((void)rand({4}, kFloats, generator), Error,
                 "Attempt to increase offset for a CUDA generator not in capture mode.");
    (void)rand({0}, kFloats, generator);
    (void)rand({4}, kFloats);
  });
  EXPECT_ERROR(graph.register_generator_state(generator), Error, "captured already");
  EXPECT_EQ(generator.get_offset(), 0U);
  graph.replay();
  graph.reset();
  graph.register_generator_state(generator);
  graph.reset();  // which forgets it
  capture(graph,
          [&] { EXPECT_ERROR((void)rand({4}, kFloats, generator), Error, "not in capture mode"); });
}

TEST_F(GraphRandom, OfTheCapturesDeviceOnly) {
  NEEDS_DEVICES(2);
  CUDAGraph graph;
  graph.register_generator_state(Generator(Device(Device::Type::cuda, 1)));
  const StreamGuard on{Stream(0)};
  EXPECT_ERROR(graph.capture_begin(), Error, "a generator for cuda:1 was registered");
  graph.reset();
  graph.capture_begin();
  const Tensor x = rand({4}, kFloats);
  graph.capture_end();
}

TEST_F(GraphRandom, AFailedCaptureDrawsNothing) {
  Generator generator = seeded(6);
  CUDAGraph graph;
  graph.register_generator_state(generator);
  {
    auto scope = cuda::graph(graph);
    const Tensor x = rand({1}, kFloats, generator);
    EXPECT_ERROR((void)x.item(), AcceleratorError, "item");
    EXPECT_ERROR((void)rand({4}, kFloats, generator), AcceleratorError,
                 "previous error during capture");
    EXPECT_ERROR(scope.end(), AcceleratorError, "previous error during capture");
  }
  EXPECT_EQ(generator.get_offset(), 0U);
  Tensor x;
  capture(graph, [&] { x = rand({4}, kFloats, generator); });
  graph.replay();
  EXPECT_EQ(values(x), values(rand({4}, kFloats, seeded(6))));
}

TEST_F(GraphRandom, OtherThreadsDrawAsEver) {
  Generator generator = seeded(7);
  CUDAGraph graph;
  graph.register_generator_state(generator);
  Tensor captured, drawn;
  capture(graph, [&] {
    captured = rand({16}, kFloats, generator);
    std::thread([&] { drawn = rand({16}, kFloats, generator); }).join();
  });
  const Generator eager = seeded(7);
  EXPECT_EQ(values(drawn), values(rand({16}, kFloats, eager)));
  graph.replay();
  EXPECT_EQ(values(captured), values(rand({16}, kFloats, eager)));
}

TEST_F(GraphRandom, DestroyingDoesNotEndAReplay) {
  Generator generator = seeded(8);
  const Tensor x = zeros({64}, kFloats);
  const Stream side(0);
  {
    CUDAGraph graph;
    graph.register_generator_state(generator);
    capture(graph, [&] { x.uniform_(0, 1, generator); });
    cuda::synchronize();
    test::Gate gate(side);
    {
      const StreamGuard on(side);
      graph.replay();
    }
    graph.reset();
    for (int i = 0; i < 8; ++i) (void)full({4}, -1, kFloats);  // not in the memory that it reads
    gate.open();
  }
  EXPECT_EQ(values(x), values(rand({64}, kFloats, seeded(8))));
}

TEST_F(GraphRandom, TemporariesOfTheCaptureLeaveSeedAndOffsetAlone) {
  Generator generator = seeded(9), eager = seeded(9);
  const Tensor x = zeros({64}, kFloats);
  CUDAGraph graph;
  graph.register_generator_state(generator);
  capture(graph, [&] {
    std::vector<Tensor> temporaries(8);
    for (Tensor& each : temporaries) each = full({4}, -1, kFloats);
    temporaries.clear();
    x.uniform_(0, 1, generator);
  });
  for (int i = 0; i < 2; ++i) {
    graph.replay();
    EXPECT_EQ(values(x), values(rand({64}, kFloats, eager)));
  }
}

TEST_F(GraphRandom, TheFirstReplayFollowsTheWorkBeforeItsCapture) {
  Generator generator = seeded(10);
  const Tensor x = zeros({64}, kFloats);
  const Stream side(0);
  cuda::synchronize();
  test::Gate gate(side);
  CUDAGraph graph;
  graph.register_generator_state(generator);
  {
    const StreamGuard on(side);
    (void)full({4}, -1, kFloats);  // whose memory may hold seed and offset
    graph.capture_begin();
    x.uniform_(0, 1, generator);
    graph.capture_end();
  }
  graph.replay();
  EXPECT_FALSE(cuda::current_stream().query());
  gate.open();
  EXPECT_EQ(values(x), values(rand({64}, kFloats, seeded(10))));
}

TEST_F(GraphRandom, AResetIsAnErrorOfTheReplay) {
  if (!test::machine().simulated()) GTEST_SKIP() << "the pools of other tests live on the device";
  NEEDS_DEVICES(4);
  const cuda::DeviceGuard there(3);
  Generator generator(Device(Device::Type::cuda, 3));
  CUDAGraph graph;
  graph.register_generator_state(generator);
  Tensor x;
  {
    auto scope = cuda::graph(graph, {}, Stream(3));
    x = rand({4}, Options(float32, generator.device()), generator);
    scope.end();
  }
  graph.replay();
  cuda::reset_device(3);
  EXPECT_ERROR(graph.replay(), AcceleratorError, "context is destroyed");
  EXPECT_EQ(generator.get_offset(), 4U) << "and nothing was drawn";
}

}  // namespace
}  // namespace ember
