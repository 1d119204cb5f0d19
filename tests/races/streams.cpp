// Streams and events: waits that are missing, too early, or for something else.
#include <array>
#include <thread>

#include "tests/races/races.h"

namespace ember::races {
namespace {

void missing_wait_for_producer(bool fixed) {
  const Stream producer, consumer;
  DeviceBuffer data = allocate(kBytes, producer);
  produce(producer, data.data(), kBytes);
  if (fixed) consumer.wait_stream(producer);
  consume(consumer, data.data(), kBytes);
  record_stream(data.data(), consumer);
}

void overwritten_before_it_was_read(bool fixed) {
  const Stream copies, compute;
  DeviceBuffer batch = allocate(kBytes, copies);
  produce(copies, batch.data(), kBytes);
  compute.wait_stream(copies);
  consume(compute, batch.data(), kBytes);
  if (fixed) copies.wait_stream(compute);
  produce(copies, batch.data(), kBytes);  // the next batch
  record_stream(batch.data(), compute);
}

void two_writers(bool fixed) {
  const Stream first, second;
  DeviceBuffer staging = allocate(kBytes, first);
  produce(first, staging.data(), kBytes);
  if (fixed) second.wait_stream(first);
  produce(second, staging.data(), kBytes);
  record_stream(staging.data(), second);
}

void wait_before_record(bool fixed) {
  const Stream producer, consumer;
  Event ready;
  DeviceBuffer data = allocate(kBytes, producer);
  produce(producer, data.data(), kBytes);
  if (fixed) ready.record(producer);
  ready.wait(consumer);  // of an event that was never recorded: nothing
  consume(consumer, data.data(), kBytes);
  record_stream(data.data(), consumer);
}

void event_recorded_too_early(bool fixed) {
  const Stream forward, next;
  Event done;
  DeviceBuffer pool = allocate(kBytes, forward);
  if (!fixed) done.record(forward);
  produce(forward, pool.data(), kBytes);
  if (fixed) done.record(forward);
  done.wait(next);
  produce(next, pool.data(), kBytes);
  record_stream(pool.data(), next);
}

void event_recorded_again(bool fixed) {
  const Stream first, second, last;
  Event done;
  DeviceBuffer a = allocate(kBytes, first), b = allocate(kBytes, second);
  produce(first, a.data(), kBytes);
  done.record(first);
  if (fixed) done.wait(last);
  produce(second, b.data(), kBytes);
  done.record(second);  // stands for this stream now, and for the first one no more
  done.wait(last);
  consume(last, a.data(), kBytes);
  consume(last, b.data(), kBytes);
  record_stream(a.data(), last);
  record_stream(b.data(), last);
}

void wrong_stream_waits(bool fixed) {
  const Stream producer, other, consumer;
  DeviceBuffer gradients = allocate(kBytes, producer);
  produce(producer, gradients.data(), kBytes);
  const Event ready = producer.record_event();
  ready.wait(fixed ? consumer : other);
  consume(consumer, gradients.data(), kBytes);
  record_stream(gradients.data(), consumer);
}

void one_wait_of_three_is_missing(bool fixed) {
  const Stream to_device, compute, to_host;
  DeviceBuffer in = allocate(kBytes, to_device), out = allocate(kBytes, compute);
  PinnedBuffer result = allocate_pinned(kBytes);
  produce(to_device, in.data(), kBytes);
  compute.wait_stream(to_device);
  transform(compute, out.data(), in.data(), kBytes);
  if (fixed) to_host.wait_stream(compute);
  copy_async(result.data(), out.data(), kBytes, to_host);
  to_device.wait_stream(compute);
  produce(to_device, in.data(), kBytes);
  record_stream(in.data(), compute);
  record_stream(out.data(), to_host);
  pinned_record_event(result, to_host);
}

void double_buffer_with_one_event_too_few(bool fixed) {
  const Stream copies, compute;
  std::array<DeviceBuffer, 2> buffers{allocate(kBytes, copies), allocate(kBytes, copies)};
  std::array<Event, 2> filled, used;
  for (int i = 0; i < 4; ++i) {
    const auto which = static_cast<std::size_t>(i % 2);
    if (fixed) used[which].wait(copies);
    produce(copies, buffers[which].data(), kBytes);
    filled[which].record(copies);
    filled[which].wait(compute);
    consume(compute, buffers[which].data(), kBytes);
    used[which].record(compute);
  }
  for (const DeviceBuffer& buffer : buffers) record_stream(buffer.data(), compute);
}

void ping_pong_without_an_order(bool fixed) {
  const Stream even, odd;
  std::array<DeviceBuffer, 2> field{allocate(kBytes, even), allocate(kBytes, odd)};
  produce(even, field[0].data(), kBytes);
  odd.wait_stream(even);
  transform(odd, field[1].data(), field[0].data(), kBytes);
  if (fixed) even.wait_stream(odd);
  transform(even, field[0].data(), field[1].data(), kBytes);
  record_stream(field[0].data(), odd);
  record_stream(field[1].data(), even);
}

void default_stream_against_another(bool fixed) {
  const Stream side;
  const Stream main = default_stream(0);
  DeviceBuffer image = allocate(kBytes, main);
  fill_async(image.data(), 0, kBytes, main);
  if (fixed) side.wait_stream(main);
  consume(side, image.data(), kBytes);  // streams here do not wait for the default stream
  record_stream(image.data(), side);
}

void made_on_the_current_stream(bool fixed) {
  const Stream side;
  const Tensor weights = ones({32, 32}, "cuda");
  if (fixed) side.wait_stream(current_stream());
  {
    const StreamGuard on(side);
    const Tensor twice = weights * 2;
    weights.record_stream(side);
  }
}

void external_stream_unordered(bool fixed) {
  const Stream ours, theirs;  // the latter stands for another library's
  const ExternalStream external(theirs.native(), 0);
  DeviceBuffer exchanged = allocate(kBytes, ours);
  produce(ours, exchanged.data(), kBytes);
  if (fixed) external.wait_stream(ours);
  consume(external, exchanged.data(), kBytes);
  record_stream(exchanged.data(), external);
}

void query_taken_for_a_wait(bool fixed) {
  const Stream producer, consumer;
  DeviceBuffer data = allocate(kBytes, producer);
  produce(producer, data.data(), kBytes);
  const Event ready = producer.record_event();
  if (fixed)
    ready.wait(consumer);
  else
    (void)ready.query();  // whatever it answers
  consume(consumer, data.data(), kBytes);
  record_stream(data.data(), consumer);
}

void lost_update(bool fixed) {
  const Stream first, second;
  DeviceBuffer sum = allocate(kBytes, first);
  produce(first, sum.data(), kBytes);
  second.wait_stream(first);
  std::thread([&] { increment(first, sum.data(), kBytes); }).join();
  if (fixed) second.wait_stream(first);
  std::thread([&] { increment(second, sum.data(), kBytes); }).join();
  record_stream(sum.data(), second);
}

void scratch_shared_by_two_streams(bool fixed) {
  const Stream first, second;
  DeviceBuffer scratch = allocate(kBytes, first);
  produce(first, scratch.data(), kBytes);
  const Event done = [&] {
    transform(first, scratch.data(), scratch.data(), kBytes);
    return first.record_event();
  }();
  if (fixed) done.wait(second);
  transform(second, scratch.data(), scratch.data(), kBytes);
  record_stream(scratch.data(), second);
}

constexpr Case kStreamCases[] = {
    {"missing wait for the producer", "https://github.com/PaddlePaddle/Paddle/pull/15664", kRace, 1,
     &missing_wait_for_producer},
    {"overwritten before it was read", "https://github.com/BVLC/caffe/pull/2998", kRace, 1,
     &overwritten_before_it_was_read},
    {"two writers", "https://github.com/flashinfer-ai/flashinfer/pull/4476", kRace, 1,
     &two_writers},
    {"wait before record", "https://github.com/cms-patatrack/pixeltrack-standalone/pull/202", kRace,
     1, &wait_before_record},
    {"event recorded too early", "https://github.com/sgl-project/sglang/pull/18746", kRace, 1,
     &event_recorded_too_early},
    {"event recorded again", "https://github.com/torch/cutorch/pull/222", kRace, 1,
     &event_recorded_again},
    {"the wrong stream waits", "https://github.com/pytorch/pytorch/pull/45787", kRace, 1,
     &wrong_stream_waits},
    {"one wait of three is missing", "https://github.com/huggingface/blog/pull/3372", kRace, 1,
     &one_wait_of_three_is_missing},
    {"double buffer with one event too few", "https://github.com/spectralcode/OCTproZ/issues/14",
     kRace, 1, &double_buffer_with_one_event_too_few},
    {"ping-pong without an order", "https://github.com/shader-slang/slangpy/issues/377", kRace, 1,
     &ping_pong_without_an_order},
    {"the default stream against another", "https://github.com/OpenPPL/ppl.cv/issues/135", kRace, 1,
     &default_stream_against_another},
    {"made on the current stream", "https://github.com/NVIDIA-BioNeMo/nvMolKit/pull/55", kRace, 1,
     &made_on_the_current_stream},
    {"external stream unordered", "https://github.com/dmlc/dlpack/issues/57", kRace, 1,
     &external_stream_unordered},
    {"a query taken for a wait", "https://github.com/NVIDIA/cccl/pull/1238", kRace, 1,
     &query_taken_for_a_wait},
    {"lost update", "https://github.com/pytorch/pytorch/pull/31930", kRace, 1, &lost_update},
    {"scratch shared by two streams", "https://github.com/kokkos/kokkos/issues/3246", kRace, 1,
     &scratch_shared_by_two_streams},
};

}  // namespace

std::span<const Case> stream_cases() { return kStreamCases; }

}  // namespace ember::races
