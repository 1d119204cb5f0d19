// Replays with other tensors than were captured.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::GraphBinding;

using test::kFloats;

class Rebinding : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
};

void capture(CUDAGraph& graph, const std::function<void()>& work) {
  auto scope = cuda::graph(graph);
  work();
  scope.end();
}

std::vector<float> read(const Tensor& tensor) {
  cuda::synchronize();
  const Tensor host = tensor.contiguous().cpu();
  const auto* first = static_cast<const float*>(host.data_ptr());
  return {first, first + host.numel()};
}

/// What binding throws, or nothing.
template <class Failure = Error>
std::string refusal(CUDAGraph& graph, std::initializer_list<GraphBinding> bind) {
  try {
    graph.replay(bind);
  } catch (const Failure& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_SAYS(text, part) EXPECT_TRUE(has(text, part)) << (text)

TEST_F(Rebinding, AReplayReadsAndWritesOtherTensors) {
  const Tensor x = full({64}, 1, kFloats), y = zeros({64}, kFloats);
  CUDAGraph graph;
  capture(graph, [&] { y.copy_(x * 2 + 1); });
  const Tensor other = full({64}, 10, kFloats), out = zeros({64}, kFloats);
  graph.replay({{x, other}, {y, out}});
  EXPECT_EQ(read(out), std::vector<float>(64, 21));
  EXPECT_EQ(read(y), std::vector<float>(64, 0));
}

TEST_F(Rebinding, HoldsForOneReplay) {
  const Tensor x = full({8}, 1, kFloats), other = full({8}, 5, kFloats),
               last = full({8}, 7, kFloats);
  Tensor y;
  CUDAGraph graph;
  capture(graph, [&] { y = x + 1; });
  const auto value = [&] { return read(y)[0]; };
  graph.replay({{x, other}});
  EXPECT_EQ(value(), 6);
  graph.replay();
  EXPECT_EQ(value(), 2);
  graph.replay({{x, last}});
  graph.replay({{x, last}});
  EXPECT_EQ(value(), 8);
  graph.replay({{x, other}});
  EXPECT_EQ(value(), 6);
  graph.replay();
  EXPECT_EQ(value(), 2);
}

TEST_F(Rebinding, ReplaysOfSeveralThreadsFollowEachOther) {
  constexpr int kThreads = 4, kRounds = 20;
  const Tensor x = zeros({64}, kFloats);
  std::vector<Tensor> others;
  for (int i = 0; i < kThreads; ++i) others.push_back(zeros({64}, kFloats));
  CUDAGraph graph;
  capture(graph, [&] { x.add_(1); });
  cuda::synchronize();
  std::vector<std::thread> threads;
  for (const Tensor& other : others)
    threads.emplace_back([&] {
      const cuda::StreamGuard own{cuda::Stream()};
      for (int i = 0; i < kRounds; ++i) {
        graph.replay({{x, other}});
        graph.replay();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read(x), std::vector<float>(64, kThreads * kRounds));
  for (const Tensor& other : others) EXPECT_EQ(read(other), std::vector<float>(64, kRounds));
}

TEST_F(Rebinding, AResetBesideReplaysEndsThem) {
  for (int round = 0; round < 20; ++round) {
    const Tensor x = zeros({64}, kFloats);
    CUDAGraph graph;
    capture(graph, [&] { x.add_(1); });
    std::vector<std::string> errors(3);
    std::vector<std::thread> threads;
    std::atomic<int> replays{0};
    for (std::string& error : errors)
      threads.emplace_back([&] {
        const cuda::StreamGuard own{cuda::Stream()};
        for (; error.empty(); ++replays) error = refusal(graph, {});
      });
    while (replays < 30) std::this_thread::yield();  // they are at it
    graph.reset();
    for (std::thread& thread : threads) thread.join();
    cuda::synchronize();  // before x goes, which the replays were using
    for (const std::string& error : errors)
      EXPECT_SAYS(error, "Called CUDAGraph::replay without a preceding successful capture.");
  }
}

TEST_F(Rebinding, ReplaysInFlightKeepWhatTheyHad) {
  const Tensor total = zeros({8}, kFloats), x = full({8}, 1, kFloats);
  CUDAGraph graph;
  capture(graph, [&] { total.add_(x); });
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) others.push_back(full({8}, i, kFloats));
  cuda::synchronize();
  for (const Tensor& other : others) graph.replay({{x, other}});
  EXPECT_EQ(read(total)[3], 49 * 50 / 2);
}

TEST_F(Rebinding, ViewsAndStridesMoveAlong) {
  const Tensor x = arange(32).to(kFloats).view({4, 8});
  Tensor column, sum, row;
  CUDAGraph graph;
  capture(graph, [&] {
    column = x.select(1, 2) * 1;
    sum = x.t() + x.narrow(0, 0, 1).t();
    row = x.sum(0);
  });
  const Tensor other = arange(100, 132).to(kFloats).view({4, 8});
  graph.replay({{x, other}});
  EXPECT_EQ(read(column), (std::vector<float>{102, 110, 118, 126}));
  EXPECT_EQ(read(sum), read(other.t() + other.narrow(0, 0, 1).t()));
  EXPECT_EQ(read(row), read(other.sum(0)));
}

TEST_F(Rebinding, ReductionsCopiesFillsAndCompiledKernels) {
  const Tensor x = full({100000}, 1, kFloats), zero = full({64}, 3, kFloats),
               y = empty({64}, kFloats);
  const auto f =
      cuda::jiterator::create_jit_fn("template <typename T> T twice(T x) { return x + x; }");
  Tensor total, twice, joined;
  CUDAGraph graph;
  (void)f({x});  // compiles
  capture(graph, [&] {
    total = x.sum();
    y.copy_(zero);
    cuda::fill_async(zero.data_ptr(), 0, 64 * sizeof(float), cuda::current_stream());
    twice = f({x})[0];
    joined = cat({y, zero});
  });
  const Tensor other = full({100000}, 2, kFloats), filled = full({64}, 4, kFloats),
               target = zeros({64}, kFloats);
  graph.replay({{x, other}, {zero, filled}, {y, target}});
  EXPECT_EQ(read(total), std::vector<float>{200000});
  EXPECT_EQ(read(twice)[99999], 4);
  EXPECT_EQ(read(target), std::vector<float>(64, 4));
  EXPECT_EQ(read(filled), std::vector<float>(64, 0));
  EXPECT_EQ(read(zero), std::vector<float>(64, 3));
  EXPECT_EQ(read(joined)[0], 4);
  EXPECT_EQ(read(joined)[64], 0);
}

/// What is an address is told by where it lies in the arguments, not by what it looks like.
TEST_F(Rebinding, NumbersThatAreTheSameAsAnAddressStay) {
  const Options whole(Dtype::int64, Device("cuda:0"));
  const Tensor x = zeros({4}, whole), other = ones({4}, whole);
  const auto number = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.data_ptr()));
  const auto f = cuda::jiterator::create_jit_fn(
      "template <typename T> T plus(T x, T alpha) { return x + alpha; }", {{"alpha", 0}});
  Tensor sum, plus;
  CUDAGraph graph;
  (void)f({x}, {{"alpha", number}});  // compiles
  capture(graph, [&] {
    x.fill_(number);
    sum = x + number;
    plus = f({x}, {{"alpha", number}})[0];
  });
  graph.replay({{x, other}});
  cuda::synchronize();
  for (const auto& [tensor, times] : {std::pair(other, 1), std::pair(sum, 2), std::pair(plus, 2)})
    EXPECT_EQ(tensor.max().item<std::int64_t>(), times * number);
  EXPECT_EQ(x.max().item<std::int64_t>(), 0);
}

TEST_F(Rebinding, TwoMayChangePlaces) {
  const Tensor a = full({8}, 1, kFloats), b = full({8}, 10, kFloats);
  CUDAGraph graph;
  capture(graph, [&] { a.add_(b); });
  graph.replay();
  graph.replay({{a, b}, {b, a}});
  EXPECT_EQ(read(a)[0], 11);
  EXPECT_EQ(read(b)[0], 21);
}

TEST_F(Rebinding, BranchesAreBoundToo) {
  const Tensor x = full({64}, 1, kFloats);
  Tensor one, two;
  CUDAGraph graph;
  {
    const cuda::Stream side(0);
    auto scope = cuda::graph(graph);
    const cuda::Stream main = cuda::current_stream(0);
    side.wait_stream(main);
    one = x + 1;
    {
      const cuda::StreamGuard on(side);
      two = x * 3;
    }
    main.wait_stream(side);
    scope.end();
  }
  const Tensor other = full({64}, 5, kFloats);
  graph.replay({{x, other}});
  EXPECT_EQ(read(one)[0], 6);
  EXPECT_EQ(read(two)[0], 15);
}

TEST_F(Rebinding, SurvivesInstantiate) {
  const Tensor x = full({8}, 1, kFloats), other = full({8}, 5, kFloats);
  Tensor y;
  CUDAGraph graph(true);
  capture(graph, [&] { y = x + 1; });
  graph.replay({{x, other}});
  graph.instantiate();
  graph.replay({{x, other}});
  EXPECT_EQ(read(y)[0], 6);
  graph.instantiate();
  graph.replay();
  EXPECT_EQ(read(y)[0], 2);
}

TEST_F(Rebinding, RefusesTensorsThatDiffer) {
  const Tensor x = ones({4, 8}, kFloats);
  Tensor y;
  CUDAGraph graph;
  capture(graph, [&] { y = x + 1; });
  const auto with = [&](const Tensor& now) { return refusal(graph, {{x, now}}); };
  EXPECT_SAYS(with(ones({4, 8}, Options(int32, x.device()))),
              "bind, pair 0: the new tensor has dtype int32, expected float32 as the captured one");
  EXPECT_SAYS(with(ones({8, 4}, kFloats)), "has shape [8, 4], expected [4, 8]");
  EXPECT_SAYS(with(ones({8, 4}, kFloats).t()), "has strides [1, 4], expected [8, 1]");
  EXPECT_SAYS(with(ones({4, 8})), "has device cpu, expected cuda:0");
  EXPECT_SAYS(with(ones({33}, kFloats).narrow(0, 1, 32).view({4, 8})),
              "has an address that is, modulo 16, 4, expected 0");
  EXPECT_SAYS(with(Tensor()), "a tensor is undefined");
  EXPECT_SAYS(refusal(graph, {{ones({4, 8}), x}}), "the captured tensor is on cpu");
  EXPECT_SAYS(refusal(graph, {{x, x.alias()}, {ones({4}, kFloats), ones({4}, kFloats)}}),
              "bind, pair 1: the graph does not use the captured tensor");
  const Tensor other = full({4, 8}, 3, kFloats);
  graph.replay({{x, other}});  // nothing is left of all that
  EXPECT_EQ(read(y)[0], 4);
}

TEST_F(Rebinding, RefusesNewOverlaps) {
  const Tensor x = ones({16}, kFloats), z = ones({16}, kFloats);
  const Tensor y = zeros({16}, kFloats);
  CUDAGraph graph;
  capture(graph, [&] {
    add_out(const_cast<Tensor&>(y), x, z);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  });
  EXPECT_SAYS(refusal(graph, {{x, y}}), "overlaps other memory of the graph");
  EXPECT_SAYS(refusal(graph, {{y, z}}), "overlaps other memory of the graph");
  const Tensor both = zeros({20}, kFloats);
  EXPECT_SAYS(refusal(graph, {{x, both.narrow(0, 0, 16)}, {y, both.narrow(0, 4, 16)}}),
              "the new tensor overlaps that of pair 0");
  EXPECT_SAYS(refusal(graph, {{x, ones({16}, kFloats)}, {x, ones({16}, kFloats)}}),
              "the captured tensor overlaps that of pair 0");
  EXPECT_EQ(refusal(graph, {{x, z}}), "");  // both are only read
}

TEST_F(Rebinding, RefusesPartsOfWhatWorkUses) {
  const Tensor x = ones({16}, kFloats);
  Tensor y;
  CUDAGraph graph;
  capture(graph, [&] { y = x + 1; });
  EXPECT_SAYS(refusal(graph, {{x.narrow(0, 0, 8), ones({8}, kFloats)}}),
              "the graph also uses memory beside that of the captured tensor");
}

TEST_F(Rebinding, NamesWorkThatCannotBeBound) {
  const Tensor x = ones({16}, kFloats), other = full({16}, 2, kFloats);
  Tensor y;
  CUDAGraph silent;
  capture(silent, [&] {
    y = x + 1;
    cuda::host_function([] {}, cuda::current_stream());
  });
  EXPECT_SAYS(refusal(silent, {{x, other}}), "captured host function");
  CUDAGraph host;
  float* const seen = static_cast<float*>(x.data_ptr());
  capture(host, [&] {
    y = x + 1;
    cuda::Access access{seen, 16 * sizeof(float), false};
    cuda::host_function([] {}, cuda::current_stream(), {&access, 1});
  });
  EXPECT_SAYS((refusal<AcceleratorError>(host, {{x, other}})),
              "captured 'host function' cannot be given other memory");
  host.replay();  // the add, which had changed before, is as it was
  EXPECT_EQ(read(y)[0], 2);
}

TEST_F(Rebinding, NeedsAGraph) {
  CUDAGraph graph;
  EXPECT_SAYS(refusal(graph, {{ones({1}, kFloats), ones({1}, kFloats)}}),
              "Called CUDAGraph::replay without a preceding successful capture.");
}

/// The last operations that observers were told of.
struct Seen : cuda::Observer {
  Seen() { cuda::add_observer(*this); }
  ~Seen() override { cuda::remove_observer(*this); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  void notice(const cuda::Activity& activity) noexcept override {
    if (activity.kind == cuda::Activity::Kind::kernel_launched)
      for (const cuda::Access& access : activity.accesses) addresses.push_back(access.address);
  }
  std::vector<const void*> addresses;
};

/// It needs what it replays to the end.
struct Resets final : cuda::Observer {
  explicit Resets(CUDAGraph& of) : graph(of) { cuda::add_observer(*this); }
  ~Resets() override { cuda::remove_observer(*this); }
  Resets(const Resets&) = delete;
  Resets& operator=(const Resets&) = delete;
  void notice(const cuda::Activity& activity) noexcept override {
    if (activity.kind != cuda::Activity::Kind::kernel_launched || !error.empty()) return;
    try {
      graph.replay();
      graph.reset();
    } catch (const Error& refused) {
      error = refused.what();
    }
  }
  CUDAGraph& graph;
  std::string error;
};

TEST_F(Rebinding, AnObserverOfAReplayMayReplayButNotReset) {
  const Tensor x = zeros({16}, kFloats);
  CUDAGraph graph;
  capture(graph, [&] { x.add_(1); });
  {
    Resets resets(graph);
    graph.replay();
    EXPECT_SAYS(resets.error,
                "reset() called on a CUDAGraph by an observer of its replay, expected it to be "
                "called when the replay is over");
  }
  EXPECT_EQ(read(x)[0], 2);
  graph.replay();
  EXPECT_EQ(read(x)[0], 3);
  graph.reset();
}

TEST_F(Rebinding, ObserversAreToldOfTheMemoryThatIsUsed) {
  const Tensor x = ones({16}, kFloats), other = full({16}, 2, kFloats);
  Tensor y;
  CUDAGraph graph;
  capture(graph, [&] { y = x + 1; });
  Seen seen;
  graph.replay({{x, other}});
  EXPECT_EQ(seen.addresses, (std::vector<const void*>{y.data_ptr(), other.data_ptr()}));
}

}  // namespace
}  // namespace ember
