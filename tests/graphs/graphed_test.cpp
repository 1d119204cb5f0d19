// Functions whose calls become replays: each test says what the function itself would do.
// docs/graphs.md, "Functions whose calls become replays".
#include "ember/graphs/graphed.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::graphed;
using cuda::GraphedFunction;
using test::kFloats;
using Tensors = std::vector<Tensor>;

class Graphed : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
};

std::vector<double> numbers(const Tensor& tensor) {
  cuda::synchronize();
  const Tensor host = tensor.to(float64).cpu().contiguous();
  const auto* first = static_cast<const double*>(host.data_ptr());
  return {first, first + host.numel()};
}

/// Another one each time: a warning is shown once.
std::string unique_name(const char* name) {
  static int made = 0;
  return name + std::to_string(++made);
}

Tensor filled(std::int64_t count, double value) { return full({count}, value, kFloats); }

TEST_F(Graphed, IsTheFunctionOverManySignatures) {
  int calls = 0;
  const auto eager = [](const Tensors& in) {
    return Tensors{(in[0] * 2).relu() + in[1], in[1].sum()};
  };
  const GraphedFunction function = graphed([&](const Tensors& in) {
    ++calls;
    return eager(in);
  });
  for (int round = 0; round < 5; ++round) {
    for (const std::int64_t size : {3, 1, 5}) {
      for (const Dtype dtype : {float32, float64}) {
        const Options options(dtype, kFloats.device.value());
        const Tensor x = arange(size * size, options).view({size, size}) - (round + 2);
        for (const Tensor& view : {x, x.t()}) {
          const Tensor y = full({size}, round, options);
          const Tensors expected = eager({view, y}), got = function({view, y});
          ASSERT_EQ(numbers(got[0]), numbers(expected[0]));
          ASSERT_EQ(got[0].strides(), expected[0].strides());
          ASSERT_EQ(numbers(got[1]), numbers(expected[1]));
        }
      }
    }
  }
  // Of 1 x 1 both views may have the same strides.
  EXPECT_LE(calls, 12 * 3) << "once, a capture, and one more where addresses change";
}

TEST_F(Graphed, CapturesAtTheSecondCall) {
  int calls = 0, captures = 0;
  const GraphedFunction function = graphed([&](const Tensors& in) {
    ++calls;
    if (cuda::is_current_stream_capturing()) ++captures;
    return Tensors{in[0] + 1};
  });
  const Tensor x = filled(4, 1);
  for (int call = 1; call <= 4; ++call) {
    x.fill_(call);
    EXPECT_EQ(numbers(function({x})[0]), std::vector<double>(4, call + 1));
    EXPECT_EQ(calls, std::min(call, 2));
    EXPECT_EQ(captures, call > 1 ? 1 : 0);
  }
  EXPECT_EQ(numbers(function({filled(4, 8)})[0]), std::vector<double>(4, 9));
  EXPECT_EQ(captures, 2) << "anew, since the argument does not recur where it was";
  EXPECT_EQ(numbers(function({filled(4, 9)})[0]), std::vector<double>(4, 10));
  EXPECT_EQ(numbers(function({x})[0]), std::vector<double>(4, 5));
  EXPECT_EQ(calls, 3);
  function.clear();
  (void)function({x});
  EXPECT_EQ(calls, 4);
}

TEST_F(Graphed, DropsTheLeastRecentlyUsed) {
  int calls = 0;
  const GraphedFunction function = graphed(
      [&](const Tensors& in) {
        ++calls;
        return Tensors{in[0] * 3};
      },
      {.max_graphs = 2});
  const std::array<Tensor, 3> x{filled(1, 1), filled(2, 2), filled(3, 3)};
  const auto called = [&](std::size_t which) {
    const int before = calls;
    EXPECT_EQ(numbers(function({x[which]})[0])[0], 3 * (static_cast<double>(which) + 1));
    return calls - before;
  };
  for (const std::size_t which : {0U, 0U, 1U, 1U}) EXPECT_EQ(called(which), 1);
  EXPECT_EQ(called(0), 0);
  EXPECT_EQ(called(2) + called(2), 2);
  EXPECT_EQ(called(0), 0);
  EXPECT_EQ(called(2), 0);
  EXPECT_EQ(called(1), 1) << "which was the least recently used one";
  EXPECT_ERROR(graphed([](const Tensors& in) { return in; }, {.max_graphs = 0}), ValueError,
               "max_graphs has to be at least 1, got 0");
}

