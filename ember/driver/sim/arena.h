// The memory of the simulated devices.
//
// All devices share one reserved range of addresses in which nothing is accessible: those are the
// device addresses that callers see, and a host that follows one faults, as it would with a GPU's.
// The same memory (a file descriptor per device) is mapped a second time, readable and writable, at
// a constant distance: there the workers find it. An address tells its owner. Memory of other
// processes lies elsewhere (imports.h), belongs to the device that it was opened for, and is
// counted where its owner is.
//
// A device's addresses reach further than its memory. Allocations lie in the file, which is four
// times as long where there are addresses enough, and has pages only where something lies: as on
// hardware, free memory that lies apart serves one allocation, unless all of the file is full of
// gaps. Behind that are the addresses of ranges (ranges.cpp), whose chunks are pages of the same
// file from wherever there are some.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "ember/base/status.h"
#include "ember/driver/handles.h"
#include "ember/driver/sim/imports.h"
#include "ember/driver/sim/run_memory.h"
#include "ember/driver/sim/shared_machine.h"

namespace ember::inline v0::driver::sim {

class Arena {
 public:
  /// Reserves addresses for `devices` of `bytes` each; no memory yet.
  Arena(int devices, std::size_t bytes);

  /// What a context takes of a device's memory: some 0.5 %, as on hardware, at most 512 MiB.
  static std::size_t context_bytes(std::size_t total) noexcept;

  /// See Driver::malloc and free; what the limit of `bytes` per device leaves beside the context is
  /// what gives out_of_memory.
  Status allocate(int device, std::uint32_t epoch, std::size_t bytes, void*& out);
  Status free(int device, std::uint32_t epoch, void* pointer);
  /// Whether free() would find the allocation.
  Status check_free(int device, std::uint32_t epoch, const void* pointer) const;
  /// See Driver::range_reserve and its like.
  static constexpr std::size_t kUnit = std::size_t{2} << 20;  ///< of chunks, as on hardware
  Status reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& out);
  Status release_range(int device, std::uint32_t epoch, void* base);
  Status map(int device, std::uint32_t epoch, void* start, std::size_t bytes);
  Status unmap(int device, std::uint32_t epoch, void* start, std::size_t bytes);
  /// How many times further than its memory a device's addresses reach.
  std::size_t reach() const noexcept { return stride_ / bytes_; }

  /// From now on allocations are made in that epoch of a device, and in no earlier one.
  void begin_epoch(int device, std::uint32_t epoch);
  /// Frees everything of a device that was allocated in earlier epochs; while tasks of other
  /// devices are inside, the last of them does it.
  void clear_earlier_epochs(int device);
  /// A task of another device touches memory of this one: until it leaves, no memory that it may
  /// have found is given to anybody else by a reset.
  void enter(int device);
  void leave(int device);
  /// What is free and what there is. On a machine that processes share, free is what all of them
  /// leave.
  MemoryInfo info(int device) const;

  /// From now on what is taken of a device is taken of that one of a machine that processes share,
  /// with what was taken so far.
  void share(int device, SharedMachine& machine, int ordinal);
  /// The process makes a context on the device, or has one: takes its memory on a shared machine,
  /// where processes without a context hold none. Elsewhere it is always counted.
  Status make_context(int device);
  void end_context(int device);

  /// From now on, before there is any memory, what runs do with it is followed (run_memory.h); the
  /// first has that seed.
  Status follow_runs(std::uint64_t seed);
  bool follows_runs() const noexcept { return follows_runs_; }
  /// The next run begins: memory is put back to what it held when the last one did. No task runs.
  void begin_run(std::uint64_t seed);
  /// Before a task reads bytes within one allocation of the machine's own, or reads and writes
  /// them, where runs are followed.
  void touch(const void* pointer, std::size_t bytes, bool writes) const;

  /// The owner of a device address; -1 for every other address.
  int owner(const void* pointer) const noexcept;
  /// The allocation of its device's epoch that an address lies in, or all chunks around it without
  /// a gap; false if there is none.
  bool find(const void* pointer, PointerInfo& out) const;
  /// Whether [pointer, pointer + bytes) lies in one allocation of its device's epoch, or in such
  /// chunks.
  bool contains(const void* pointer, std::size_t bytes) const;
  /// Whether the address lies in the range of the machine's own devices, not in an import.
  bool is_own(const void* pointer) const noexcept { return own_device(pointer) >= 0; }
  /// The file behind a device's memory and the address's place in it, for another process. False if
  /// it lies in no allocation of the machine's own, or in a chunk.
  bool file_of(const void* pointer, int& file, std::size_t& offset) const;
  /// Where in the file behind a device's memory `bytes` from `pointer` on lie, of which the first
  /// piece has `in_front` more in front; the files stay the arena's. False unless they lie in
  /// chunks.
  bool pieces_of(const void* pointer, std::size_t bytes, std::vector<IpcPiece>& out,
                 std::size_t& in_front) const;
  Imports& imports() noexcept { return imports_; }
  const Imports& imports() const noexcept { return imports_; }
  /// Whether it is an address of a range.
  bool is_of_range(const void* pointer) const noexcept {
    const int device = own_device(pointer);
    return device >= 0 && offset_of(device, pointer) >= span_;
  }
  /// Where workers find a device address. Must lie in an allocation of the machine's own.
  void* backing(const void* pointer) const noexcept {
    return static_cast<std::byte*>(const_cast<void*>(pointer)) + distance_;
  }

