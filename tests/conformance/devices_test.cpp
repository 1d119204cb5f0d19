// Chapters 1 and 2: device arguments, counting, choosing, properties, and their errors.
#include "tests/support/devices.h"

#include <thread>

#include "ember/runtime/guard.h"

namespace ember::cuda {
namespace {

using test::machine;

TEST(Device, ParsesItsStrings) {
  EXPECT_EQ(Device("cpu"), Device(Device::Type::cpu));
  EXPECT_EQ(Device("cuda"), Device(Device::Type::cuda));
  EXPECT_EQ(Device("cuda:1"), Device(Device::Type::cuda, 1));
  EXPECT_EQ(Device("cuda:12").str(), "cuda:12");
  EXPECT_FALSE(Device("cuda").has_index());
}

TEST(Device, RefusesStringsThatDoNotParse) {
  for (const char* text :
       {"cuda0", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:01", "", "cuda:1:2", "cuda: 1",
        "cuda:99999999999999999999", "cpu0", "gpu", ":0", "CUDA"}) {
    EXPECT_ERROR(Device{text}, Error, "Invalid device string: '" + std::string(text) + "'");
  }
}

TEST(Device, RefusesANullPointerAsAString) {
  // Whatever takes a device string takes a `const char*`.
  const char* const none = nullptr;
  const char* const text = "Invalid device string: got a null pointer";
  EXPECT_ERROR(Device{none}, Error, text);
  EXPECT_ERROR(DeviceArg{none}, Error, text);
  EXPECT_ERROR(set_device(none), Error, text);
  EXPECT_ERROR(get_device_properties(none), Error, text);
  EXPECT_ERROR(Stream{none}, Error, text);
  EXPECT_ERROR(Device{std::string_view()}, Error, "Invalid device string: ''");
}

TEST(DeviceArgument, AcceptsIndexStringDeviceAndNothing) {
  EXPECT_EQ(DeviceArg(0).index(), 0);
  EXPECT_EQ(DeviceArg(-3).index(), -3);
  EXPECT_EQ(DeviceArg("cuda:0").index(), 0);
  EXPECT_EQ(DeviceArg(Device("cuda:0")).index(), 0);
  EXPECT_EQ(DeviceArg().index(), current_device());
  EXPECT_EQ(DeviceArg("cuda").index(), current_device());
}

TEST(PrimaryContext, IsThereOnceADeviceWasUsed) {
  set_device(0);
  EXPECT_TRUE(has_primary_context(0));
  EXPECT_TRUE(has_primary_context("cuda:0"));
  EXPECT_ERROR(has_primary_context(-1), AcceleratorError, "device -1 was asked for, expected 0 to");
  EXPECT_ERROR(has_primary_context(99), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(has_primary_context("cuda"), ValueError, "with a specified index");
}

TEST(DeviceArgument, AcceptsEveryKindOfInteger) {
  EXPECT_EQ(DeviceArg(0u).index(), 0);
  EXPECT_EQ(DeviceArg(0L).index(), 0);
  EXPECT_EQ(DeviceArg(std::size_t{0}).index(), 0);
  EXPECT_EQ(DeviceArg(std::int8_t{-1}).index(), -1);
  EXPECT_EQ(DeviceArg(std::string_view("cuda:0")).index(), 0);
  EXPECT_ERROR(synchronize(std::size_t{1} << 40), AcceleratorError, "invalid device ordinal");
  static_assert(!std::is_constructible_v<DeviceArg, std::nullptr_t>);
  static_assert(!std::is_constructible_v<Device, int>);
}

TEST(DeviceArgument, RefusesOtherKindsOfDevice) {
  EXPECT_ERROR(synchronize("cpu"), ValueError, "Expected a cuda device, but got: cpu");
  EXPECT_ERROR(current_stream("cpu"), ValueError, "Expected a cuda device, but got: cpu");
  EXPECT_ERROR(default_stream("cpu:0"), ValueError, "Expected a cuda device, but got: cpu:0");
  EXPECT_ERROR(Stream("cpu"), ValueError, "Expected a cuda device, but got: cpu");
}

TEST(DeviceArgument, SetDeviceNeedsAnIndex) {
  EXPECT_ERROR(set_device("cuda"), ValueError,
               "Expected a torch.device with a specified index or an integer, but got:cuda");
  EXPECT_ERROR(set_device({}), ValueError,
               "Expected a torch.device with a specified index or an integer, but got:");
}

TEST(Devices, ThatDoNotExistAreNamed) {
  const int count = device_count();
  const std::string asked = "device " + std::to_string(count) + " was asked for, expected 0 to " +
                            std::to_string(count - 1);
  EXPECT_ERROR(set_device(count), AcceleratorError, "CUDA error: invalid device ordinal");
  EXPECT_ERROR(set_device(count), AcceleratorError, asked);
  EXPECT_ERROR(synchronize(count), AcceleratorError, asked);
  EXPECT_ERROR(Stream{count}, AcceleratorError, asked);
  EXPECT_ERROR(current_stream(count), AcceleratorError, asked);
  EXPECT_ERROR(DeviceGuard{count}, AcceleratorError, asked);
  try {
    set_device(99);
    ADD_FAILURE();
  } catch (const AcceleratorError& error) {
    EXPECT_EQ(error.error_code(), 101);
  }
  EXPECT_EQ(current_device(), 0) << "a refused call changes nothing";
}

TEST(Devices, AreCountedAndAvailable) {
  EXPECT_GE(device_count(), 1);
  EXPECT_TRUE(is_available());
  init();
  EXPECT_TRUE(is_initialized());
  init();
  EXPECT_TRUE(is_initialized());
}

TEST(SetDevice, ChangesTheCurrentDeviceOfTheThread) {
  NEEDS_DEVICES(2);
  EXPECT_EQ(current_device(), 0);
  set_device(1);
  EXPECT_EQ(current_device(), 1);
  set_device(-1);
  EXPECT_EQ(current_device(), 1) << "a negative index is a no-op";
  int seen = -1;
  std::thread([&] { seen = current_device(); }).join();
  EXPECT_EQ(seen, 0) << "a new thread starts on device 0";
  set_device("cuda:0");
  EXPECT_EQ(current_device(), 0);
}

TEST(Properties, DescribeTheDevice) {
  const DeviceProperties& properties = get_device_properties(0);
  EXPECT_FALSE(properties.name.empty());
  EXPECT_EQ(properties.name, get_device_name(0));
  EXPECT_EQ(std::pair(properties.major, properties.minor), get_device_capability(0));
  EXPECT_GE(properties.major, 1);
  EXPECT_GT(properties.multi_processor_count, 0);
  EXPECT_EQ(properties.warp_size, 32);
  EXPECT_GE(properties.max_threads_per_multi_processor, 1024);
  EXPECT_GT(properties.regs_per_multiprocessor, 0);
  EXPECT_GE(properties.shared_memory_per_block_optin, properties.shared_memory_per_block);
  EXPECT_EQ(properties.uuid_text().size(), 36u);
  EXPECT_EQ(properties.simulated, is_simulated());
  driver::MemoryInfo memory;
  check(machine().memory_info(0, memory));
  EXPECT_GE(properties.total_memory, memory.total);
  EXPECT_LE(memory.free, memory.total);
  EXPECT_EQ(&properties, &get_device_properties()) << "read once and kept";
}

TEST(Context, TakesMemoryOfItsDevice) {
  driver::MemoryInfo memory;
  check(machine().memory_info(0, memory));
  EXPECT_LT(memory.free, memory.total);
  const std::size_t half = memory.total / 2;
  void* first = nullptr;
  ASSERT_TRUE(machine().malloc(0, half, first).ok());
  void* second = nullptr;
  EXPECT_EQ(machine().malloc(0, half, second).code(), Code::out_of_memory);
  EXPECT_TRUE(machine().free(0, first).ok());
}

TEST(Properties, RefuseDevicesThatDoNotExist) {
  EXPECT_ERROR(get_device_properties(device_count()), AssertionError, "Invalid device id");
  EXPECT_ERROR(get_device_properties(-1), AssertionError, "Invalid device id");
  EXPECT_ERROR(get_device_name(1000), AssertionError, "Invalid device id");
  EXPECT_ERROR(get_device_capability("cpu"), ValueError, "Expected a cuda device, but got: cpu");
}

TEST(Properties, HaveAText) {
  const DeviceProperties& properties = get_device_properties(0);
  EXPECT_EQ(properties.str(),
            "_CudaDeviceProperties(name='" + properties.name + "', major=" +
                std::to_string(properties.major) + ", minor=" + std::to_string(properties.minor) +
                ", total_memory=" + std::to_string(properties.total_memory >> 20) +
                "MB, multi_processor_count=" + std::to_string(properties.multi_processor_count) +
                ")");
}

// Every architecture of the list has its flag.
TEST(ArchList, AgreesWithTheFlags) {
  const std::vector<std::string> list = get_arch_list();
  const std::string flags = get_gencode_flags();
  EXPECT_EQ(list.empty(), flags.empty());
  if (!is_simulated()) {
    EXPECT_FALSE(list.empty());
  }
  for (const std::string& architecture : list)
    EXPECT_NE(flags.find(",code=" + architecture), std::string::npos) << flags;
}

TEST(Properties, TellDevicesApart) {
  NEEDS_DEVICES(2);
  EXPECT_NE(get_device_properties(0).uuid, get_device_properties(1).uuid);
}

// An address tells the device that allocated it.
TEST(PointerDevice, IsTheOwner) {
  const int last = device_count() - 1;
  test::Words<int> here(16, last);
  EXPECT_EQ(device_of_pointer(here.get()), last);
  EXPECT_EQ(device_of_pointer(here.get() + 15), last);
}

TEST(PointerDevice, ThrowsOnHostMemory) {
  int on_host = 0;
  EXPECT_ERROR(device_of_pointer(&on_host), Error, "is not device memory");
  EXPECT_ERROR(device_of_pointer(nullptr), Error, "is not device memory");
  test::Pinned<int> pinned(4);
  EXPECT_ERROR(device_of_pointer(pinned.get()), Error, "is not device memory");
}

TEST(Synchronize, CoversEveryStreamOfTheDevice) {
  test::Words<std::uint32_t> log(64);
  std::vector<Stream> streams;
  for (int i = 0; i < 6; ++i) streams.emplace_back(0);
  for (std::uint32_t i = 0; i < 6; ++i)
    launch(streams[i], test::busy_kernel, test::BusyArgs{log.get(), i + 1, 500});
  synchronize(0);
  for (const Stream& stream : streams) EXPECT_TRUE(stream.query());
  EXPECT_EQ(log.read()[0], 6u);
}

}  // namespace
}  // namespace ember::cuda

// A user's file with both using-directives: no name of the one namespace hides one of the other.
namespace user {
using namespace ember;        // NOLINT(google-build-using-namespace): that is what is tested
using namespace ember::cuda;  // NOLINT(google-build-using-namespace)

// using namespace of both leaves `driver` and `properties` unambiguous.
TEST(Namespaces, CanBeUsedTogether) {
  const driver::Driver& active = active_driver();
  EXPECT_EQ(&active, driver_if_made());
  const driver::DeviceProperties& properties = get_device_properties(0);
  EXPECT_EQ(properties.name, get_device_name(Device("cuda:0")));
  EXPECT_EQ(driver_if_made()->simulated(), is_simulated());
}

}  // namespace user
