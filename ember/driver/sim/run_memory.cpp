#include "ember/driver/sim/run_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace ember::inline v0::driver::sim {
namespace {

/// The finalizer of SplitMix64: numbers that follow each other become independent ones.
std::uint64_t scattered(std::uint64_t number) noexcept {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

/// One granule of an allocation, `at` bytes into it.
void fill_with_pattern(std::byte* granule, std::uint64_t pattern, std::size_t at) noexcept {
  for (std::size_t i = 0; i < RunMemory::kGranule; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = scattered(pattern + (at + i) / sizeof(std::uint64_t));
    std::memcpy(granule + i, &word, sizeof word);
  }
}

}  // namespace

RunMemory::RunMemory(std::size_t bytes, int device, std::uint64_t seed)
    : granules_((bytes + kGranule - 1) / kGranule), device_(device), seed_(seed) {
  void* range = mmap(nullptr, granules_ * sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range != MAP_FAILED) stamps_ = static_cast<std::uint64_t*>(range);
}

RunMemory::~RunMemory() {
  if (stamps_ != nullptr) (void)munmap(stamps_, granules_ * sizeof(std::uint64_t));
}

RunMemory::Birth RunMemory::give_birth() noexcept {
  ++serial_;
  // Which allocation of the run it is, so that the first run of a process is like all others.
  const std::uint64_t number = serial_ - began_;
  return {serial_,
          scattered(seed_ ^ scattered(number ^ scattered(static_cast<std::uint64_t>(device_))))};
}

void RunMemory::touch(std::byte* memory, Range bytes, std::size_t allocation, const Birth& birth,
                      bool writes) {
  const std::size_t last = (bytes.offset + bytes.bytes + kGranule - 1) / kGranule;
  std::size_t changed = 0;  // granules before this one that are to be kept
  const auto keep = [&](std::size_t end) {
    if (changed == 0) return;
    const std::size_t first = (end - changed) * kGranule;
    kept_.push_back(
        {first, birth.serial, std::vector<std::byte>(memory + first, memory + end * kGranule)});
    changed = 0;
  };
  for (std::size_t granule = bytes.offset / kGranule; granule < last; ++granule) {
    std::uint64_t& stamp = stamps_[granule];
    const std::size_t offset = granule * kGranule;
    if (stamp < birth.serial) {
      fill_with_pattern(memory + offset, birth.pattern, offset - allocation);
      stamp = birth.serial;
    }
    if (writes && stamp < began_) {
      stamp = began_;
      ++changed;
    } else {
      keep(granule);
    }
  }
  keep(last);
}

void RunMemory::put_back(std::byte* memory, const Kept& kept) {
  std::memcpy(memory + kept.offset, kept.contents.data(), kept.contents.size());
}

}  // namespace ember::inline v0::driver::sim