 private:
  static constexpr std::size_t kAlignment = 512;
  static_assert(kAlignment % RunMemory::kGranule == 0);

  struct Pages {
    std::size_t offset = 0, bytes = 0;  // in the device's memory
  };
  struct Allocation {
    std::size_t bytes = 0;  // as asked for
    std::uint32_t epoch = 0;
    RunMemory::Birth birth;    // where runs are followed
    std::vector<Pages> pages;  // of a chunk: its memory, which for others lies where they do
    bool is_chunk() const noexcept { return !pages.empty(); }
  };
  struct Range {
    std::size_t bytes = 0;
    std::uint32_t epoch = 0;
  };
  struct Memory {
    mutable std::shared_mutex mutex;  // shared: every access of every worker is checked under it
    int file = -1;                    // made at the first allocation
    std::map<std::size_t, std::size_t> free_ranges;  // by offset
    std::map<std::size_t, Allocation> allocations;   // by offset, chunks behind all others
    std::map<std::size_t, Range> ranges;             // of addresses, by offset
    std::unique_ptr<RunMemory> run;                  // where runs are followed
    std::size_t used = 0;
    std::uint32_t epoch = 0;
    bool context = false;
    SharedMachine* shared = nullptr;  // of which the memory is a part
    int ordinal = 0;                  // of the device there
    int others_inside = 0;            // tasks of other devices
    bool to_clear = false;            // the last of them has to
  };

  Memory& memory_of(int device) const { return *memories_[static_cast<std::size_t>(device)]; }
  std::byte* start_of(int device) const {
    return base_ + static_cast<std::size_t>(device) * stride_;
  }
  int own_device(const void* pointer) const noexcept;
  Status find_to_free(int device, const Memory& memory, std::uint32_t epoch, const void* pointer,
                      std::map<std::size_t, Allocation>::const_iterator& out) const;
  Status make_backing(int device, Memory& memory);
  /// What the context leaves, in whole units of allocations; whether so much of it is free.
  std::size_t usable() const noexcept;
  bool has_room(const Memory& memory, std::size_t bytes) const noexcept;
  void take_back(Memory& memory, std::size_t bytes);
  void release(Memory& memory, int device, std::size_t offset, std::size_t bytes);
  /// Gives an allocation's memory back, and what it counted for.
  void release(Memory& memory, int device, std::size_t offset, const Allocation& allocation);
  Status check_epoch(int device, const Memory& memory, std::uint32_t epoch) const;
  std::size_t offset_of(int device, const void* pointer) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - start_of(device));
  }
  static std::vector<Pages> take_pages(Memory& memory, std::size_t bytes);
  Status map_pages(int device, const Memory& memory, std::size_t offset,
                   const std::vector<Pages>& pages);
  void unmap_pages(int device, std::size_t offset, std::size_t bytes) noexcept;
  void clear(Memory& memory, int device);
  /// Whether a chunk begins where another one ends.
  using Entry = std::map<std::size_t, Allocation>::const_iterator;
  static bool follows(Entry before, Entry after) noexcept {
    return before->second.is_chunk() && after->second.is_chunk() &&
           before->second.epoch == after->second.epoch &&
           before->first + before->second.bytes == after->first;
  }
  /// The allocation of any epoch that an offset lies in or behind; null if there is none.
  static const std::pair<const std::size_t, Allocation>* allocation_at(const Memory& memory,
                                                                       std::size_t offset);

  std::size_t bytes_;            // per device
  std::size_t span_;             // of the file, at least bytes_ in whole pages
  std::size_t stride_;           // of addresses, per device
  std::byte* base_ = nullptr;    // null when the reservation failed
  std::ptrdiff_t distance_ = 0;  // from a device address to its backing
  std::vector<std::unique_ptr<Memory>> memories_;
  bool follows_runs_ = false;  // written before there is any memory
  Imports imports_;
};

}  // namespace ember::inline v0::driver::sim
