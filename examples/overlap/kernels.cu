// The CUDA implementations: ordinary CUDA, launched on the stream that ember hands over.
#include <cuda_runtime.h>

#include "crc32.h"
#include "kernels.h"

namespace overlap {
namespace {

using ember::Code;
using ember::Status;
using ember::driver::CudaLaunch;
using ember::driver::Params;

constexpr unsigned kThreads = 256;  // a multiple of the warp, and one per byte value
constexpr unsigned kWarps = kThreads / 32;

// ---- Histogram: each warp counts in bins of its own, in shared memory -------------------------

__device__ void count_word(unsigned* bins, unsigned word) {
  if (word == (word & 0xff) * 0x01010101u) {  // four equal bytes, such as zeros
    atomicAdd(&bins[word & 0xff], 4u);
    return;
  }
  for (int k = 0; k < 4; ++k) atomicAdd(&bins[(word >> (8 * k)) & 0xff], 1u);
}

__global__ void histogram(ChunkArgs args) {
  __shared__ unsigned bins[kWarps][256];
  for (unsigned warp = 0; warp < kWarps; ++warp) bins[warp][threadIdx.x] = 0;
  __syncthreads();

  unsigned* mine = bins[threadIdx.x / 32];
  const auto* vectors = reinterpret_cast<const uint4*>(args.data);
  const unsigned count = args.bytes / sizeof(uint4);
  const unsigned first = blockIdx.x * kThreads + threadIdx.x;
  for (unsigned i = first; i < count; i += gridDim.x * kThreads) {
    const uint4 vector = vectors[i];
    count_word(mine, vector.x);
    count_word(mine, vector.y);
    count_word(mine, vector.z);
    count_word(mine, vector.w);
  }
  const unsigned tail = count * static_cast<unsigned>(sizeof(uint4)) + first;
  if (tail < args.bytes) atomicAdd(&mine[args.data[tail]], 1u);
  __syncthreads();

  unsigned sum = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) sum += bins[warp][threadIdx.x];
  if (sum != 0) atomicAdd(&args.result->histogram[threadIdx.x], sum);
}

// ---- CRC-32 ------------------------------------------------------------------------------------
// The chunk is cut into rows of 256 vectors of 16 bytes. A thread reads one column: its reads lie
// side by side with its neighbours', and between two of them the remainder moves on by one whole
// row, which is a multiplication by a constant, done with four table look-ups. In the end each
// thread multiplies by what follows it in its row, each block by what follows the block, and all
// add up. Rows are counted from the end of the chunk: what is missing of the first row reads as
// zeros, which don't change a remainder that starts from zero.

constexpr unsigned kRowBytes = kThreads * sizeof(uint4);
static_assert(kRowBytes == 1u << 12);

struct LanePowers {
  std::uint32_t at[kThreads];
};
constexpr LanePowers lane_powers() {
  LanePowers powers{};
  std::uint32_t power = crc_power(4);  // of the last thread: its last word itself
  for (unsigned lane = kThreads; lane-- > 0;) {
    powers.at[lane] = power;
    power = crc_multiply(power, crc_power(sizeof(uint4)));
  }
  return powers;
}

__device__ constexpr CrcPowers device_powers = crc_powers();
__device__ constexpr LanePowers device_lane_powers = lane_powers();

/// x^(8 * bytes), computed by a whole warp together: one factor per bit of the number.
__device__ unsigned warp_power(unsigned bytes) {
  const unsigned lane = threadIdx.x % 32;
  unsigned power = (bytes >> lane) & 1 ? device_powers.at[lane] : kCrcOne;
  for (int distance = 16; distance > 0; distance /= 2)
    power = crc_multiply(power, __shfl_xor_sync(~0u, power, distance));
  return power;
}

__device__ unsigned remainder_of(const std::uint8_t* bytes, unsigned count) {
  unsigned remainder = 0;
  for (unsigned i = 0; i < count; ++i) remainder = crc_multiply(remainder ^ bytes[i], kCrcPerByte);
  return remainder;
}

/// `start` is what the CRC's starting value and its final xor contribute.
__global__ void crc(ChunkArgs args, unsigned rows_per_block, std::uint32_t start) {
  __shared__ unsigned next_row[4][256];  // a byte at each place of a word, one row further
  __shared__ unsigned block_remainder;
  for (int k = 0; k < 4; ++k)
    next_row[k][threadIdx.x] = crc_multiply(threadIdx.x << (8 * k), device_powers.at[12]);
  if (threadIdx.x == 0) block_remainder = 0;
  __syncthreads();

  const auto advance = [&](unsigned word) {
    return next_row[0][word & 0xff] ^ next_row[1][(word >> 8) & 0xff] ^
           next_row[2][(word >> 16) & 0xff] ^ next_row[3][word >> 24];
  };
  const auto* vectors = reinterpret_cast<const uint4*>(args.data);
  const int count = static_cast<int>(args.bytes / sizeof(uint4));
  const int missing = static_cast<int>(gridDim.x * rows_per_block * kThreads) - count;
  int i = static_cast<int>(blockIdx.x * rows_per_block * kThreads + threadIdx.x) - missing;
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (unsigned row = 0; row < rows_per_block; ++row, i += kThreads) {
    const uint4 vector = i >= 0 ? vectors[i] : make_uint4(0, 0, 0, 0);
    sum.x = advance(sum.x) ^ vector.x;
    sum.y = advance(sum.y) ^ vector.y;
    sum.z = advance(sum.z) ^ vector.z;
    sum.w = advance(sum.w) ^ vector.w;
  }

  const unsigned word = device_powers.at[2];  // four bytes
  unsigned remainder = crc_multiply(sum.x, word) ^ sum.y;
  remainder = crc_multiply(remainder, word) ^ sum.z;
  remainder = crc_multiply(remainder, word) ^ sum.w;
  remainder = crc_multiply(remainder, device_lane_powers.at[threadIdx.x]);
  remainder = __reduce_xor_sync(~0u, remainder);
  if (threadIdx.x % 32 == 0) atomicXor(&block_remainder, remainder);
  __syncthreads();

  if (threadIdx.x >= 32) return;
  const unsigned tail = args.bytes % sizeof(uint4);
  const unsigned rows_after = (gridDim.x - 1 - blockIdx.x) * rows_per_block;
  const unsigned power = warp_power(rows_after * kRowBytes + tail);
  if (threadIdx.x != 0) return;
  unsigned contribution = crc_multiply(block_remainder, power);
  if (blockIdx.x == 0) contribution ^= start ^ remainder_of(args.data + args.bytes - tail, tail);
  atomicXor(&args.result->crc, contribution);
}

// ---- Launching ---------------------------------------------------------------------------------

unsigned divide_up(unsigned a, unsigned b) { return a / b + (a % b != 0); }

/// Enough blocks to fill the device, and no more than there is work for.
unsigned blocks_for(unsigned pieces, int device) {
  int processors = 1;
  (void)cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const unsigned most = 8 * static_cast<unsigned>(processors);
  return pieces < 1 ? 1 : pieces < most ? pieces : most;
}

Status launched() { return static_cast<Code>(cudaGetLastError()); }

}  // namespace

Status histogram_cuda(const Params& params, const CudaLaunch& on) {
  const auto& args = params.as<ChunkArgs>();
  const unsigned blocks = blocks_for(divide_up(args.bytes, 4 * kRowBytes), on.device());
  histogram<<<blocks, kThreads, 0, on.stream()>>>(args);
  return launched();
}

Status crc_cuda(const Params& params, const CudaLaunch& on) {
  const auto& args = params.as<ChunkArgs>();
  const unsigned rows = divide_up(args.bytes, kRowBytes);
  const unsigned rows_per_block = divide_up(rows, blocks_for(divide_up(rows, 4), on.device()));
  const unsigned blocks = rows == 0 ? 1 : divide_up(rows, rows_per_block);
  crc<<<blocks, kThreads, 0, on.stream()>>>(args, rows_per_block,
                                            crc_shift(kCrcStart, args.bytes) ^ kCrcStart);
  return launched();
}

}  // namespace overlap
