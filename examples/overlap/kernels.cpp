#include "kernels.h"

#include <cstddef>
#include <cstring>

#include "crc32.h"

namespace overlap {

using ember::Status;
using ember::driver::HostLaunch;
using ember::driver::Kernel;
using ember::driver::Params;

// A build without nvcc has no CUDA implementation.
#if OVERLAP_CUDA
Status histogram_cuda(const Params&, const ember::driver::CudaLaunch&);
Status crc_cuda(const Params&, const ember::driver::CudaLaunch&);
#else
constexpr ember::driver::CudaImplementation histogram_cuda = nullptr;
constexpr ember::driver::CudaImplementation crc_cuda = nullptr;
#endif

namespace {

std::uint64_t load64(const std::uint8_t* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

Status histogram_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<ChunkArgs>();
  const std::uint8_t* data = on.at(args.data, args.bytes);
  if (data == nullptr) return on.fault();
  ChunkResult* result = on.at(args.result, 1);
  if (result == nullptr) return on.fault();

  // Counting in several tables: a run of equal bytes would make each increment wait for the last.
  std::uint32_t counts[4][256] = {};
  std::size_t i = 0;
  for (; i + 8 <= args.bytes; i += 8) {
    const std::uint64_t word = load64(data + i);
    for (int k = 0; k < 8; ++k) ++counts[k % 4][(word >> (8 * k)) & 0xff];
  }
  for (; i < args.bytes; ++i) ++counts[0][data[i]];
  for (int value = 0; value < 256; ++value)
    for (const auto& table : counts) result->histogram[value] += table[value];
  return {};
}

/// Slicing by eight: table k tells what a byte that is followed by k others contributes.
struct CrcTables {
  std::uint32_t at[8][256];
};

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t contribution = crc_multiply(byte, kCrcPerByte);
    for (auto& table : tables.at) {
      table[byte] = contribution;
      contribution = crc_multiply(contribution, kCrcPerByte);
    }
  }
  return tables;
}

Status crc_host(const Params& params, const HostLaunch& on) {
  static const CrcTables tables = make_crc_tables();
  const auto& t = tables.at;
  const auto& args = params.as<ChunkArgs>();
  const std::uint8_t* data = on.at(args.data, args.bytes);
  if (data == nullptr) return on.fault();
  ChunkResult* result = on.at(args.result, 1);
  if (result == nullptr) return on.fault();

  std::uint32_t crc = kCrcStart;
  std::size_t i = 0;
  for (; i + 8 <= args.bytes; i += 8) {
    const std::uint64_t word = load64(data + i) ^ crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= t[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; i < args.bytes; ++i) crc = (crc >> 8) ^ t[0][(crc ^ data[i]) & 0xff];
  result->crc = crc ^ kCrcStart;
  return {};
}

}  // namespace

const Kernel histogram_kernel{"histogram", &histogram_host, histogram_cuda};
const Kernel crc_kernel{"crc32", &crc_host, crc_cuda};

}  // namespace overlap
