// gather along the last dimension, where each row of the source fits into shared memory: the row is
// read once, in order, and picked from there. Picking from memory would fetch 32 bytes for each
// element.
#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/indexed.cuh"

namespace ember::inline v0::ops::cuda {
namespace {

constexpr int kRowThreads = 512;
constexpr int kEach = 8;                         ///< indices per thread in flight
constexpr std::int64_t kMostBytes = 112 * 1024;  ///< of a row, so that two blocks share an SM

struct Rows {
  std::uint32_t width;  ///< units of a row of the source: what indices may be
  std::uint32_t count;  ///< indices of a row; so far below 2^32 that adding some does not overflow
  std::int64_t target_pitch;
  std::int64_t source_pitch;
  std::int64_t index_pitch;

  static constexpr driver::AddressPlaces kAddresses = driver::kNoAddress;
};

__device__ __forceinline__ void copy_16_bytes_async(void* shared, const void* global) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

__device__ __forceinline__ void load_indices(std::int64_t (&out)[kEach], const std::int64_t* index,
                                             std::uint32_t begin, std::uint32_t count) {
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const std::uint32_t i = begin + e * kRowThreads;
    out[e] = i < count ? __ldcs(index + i) : 0;
  }
}

/// One block for each row. Three of them share an SM if the rows are short enough, so that while
/// one waits for its row others write.
template <class T>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) <= 4 ? 3 : 2)
    rows_kernel(T* target, const T* source, const std::int64_t* index, Rows rows) {
  extern __shared__ uint4 memory[];
  T* row = reinterpret_cast<T*>(memory);
  const std::int64_t number = blockIdx.x;
  const T* in = source + number * rows.source_pitch;
  target += number * rows.target_pitch;
  index += number * rows.index_pitch;

  const std::uint32_t width = rows.width;
  if (driver::cuda::is_aligned(in)) {
    const std::uint32_t packs = static_cast<std::uint32_t>(width * sizeof(T) / 16);
    for (std::uint32_t i = threadIdx.x; i < packs; i += kRowThreads)
      copy_16_bytes_async(memory + i, reinterpret_cast<const uint4*>(in) + i);
    constexpr std::uint32_t kPack = 16 / sizeof(T);
    for (std::uint32_t i = packs * kPack + threadIdx.x; i < width; i += kRowThreads) row[i] = in[i];
  } else {
#pragma unroll 8
    for (std::uint32_t i = threadIdx.x; i < width; i += kRowThreads) row[i] = in[i];
  }
  // The first indices come while the row does.
  std::int64_t at[kEach];
  load_indices(at, index, threadIdx.x, rows.count);
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  for (std::uint32_t begin = threadIdx.x;;) {
    bool indices_in_bounds = true;
#pragma unroll
    for (int e = 0; e < kEach; ++e) indices_in_bounds &= static_cast<std::uint64_t>(at[e]) < width;
    assert(indices_in_bounds);
    T value[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) value[e] = row[static_cast<std::uint32_t>(at[e])];
    const std::uint32_t next = begin + kEach * kRowThreads;
    const bool more = next < rows.count;
    if (more) load_indices(at, index, next, rows.count);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const std::uint32_t i = begin + e * kRowThreads;
      if (i < rows.count) target[i] = value[e];
    }
    if (!more) return;
    begin = next;
  }
}

/// More than 48 KiB of dynamic shared memory have to be asked for, per device.
template <auto kKernel>
Status allow_shared(const CudaLaunch& on, int bytes) {
  const cudaError_t error = cudaFuncSetAttribute(
      reinterpret_cast<const void*>(kKernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) return {};
  return Status(static_cast<Code>(error), "asking for " + std::to_string(bytes) +
                                              " bytes of shared memory on device " +
                                              std::to_string(on.device()));
}

template <int bytes>
Status gather_implementation(const IndexedArgs& args, const CudaLaunch& on) {
  using T = Unit<bytes>;
  const bool single = args.dims == 1;
  const Rows rows{static_cast<std::uint32_t>(args.limit), static_cast<std::uint32_t>(args.size[0]),
                  single ? 0 : args.target_stride[1], single ? 0 : args.source_stride[1],
                  single ? 0 : args.index_stride[1]};
  const auto shared = static_cast<unsigned>((args.limit * bytes + 15) / 16 * 16);
  if (shared > 48 * 1024)
    EMBER_TRY(allow_shared<&rows_kernel<T>>(on, static_cast<int>(kMostBytes)));
  const Grid grid{single ? 1U : static_cast<unsigned>(args.size[1]), kRowThreads, shared};
  return start<&rows_kernel<T>>(on, grid, static_cast<T*>(args.target),
                                static_cast<const T*>(args.source), args.index, rows);
}

}  // namespace

RowsImplementation rows_implementation(const IndexedArgs& args, int unit) noexcept {
  // Rows of adjacent elements and indices, enough of them to fill the device, and enough indices
  // for each row that reading all of it is faster.
  constexpr std::int64_t kFewRows = 64;
  if (args.dims != 2 || args.step != 1 || args.wrap || args.limit < 64) return nullptr;
  if (args.target_stride[0] != 1 || args.source_stride[0] != 0 || args.index_stride[0] != 1)
    return nullptr;
  if (args.limit > kMostBytes / unit || args.size[1] < kFewRows || args.size[1] > INT32_MAX)
    return nullptr;
  if (args.size[0] < args.limit * unit / 32 || args.size[0] < kRowThreads ||
      args.size[0] > INT32_MAX)
    return nullptr;
  switch (unit) {
    case 1: return &gather_implementation<1>;
    case 2: return &gather_implementation<2>;
    case 4: return &gather_implementation<4>;
    case 8: return &gather_implementation<8>;
    default: return &gather_implementation<16>;
  }
}

}  // namespace ember::inline v0::ops::cuda
