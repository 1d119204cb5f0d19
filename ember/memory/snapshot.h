// All device memory of the process as it was at one moment: segments, blocks, the history, and who
// holds what. Chapter 10 of the documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/export.h"
#include "ember/memory/history.h"
#include "ember/memory/pool_id.h"
#include "ember/memory/scope.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::memory {
struct Settings;
}

namespace ember::inline v0::cuda {

/// What memory_snapshot() answers. All sizes are bytes.
struct MemorySnapshot {
  enum class State : std::uint8_t {
    active_allocated,     ///< in use
    active_pending_free,  ///< freed, and other streams may still use it
    inactive              ///< free
  };
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint64_t requested_size = 0;  ///< 0 for free ones
    State state = State::inactive;
    std::uint16_t tag = 0;    ///< see memory_tag_name(); 0: none
    std::uint32_t stack = 0;  ///< see memory_frames(); 0: none was recorded
  };
  struct Segment {
    int device = 0;
    std::uint64_t address = 0;
    std::uint64_t total_size = 0;
    std::uint64_t allocated_size = 0;  ///< of blocks in use
    std::uint64_t active_size = 0;     ///< also of those that streams may still use
    std::uint64_t requested_size = 0;  ///< of the same, as asked for
    std::uint64_t stream = 0;          ///< native handle
    MemPoolId pool;                    ///< (0, 0): of requests that name none
    bool small = false;                ///< holds blocks of at most 1 MiB
    bool is_expandable = false;
    bool asleep = false;        ///< holds nothing of the device: see MemPool::offload()
    std::uint32_t stack = 0;    ///< where it was asked for; 0: that was not recorded
    std::vector<Block> blocks;  ///< in the order of addresses, without gaps
  };
  std::vector<Segment> segments;  ///< in the order of devices and addresses
  /// By device, the oldest entry first.
  std::vector<std::vector<MemoryEvent>> device_traces;
  const memory::Settings* settings = nullptr;  ///< that were in force; live for ever
};

/// What is there now. Segments and history of a device are of one moment; the history, if entries
/// are recorded, gets a `snapshot`, which later snapshots have. Empty before initialisation, which
/// it never causes. Holds a device's lock while it copies: some 10 ns per block and entry.
/// Thread-safe.
EMBER_API MemorySnapshot memory_snapshot();

/// The same for the segments of one pool, without history. Nothing for a pool that there is not.
EMBER_API MemorySnapshot memory_snapshot(const MemPoolId& pool);

namespace detail {
/// The same for the library itself: observers are not told that a program asked.
MemorySnapshot segments_of(const MemPoolId& pool);
}  // namespace detail

/// The frames of a stack's number, innermost call first; none for 0. The number means something in
/// this process only. Thread-safe; takes microseconds the first time.
EMBER_API std::vector<StackFrame> memory_frames(std::uint32_t stack);

/// The snapshot as PyTorch's _dump_snapshot writes it, with a `tag` where there is one: a pickle of
/// protocol 4, of which every opcode is read by pytorch.org's viewer; or the same as JSON. Looks up
/// each stack's names once.
EMBER_API std::string snapshot_as_pickle(const MemorySnapshot& snapshot);
EMBER_API std::string snapshot_as_json(const MemorySnapshot& snapshot);
/// Takes a snapshot and writes it to a file: as JSON if its name ends in `.json`, else as a pickle.
/// FileError that names the file and why it could not be written; what was there stays then.
EMBER_API void dump_memory_snapshot(const std::string& file = "dump_snapshot.pickle");

/// What one place of a program holds.
struct MemoryHolder {
  std::string tag;                 ///< of its MemoryScope; empty: none
  std::vector<StackFrame> frames;  ///< where it was allocated, innermost first; empty: not recorded
  std::uint64_t bytes = 0;         ///< in use, rounded as in memory_allocated()
  std::uint64_t blocks = 0;
};
/// The places that hold the most of a device, at most `most` of them, the largest first. Blocks are
/// told apart by what was recorded when they were allocated: without scopes and history all memory
/// is one holder's. Nothing before initialisation. Thread-safe.
EMBER_API std::vector<MemoryHolder> memory_holders(DeviceArg device = {}, std::size_t most = 10);

}  // namespace ember::inline v0::cuda
