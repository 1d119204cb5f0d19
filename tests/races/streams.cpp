// Streams and events: waits that are missing, too early, or for something else.
#include <array>

#include "tests/races/races.h"

namespace ember::races {
namespace {

double missing_wait_for_producer(bool fixed) {
  const Stream producer, consumer;
  DeviceBuffer data = allocate(kBytes, producer);
  const Seen seen(consumer);
  produce(producer, data.data(), kBytes, 7);
  if (fixed) consumer.wait_stream(producer);
  seen.note(consumer, data.data());
  record_stream(data.data(), consumer);
  return seen.on_host(consumer);
}

double overwritten_before_it_was_read(bool fixed) {
  const Stream copies, compute;
  DeviceBuffer batch = allocate(kBytes, copies);
  const Seen seen(compute);
  produce(copies, batch.data(), kBytes, 1);
  compute.wait_stream(copies);
  seen.note(compute, batch.data());
  if (fixed) copies.wait_stream(compute);
  produce(copies, batch.data(), kBytes, 2);  // the next batch
  record_stream(batch.data(), compute);
  return seen.on_host(compute);
}

double two_writers(bool fixed) {
  const Stream first, second;
  DeviceBuffer staging = allocate(kBytes, first);
  const Seen seen(second);
  produce(first, staging.data(), kBytes, 1);
  if (fixed) second.wait_stream(first);
  produce(second, staging.data(), kBytes, 2);
  second.wait_stream(first);
  seen.note(second, staging.data());
  record_stream(staging.data(), second);
  return seen.on_host(second);
}

double wait_before_record(bool fixed) {
  const Stream producer, consumer;
  Event ready;
  DeviceBuffer data = allocate(kBytes, producer);
  const Seen seen(consumer);
  produce(producer, data.data(), kBytes, 7);
  if (fixed) ready.record(producer);
  ready.wait(consumer);  // of an event that was never recorded: nothing
  seen.note(consumer, data.data());
  record_stream(data.data(), consumer);
  return seen.on_host(consumer);
}

double event_recorded_too_early(bool fixed) {
  const Stream forward, next;
  Event done;
  DeviceBuffer pool = allocate(kBytes, forward);
  const Seen seen(next);
  if (!fixed) done.record(forward);
  produce(forward, pool.data(), kBytes, 1);
  if (fixed) done.record(forward);
  done.wait(next);
  produce(next, pool.data(), kBytes, 2);
  next.wait_stream(forward);
  seen.note(next, pool.data());
  record_stream(pool.data(), next);
  return seen.on_host(next);
}

double event_recorded_again(bool fixed) {
  const Stream first, second, last;
  Event done;
  DeviceBuffer a = allocate(kBytes, first), b = allocate(kBytes, second);
  const Seen seen(last);
  produce(first, a.data(), kBytes, 1);
  done.record(first);
  if (fixed) done.wait(last);
  produce(second, b.data(), kBytes, 2);
  done.record(second);  // stands for this stream now, and for the first one no more
  done.wait(last);
  seen.note(last, a.data());
  seen.note(last, b.data());
  record_stream(a.data(), last);
  record_stream(b.data(), last);
  return seen.on_host(last);
}

double wrong_stream_waits(bool fixed) {
  const Stream producer, other, consumer;
  DeviceBuffer gradients = allocate(kBytes, producer);
  const Seen seen(consumer);
  produce(producer, gradients.data(), kBytes, 7);
  const Event ready = producer.record_event();
  ready.wait(fixed ? consumer : other);
  seen.note(consumer, gradients.data());
  record_stream(gradients.data(), consumer);
  return seen.on_host(consumer);
}

double one_wait_of_three_is_missing(bool fixed) {
  const Stream to_device, compute, to_host;
  DeviceBuffer in = allocate(kBytes, to_device), out = allocate(kBytes, compute);
  PinnedBuffer result = allocate_pinned(kBytes);
  produce(to_device, in.data(), kBytes, 6);
  compute.wait_stream(to_device);
  transform(compute, out.data(), in.data(), kBytes);
  if (fixed) to_host.wait_stream(compute);
  copy_async(result.data(), out.data(), kBytes, to_host);
  to_device.wait_stream(compute);
  produce(to_device, in.data(), kBytes, 8);
  record_stream(in.data(), compute);
  record_stream(out.data(), to_host);
  pinned_record_event(result, to_host);
  to_host.synchronize();
  host_reads(result.data(), kBytes);
  return mean_of(result.data());
}

double double_buffer_with_one_event_too_few(bool fixed) {
  const Stream copies, compute;
  std::array<DeviceBuffer, 2> buffers{allocate(kBytes, copies), allocate(kBytes, copies)};
  std::array<Event, 2> filled, used;
  const Seen seen(compute);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::size_t which = i % 2;
    if (fixed) used[which].wait(copies);
    produce(copies, buffers[which].data(), kBytes, i + 1);
    filled[which].record(copies);
    filled[which].wait(compute);
    seen.note(compute, buffers[which].data());
    used[which].record(compute);
  }
  for (const DeviceBuffer& buffer : buffers) record_stream(buffer.data(), compute);
  return seen.on_host(compute);
}

double ping_pong_without_an_order(bool fixed) {
  const Stream even, odd;
  std::array<DeviceBuffer, 2> field{allocate(kBytes, even), allocate(kBytes, odd)};
  const Seen seen(even);
  produce(even, field[0].data(), kBytes, 1);
  odd.wait_stream(even);
  transform(odd, field[1].data(), field[0].data(), kBytes);
  if (fixed) even.wait_stream(odd);
  transform(even, field[0].data(), field[1].data(), kBytes);
  seen.note(even, field[0].data());
  record_stream(field[0].data(), odd);
  record_stream(field[1].data(), even);
  return seen.on_host(even);
}

double default_stream_against_another(bool fixed) {
  const Stream side;
  const Stream main = default_stream(0);
  DeviceBuffer image = allocate(kBytes, main);
  const Seen seen(side);
  fill_async(image.data(), 1, kBytes, main);
  if (fixed) side.wait_stream(main);
  seen.note(side, image.data());  // streams here do not wait for the default stream
  record_stream(image.data(), side);
  return seen.on_host(side);
}

double made_on_the_current_stream(bool fixed) {
  const Stream side;
  const Tensor weights = ones({32, 32}, "cuda");
  if (fixed) side.wait_stream(current_stream());
  const StreamGuard on(side);
  const Tensor twice = weights * 2;
  weights.record_stream(side);
  return total(twice);
}

double external_stream_unordered(bool fixed) {
  const Stream ours, theirs;  // the latter stands for another library's
  const ExternalStream external(theirs.native(), 0);
  DeviceBuffer exchanged = allocate(kBytes, ours);
  const Seen seen(external);
  produce(ours, exchanged.data(), kBytes, 7);
  if (fixed) external.wait_stream(ours);
  seen.note(external, exchanged.data());
  record_stream(exchanged.data(), external);
  return seen.on_host(external);
}

double query_taken_for_a_wait(bool fixed) {
  const Stream producer, consumer;
  DeviceBuffer data = allocate(kBytes, producer);
  const Seen seen(consumer);
  produce(producer, data.data(), kBytes, 7);
  const Event ready = producer.record_event();
  if (fixed)
    ready.wait(consumer);
  else
    (void)ready.query();  // whatever it answers
  seen.note(consumer, data.data());
  record_stream(data.data(), consumer);
  return seen.on_host(consumer);
}

double lost_update(bool fixed) {
  const Stream first, second;
  DeviceBuffer sum = allocate(kBytes, first);
  const Seen seen(second);
  produce(first, sum.data(), kBytes, 1);
  second.wait_stream(first);
  transform(first, sum.data(), sum.data(), kBytes);  // sum += 1
  if (fixed) second.wait_stream(first);
  transform(second, sum.data(), sum.data(), kBytes);
  second.wait_stream(first);
  seen.note(second, sum.data());
  record_stream(sum.data(), second);
  return seen.on_host(second);
}

double scratch_shared_by_two_streams(bool fixed) {
  const Stream first, second;
  DeviceBuffer scratch = allocate(kBytes, first);
  const Seen by_first(first), by_second(second);
  produce(first, scratch.data(), kBytes, 1);
  by_first.note(first, scratch.data());
  const Event done = first.record_event();
  if (fixed) done.wait(second);
  produce(second, scratch.data(), kBytes, 2);
  by_second.note(second, scratch.data());
  record_stream(scratch.data(), second);
  return by_first.on_host(first) * 10 + by_second.on_host(second);
}

constexpr Case kStreamCases[] = {
    {"missing wait for the producer", "https://github.com/PaddlePaddle/Paddle/pull/15664", kRace, 1,
     &missing_wait_for_producer, 7},
    {"overwritten before it was read", "https://github.com/BVLC/caffe/pull/2998", kRace, 1,
     &overwritten_before_it_was_read, 1},
    {"two writers", "https://github.com/flashinfer-ai/flashinfer/pull/4476", kRace, 1, &two_writers,
     2},
    {"wait before record", "https://github.com/cms-patatrack/pixeltrack-standalone/pull/202", kRace,
     1, &wait_before_record, 7},
    {"event recorded too early", "https://github.com/sgl-project/sglang/pull/18746", kRace, 1,
     &event_recorded_too_early, 2},
    {"event recorded again", "https://github.com/torch/cutorch/pull/222", kRace, 1,
     &event_recorded_again, 12},
    {"the wrong stream waits", "https://github.com/pytorch/pytorch/pull/45787", kRace, 1,
     &wrong_stream_waits, 7},
    {"one wait of three is missing", "https://github.com/huggingface/blog/pull/3372", kRace, 1,
     &one_wait_of_three_is_missing, 7},
    {"double buffer with one event too few", "https://github.com/spectralcode/OCTproZ/issues/14",
     kRace, 1, &double_buffer_with_one_event_too_few, 1234},
    {"ping-pong without an order", "https://github.com/shader-slang/slangpy/issues/377", kRace, 1,
     &ping_pong_without_an_order, 3},
    {"the default stream against another", "https://github.com/OpenPPL/ppl.cv/issues/135", kRace, 1,
     &default_stream_against_another, 0x01010101},
    {"made on the current stream", "https://github.com/NVIDIA-BioNeMo/nvMolKit/pull/55", kRace, 1,
     &made_on_the_current_stream, 2048},
    {"external stream unordered", "https://github.com/dmlc/dlpack/issues/57", kRace, 1,
     &external_stream_unordered, 7},
    {"a query taken for a wait", "https://github.com/NVIDIA/cccl/pull/1238", kRace, 1,
     &query_taken_for_a_wait, 7},
    {"lost update", "https://github.com/pytorch/pytorch/pull/31930", kRace, 1, &lost_update, 3},
    {"scratch shared by two streams", "https://github.com/kokkos/kokkos/issues/3246", kRace, 1,
     &scratch_shared_by_two_streams, 12},
};

}  // namespace

std::span<const Case> stream_cases() { return kStreamCases; }

}  // namespace ember::races
