// The calls of libcuda for memory in the order of streams. They are not in the table of api.h,
// since only programs that ask for that (backend:cudaMallocAsync) need them.
#pragma once

#include "ember/driver/cuda/api.h"

namespace ember::inline v0::driver::cuda {

#define EMBER_CUDA_POOL_CALLS(CALL) \
  CALL(cuMemAllocAsync)             \
  CALL(cuMemFreeAsync)              \
  CALL(cuMemPoolSetAttribute)       \
  CALL(cuMemPoolTrimTo)             \
  CALL(cuDeviceGetDefaultMemPool)

struct PoolCalls {
#define EMBER_CUDA_POINTER(name) decltype(&::name) name = nullptr;
  EMBER_CUDA_POOL_CALLS(EMBER_CUDA_POINTER)
#undef EMBER_CUDA_POINTER
};

/// Looked up once. not_supported, naming it, if libcuda has one of them not. load_api() has
/// succeeded. Thread-safe.
Status find_pool_calls(const PoolCalls*& out);

}  // namespace ember::inline v0::driver::cuda