TEST_F(Graphed, ChangesArgumentsAndOtherTensors) {
  const Tensor total = filled(3, 0);
  const GraphedFunction function = graphed([&](const Tensors& in) {
    in[0].add_(in[1]);
    total.add_(in[0]);
    return Tensors{in[0], in[0].view({3, 1}), total, in[0] * 2};
  });
  double sum = 0;
  const Tensor kept = filled(3, 10), one = filled(3, 1);
  std::vector<Tensor> alive;
  for (int call = 0; call < 6; ++call) {
    // The first three recur, the others lie elsewhere each time.
    const double before = call < 3 ? 10 + call : 100 * call;
    const Tensor x = call < 3 ? kept : filled(3, before);
    alive.push_back(x);
    const Tensors got = function({x, one});
    sum += before + 1;
    EXPECT_EQ(numbers(x), std::vector<double>(3, before + 1)) << call;
    EXPECT_EQ(numbers(total), std::vector<double>(3, sum)) << call;
    EXPECT_EQ(numbers(got[3]), std::vector<double>(3, 2 * before + 2)) << call;
    EXPECT_TRUE(got[0].is(x)) << call;
    EXPECT_EQ(got[1].data_ptr(), x.data_ptr()) << call;
    EXPECT_EQ(got[2].data_ptr(), total.data_ptr()) << call;
  }
  EXPECT_EQ(numbers(kept), std::vector<double>(3, 13)) << "later calls do not touch it";
}

TEST_F(Graphed, ChangesStridedArgumentsOnlyWhereTheyAre) {
  const GraphedFunction function = graphed([](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{};
  });
  for (int call = 0; call < 4; ++call) {
    const Tensor whole = ones({4, 3}, kFloats), hold = empty({call + 1, 1000}, kFloats);
    function({whole.narrow(1, call % 3, 1)});
    std::vector<double> expected(12, 1);
    for (std::size_t row = 0; row < 4; ++row)
      expected[3 * row + static_cast<std::size_t>(call % 3)] = 2;
    EXPECT_EQ(numbers(whole), expected) << call;
  }
}

TEST_F(Graphed, ArgumentsMayBeTheSameOrOverlap) {
  const auto both = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[1] * 10};
  };
  const GraphedFunction function = graphed(both);
  std::vector<Tensor> alive;
  for (int call = 0; call < 4; ++call) {
    const Tensor x = arange(6, kFloats);
    alive.push_back(x);
    EXPECT_EQ(numbers(function({x, x})[0]), (std::vector<double>{10, 20, 30, 40, 50, 60})) << call;
    const Tensor other = arange(6, kFloats);
    alive.push_back(other);
    EXPECT_EQ(numbers(function({other.narrow(0, 0, 4), other.narrow(0, 2, 4)})[0]),
              (std::vector<double>{30, 40, 40, 50}))
        << call;
  }
}

TEST_F(Graphed, AnArgumentMayBeWhatTheFunctionUsesAnyway) {
  const Tensor own = filled(2, 1);
  const GraphedFunction function = graphed([&](const Tensors& in) {
    in[0].add_(1);
    return Tensors{own * 10};
  });
  std::vector<Tensor> alive;
  for (int call = 0; call < 3; ++call) {
    alive.push_back(filled(2, call));
    EXPECT_EQ(numbers(function({alive.back()})[0])[0], 10);
  }
  EXPECT_EQ(numbers(function({own})[0])[0], 20);
  EXPECT_EQ(numbers(function({own})[0])[0], 30);
}

TEST_F(Graphed, ResultsStay) {
  const auto eager = [](const Tensors& in) {
    const Tensor twice = in[0] * 2;
    return Tensors{twice, twice.narrow(0, 0, 1), (twice + 1) * 3};
  };
  const GraphedFunction function = graphed(eager);
  std::vector<std::pair<Tensors, Tensors>> all;
  for (int round = 0; round < 4; ++round)
    for (const std::int64_t size : {4, 1000, 2}) {
      const Tensor x = filled(size, round + 1);
      all.emplace_back(eager({x}), function({x}));
    }
  for (const auto& [expected, got] : all)
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(numbers(got[i]), numbers(expected[i]));
  const Tensors& last = all.back().second;
  last[1].fill_(77);
  EXPECT_EQ(numbers(last[0])[0], 77) << "results that share memory do so";
}

TEST_F(Graphed, WithoutCopiesResultsAreTheGraphsMemory) {
  const GraphedFunction function =
      graphed([](const Tensors& in) { return Tensors{in[0] * 2}; }, {.copy = false});
  const Tensor x = filled(4, 1);
  (void)function({x});
  const Tensor first = function({x})[0];
  EXPECT_EQ(numbers(first)[0], 2);
  x.fill_(5);
  EXPECT_EQ(function({x})[0].data_ptr(), first.data_ptr());
  EXPECT_EQ(numbers(first)[0], 10);
  // A result as the next argument.
  Tensor y = x;
  for (int call = 0; call < 5; ++call) y = function({y})[0];
  EXPECT_EQ(numbers(y)[3], 5 * 32);
}

