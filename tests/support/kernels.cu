// The CUDA implementations of the test kernels, written as a user of ember would write them.
#include <cuda_runtime.h>

#include "tests/support/kernels.h"

namespace ember::test {
namespace {

using driver::CudaLaunch;
using driver::Params;

__global__ void gate(GateFlags* flags) {
  volatile GateFlags* watched = flags;
  watched->running = 1;
  __threadfence_system();
  while (watched->open == 0) __nanosleep(200);
}

__global__ void affine(AffineArgs args) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < args.count;
       i += std::size_t{gridDim.x} * blockDim.x)
    args.data[i] = args.data[i] * args.factor + args.summand;
}

__device__ void append(std::uint32_t* log, std::uint32_t tag) { log[atomicAdd(log, 1u) + 1] = tag; }

__global__ void log_once(LogArgs args) { append(args.log, args.tag); }

__global__ void busy(BusyArgs args) {
  std::uint64_t start = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < args.microseconds * std::uint64_t{1000});
  if (blockIdx.x == 0 && threadIdx.x == 0) append(args.log, args.tag);
}

__global__ void move(MoveArgs args) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < args.count;
       i += std::size_t{gridDim.x} * blockDim.x)
    args.target[i] = args.source[i];
}

__global__ void bad_access(BadAccessArgs args) { *args.address = 1; }

__global__ void nop() {}

Status launched() { return static_cast<Code>(cudaGetLastError()); }

unsigned blocks(std::size_t count) {
  const std::size_t wanted = (count + 255) / 256;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted > 1024 ? 1024 : wanted);
}

}  // namespace

Status gate_cuda(const Params& params, const CudaLaunch& on) {
  gate<<<1, 1, 0, on.stream()>>>(params.as<GateArgs>().flags);
  return launched();
}

Status affine_cuda(const Params& params, const CudaLaunch& on) {
  const auto& args = params.as<AffineArgs>();
  affine<<<blocks(args.count), 256, 0, on.stream()>>>(args);
  return launched();
}

Status log_cuda(const Params& params, const CudaLaunch& on) {
  log_once<<<1, 1, 0, on.stream()>>>(params.as<LogArgs>());
  return launched();
}

Status busy_cuda(const Params& params, const CudaLaunch& on) {
  // More threads than fit at once, so that kernels of other streams have to wait for their turn.
  int device = 0;
  cudaGetDevice(&device);
  int processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  busy<<<static_cast<unsigned>(processors) * 2, 1024, 0, on.stream()>>>(params.as<BusyArgs>());
  return launched();
}

Status move_cuda(const Params& params, const CudaLaunch& on) {
  const auto& args = params.as<MoveArgs>();
  move<<<blocks(args.count), 256, 0, on.stream()>>>(args);
  return launched();
}

Status bad_access_cuda(const Params& params, const CudaLaunch& on) {
  bad_access<<<1, 1, 0, on.stream()>>>(params.as<BadAccessArgs>());
  return launched();
}

Status nop_cuda(const Params&, const CudaLaunch& on) {
  nop<<<1, 1, 0, on.stream()>>>();
  return launched();
}

}  // namespace ember::test
