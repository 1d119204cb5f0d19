// The same calls asked of CUDA directly, beside which ember's cost is seen. Compiled by nvcc where
// it is there (raw_cuda.cu); elsewhere nothing (raw_none.cpp).
#pragma once

#include <cstddef>
#include <memory>

#include "ember/driver/kernel.h"

namespace ember::bench {

/// What a launch may have beside the least: each costs a little of its own.
enum class RawLaunch {
  least,           ///< a CUfunction of one context, a stream of its own, one parameter
  any_device,      ///< a CUkernel, which belongs to no context
  default_stream,  ///< on the legacy default stream
  parameters,      ///< with a struct of 128 bytes
};

/// Calls on one device, with a stream and events of its own. They end the program if they fail. All
/// leave the calling thread's current device as it was.
class Raw {
 public:
  virtual ~Raw() = default;

  /// cuLaunchKernel of an empty kernel
  virtual void launch(RawLaunch with = RawLaunch::least) = 0;
  virtual void launch_user() = 0;  ///< the same with <<<>>>
  virtual void event_record() = 0;
  virtual void event_query() = 0;
  virtual void event_wait() = 0;       ///< by a second stream
  virtual void new_event() = 0;        ///< make, record, destroy
  virtual void new_stream() = 0;       ///< make, destroy
  virtual void device(int other) = 0;  ///< cudaGetDevice, cudaSetDevice, and back
  virtual void stream_synchronize() = 0;
  virtual void malloc_free(std::size_t bytes) = 0;
  virtual void malloc_free_async(std::size_t bytes) = 0;  ///< cudaMallocAsync, cudaFreeAsync
  virtual void pin_unpin(std::size_t bytes) = 0;          ///< cudaHostAlloc, cudaFreeHost
  virtual void fill(void* target, std::size_t bytes) = 0;
  virtual void copy(void* target, const void* source, std::size_t bytes) = 0;
  virtual void copy_peer(void* target, int target_device, const void* source, int source_device,
                         std::size_t bytes) = 0;
  /// Black-Scholes, as bench_fuse.cpp has it, in one kernel; rows of `count` floats, a multiple of
  /// four, aligned as four of them are
  virtual void black_scholes(float* price, const float* spot, const float* strike,
                             const float* years, std::size_t count) = 0;
};

/// Null in a build without CUDA. Only on real devices.
std::unique_ptr<Raw> make_raw(int device);

/// Kernels that do nothing, asked for through the seam: the one as the library starts its own, with
/// cuLaunchKernel, the other as its users do, with <<<>>>.
struct EmptyArgs {
  float* unused = nullptr;
};
extern const driver::Kernel empty_kernel;
extern const driver::Kernel user_kernel;

}  // namespace ember::bench
