#include <cuda_runtime.h>

#include "tests/races/kernels.h"

namespace ember::races {
namespace {

using driver::CudaLaunch;
using driver::Params;

__global__ void produce(ProduceArgs args) {
  for (std::size_t i = threadIdx.x; i < args.count; i += blockDim.x) args.to[i] = args.value;
}

__global__ void consume(ConsumeArgs args) {
  const volatile Number* const numbers = args.from;
  for (std::size_t i = threadIdx.x; i < args.count; i += blockDim.x) (void)numbers[i];
}

__global__ void transform(TransformArgs args) {
  for (std::size_t i = threadIdx.x; i < args.count; i += blockDim.x) args.to[i] = args.from[i] + 1;
}

// By one thread, in the order in which the host adds them.
__global__ void note(NoteArgs args) {
  double sum = 0;
  for (std::size_t i = 0; i < args.count; ++i) sum += args.from[i];
  *args.seen = *args.seen * 10 + sum / static_cast<double>(args.count);
}

Status launched() { return static_cast<Code>(cudaGetLastError()); }

}  // namespace

Status produce_cuda(const Params& params, const CudaLaunch& on) {
  produce<<<1, 256, 0, on.stream()>>>(params.as<ProduceArgs>());
  return launched();
}

Status consume_cuda(const Params& params, const CudaLaunch& on) {
  consume<<<1, 256, 0, on.stream()>>>(params.as<ConsumeArgs>());
  return launched();
}

Status transform_cuda(const Params& params, const CudaLaunch& on) {
  transform<<<1, 256, 0, on.stream()>>>(params.as<TransformArgs>());
  return launched();
}

Status note_cuda(const Params& params, const CudaLaunch& on) {
  note<<<1, 1, 0, on.stream()>>>(params.as<NoteArgs>());
  return launched();
}

}  // namespace ember::races