TEST_F(Graphed, DrawsAsTheFunctionWould) {
  const auto eager = [](const Tensors& in) { return Tensors{rand_like(in[0]) + in[0]}; };
  const GraphedFunction function = graphed(eager);
  const Tensor x = filled(16, 0);
  std::vector<std::vector<double>> expected, got;
  cuda::manual_seed(5);
  for (int call = 0; call < 5; ++call) expected.push_back(numbers(eager({x})[0]));
  cuda::manual_seed(5);
  for (int call = 0; call < 5; ++call) got.push_back(numbers(function({x})[0]));
  EXPECT_EQ(got, expected);
}

TEST_F(Graphed, WithoutAGraphItIsTheFunctionAndSaysSoOnce) {
  testing::internal::CaptureStderr();
  const std::string name = unique_name("reads_the_host");
  const Tensor total = filled(1, 0);
  int captures = 0;
  const GraphedFunction function = graphed(
      [&](const Tensors& in) {
        if (cuda::is_current_stream_capturing()) ++captures;
        total.add_(1);
        return Tensors{in[0] * in[0].sum().item().to<double>()};
      },
      {.name = name});
  const Tensor x = filled(2, 3);
  for (int call = 1; call <= 4; ++call) {
    EXPECT_EQ(numbers(function({x})[0])[0], 18);
    EXPECT_EQ(numbers(total)[0], call) << "once";
  }
  EXPECT_EQ(captures, 1);
  (void)function({x.cpu()});
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t at = said.find(name + " is called without a graph: ");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_NE(said.find("item", at), std::string::npos) << said;
  EXPECT_EQ(said.find(name, at + 1), std::string::npos) << said;
}

TEST_F(Graphed, ArgumentsOnTheCpuAreTheFunctions) {
  testing::internal::CaptureStderr();
  const GraphedFunction function =
      graphed([](const Tensors& in) { return Tensors{in[0] + 1}; }, {.name = unique_name("adds")});
  for (int call = 0; call < 3; ++call) EXPECT_EQ(numbers(function({zeros({2})})[0])[0], 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("argument 0 is on cpu"), std::string::npos);
}

TEST_F(Graphed, ThrowsWhatTheFunctionThrows) {
  const Tensor total = filled(1, 0), x = filled(2, 1);
  bool fails = true;
  const GraphedFunction function = graphed([&](const Tensors& in) {
    total.add_(1);
    if (fails) throw std::runtime_error("mine");
    return Tensors{in[0] + total};
  });
  EXPECT_THROW(function({x}), std::runtime_error);
  fails = false;
  EXPECT_EQ(numbers(function({x})[0])[0], 3);
  fails = true;
  EXPECT_THROW(function({x}), std::runtime_error);  // in the capture, and then for good
  EXPECT_FALSE(cuda::is_current_stream_capturing());
  EXPECT_EQ(numbers(total)[0], 3);
  fails = false;
  EXPECT_EQ(numbers(function({x})[0])[0], 5) << "and captures the next time";
  fails = true;
  EXPECT_EQ(numbers(function({x})[0])[0], 6) << "a replay asks nobody";
}

TEST_F(Graphed, MovingCopies) {
  const Tensor x = filled(2, 3);
  GraphedFunction function = graphed([](const Tensors& in) { return Tensors{in[0] * 2}; });
  const GraphedFunction moved = std::move(function);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(numbers(function({x})[0])[0], 6);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(numbers(moved({x})[0])[0], 6);
  }
  function.clear();
  EXPECT_ERROR(graphed({}), ValueError, "graphed: got an empty function, expected a callable one");
}

TEST_F(Graphed, InACaptureItIsPartOfThat) {
  const Tensor x = filled(2, 1);
  const GraphedFunction inner = graphed([](const Tensors& in) { return Tensors{in[0] * 2}; });
  (void)inner({x});
  (void)inner({x});
  cuda::CUDAGraph graph;
  Tensor y;
  auto capture = cuda::graph(graph);
  y = inner({x})[0] + 1;
  capture.end();
  const GraphedFunction outer =
      graphed([&](const Tensors& in) { return Tensors{inner({in[0]})[0] + 1}; });
  for (const float value : {3.0F, 4.0F, 5.0F}) {
    x.fill_(value);
    graph.replay();
    EXPECT_EQ(numbers(y)[0], 2 * value + 1);
    EXPECT_EQ(numbers(outer({x})[0])[0], 2 * value + 1);
  }
}

