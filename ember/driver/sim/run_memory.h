// What one device's memory has to hold when a seeded run begins, and when it is new in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ember::inline v0::driver::sim {

/// Follows which memory a run touches. New memory gets a pattern from the run's seed where it is
/// first touched; of memory that is older than the run, what is about to be written is kept, and
/// put back when the next run begins. Beginning a run costs as much as the last one has written.
/// The caller locks.
class RunMemory {
 public:
  /// Memory is followed in granules of so many bytes; an allocation begins with one, and shares
  /// none.
  static constexpr std::size_t kGranule = 512;

  /// When an allocation was made, and what it holds where nobody has written.
  struct Birth {
    std::uint64_t serial = 0;
    std::uint64_t pattern = 0;
  };
  struct Range {
    std::size_t offset = 0;  // in the device's memory
    std::size_t bytes = 0;
  };

  /// For `bytes` of memory of a device, in a run with that seed. Address space of a 64th of it is
  /// reserved; it takes memory where the device's is touched.
  RunMemory(std::size_t bytes, int device, std::uint64_t seed);
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  /// Whether the address space was to be had.
  bool made() const noexcept { return stamps_ != nullptr; }
  /// Of an allocation that is made now.
  Birth give_birth() noexcept;
  /// Before bytes of an allocation, which lies at `allocation`, are read, or read and written.
  /// `memory`: where the device's memory lies.
  void touch(std::byte* memory, Range bytes, std::size_t allocation, const Birth& birth,
             bool writes);
  /// A run with that seed begins. What the last one wrote in allocations that are older than it is
  /// put back, unless `lives(offset, serial)` denies that the allocation there is still that one.
  template <class Lives>
  void begin_run(std::byte* memory, std::uint64_t seed, const Lives& lives) {
    for (const Kept& each : kept_)
      if (lives(each.offset, each.serial)) put_back(memory, each);
    kept_.clear();
    began_ = ++serial_;
    seed_ = seed;
  }

 private:
  /// What memory held when the run began.
  struct Kept {
    std::size_t offset = 0;
    std::uint64_t serial = 0;  // of its allocation
    std::vector<std::byte> contents;
  };

  static void put_back(std::byte* memory, const Kept& kept);

  const std::size_t granules_;
  const int device_;
  std::uint64_t seed_;
  std::uint64_t serial_ = 1;  // of allocations and runs, in one sequence
  std::uint64_t began_ = 1;
  // By granule: as of which serial it holds what it should. Since its allocation was made: the
  // pattern, or what was written. Since the run began: what it held then is kept, too.
  std::uint64_t* stamps_ = nullptr;
  std::vector<Kept> kept_;
};

}  // namespace ember::inline v0::driver::sim
