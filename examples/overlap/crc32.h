// The arithmetic of CRC-32 (the one of zlib, PNG and Ethernet), for host and device code.
//
// A CRC is the remainder of the message, read as a polynomial over GF(2), divided by a fixed one.
// Remainders are 32 bits with the coefficient of x^0 on the left. Appending a zero byte multiplies
// by x^8, so the CRC of two parts follows from theirs: shift the first by the second's length, and
// add (xor) the second. That is what lets thousands of threads, and two devices, share one CRC.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define OVERLAP_EVERYWHERE __host__ __device__
#else
#define OVERLAP_EVERYWHERE
#endif

namespace overlap {

inline constexpr std::uint32_t kCrcPolynomial = 0xedb88320;
inline constexpr std::uint32_t kCrcOne = 0x80000000;      // the polynomial 1
inline constexpr std::uint32_t kCrcPerByte = 0x00800000;  // x^8: one byte further
inline constexpr std::uint32_t kCrcStart = 0xffffffff;  // what a CRC starts from and is xored with

/// Product of two remainders.
OVERLAP_EVERYWHERE constexpr std::uint32_t crc_multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int i = 0; i < 32; ++i) {
    product ^= b & (0u - (a >> 31));  // a has x^i
    a <<= 1;
    b = (b >> 1) ^ (kCrcPolynomial & (0u - (b & 1u)));  // b times x
  }
  return product;
}

/// x^(8 * bytes): what to multiply a remainder by when that many bytes follow.
constexpr std::uint32_t crc_power(std::uint64_t bytes) {
  std::uint32_t power = kCrcOne;
  for (std::uint32_t square = kCrcPerByte; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = crc_multiply(power, square);
    square = crc_multiply(square, square);
  }
  return power;
}

/// What a part's CRC contributes to the whole's when `bytes` bytes come after the part. The whole's
/// CRC is the xor of all contributions, in any order.
constexpr std::uint32_t crc_shift(std::uint32_t crc, std::uint64_t bytes) {
  return crc_multiply(crc, crc_power(bytes));
}

/// The CRC of two parts, one after the other.
constexpr std::uint32_t crc_combine(std::uint32_t first, std::uint32_t second,
                                    std::uint64_t second_bytes) {
  return crc_shift(first, second_bytes) ^ second;
}

/// x^(8 * 2^k) for every k: any shift of a 32-bit length is a product of some of these.
struct CrcPowers {
  std::uint32_t at[32];
};
constexpr CrcPowers crc_powers() {
  CrcPowers powers{};
  powers.at[0] = kCrcPerByte;
  for (int k = 1; k < 32; ++k) powers.at[k] = crc_multiply(powers.at[k - 1], powers.at[k - 1]);
  return powers;
}

}  // namespace overlap
