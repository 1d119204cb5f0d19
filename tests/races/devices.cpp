// Two devices: each has its streams, and nothing orders those of one behind those of the other.
#include "tests/races/races.h"

namespace ember::races {
namespace {

double copy_over_memory_in_use(bool fixed) {
  const Stream copies(0);
  const Stream main = default_stream(1);
  DeviceBuffer from = allocate(kBytes, copies), to = allocate(kBytes, main);
  const Seen seen(main);
  produce(copies, from.data(), kBytes, 2);
  produce(main, to.data(), kBytes, 1);
  seen.note(main, to.data());
  if (fixed) copies.wait_stream(main);
  copy_async(to.data(), from.data(), kBytes, copies);
  record_stream(to.data(), copies);
  return seen.on_host(main);
}

double read_before_the_copy_arrived(bool fixed) {
  const Stream source(0), target(1);
  DeviceBuffer from = allocate(kBytes, source), to = allocate(kBytes, target);
  const Seen seen(target);
  produce(source, from.data(), kBytes, 7);
  copy_async(to.data(), from.data(), kBytes, source);
  if (fixed) target.wait_stream(source);
  seen.note(target, to.data());
  record_stream(to.data(), source);
  return seen.on_host(target);
}

double two_default_streams_are_two(bool fixed) {
  DeviceBuffer from = allocate(kBytes, default_stream(0)), to = allocate(kBytes, default_stream(1));
  const Seen seen(default_stream(1));
  fill_async(from.data(), 1, kBytes, default_stream(0));
  if (fixed) default_stream(1).wait_stream(default_stream(0));
  copy_async(to.data(), from.data(), kBytes, default_stream(1));
  seen.note(default_stream(1), to.data());
  record_stream(from.data(), default_stream(1));
  return seen.on_host(default_stream(1));
}

double stream_of_the_wrong_device(bool fixed) {
  // The event is recorded on the stream that is current, which is not where the work went.
  const Stream producer(0), consumer(1);
  DeviceBuffer data = allocate(kBytes, producer), here = allocate(kBytes, consumer);
  const Seen seen(consumer);
  produce(producer, data.data(), kBytes, 7);
  const DeviceGuard other(1);
  Event ready;
  ready.record(fixed ? producer : current_stream());
  ready.wait(consumer);
  copy_async(here.data(), data.data(), kBytes, consumer);
  seen.note(consumer, here.data());
  record_stream(data.data(), consumer);
  return seen.on_host(consumer);
}

constexpr Case kDeviceCases[] = {
    {"a copy over memory in use", "https://github.com/pytorch/pytorch/issues/15568", kRace, 2,
     &copy_over_memory_in_use, 1},
    {"read before the copy arrived", "https://github.com/pyscf/gpu4pyscf/pull/794", kRace, 2,
     &read_before_the_copy_arrived, 7},
    {"two default streams are two", "https://github.com/ROCm/rocm-systems/pull/10229", kRace, 2,
     &two_default_streams_are_two, 0x01010101},
    {"a stream of the wrong device", "https://github.com/pytorch/pytorch/pull/31930", kRace, 2,
     &stream_of_the_wrong_device, 7},
};

}  // namespace

std::span<const Case> device_cases() { return kDeviceCases; }

}  // namespace ember::races
