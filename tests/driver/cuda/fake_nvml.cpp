// A fake libnvidia-ml.so.1 of a machine with three GPUs.
#include <cstdio>

namespace {
int gpus[] = {0, 1, 2};
}

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%d0000000-0000-0000-0000-000000000000",
                *static_cast<int*>(device));
  return 0;
}
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) { return 3; }  // not supported
}
