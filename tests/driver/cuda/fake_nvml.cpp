// A fake libnvidia-ml.so.1 of a machine with three GPUs, of which the fake libcuda.so.1 shows two,
// the later one first: CUDA orders devices by speed.
//
// FAKE_NVML is which one: 0 a present one, 1 one from before MIG and long lists of processes, which
// also lacks a sensor, 2 one whose GPUs are cut into instances, 3 one that finds no driver, 4 one
// that does not tell UUIDs.
#include <cstdio>
#include <cstring>

#ifndef FAKE_NVML
#define FAKE_NVML 0
#endif

namespace {

/// A GPU, or the one instance that each has where there is MIG.
struct Gpu {
  int index;
  const char* uuid;
};
Gpu gpus[] = {{0, "11111111-1111-1111-1111-111111111111"},
              {1, "10101010-1010-1010-1010-101010101010"},
              {2, "20000000-0000-0000-0000-000000000000"}};
Gpu instances[] = {{0, gpus[0].uuid}, {1, gpus[1].uuid}, {2, gpus[2].uuid}};
constexpr bool kMig = FAKE_NVML == 2;

const Gpu& of(void* device) { return *static_cast<Gpu*>(device); }
bool is_instance(void* device) { return device >= instances && device < instances + 3; }

struct Old {
  unsigned pid;
  unsigned long long bytes;
};
struct New {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

/// Nobody on GPU 0, two on GPU 1, one of unknown size, and 40 on GPU 2.
template <class Process>
int processes(void* device, unsigned* count, Process* out) {
  constexpr unsigned kCounts[] = {0, 2, 40};
  const unsigned there = kCounts[of(device).index];
  const unsigned room = *count;
  *count = there;
  if (room < there) return 7;  // insufficient size
  for (unsigned i = 0; i < there; ++i) {
    out[i] = {};
    out[i].pid = 1000 + i;
    out[i].bytes = i == 1 ? ~0ULL : (1ULL << 20) * (i + 1) + 512;
  }
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return FAKE_NVML == 3 ? 9 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int error) { return error == 3 ? "Not Supported" : "An Error"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  if (FAKE_NVML == 4) return 999;
  std::snprintf(text, size, "GPU-%s", of(device).uuid);
  return 0;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = static_cast<unsigned>(of(device).index);
  return 0;
}
/// The GPUs that were looked for by UUID and found: the real library takes its time for one.
int fake_nvml_lookups = 0;
int nvmlDeviceGetHandleByUUID(const char* text, void** device) {
  for (int i = 0; i < 3; ++i) {
    if (std::strncmp(text, kMig ? "MIG-" : "GPU-", 4) != 0 ||
        std::strcmp(text + 4, gpus[i].uuid) != 0)
      continue;
    *device = kMig ? &instances[i] : &gpus[i];
    ++fake_nvml_lookups;
    return 0;
  }
  return 6;  // not found
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  if (is_instance(device)) return 3;  // not supported
  rates[0] = static_cast<unsigned>(10 * of(device).index + 1);
  rates[1] = static_cast<unsigned>(10 * of(device).index + 2);
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (sensor != 0 || is_instance(device)) return 3;
  *celsius = static_cast<unsigned>(30 + of(device).index);
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (is_instance(device)) return 3;
  *milliwatts = static_cast<unsigned>(100000 + of(device).index);
  return 0;
}
struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void* device, Memory* out) {
  if (is_instance(device)) return 3;
  const auto index = static_cast<unsigned long long>(of(device).index);
  *out = {80ULL << 30, (80ULL << 30) - ((5ULL + index) << 30), (5ULL + index) << 30};
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, Old* out) {
  return processes(device, count, out);
}

#if FAKE_NVML != 1
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* megahertz) {
  if (which != 1 || is_instance(device)) return 3;
  *megahertz = static_cast<unsigned>(1000 + of(device).index);
  return 0;
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *current = *pending = kMig ? 1 : 0;
  return kMig ? 0 : 3;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* device, void** parent) {
  if (!is_instance(device)) return 2;  // invalid argument
  *parent = &gpus[of(device).index];
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, New* out) {
  return processes(device, count, out);
}
#endif
}
