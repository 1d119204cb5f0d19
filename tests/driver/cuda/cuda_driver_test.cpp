// The host code of the CUDA driver: devices, memory, streams, events, work.
#include <array>
#include <cstring>
#include <utility>

#include "fake_machine.h"

namespace ember::driver {
namespace {

std::string hex(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%zx", reinterpret_cast<std::size_t>(pointer));
  return text;
}

TEST_F(OnFakeCuda, ReadsProperties) {
  DeviceProperties properties;
  ASSERT_TRUE(cuda().device_properties(1, properties).ok());
  EXPECT_EQ(cuda().device_count(), 2);
  EXPECT_EQ(properties.name, "fake device 1");
  EXPECT_EQ(properties.total_memory, std::size_t{1} << 30);
  EXPECT_EQ(properties.uuid_text(), "11111111-1111-1111-1111-111111111111");
  EXPECT_EQ(properties.warp_size, 10);  // the fake answers with the number of the attribute
  EXPECT_TRUE(properties.is_integrated);
  EXPECT_FALSE(cuda().device_active(1));
}

TEST_F(OnFakeCuda, RefusesUnknownDevices) {
  DeviceProperties properties;
  expect(cuda().device_properties(2, properties), Code::invalid_device,
         "device is 2, expected 0 to 1");
  expect(cuda().peer_enable(0, -1), Code::invalid_device, "peer is -1, expected 0 to 1");
  EXPECT_FALSE(cuda().device_active(7));
}

TEST_F(OnFakeCuda, WakesOnlyTheDeviceThatIsUsed) {
  EXPECT_TRUE(cuda().device_synchronize(1).ok());
  EXPECT_FALSE(cuda().device_active(1));
  void* pinned = nullptr;
  PointerInfo info;
  EXPECT_TRUE(cuda().pointer_info(&info, info).ok());
  const StreamHandle stream = stream_on(1);
  EXPECT_TRUE(cuda().pinned_malloc(64, pinned).ok());
  EXPECT_TRUE(cuda().pinned_free(pinned).ok());
  EXPECT_TRUE(cuda().stream_destroy(stream).ok());
  EXPECT_TRUE(cuda().peer_possible(1, 0, *std::make_unique<bool>()).ok());
  EXPECT_TRUE(cuda().device_active(1));
  EXPECT_FALSE(cuda().device_active(0));
  EXPECT_EQ(fake().contexts_made[0], 0);
  EXPECT_EQ(fake().retained[1], 1);
}

TEST_F(OnFakeCuda, TellsAProfilerOfOneDevice) {
  EXPECT_TRUE(cuda().device_profile(1, true).ok());
  EXPECT_EQ(fake().profiles_begun, 1);
  EXPECT_EQ(fake().profiles_ended, 0);
  EXPECT_TRUE(cuda().device_profile(1, false).ok());
  EXPECT_EQ(fake().profiles_ended, 1);
  EXPECT_FALSE(cuda().device_active(0));
  fake().fault[1] = 719;
  expect(cuda().device_profile(1, true), Code::launch_failure,
         "fault of asynchronous work on cuda:1; nothing that was queued here is unfinished");
  EXPECT_EQ(fake().profiles_begun, 1);
}

TEST_F(OnFakeCuda, FollowsTheCurrentContextThatOthersSet) {
  StreamHandle stream = stream_on(1);
  for (void* foreign_context : {context_of(0), static_cast<void*>(nullptr)}) {
    foreign<int(void*)>("cuCtxSetCurrent")(foreign_context);
    fake().fault[0] = 999;  // what a call in the wrong context would report
    EXPECT_TRUE(cuda().stream_synchronize(stream).ok());
    fake().fault[0] = 0;
  }
}

// torch's "cuda" is the device whose context is current.
TEST_F(OnFakeCuda, GivesTheThreadItsContextBack) {
  const StreamHandle stream = stream_on(1);
  const EventHandle event = event_on(1);
  void* const mine = context_of(0);
  foreign<int(void*)>("cuCtxSetCurrent")(mine);
  void* memory = nullptr;
  MemoryInfo info;
  PriorityRange range;
  const Status statuses[] = {
      cuda().device_activate(1),
      cuda().device_synchronize(1),
      cuda().malloc(1, 64, memory),
      cuda().memory_info(1, info),
      cuda().fill({nullptr, 1, 0}, memory, 0, 4, 16),
      cuda().stream_priorities(1, range),
      cuda().stream_synchronize(stream),
      cuda().event_record(event, stream),
      cuda().event_record(event, {nullptr, 1, 0}),
      cuda().event_wait({nullptr, 1, 0}, event),
      cuda().event_query(event),
      cuda().peer_enable(1, 0),
      cuda().peer_disable(1, 0),
      cuda().free(1, memory),
      cuda().event_destroy(event),
      cuda().stream_destroy(stream),
  };
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.detail();
  EXPECT_EQ(current_context(), mine);
}

TEST_F(OnFakeCuda, LeavesAThreadThatHasNoContextTheDevices) {
  foreign<int(void*)>("cuCtxSetCurrent")(nullptr);
  EXPECT_TRUE(cuda().device_activate(1).ok());
  EXPECT_EQ(current_context(), context_of(1));
  EXPECT_TRUE(cuda().device_activate(0).ok());
  EXPECT_EQ(current_context(), context_of(1));
}

TEST_F(OnFakeCuda, FreesOnlyWhatItAllocated) {
  void* memory = memory_on(0, 1000);
  const std::string expected = ", expected the start of an allocation of cuda:";
  const std::string once = " that was not freed yet";
  expect(cuda().free(1, memory), Code::invalid_value,
         "pointer is " + hex(memory) + expected + "1" + once);
  EXPECT_TRUE(cuda().free(0, memory).ok());
  expect(cuda().free(0, memory), Code::invalid_value,
         "pointer is " + hex(memory) + expected + "0" + once);
  expect(cuda().free(0, nullptr), Code::invalid_value, "pointer is 0x0" + expected + "0" + once);
  expect(cuda().malloc(0, 0, memory), Code::invalid_value,
         "bytes is 0, expected a positive number");
  fake().largest_allocation = 10;
  expect(cuda().malloc(0, 11, memory), Code::out_of_memory, "allocating 11 bytes on cuda:0");
}

TEST_F(OnFakeCuda, GivesMemoryInTheOrderOfStreams) {
  const StreamHandle stream = stream_on(0);
  void* memory = nullptr;
  ASSERT_TRUE(cuda().malloc_async(stream, 1000, memory).ok());
  PointerInfo info;
  EXPECT_TRUE(cuda().pointer_info(memory, info).ok());
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.bytes, 1000U);
  EXPECT_TRUE(cuda().free_async(stream, memory).ok());
  expect(cuda().free_async(stream, memory), Code::invalid_value,
         "pointer is " + hex(memory) +
             ", expected the start of an allocation of cuda:0 that was not freed yet");
  expect(cuda().malloc_async(stream, 0, memory), Code::invalid_value,
         "bytes is 0, expected a positive number");
  fake().largest_allocation = 10;
  expect(cuda().malloc_async(stream, 11, memory), Code::out_of_memory,
         "allocating 11 bytes of the pool of cuda:0");
  EXPECT_TRUE(cuda().memory_trim(0, cuda().device_epoch(0)).ok());
  EXPECT_EQ(cuda().memory_trim(0, cuda().device_epoch(0) + 1).code(), Code::context_is_destroyed);
}

TEST_F(OnFakeCuda, IsNotAskedForMoreThanThereIs) {
  const std::size_t calls = fake().allocations;
  void* memory = nullptr;
  expect(cuda().malloc(0, (std::size_t{1} << 30) + 1, memory), Code::out_of_memory,
         "allocating 1073741825 bytes on cuda:0");
  EXPECT_EQ(fake().allocations, calls);
  fake().largest_allocation = 10;
  EXPECT_EQ(cuda().malloc(0, std::size_t{1} << 30, memory).code(), Code::out_of_memory);
  EXPECT_EQ(fake().allocations, calls + 1);
}

TEST_F(OnFakeCuda, KnowsWhatAPointerPointsTo) {
  char* memory = static_cast<char*>(memory_on(0, 1000));
  PointerInfo info;
  EXPECT_TRUE(cuda().pointer_info(memory + 999, info).ok());
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.base, memory);
  EXPECT_EQ(info.bytes, 1000u);
  char registered[100];
  EXPECT_TRUE(cuda().pointer_info(registered, info).ok());
  EXPECT_EQ(info.kind, PointerInfo::Kind::unregistered);
  EXPECT_TRUE(cuda().host_register(registered, sizeof(registered)).ok());
  EXPECT_TRUE(cuda().pointer_info(registered + 1, info).ok());
  EXPECT_EQ(info.kind, PointerInfo::Kind::pinned);
  EXPECT_EQ(info.device, -1);
  EXPECT_TRUE(cuda().host_unregister(registered).ok());
  expect(cuda().host_unregister(registered), Code::host_memory_not_registered,
         "pointer is " + hex(registered) + ", expected one that host_register was given");
  expect(cuda().pinned_free(memory), Code::invalid_value,
         "pointer is " + hex(memory) +
             ", expected the start of an allocation of pinned_malloc that was not freed yet");
  // What another library allocated is known to CUDA alone.
  foreign<int(void*)>("cuCtxSetCurrent")(context_of(1));
  std::size_t foreign_memory = 0;
  ASSERT_EQ(foreign<int(std::size_t*, std::size_t)>("cuMemAlloc_v2")(&foreign_memory, 64), 0);
  EXPECT_TRUE(cuda().pointer_info(reinterpret_cast<char*>(foreign_memory) + 5, info).ok());
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  EXPECT_EQ(info.device, 1);
  EXPECT_EQ(info.bytes, 64u);
  EXPECT_EQ(foreign<int(std::size_t)>("cuMemFree_v2")(foreign_memory), 0);
  EXPECT_TRUE(cuda().free(0, memory).ok());
}