TEST_F(Graphed, FollowsTheCurrentStream) {
  const GraphedFunction function =
      graphed([](const Tensors& in) { return Tensors{((in[0] + 1) * 2).sum()}; });
  const cuda::Stream one, other;
  std::vector<Tensor> results;
  for (int call = 0; call < 8; ++call) {
    const cuda::StreamGuard on(call % 2 == 0 ? one : other);
    const Tensor mine = filled(1 << 14, call);
    results.push_back(function({mine})[0]);
  }
  for (std::size_t call = 0; call < results.size(); ++call)
    EXPECT_EQ(numbers(results[call])[0], (static_cast<double>(call) + 1) * 2 * (1 << 14));
}

TEST_F(Graphed, TakesCallsOfSeveralThreads) {
  const GraphedFunction function =
      graphed([](const Tensors& in) { return Tensors{in[0] * 2 + 1}; }, {.max_graphs = 2});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const cuda::StreamGuard on{cuda::Stream()};
      for (int call = 0; call < 12; ++call) {
        const std::int64_t size = 1 + (call + t) % 3;
        const Tensor got = function({filled(size, 100 * t + call)})[0].cpu();
        for (std::int64_t i = 0; i < size; ++i)
          EXPECT_EQ(got.data<float>()[i], static_cast<float>(2 * (100 * t + call) + 1));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Graphed, ArgumentsMayLieOnAnotherDeviceThanTheCurrentOne) {
  NEEDS_DEVICES(2);
  const Options there(float32, Device(Device::Type::cuda, 1));
  int calls = 0, elsewhere = 0;
  const GraphedFunction function = graphed([&](const Tensors& in) {
    ++calls;
    if (cuda::current_device() != 0) ++elsewhere;
    return Tensors{in[0] * 2};
  });
  const Tensor x = ones({3}, there);
  for (int call = 1; call <= 4; ++call) {
    x.fill_(call);
    const Tensor got = function({x})[0];
    EXPECT_EQ(got.device(), there.device);
    EXPECT_EQ(numbers(got.to(kFloats.device.value())), std::vector<double>(3, 2 * call));
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(elsewhere, 0) << "the current device is the caller's";
  testing::internal::CaptureStderr();
  const GraphedFunction both =
      graphed([](const Tensors& in) { return Tensors{in[0] + in[1].to(in[0].device())}; },
              {.name = unique_name("both")});
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(numbers(both({filled(3, call), x})[0]), std::vector<double>(3, call + 4));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("argument 1 is on cuda:1, and argument 0"),
            std::string::npos);
}

TEST_F(Graphed, WorkThatDoesNotSayWhatItTouchesMayChangeAnArgument) {
  const GraphedFunction function = graphed([](const Tensors& in) {
    const test::AffineArgs args{static_cast<std::uint32_t*>(in[0].data_ptr()), 4, 3, 1};
    cuda::launch(cuda::current_stream(), test::affine_kernel, args);
    return Tensors{in[0]};
  });
  std::vector<Tensor> alive;
  for (int call = 0; call < 5; ++call) {
    alive.push_back(full({4}, call, kFloats).to(int32));
    (void)function({alive.back()});
    EXPECT_EQ(numbers(alive.back()), std::vector<double>(4, 3 * call + 1)) << call;
  }
}

TEST_F(Graphed, CapturesAnewAfterAResetOfTheDevice) {
  NEEDS_DEVICES(4);
  if (!test::machine().simulated()) GTEST_SKIP() << "others may use the device";
  const Options there(float32, Device(Device::Type::cuda, 3));
  int calls = 0;
  const GraphedFunction function = graphed([&](const Tensors& in) {
    ++calls;
    return Tensors{in[0] + 1};
  });
  for (int round = 1; round <= 2; ++round) {
    const Tensor x = zeros({4}, there);
    for (int call = 0; call < 4; ++call) {
      x.fill_(call);
      const Tensor got = function({x})[0].cpu();
      EXPECT_EQ(got.data<float>()[3], static_cast<float>(call + 1));
    }
    EXPECT_EQ(calls, 2 * round);
    cuda::reset_device(3);
  }
}

TEST_F(Graphed, ItsMemoryGoesWithIt) {
  const Tensor x = filled(1 << 20, 1);
  cuda::synchronize();
  cuda::empty_cache();
  const auto allocated = cuda::memory_allocated(), reserved = cuda::memory_reserved();
  {
    const GraphedFunction function =
        graphed([](const Tensors& in) { return Tensors{(in[0] * 2 + 1) * 3}; });
    for (int call = 0; call < 3; ++call) (void)function({x});
    (void)function({x.clone()});
    cuda::empty_cache();
    EXPECT_GT(cuda::memory_reserved(), reserved);
  }
  cuda::synchronize();
  cuda::empty_cache();
  EXPECT_EQ(cuda::memory_allocated(), allocated);
  EXPECT_EQ(cuda::memory_reserved(), reserved);
}

}  // namespace
}  // namespace ember
