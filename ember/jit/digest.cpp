#include "ember/jit/digest.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ember::inline v0::jit {
namespace {

constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

void add_block(State& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t x = w[i - 15];
    const std::uint32_t y = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) + w[i - 7] +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const State added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

std::string digest(std::string_view text) {
  State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t left = text.size();
  for (; left >= 64; left -= 64, bytes += 64) add_block(state, bytes);
  std::array<unsigned char, 128> last{};
  for (std::size_t i = 0; i < left; ++i) last[i] = bytes[i];
  last[left] = 0x80;
  const std::size_t size = left < 56 ? 64 : 128;
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  for (std::size_t i = 0; i < 8; ++i)
    last[size - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
  add_block(state, last.data());
  if (size == 128) add_block(state, last.data() + 64);
  std::string out;
  for (const std::uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(word >> shift) & 15];
  return out;
}

namespace {

constexpr std::uint64_t kPrimes[] = {0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
                                     0x85ebca77c2b2ae63, 0x27d4eb2f165667c5};

/// A number of T's size, least byte first.
template <class T>
std::uint64_t take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  if constexpr (std::endian::native == std::endian::big) {
    T turned = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) turned = turned << 8 | (value >> (8 * i) & 255);
    value = turned;
  }
  bytes.remove_prefix(sizeof value);
  return value;
}

std::uint64_t mixed(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrimes[1], 31) * kPrimes[0];
}

}  // namespace

std::uint64_t checksum(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  std::uint64_t sum = kPrimes[4];
  if (size >= 32) {
    std::uint64_t lanes[] = {kPrimes[0] + kPrimes[1], kPrimes[1], 0, 0 - kPrimes[0]};
    while (bytes.size() >= 32)
      for (std::uint64_t& lane : lanes) lane = mixed(lane, take<std::uint64_t>(bytes));
    sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
          std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) sum = (sum ^ mixed(0, lane)) * kPrimes[0] + kPrimes[3];
  }
  sum += size;
  while (bytes.size() >= 8)
    sum = std::rotl(sum ^ mixed(0, take<std::uint64_t>(bytes)), 27) * kPrimes[0] + kPrimes[3];
  if (bytes.size() >= 4)
    sum = std::rotl(sum ^ take<std::uint32_t>(bytes) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
  while (!bytes.empty())
    sum = std::rotl(sum ^ take<std::uint8_t>(bytes) * kPrimes[4], 11) * kPrimes[0];
  sum = (sum ^ sum >> 33) * kPrimes[1];
  sum = (sum ^ sum >> 29) * kPrimes[2];
  return sum ^ sum >> 32;
}

}  // namespace ember::inline v0::jit
