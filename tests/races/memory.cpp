// Memory that is freed while it is used, and views that share it.
#include "tests/races/races.h"

namespace ember::races {
namespace {

void freed_and_used_again(bool fixed) {
  const Stream side;
  Tensor x = ones({256}, "cuda");
  side.wait_stream(current_stream());
  {
    const StreamGuard on(side);
    const Tensor y = x + 1;
  }
  if (fixed) x.record_stream(side);
  x = Tensor();
  const Tensor z = zeros({256}, "cuda");  // may lie where x lay
}

void record_stream_on_a_view(bool fixed) {
  const Stream side;
  Tensor base = ones({10, 64}, "cuda");
  side.wait_stream(current_stream());
  {
    const Tensor view = base.narrow(0, 5, 5);
    const StreamGuard on(side);
    const Tensor y = view * 2;
    if (fixed) view.record_stream(side);
  }
  base = Tensor();
  const Tensor next = zeros({10, 64}, "cuda");
}

void copied_back_while_it_is_freed(bool fixed) {
  const Stream copies;
  PinnedBuffer host = allocate_pinned(4096);
  {
    DeviceBuffer state = allocate(4096, default_stream(0));
    produce(default_stream(0), state.data(), 4096);
    copies.wait_stream(default_stream(0));
    copy_async(host.data(), state.data(), 4096, copies);
    if (fixed) record_stream(state.data(), copies);
  }
  DeviceBuffer next = allocate(4096, default_stream(0));
  produce(default_stream(0), next.data(), 4096);
  pinned_record_event(host, copies);
}

void overlapping_views(bool fixed) {
  const Stream side;
  const Tensor x = zeros({100}, "cuda");
  side.wait_stream(current_stream());
  x.narrow(0, 0, 60).add_(1);
  if (fixed) side.wait_stream(current_stream());
  {
    const StreamGuard on(side);
    const Tensor tail = x.narrow(0, 40, 60) * 2;  // another address, the same bytes
    x.record_stream(side);
  }
}

void slice_in_place_while_the_whole_is_read(bool fixed) {
  const Stream side;
  const Tensor cache = zeros({16, 64}, "cuda");
  side.wait_stream(current_stream());
  {
    const StreamGuard on(side);
    const Tensor total = cache.sum();
    cache.record_stream(side);
  }
  if (fixed) current_stream().wait_stream(side);
  cache.select(0, 7).fill_(1);
}

void columns_that_meet(bool fixed) {
  const Stream side;
  const Tensor x = zeros({64, 8}, "cuda");
  side.wait_stream(current_stream());
  x.narrow(1, 0, 5).add_(1);
  if (fixed) side.wait_stream(current_stream());
  {
    const StreamGuard on(side);
    x.narrow(1, 4, 4).add_(1);  // column 4 is in both
    x.record_stream(side);
  }
}

void arguments_overwritten_by_the_next_launch(bool fixed) {
  const Stream first, second;
  PinnedBuffer arguments = allocate_pinned(256);
  DeviceBuffer a = allocate(256, first), b = allocate(256, second);
  copy_async(a.data(), arguments.data(), 256, first);
  const auto refill = [](const Stream& on, void* data) {
    host_function([] {}, on, {writes(static_cast<char*>(data), 256)});
  };
  if (fixed) second.wait_stream(first);
  refill(second, arguments.data());
  copy_async(b.data(), arguments.data(), 256, second);
  pinned_record_event(arguments, first);
  pinned_record_event(arguments, second);
}

constexpr Case kMemoryCases[] = {
    {"freed and used again", "https://github.com/meta-pytorch/torchrec/pull/4231", kReuse, 1,
     &freed_and_used_again},
    {"record_stream on a view", "https://github.com/pytorch/pytorch/issues/27366", kReuse, 1,
     &record_stream_on_a_view},
    {"copied back while it is freed", "https://github.com/rapidsai/rmm/pull/2490", kReuse, 1,
     &copied_back_while_it_is_freed},
    {"overlapping views", "https://github.com/flashinfer-ai/flashinfer/pull/3625", kRace, 1,
     &overlapping_views},
    {"a slice in place while the whole is read", "https://github.com/sgl-project/sglang/pull/18746",
     kRace, 1, &slice_in_place_while_the_whole_is_read},
    {"columns that meet", "https://github.com/erf-model/ERF/issues/3714", kRace, 1,
     &columns_that_meet},
    {"arguments overwritten by the next launch",
     "https://github.com/Genesis-Embodied-AI/quadrants/pull/649", kRace, 1,
     &arguments_overwritten_by_the_next_launch},
};

}  // namespace

std::span<const Case> memory_cases() { return kMemoryCases; }

}  // namespace ember::races
