// Training and serving loops of one device. Written without sight of the sanitizer, to see what it
// finds of bugs that it was not made for; so a case must not be changed to suit it.
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/races/races.h"

namespace ember::races {
namespace {

double reload_overtakes_its_offload(bool fixed) {
  const Stream offload;
  const Tensor activation = full({256}, 3.0, "cuda");
  const Tensor staging = zeros({256}).pin_memory();
  offload.wait_stream(current_stream());
  {
    const StreamGuard on(offload);
    staging.copy_(activation, /*non_blocking=*/true);
    activation.record_stream(offload);
  }
  const Event offloaded = offload.record_event();
  // The backward pass comes here before anything was prefetched, and reloads it itself.
  if (fixed) offloaded.wait(current_stream());
  const Tensor reloaded = staging.to("cuda", /*non_blocking=*/true);
  return total(reloaded);
}

double reloaded_tensor_freed_under_its_use(bool fixed) {
  const Stream copies;
  const Tensor first = ones({256}).pin_memory(), second = full({256}, 5.0).pin_memory();
  const auto reload = [&](const Tensor& host) {
    Tensor here;  // memory of the stream that copies
    {
      const StreamGuard on(copies);
      here = host.to("cuda", /*non_blocking=*/true);
    }
    current_stream().wait_stream(copies);
    if (fixed) here.record_stream(current_stream());
    return here;
  };
  Tensor activation = reload(first);
  const Tensor gradient = activation * 2;
  activation = Tensor();
  const Tensor next = reload(second);  // may lie where the first one lay
  return total(gradient + next);
}

double optimizer_overtakes_the_backward_pass(bool fixed) {
  const Stream optimizer;
  const Stream backward = current_stream();
  const Tensor weight = ones({16, 16}, "cuda"), input = ones({4, 16}, "cuda");
  const Tensor of_output = ones({4, 16}, "cuda");
  const Tensor of_weight = mm(of_output.t(), input);
  const Event ready = backward.record_event();
  const Tensor of_input = mm(of_output, weight.t());
  ready.wait(optimizer);  // the gradient is there, but the weight is not free yet
  if (fixed) optimizer.wait_stream(backward);
  {
    const StreamGuard on(optimizer);
    weight.sub_(of_weight, 0.25);
    weight.record_stream(optimizer);
    of_weight.record_stream(optimizer);
  }
  backward.wait_stream(optimizer);
  return total(of_input) + total(weight);
}

double cleared_after_its_first_rows(bool fixed) {
  const Stream decode;
  const Tensor rows = tensor<std::int64_t>({1, 2}, "cuda"), keys = ones({2, 64}, "cuda");
  decode.wait_stream(current_stream());
  const Tensor cache = empty({8, 64}, "cuda");
  cache.zero_();  // the cache has grown
  if (fixed) decode.wait_stream(current_stream());
  {
    const StreamGuard on(decode);
    cache.index_put_({rows}, keys);
    for (const Tensor& used : {rows, keys, cache}) used.record_stream(decode);
  }
  current_stream().wait_stream(decode);
  return total(cache);
}

double export_released_under_its_reader(bool fixed) {
  const Stream exporter, importer;
  auto memory = std::make_shared<DeviceBuffer>(allocate(kBytes, exporter));
  void* const data = memory->data();
  const Seen seen(importer);
  produce(exporter, data, kBytes, 7);
  importer.wait_stream(exporter);
  {
    const Tensor imported = from_blob(data, {static_cast<std::int64_t>(kNumbers)}, {int32, "cuda"},
                                      [owner = std::move(memory)]() mutable { owner.reset(); });
    seen.note(importer, imported.data_ptr());
    if (fixed) imported.record_stream(importer);
  }  // released, while the importer's kernel may not have begun
  DeviceBuffer next = allocate(kBytes, exporter);
  produce(exporter, next.data(), kBytes, 2);
  return seen.on_host(importer);
}

double replica_on_its_default_stream(bool fixed) {
  const Stream side;
  const Tensor input = zeros({256}, "cuda");
  side.wait_stream(current_stream());
  const StreamGuard on(side);
  input.fill_(3);
  Tensor output;
  sim::thread replica([&] {  // where the stream that is current above is not
    if (fixed) current_stream().wait_stream(side);
    output = input * 2;
    input.record_stream(current_stream());
  });
  replica.join();
  side.wait_stream(default_stream(0));
  output.record_stream(side);
  return total(output);
}

constexpr Case kTrainingCases[] = {
    {"a reload overtakes its offload", "https://github.com/NVIDIA/Megatron-LM/issues/7398", kRace,
     1, &reload_overtakes_its_offload, 256 * 3},
    {"a reloaded tensor freed under its use", "https://github.com/pytorch/pytorch/issues/106360",
     kReuse, 1, &reloaded_tensor_freed_under_its_use, 256 * 7},
    {"the optimizer overtakes the backward pass",
     "https://github.com/meta-pytorch/torchrec/pull/2071", kRace, 1,
     &optimizer_overtakes_the_backward_pass, 4 * 16 * 16},
    {"cleared after its first rows", "https://github.com/kekzl/imp/pull/1709", kRace, 1,
     &cleared_after_its_first_rows, 2 * 64},
    {"an export released under its reader", "https://github.com/NVIDIA/cutile-python/issues/88",
     kReuse, 1, &export_released_under_its_reader, 7},
    {"a replica on its default stream", "https://github.com/ROCm/pytorch/pull/1053", kRace, 1,
     &replica_on_its_default_stream, 256 * 6},
};

}  // namespace

std::span<const Case> training_cases() { return kTrainingCases; }

}  // namespace ember::races