TEST_F(OnFakeCuda, RefusesHandlesThatMakeNoSense) {
  expect(cuda().stream_destroy(kDefault), Code::invalid_handle,
         "the default stream of cuda:0 cannot be destroyed");
  expect(cuda().event_query({}), Code::invalid_handle,
         "event of cuda:0 is null, expected one from event_create");
  EventHandle event;
  expect(cuda().event_create(0, {.timing = true, .interprocess = true}, event), Code::invalid_value,
         "options ask for interprocess and timing, expected at most one of them");
  event = event_on(0);
  const Status status = cuda().event_record(event, {nullptr, 1, 0});
  expect(status, Code::invalid_handle,
         "event " + hex(event.native) +
             " of cuda:0 cannot be recorded on the default stream of "
             "cuda:1, expected a stream of the event's device");
  EXPECT_TRUE(cuda().event_wait({nullptr, 1, 0}, event).ok());
  EXPECT_TRUE(cuda().event_destroy(event).ok());
}

TEST_F(OnFakeCuda, AnswersNotReadyWithABareCode) {
  const StreamHandle stream = stream_on(0);
  const EventHandle start = event_on(0, {.timing = true});
  const EventHandle end = event_on(0, {.timing = true});
  float milliseconds = -1;
  EXPECT_EQ(cuda().event_elapsed(start, end, milliseconds).code(), Code::invalid_handle);
  EXPECT_TRUE(cuda().event_record(start, stream).ok());
  EXPECT_TRUE(cuda().event_record(end, stream).ok());
  fake().busy = true;
  expect(cuda().stream_query(stream), Code::not_ready, "");
  expect(cuda().event_query(start), Code::not_ready, "");
  expect(cuda().event_elapsed(start, end, milliseconds), Code::not_ready, "");
  EXPECT_EQ(milliseconds, -1);
  fake().busy = false;
  EXPECT_TRUE(cuda().event_elapsed(start, end, milliseconds).ok());
  EXPECT_GE(milliseconds, 0);
}

