// Graphs: what capturing, replaying and binding other tensors cost the host, beside launches asked
// of CUDA directly, a step of inference from its first call to its end, with a graph and without,
// and batches of small operations.
#include <memory>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/raw.h"
#include "ember/ember.h"

namespace ember::bench {
namespace {

constexpr int kOperations = 200;
constexpr std::int64_t kElements = 1024;

void drain() { cuda::synchronize(0); }

Tensor floats(const Shape& sizes, double value) {
  return full(sizes, value, {Dtype::float32, Device("cuda:0")});
}

/// Captures on a stream of its own, as users do.
template <class Work>
std::unique_ptr<cuda::CUDAGraph> captured(const Work& work) {
  auto graph = std::make_unique<cuda::CUDAGraph>();
  auto scope = cuda::graph(*graph);
  work();
  scope.end();
  return graph;
}

struct Bench {
  Program& program;
  Raw* raw;  // null on simulated devices

  void add(const char* group, const std::string& name, const char* unit, double ours,
           double beside = kNothing, const char* goal = "") const {
    program.table().add({.group = group,
                         .name = name,
                         .unit = unit,
                         .ours = ours,
                         .raw = beside,
                         .goal = program.simulated() ? "" : goal});
  }
  /// Microseconds of one launch asked of CUDA directly.
  double raw_launch() const {
    if (raw == nullptr) return kNothing;
    return burst_medians(program.bursts(kDeviceCalls), &drain, [&] { raw->launch(); })[0];
  }
};

/// `x += 1`, as often as a graph holds it.
void captures(const Bench& bench) {
  constexpr const char* kGroup = "Graphs of 200 times x += 1, 1024 elements, host";
  const Tensor x = floats({kElements}, 0);
  const auto work = [&] {
    for (int i = 0; i < kOperations; ++i) x.add_(1);
  };
  const cuda::StreamGuard on{cuda::Stream(0)};  // what capturing needs, without emptying caches
  std::unique_ptr<cuda::CUDAGraph> graph;
  const auto capture = [&] {
    graph = std::make_unique<cuda::CUDAGraph>();
    graph->capture_begin();
    work();
    graph->capture_end();
  };
  const auto first = Clock::now();
  capture();
  bench.add(kGroup, "200 operations captured and made ready, the first time", "ms",
            microseconds(Clock::now() - first) / 1000);
  Bursts few = bench.program.bursts(kSlowCalls);
  bench.add(kGroup, "200 operations captured and made ready", "ms",
            burst_medians(few, &drain, capture)[0] / 1000, kNothing, "<= 1");
  few.calls = std::min(few.calls, 5);
  const auto times = burst_medians(
      few, &drain, [&] { graph->replay(); }, work);
  bench.add(kGroup, "200 operations replayed", "us", times[0]);
  bench.add(kGroup, "200 operations called one by one", "us", times[1],
            kOperations * bench.raw_launch());
}

/// The nodes of a graph that reads another tensor in each replay.
void bindings(const Bench& bench) {
  constexpr const char* kGroup = "Replays with other tensors, host, per node bound";
  const Tensor x = floats({kElements}, 1);
  const Tensor one = floats({kElements}, 1), other = floats({kElements}, 2);
  std::vector<Tensor> results(kOperations);
  const auto graph = captured([&] {
    for (Tensor& result : results) result = x + 1;
  });
  Bursts few = bench.program.bursts(kDeviceCalls);
  few.calls = std::min(few.calls, 5);
  bool turn = false;
  const auto times = burst_medians(
      few, &drain, [&] { graph->replay(); },
      [&] {
        turn = !turn;
        graph->replay({{x, turn ? one : other}});
      });
  // The first work of a burst gives back what the second one bound: once in so many calls.
  const double plain = times[0];
  bench.add(kGroup, "x + 1, a binding that changes each time", "us",
            (times[1] - plain) / kOperations, bench.raw_launch(), "<= 0.25 x raw");
  graph->replay({{x, one}});
  drain();
  const double same = burst_medians(few, &drain, [&] { graph->replay({{x, one}}); })[0];
  bench.add(kGroup, "x + 1, the same binding each time", "us", (same - plain) / kOperations);
}

/// Twenty layers of a product and three element-wise operations.
class Layers {
 public:
  Layers() {
    for (int layer = 0; layer < 20; ++layer) {
      weights_.push_back(floats({256, 256}, 0.004));
      shifts_.push_back(floats({256}, 0.01));
    }
  }
  const Tensor& input() const { return input_; }
  Tensor step() const {
    Tensor out = input_;
    for (std::size_t layer = 0; layer < weights_.size(); ++layer)
      out = (matmul(out, weights_[layer]) + shifts_[layer]).relu() * 1.01;
    return out;
  }

