// Graphs, transforms, and tensors sent between devices. Written without sight of the sanitizer, as
// those in unseen_training.cpp.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/races/races.h"

namespace ember::races {
namespace {

double result_copied_under_the_next_replay(bool fixed) {
  const Stream reader;
  const Tensor input = zeros({256}, "cuda");
  CUDAGraph step;
  Tensor output;
  {
    GraphCapture capture = graph(step);
    output = input * 2;
    capture.end();
  }
  input.fill_(1);
  step.replay();
  reader.wait_stream(current_stream());
  Tensor first;
  {
    const StreamGuard on(reader);
    first = output.clone();  // since the next replay overwrites it
  }
  if (fixed) current_stream().wait_stream(reader);
  input.fill_(3);
  step.replay();
  current_stream().wait_stream(reader);
  first.record_stream(current_stream());
  return total(first) * 10 + total(output);
}

double graphs_of_one_pool_replayed_at_once(bool fixed) {
  const Stream one, other;
  const Tensor a = ones({256}, "cuda"), b = full({256}, 3.0, "cuda");
  const Tensor x = zeros({256}, "cuda"), y = zeros({256}, "cuda");
  const MemPoolId pool = graph_pool_handle();
  CUDAGraph left, right;
  {
    GraphCapture capture = graph(left, pool);
    x.copy_(a * 2 + 1);
    capture.end();
  }
  {
    GraphCapture capture = graph(right, pool);
    y.copy_(b * 2 + 1);  // by way of the same memory
    capture.end();
  }
  one.wait_stream(current_stream());
  other.wait_stream(current_stream());
  {
    const StreamGuard on(one);
    left.replay();
  }
  if (fixed) other.wait_stream(one);
  {
    const StreamGuard on(other);
    right.replay();
  }
  current_stream().wait_stream(one);
  current_stream().wait_stream(other);
  return total(x) * 10 + total(y);
}

double rewritten_under_the_replay(bool fixed) {
  const Stream planner;
  const PinnedBuffer plan = allocate_pinned(kBytes);
  const DeviceBuffer lengths = allocate(kBytes);
  const Seen seen(current_stream());
  CUDAGraph step;
  {
    GraphCapture capture = graph(step);
    copy_async(lengths.data(), plan.data(), kBytes);
    seen.note(current_stream(), lengths.data());
    capture.end();
  }
  auto* const numbers = plan.as<std::uint32_t>();
  for (std::uint32_t i = 1; i <= 3; ++i) {
    if (fixed) planner.wait_stream(current_stream());
    host_function([=] { std::fill_n(numbers, kNumbers, i); }, planner, {writes(numbers, kNumbers)});
    current_stream().wait_stream(planner);
    step.replay();
  }
  pinned_record_event(plan, planner);
  pinned_record_event(plan, current_stream());
  return seen.on_host(current_stream());
}

/// A transform that runs where it was planned, as some libraries' plans do.
struct Plan {
  Stream stream = current_stream();
  Tensor operator()(const Tensor& signal) const {
    const StreamGuard on(stream);
    return fft::rfft(signal);
  }
};

double plan_that_keeps_its_stream(bool fixed) {
  const Plan plan;
  const Tensor signal = zeros({64}, "cuda");
  const Stream side;
  side.wait_stream(current_stream());
  const StreamGuard on(side);
  signal.fill_(1);
  if (fixed) plan.stream.wait_stream(side);
  const Tensor spectra = plan(signal.as_strided({7, 16}, {8, 1}));
  side.wait_stream(plan.stream);
  spectra.record_stream(side);
  return total(spectra.select(1, 0).real());
}

double piece_used_before_it_arrived(bool fixed) {
  const Stream copies(1);
  const Tensor batch = ones({2, 256}).pin_memory();
  const std::vector<Tensor> pieces =
      comm::scatter(batch, {0, 1}, {}, 0, {std::nullopt, std::optional(copies)});
  if (fixed) current_stream(1).wait_stream(copies);
  pieces[1].record_stream(current_stream(1));
  return total(pieces[0]) + total(pieces[1]);
}

double refilled_while_it_is_broadcast(bool fixed) {
  const Stream sending(0);
  const Tensor gradients = ones({256}, "cuda:0"), received = zeros({256}, "cuda:1");
  sending.wait_stream(current_stream(0));
  {
    const StreamGuard on(sending);
    (void)comm::broadcast(gradients, {}, std::vector{received});
    gradients.record_stream(sending);
  }
  if (fixed) current_stream(0).wait_stream(sending);
  gradients.fill_(5);  // those of the next layer
  return total(received);
}

constexpr Case kLibraryCases[] = {
    {"a result copied under the next replay",
     "https://github.com/sgl-project/sglang-omni/pull/1369", kRace, 1,
     &result_copied_under_the_next_replay, 256 * 2 * 10 + 256 * 6},
    {"graphs of one pool replayed at once", "https://github.com/pytorch/pytorch/pull/166975", kRace,
     1, &graphs_of_one_pool_replayed_at_once, 256 * 3 * 10 + 256 * 7},
    {"rewritten under the replay", "https://github.com/mstar-project/mstar/pull/236", kRace, 1,
     &rewritten_under_the_replay, 123},
    {"a plan that keeps its stream", "https://github.com/cupy/cupy/issues/2357", kRace, 1,
     &plan_that_keeps_its_stream, 7 * 16},
    {"a piece used before it arrived",
     "https://github.com/facebookresearch/maskrcnn-benchmark/issues/512", kRace, 2,
     &piece_used_before_it_arrived, 2 * 256},
    {"refilled while it is broadcast", "https://github.com/karpathy/llm.c/pull/593", kRace, 2,
     &refilled_while_it_is_broadcast, 256},
};

}  // namespace

std::span<const Case> library_cases() { return kLibraryCases; }

}  // namespace ember::races