TEST_F(OnFakeCuda, NamesErrorsThatEmberHasNoWordsFor) {
  const StreamHandle stream = stream_on(0);
  fake().next_query = 402;
  const Status status = cuda().stream_query(stream);
  expect(
      status, static_cast<Code>(402),
      "querying stream " + hex(stream.native) + " of cuda:0: text of the fake (CUDA_ERROR_FAKE)");
}

TEST_F(OnFakeCuda, CopiesAndFills) {
  auto* memory = static_cast<unsigned char*>(memory_on(0, 64));
  auto* other = static_cast<unsigned char*>(memory_on(1, 64));
  std::array<unsigned char, 64> host{};
  EXPECT_TRUE(cuda().fill(kDefault, memory, 0x01020304, 1, 64).ok());
  EXPECT_TRUE(cuda().fill(kDefault, memory + 4, 0x01020304, 2, 4).ok());
  EXPECT_TRUE(cuda().fill(kDefault, memory + 16, 0x01020304, 4, 2).ok());
  EXPECT_TRUE(cuda().copy(kDefault, other, memory, 64, {1, 0}).ok());
  EXPECT_TRUE(cuda().copy({nullptr, 1, 0}, host.data(), other, 64).ok());
  EXPECT_EQ(host[0], 4);
  EXPECT_EQ(host[5], 3);
  EXPECT_EQ(host[16 + 7], 1);
  EXPECT_EQ(host[16 + 8], 4);
  EXPECT_TRUE(cuda().copy(kDefault, nullptr, nullptr, 0).ok());
  EXPECT_TRUE(cuda().fill(kDefault, memory, 0, 4, 0).ok());
  expect(cuda().copy(kDefault, nullptr, memory, 3), Code::invalid_value,
         "copying 3 bytes to 0x0 from " + hex(memory));
  expect(cuda().fill(kDefault, memory, 0, 3, 1), Code::invalid_value,
         "width is 3, expected 1, 2 or 4 bytes");
  expect(cuda().fill(kDefault, memory + 2, 0, 4, 1), Code::invalid_value,
         "target is " + hex(memory + 2) + ", expected a multiple of the width, 4");
}

