// Telemetry of real GPUs on machines that the fakes of the NVIDIA libraries make up: which device
// is asked, before and after CUDA is initialised, and what is said where something is missing.
#include "ember/runtime/telemetry.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ember/base/error.h"
#include "tests/support/child.h"

namespace ember::cuda {
namespace {

std::vector<std::int64_t> sensors(int device) {
  return {utilization(device), memory_usage(device), temperature(device),
          power_draw(device),  clock_rate(device),   device_memory_used(device)};
}
/// Of NVML's device with that number.
std::vector<std::int64_t> sensors_of(int index) {
  return {10 * index + 1, 10 * index + 2, 30 + index,
          100000 + index, 1000 + index,   (std::int64_t{5} + index) << 30};
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
std::string error_of(int device) {
  return error_of([&] { utilization(device); });
}

void see(const char* devices) { setenv("CUDA_VISIBLE_DEVICES", devices, 1); }

/// Every test is a process, since CUDA is initialised once.
class Telemetry : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

using TelemetryDeathTest = Telemetry;

TEST_F(TelemetryDeathTest, GoesByTheVisibleDevicesFirst) {
  IN_CHILD({
    EXPECT_EQ(sensors(0), sensors_of(0));
    EXPECT_EQ(sensors(2), sensors_of(2));
    see("2,0");
    EXPECT_EQ(sensors(0), sensors_of(2));
    EXPECT_EQ(sensors(1), sensors_of(0));
    EXPECT_EQ(error_of(2), "device 2 is not visible (CUDA_VISIBLE_DEVICES=[2, 0])");
    EXPECT_EQ(error_of(-1), "device -1 is not visible (CUDA_VISIBLE_DEVICES=[2, 0])");
    see("");
    EXPECT_EQ(error_of(0), "device 0 is not visible (CUDA_VISIBLE_DEVICES=[])");
    EXPECT_FALSE(is_initialized()) << "a number needs no CUDA";
  });
}

TEST_F(TelemetryDeathTest, GoesByListsOfUuids) {
  IN_CHILD({
    see("GPU-2,GPU-11");
    EXPECT_EQ(sensors(0), sensors_of(2));
    EXPECT_EQ(sensors(1), sensors_of(0));
    EXPECT_EQ(error_of(2), "device 2 is not visible (CUDA_VISIBLE_DEVICES=[2, 0])");
    see("GPU-1");  // ambiguous
    EXPECT_EQ(error_of(0), "device 0 is not visible (CUDA_VISIBLE_DEVICES=[])");
  });
}

TEST_F(TelemetryDeathTest, GoesByUuidsOnceCudaIsInitialised) {
  IN_CHILD({
    init();
    // CUDA's device 0 is the faster one: NVML's 1.
    EXPECT_EQ(sensors(0), sensors_of(1));
    EXPECT_EQ(sensors(1), sensors_of(0));
    EXPECT_EQ(sensors_of(1)[0], utilization());
    EXPECT_EQ(error_of(2), "device 2 is not visible (CUDA_VISIBLE_DEVICES=[1, 0])");
    EXPECT_EQ(list_gpu_processes(1), "GPU:0\nno processes are running");
    see("2");  // which CUDA reads no more
    EXPECT_EQ(sensors(0), sensors_of(1));
  });
}

TEST_F(TelemetryDeathTest, LooksForADeviceOnce) {
  IN_CHILD({
    init();
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto* lookups = static_cast<const int*>(dlsym(library, "fake_nvml_lookups"));
    ASSERT_NE(lookups, nullptr);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(sensors(0), sensors_of(1));
      EXPECT_EQ(gpu_processes(1).machine_index, 0);
    }
    EXPECT_EQ(*lookups, 2) << "one of each of CUDA's devices";
  });
}

TEST_F(TelemetryDeathTest, ListsProcesses) {
  IN_CHILD({
    EXPECT_EQ(list_gpu_processes(0), "GPU:0\nno processes are running");
    EXPECT_EQ(list_gpu_processes(1),
              "GPU:1\n"
              "process       1000 uses        1.000 MB GPU memory\n"
              "process       1001 uses          n/a MB GPU memory");
    const GpuProcesses many = gpu_processes(2);
    EXPECT_EQ(many.processes.size(), 40U);
    EXPECT_EQ(many.processes[39].bytes, (40U << 20) + 512);
    EXPECT_EQ(gpu_processes(1).processes[1].bytes, GpuProcess::kUnknown);
  });
}

TEST_F(TelemetryDeathTest, AnOldLibraryAnswersWhatItCan) {
  IN_CHILD({
    EXPECT_EQ(utilization(1), 11);
    EXPECT_EQ(list_gpu_processes(1),
              "GPU:1\n"
              "process       1000 uses        1.000 MB GPU memory\n"
              "process       1001 uses          n/a MB GPU memory");
    EXPECT_EQ(error_of([] { clock_rate(1); }),
              "libnvidia-ml.so.1 has no nvmlDeviceGetClockInfo: the NVIDIA driver is too old");
    EXPECT_EQ(device_count(), 3);
  });
}

TEST_F(TelemetryDeathTest, InstancesOfMigAreFoundByCuda) {
  IN_CHILD({
    EXPECT_FALSE(is_initialized());
    // What an instance does not tell is the whole GPU's.
    EXPECT_EQ(temperature(0), 31);
    EXPECT_TRUE(is_initialized()) << "only CUDA knows which instance that is";
    EXPECT_EQ(clock_rate(1), 1000);
    EXPECT_EQ(error_of(0), "nvmlDeviceGetUtilizationRates failed: Not Supported");
    EXPECT_EQ(gpu_processes(0).processes.size(), 2U);
    EXPECT_EQ(gpu_processes(0).machine_index, 1);
  });
}

TEST_F(TelemetryDeathTest, SaysThatThereIsNoDriver) {
  IN_CHILD({
    EXPECT_EQ(error_of(0), "cuda driver can't be loaded, is cuda enabled?");
    EXPECT_EQ(list_gpu_processes(0), "cuda driver can't be loaded, is cuda enabled?");
    EXPECT_EQ(list_gpu_processes(), "cuda driver can't be loaded, is cuda enabled?");
  });
}

TEST_F(TelemetryDeathTest, SaysThatThereAreNoUuids) {
  IN_CHILD({
    EXPECT_EQ(utilization(1), 11) << "numbers need none";
    see("GPU-1");
    EXPECT_EQ(error_of(0), "Can't get device UUIDs");
  });
}

TEST_F(TelemetryDeathTest, NamesTheLibraryThatIsMissing) {
  if (dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr)
    GTEST_SKIP() << "this machine has a libnvidia-ml.so.1 where the loader always looks";
  IN_CHILD({
    EXPECT_EQ(error_of(0).rfind("libnvidia-ml.so.1 cannot be opened: ", 0), 0U) << error_of(0);
    EXPECT_EQ(list_gpu_processes(0),
              "libnvidia-ml.so.1 not found, please install the NVIDIA driver");
    EXPECT_EQ(list_gpu_processes(),
              "libnvidia-ml.so.1 not found, please install the NVIDIA driver");
    EXPECT_FALSE(is_initialized()) << "NVML comes first";
    init();
    EXPECT_EQ(error_of(0).rfind("libnvidia-ml.so.1 cannot be opened: ", 0), 0U) << error_of(0);
    EXPECT_EQ(error_of(5), "device 5 is not visible (CUDA_VISIBLE_DEVICES=[0, 1])");
  });
}

}  // namespace
}  // namespace ember::cuda
