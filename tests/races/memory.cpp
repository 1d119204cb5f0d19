// Memory that is freed while it is used, and views that share it.
#include <algorithm>

#include "tests/races/races.h"

namespace ember::races {
namespace {

double freed_and_used_again(bool fixed) {
  const Stream side;
  Tensor x = ones({256}, "cuda");
  side.wait_stream(current_stream());
  Tensor y;
  {
    const StreamGuard on(side);
    y = x + 1;
  }
  if (fixed) x.record_stream(side);
  x = Tensor();
  const Tensor z = zeros({256}, "cuda");  // may lie where x lay
  const StreamGuard on(side);
  return total(y);
}

double record_stream_on_a_view(bool fixed) {
  const Stream side;
  Tensor base = ones({10, 64}, "cuda");
  side.wait_stream(current_stream());
  Tensor y;
  {
    const Tensor view = base.narrow(0, 5, 5);
    const StreamGuard on(side);
    y = view * 2;
    if (fixed) view.record_stream(side);
  }
  base = Tensor();
  const Tensor next = zeros({10, 64}, "cuda");
  const StreamGuard on(side);
  return total(y);
}

double copied_back_while_it_is_freed(bool fixed) {
  const Stream copies;
  PinnedBuffer host = allocate_pinned(kBytes);
  {
    DeviceBuffer state = allocate(kBytes, default_stream(0));
    produce(default_stream(0), state.data(), kBytes, 1);
    copies.wait_stream(default_stream(0));
    copy_async(host.data(), state.data(), kBytes, copies);
    if (fixed) record_stream(state.data(), copies);
  }
  DeviceBuffer next = allocate(kBytes, default_stream(0));
  produce(default_stream(0), next.data(), kBytes, 2);
  pinned_record_event(host, copies);
  copies.synchronize();
  host_reads(host.data(), kBytes);
  return mean_of(host.data());
}

double overlapping_views(bool fixed) {
  const Stream side;
  const Tensor x = zeros({100}, "cuda");
  side.wait_stream(current_stream());
  x.narrow(0, 0, 60).add_(1);
  if (fixed) side.wait_stream(current_stream());
  const StreamGuard on(side);
  const Tensor tail = x.narrow(0, 40, 60) * 2;  // another address, the same bytes
  x.record_stream(side);
  return total(tail);
}

double slice_in_place_while_the_whole_is_read(bool fixed) {
  const Stream side;
  const Tensor cache = zeros({16, 64}, "cuda");
  side.wait_stream(current_stream());
  Tensor sum;
  {
    const StreamGuard on(side);
    sum = cache.sum();
    cache.record_stream(side);
  }
  if (fixed) current_stream().wait_stream(side);
  cache.select(0, 7).fill_(1);
  const StreamGuard on(side);
  return sum.item<double>();
}

double columns_that_meet(bool fixed) {
  const Stream side;
  const Tensor x = ones({64, 8}, "cuda");
  side.wait_stream(current_stream());
  x.narrow(1, 0, 5).add_(1);
  if (fixed) side.wait_stream(current_stream());
  {
    const StreamGuard on(side);
    x.narrow(1, 4, 4).mul_(3);  // column 4 is in both
    x.record_stream(side);
  }
  current_stream().wait_stream(side);
  return total(x);
}

double arguments_overwritten_by_the_next_launch(bool fixed) {
  const Stream first, second;
  PinnedBuffer arguments = allocate_pinned(kBytes);
  DeviceBuffer a = allocate(kBytes, first), b = allocate(kBytes, second);
  const Seen by_first(first), by_second(second);
  auto* const numbers = static_cast<std::uint32_t*>(arguments.data());
  host_writes(numbers, kBytes);
  std::fill_n(numbers, kNumbers, 1);
  copy_async(a.data(), numbers, kBytes, first);
  if (fixed) second.wait_stream(first);
  host_function([numbers] { std::fill_n(numbers, kNumbers, 2); }, second,
                {writes(numbers, kNumbers)});
  copy_async(b.data(), numbers, kBytes, second);
  by_first.note(first, a.data());
  by_second.note(second, b.data());
  pinned_record_event(arguments, first);
  pinned_record_event(arguments, second);
  return by_first.on_host(first) * 10 + by_second.on_host(second);
}

constexpr Case kMemoryCases[] = {
    {"freed and used again", "https://github.com/meta-pytorch/torchrec/pull/4231", kReuse, 1,
     &freed_and_used_again, 512},
    {"record_stream on a view", "https://github.com/pytorch/pytorch/issues/27366", kReuse, 1,
     &record_stream_on_a_view, 640},
    {"copied back while it is freed", "https://github.com/rapidsai/rmm/pull/2490", kReuse, 1,
     &copied_back_while_it_is_freed, 1},
    {"overlapping views", "https://github.com/flashinfer-ai/flashinfer/pull/3625", kRace, 1,
     &overlapping_views, 40},
    {"a slice in place while the whole is read", "https://github.com/sgl-project/sglang/pull/18746",
     kRace, 1, &slice_in_place_while_the_whole_is_read, 0},
    {"columns that meet", "https://github.com/erf-model/ERF/issues/3714", kRace, 1,
     &columns_that_meet, 64 * (4 * 2 + 6 + 3 * 3)},
    {"arguments overwritten by the next launch",
     "https://github.com/Genesis-Embodied-AI/quadrants/pull/649", kRace, 1,
     &arguments_overwritten_by_the_next_launch, 12},
};

}  // namespace

std::span<const Case> memory_cases() { return kMemoryCases; }

}  // namespace ember::races