// CUDA would order them among the work on the default streams of both devices.
TEST_F(OnFakeCuda, CopiesBetweenDevicesLeaveTheDefaultStream) {
  void* const here = memory_on(0, 64);
  void* const there = memory_on(1, 64);
  std::array<unsigned char, 64> host{};
  const auto copied_by = [&](Status status) {
    EXPECT_TRUE(status.ok()) << status.text();
    return std::exchange(fake().copied_on, nullptr);
  };
  fake().no_more_streams = true;
  EXPECT_EQ(cuda().copy(kDefault, here, there, 64).code(), Code::out_of_memory);
  fake().no_more_streams = false;
  void* const side = copied_by(cuda().copy(kDefault, here, there, 64));
  EXPECT_NE(side, nullptr);
  EXPECT_EQ(copied_by(cuda().copy(kDefault, there, here, 64, {1, 0})), side);
  EXPECT_NE(copied_by(cuda().copy({nullptr, 1, 0}, here, there, 64)), side);
  EXPECT_EQ(copied_by(cuda().copy(kDefault, here, here, 64)), nullptr);
  EXPECT_EQ(copied_by(cuda().copy(kDefault, host.data(), here, 64)), nullptr);
  const StreamHandle own = stream_on(0);
  EXPECT_EQ(copied_by(cuda().copy(own, here, there, 64)), own.native);
  EXPECT_EQ(copied_by(cuda().copy(own, there, here, 64, {1, 0})), own.native);
}

TEST_F(OnFakeCuda, RunsKernelsAndHostFunctions) {
  static const StreamHandle stream = stream_on(1);
  const Kernel kernel{"implementation", nullptr, [](const Params& params, const CudaLaunch& on) {
                        EXPECT_EQ(on.stream(), stream.native);
                        EXPECT_EQ(on.device(), 1);
                        ++*params.as<int*>();
                        return Status();
                      }};
  int calls = 0;
  EXPECT_TRUE(cuda().launch(stream, kernel, Params(&calls)).ok());
  EXPECT_TRUE(cuda()
                  .host_function(
                      stream, [](void* count) { ++*static_cast<int*>(count); },
                      [](void* count) { *static_cast<int*>(count) *= 10; }, &calls)
                  .ok());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(cuda().stream_synchronize(stream).ok());
  EXPECT_EQ(calls, 20);
  expect(cuda().launch(stream, {"host only"}, Params()), Code::not_supported,
         "kernel 'host only' has no CUDA implementation");
  const Kernel too_large{"too large", nullptr, [](const Params&, const CudaLaunch&) {
                           return Status(Code::launch_out_of_resources, "9 GiB of shared memory");
                         }};
  expect(cuda().launch(stream, too_large, Params()), Code::launch_out_of_resources,
         "launching kernel 'too large': 9 GiB of shared memory");
  expect(cuda().host_function(stream, nullptr, nullptr, nullptr), Code::invalid_value,
         "function is null, expected a function to call");
}