 private:
  const Tensor input_ = floats({32, 256}, 0.5);
  std::vector<Tensor> weights_, shifts_;
};

void inference(const Bench& bench) {
  constexpr const char* kGroup =
      "A step of inference: 20 products of 32 x 256 x 256, 60 element-wise operations, to its end";
  const Layers layers;
  Tensor out;
  const auto step = [&] { out = layers.step(); };
  const auto first = Clock::now();
  step();
  drain();
  bench.add(kGroup, "a step called, the first time", "us", microseconds(Clock::now() - first));
  const auto graph = captured(step);
  Bursts few = bench.program.bursts(kSlowCalls);
  const auto times = completion_medians(few, &drain, step, [&] { graph->replay(); });
  bench.add(kGroup, "a step called", "us", times[0]);
  bench.add(kGroup, "a step replayed", "us", times[1]);
  const auto graphed = cuda::graphed([&](const std::vector<Tensor>&) {
    step();
    return std::vector{out};
  });
  bench.add(kGroup, "a step as a graphed function", "us",
            completion_medians(few, &drain, [&] { (void)graphed({layers.input()}); })[0]);
}

/// Small operations to their end, one by one and in a batch, beside as many empty kernels asked of
/// CUDA directly. Each is measured warm: its graphs were made by the calls before.
void batches(const Bench& bench) {
  constexpr int kCount = 1000;
  const std::string group = "Batches, to the end";
  Bursts few = bench.program.bursts(kSlowCalls);
  const auto beside = [&](int count) {
    if (bench.raw == nullptr) return kNothing;
    return completion_medians(few, &drain, [&] {
      for (int i = 0; i < count; ++i) bench.raw->launch();
    })[0];
  };
  const auto rows = [&](const std::string& name, int count, const char* goal, const auto& work) {
    const auto in_batch = [&] {
      const cuda::Batch batch;
      work();
    };
    const auto first = Clock::now();
    in_batch();
    drain();
    const double cold = microseconds(Clock::now() - first);
    for (int i = 0; i < 3; ++i) in_batch();
    const auto times = completion_medians(few, &drain, work, in_batch);
    const double launches = beside(count);
    bench.add(group.c_str(), name + ", one by one", "us", times[0], launches);
    bench.add(group.c_str(), name + ", in a batch", "us", times[1], launches, goal);
    bench.add(group.c_str(), name + ", in a batch, the first time", "us", cold);
  };
  const Tensor one = floats({kElements}, 0);
  rows("1,000 dependent x += 1 of 1,024 elements", kCount, "<= 0.5 x raw", [&] {
    for (int i = 0; i < kCount; ++i) one.add_(1);
  });
  std::vector<Tensor> many;
  for (int i = 0; i < kCount; ++i) many.push_back(floats({kElements}, 0));
  rows("1,000 independent x += 1 of 1,024 elements", kCount, "<= 0.5 x raw", [&] {
    for (const Tensor& each : many) each.add_(1);
  });

  const Layers layers;
  Tensor out;
  rows("a step of inference of 80 operations", 80, "<= 0.6 x raw", [&] { out = layers.step(); });

  // What it costs where it cannot pay: few operations, whose shapes differ each time.
  constexpr int kFew = 7;
  int turn = 0;
  const auto differing = [&] {
    const std::int64_t size = 64 + turn++ % 100;
    for (int i = 0; i < kFew; ++i) one.narrow(0, 0, size + i).add_(1);
  };
  const cuda::Stream stream = cuda::current_stream();
  const auto times = burst_medians(
      bench.program.bursts(kDeviceCalls), &drain,
      [&] {
        differing();
        (void)stream.query();
      },
      [&] {
        const cuda::Batch batch;
        differing();
        (void)stream.query();
      });
  bench.add(group.c_str(), "what 7 operations and a query lose in a batch, each, host", "us",
            (times[1] - times[0]) / kFew, kNothing, "<= 0.3");
}

int run(int count, char** arguments) {
  Program program(count, arguments);
  std::unique_ptr<Raw> raw;
  if (!program.simulated()) raw = make_raw(0);
  const Bench bench{program, raw.get()};
  program.measure("captures", [&] { captures(bench); });
  program.measure("bindings", [&] { bindings(bench); });
  program.measure("inference", [&] { inference(bench); });
  program.measure("batches", [&] { batches(bench); });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
