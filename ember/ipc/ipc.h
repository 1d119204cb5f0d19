// Memory that processes of one user share, of the CPU and of devices. Chapters 1 and 22 of the
// documents.
//
// A process sends memory by making a handle of it, 176 bytes that name it and can be passed on in
// any way: through a pipe, a file, a queue. Whoever receives by the handle gets the same memory,
// not a copy. What one process writes, others see; who writes when is theirs to arrange, but what
// the sender's current stream held when it sent is done before the work that the receiver enqueues
// on the stream that was current when it received.
//
// Each receipt is a lease. Memory stays with its owner, counted there, until every handle was
// received as often as it was meant to be, or withdrawn, and every lease was given back: when the
// receiver's last tensor went and the work was done that used it, or the receiver ended. If the
// owner ends, memory that was received stays readable, and handles that were not are refused. A
// received tensor that is passed on is leased from its owner again.
//
// Handles may come from anywhere: what is wrong with one is an Error that says it. They are good
// within one machine and one user; what a handle protects against guessing is 128 random bits.
//
// All functions are thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/ref.h"
#include "ember/tensor/storage.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ipc {

inline constexpr std::size_t kHandleBytes = 176;
using Handle = std::array<std::uint8_t, kHandleBytes>;

// ---- Sending and receiving

/// A handle by which `receivers` processes may receive the storage, once each. Memory of the CPU
/// must be shared (allocate_shared, share_memory_): ValueError otherwise, and for storages without
/// bytes, which need no handle. Device memory is sent as it will be when the work is done that the
/// calling thread's current stream of that device holds. Does not block, except for memory that was
/// received, whose owner is asked, after that stream was waited for: two seconds at most for the
/// answer. Error if the owner has ended, or this process cannot have a socket, a thread or random
/// numbers, and for memory of a segment that grows (expandable_segments:True); AcceleratorError for
/// other device memory that the driver cannot share.
[[nodiscard]] EMBER_API Handle send(const Ref<Storage>& storage, int receivers = 1);

/// The storage of a handle. In other processes the same object while it lives, however often it is
/// received; in the sender's own, as often as the handle was meant for, the sender's. Later work of
/// the calling thread's current stream of the device waits for what was to be done before. Blocks
/// until the owner has answered, two seconds at most. Error that says why there is nothing to
/// receive: a handle that is none, or of another machine, that was received already or withdrawn;
/// an owner that ended or does not answer; a device that this process does not see. Initialises for
/// device memory.
[[nodiscard]] EMBER_API Ref<Storage> receive(std::span<const std::uint8_t> handle);

/// Gives a handle of this process's up: nobody receives by it any more. What was received stays.
/// Nothing for other handles, those that were passed on included. Does not block.
EMBER_API void withdraw(std::span<const std::uint8_t> handle) noexcept;

/// How many receipts of this process's handles are still to come. Does not block.
EMBER_API std::size_t unreceived();
/// Whether memory was sent behind work that is not done yet, or a receiver is still to be told that
/// it has it: receivers that this process's end leaves waiting fault, or have an error. Does not
/// block.
EMBER_API bool undone();
/// Withdraws all of this process's handles. Does not block.
EMBER_API void withdraw_all();

// ---- Memory of the CPU that can be sent

/// Uninitialised memory of the CPU that can be sent. OutOfMemoryError if the machine has none left:
/// an access never fails later. Does not block.
EMBER_API Ref<Storage> allocate_shared(std::size_t bytes);
/// Whether the tensor's memory can be sent: on a device, or shared memory of the CPU, this
/// process's or another's.
EMBER_API bool is_shared(const Tensor& tensor);
/// Moves a tensor to memory that can be sent; nothing if it is there. Other tensors that were views
/// of its memory keep the memory that it leaves. No other thread may use the tensor.
EMBER_API void share_memory_(const Tensor& tensor);
/// A storage with the same bytes that can be sent: itself if it is shared.
EMBER_API Ref<Storage> shared_copy(const Ref<Storage>& storage);

// ---- Looking after it

/// A process's use of another one's memory.
struct Lease {
  bool granted = false;      ///< this process owns the memory; else it uses another's
  std::int32_t process = 0;  ///< the other process
  std::string device;        ///< "cpu", "cuda:1" as this process has it, or the device's UUID
  std::uint64_t bytes = 0;
  bool failed = false;  ///< the owner ended before its work was done
};
/// Who holds what: all leases that this process granted, and all that it has. Does not block.
EMBER_API std::vector<Lease> leases();
/// Gives back what can be given back, and takes away what processes that ended left behind. That
/// happens by itself, too. Does not block and never fails.
EMBER_API void collect() noexcept;
/// Takes this process's socket away. That happens by itself at a process's end, unless it ends
/// without calling what was registered with atexit. Does not block.
EMBER_API void end_process() noexcept;

}  // namespace ember::inline v0::ipc