/// Says when it goes.
struct Watched final : Context {
  explicit Watched(bool& gone) : gone_(gone) {}
  ~Watched() override { gone_ = true; }
  const int value = 17;

 private:
  bool& gone_;
};

TEST_F(OnFakeCuda, OwnsAContextUntilTheLaunchReturns) {
  static bool gone = false;
  Kernel kernel{"with context", nullptr, [](const Params& params, const CudaLaunch& on) {
                  EXPECT_FALSE(gone);
                  *params.as<int*>() = on.context<Watched>().value;
                  return Status();
                }};
  kernel.context = make_ref<Watched>(gone);
  int found = 0;
  EXPECT_TRUE(cuda().launch(kDefault, kernel, Params(&found)).ok());
  EXPECT_EQ(found, 17);
  EXPECT_FALSE(gone) << "the kernel still owns it";
  kernel.context = {};
  EXPECT_TRUE(gone) << "nobody else does";
}

TEST_F(OnFakeCuda, TakesArgumentsUpTo4KiBWhereTheyLie) {
  static const void* seen = nullptr;
  const Kernel kernel{"arguments", nullptr, [](const Params& params, const CudaLaunch&) {
                        seen = params.data();
                        return Status();
                      }};
  const std::array<std::byte, Params::kCapacity + 1> bytes{};
  EXPECT_TRUE(cuda().launch(kDefault, kernel, Params(bytes.data(), Params::kCapacity)).ok());
  EXPECT_EQ(seen, bytes.data());
  seen = nullptr;
  expect(cuda().launch(kDefault, kernel, Params(bytes.data(), bytes.size())), Code::invalid_value,
         "the arguments have 4097 bytes, expected at most 4096");
  EXPECT_EQ(seen, nullptr);
}

TEST_F(OnFakeCuda, AsksTheCudaImplementationForItsNeeds) {
  Kernel kernel{"needs",
                {[](const Params&, const HostLaunch&) { return Status(); },
                 [](const Params&, KernelNeeds&) { return Status(Code::not_supported); }},
                [](const Params&, const CudaLaunch&) { return Status(); }};
  KernelNeeds needs;
  EXPECT_TRUE(cuda().launch_needs(kernel, Params(), needs).ok());
  EXPECT_EQ(needs.scratch, 0U);
  kernel.cuda.needs = [](const Params& params, KernelNeeds& out) {
    out.scratch = params.size();
    return Status();
  };
  EXPECT_TRUE(cuda().launch_needs(kernel, Params(nullptr, 300), needs).ok());
  EXPECT_EQ(needs.scratch, 300U);
}

TEST_F(OnFakeCuda, EnablesPeersOnce) {
  bool possible = true;
  EXPECT_TRUE(cuda().peer_possible(1, 1, possible).ok());
  EXPECT_FALSE(possible);
  EXPECT_EQ(cuda().peer_disable(0, 1).code(), Code::peer_access_not_enabled);
  EXPECT_FALSE(cuda().device_active(0));
  EXPECT_TRUE(cuda().peer_enable(0, 1).ok());
  EXPECT_TRUE(cuda().peer_enable(0, 1).ok());
  EXPECT_TRUE(cuda().peer_disable(0, 1).ok());
  expect(cuda().peer_disable(0, 1), Code::peer_access_not_enabled,
         "cuda:0 has no access to memory of cuda:1 that could be taken back");
  EXPECT_EQ(cuda().peer_enable(1, 1).code(), Code::invalid_device);
}

}  // namespace
}  // namespace ember::driver
