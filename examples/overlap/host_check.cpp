#include "host_check.h"

#include <algorithm>
#include <vector>

#if OVERLAP_ZLIB
#include <zlib.h>
#else
#include "crc32.h"
#endif

namespace overlap {
namespace {

#if OVERLAP_ZLIB

constexpr const char* kName = "zlib";

std::uint32_t extend(std::uint32_t crc, const std::uint8_t* bytes, std::size_t count) {
  return static_cast<std::uint32_t>(crc32_z(crc, bytes, count));
}

std::uint32_t combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  return static_cast<std::uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

#else

constexpr const char* kName = "a bitwise CRC-32 (built without zlib)";

std::uint32_t extend(std::uint32_t crc, const std::uint8_t* bytes, std::size_t count) {
  crc = ~crc;
  for (std::size_t i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrcPolynomial : 0);
  }
  return ~crc;
}

std::uint32_t combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  return crc_combine(first, second, second_bytes);
}

#endif

/// The CRC of `times` copies, by doubling.
std::uint32_t repeat(std::uint32_t crc, std::uint64_t bytes, std::uint64_t times) {
  std::uint32_t repeated = 0;
  for (; times != 0; times >>= 1) {
    if ((times & 1) != 0) repeated = combine(repeated, crc, bytes);
    crc = combine(crc, crc, bytes);
    bytes *= 2;
  }
  return repeated;
}

}  // namespace

const char* const kChecker = kName;

HostCheck check_on_host(const Input& input) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  HostCheck check;
  std::vector<std::uint8_t> block(kBlock);
  for (std::uint64_t at = 0; at < input.file_bytes(); at += kBlock) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, input.file_bytes() - at));
    input.read(at, count, block.data());
    check.file_crc = extend(check.file_crc, block.data(), count);
    for (std::size_t i = 0; i < count; ++i) ++check.total.histogram[block[i]];
  }
  for (std::uint64_t& times : check.total.histogram) times *= input.repeat();
  check.total.crc = repeat(check.file_crc, input.file_bytes(), input.repeat());
  return check;
}

}  // namespace overlap
