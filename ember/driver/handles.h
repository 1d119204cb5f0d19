// The plain handles of the seam. They own nothing: the RAII values stand above, in runtime/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ember::inline v0::driver {

/// As the epoch of a default stream's handle: whichever one the device is in when the call is made.
inline constexpr std::uint32_t kAnyEpoch = 0xffffffff;

/// An in-order queue of one device. `native` is what the machine calls it (a cudaStream_t on real
/// devices); null is the device's default stream.
struct StreamHandle {
  void* native = nullptr;
  int device = 0;
  /// How often the device had been reset when the stream was made. A handle from before a reset is
  /// refused with Code::context_is_destroyed, never followed. The default stream has no epoch of
  /// its own; a handle with one asks that the work be done in that epoch or not at all.
  std::uint32_t epoch = kAnyEpoch;

  friend bool operator==(const StreamHandle&, const StreamHandle&) = default;
};

/// A point in the work of a stream, to be recorded, waited for and timed.
struct EventHandle {
  void* native = nullptr;
  int device = 0;
  std::uint32_t epoch = 0;

  friend bool operator==(const EventHandle&, const EventHandle&) = default;
};

/// The memory of another device that work on a stream touches: whose, and in which epoch it was
/// given out. After a reset of that device the work is refused with Code::context_is_destroyed,
/// as it is after one of its own.
struct PeerMemory {
  int device = -1;  ///< none, or the caller does not know
  std::uint32_t epoch = kAnyEpoch;

  friend bool operator==(const PeerMemory&, const PeerMemory&) = default;
};

/// A captured graph, and a graph made ready to run.
struct GraphHandle {
  void* native = nullptr;
  int device = 0;  ///< on which its capture began
  std::uint32_t epoch = 0;
};
struct GraphExecHandle {
  void* native = nullptr;
  int device = 0;
  std::uint32_t epoch = 0;
};

struct EventOptions {
  bool timing = false;        ///< can be used with event_elapsed; costs a timestamp per record
  bool blocking = false;      ///< event_synchronize sleeps instead of spinning
  bool interprocess = false;  ///< can be exported; excludes timing
};

/// Stream priorities: a smaller number is more urgent. `least` is 0; `greatest` is zero or
/// negative.
struct PriorityRange {
  int least = 0;
  int greatest = 0;
};

struct MemoryInfo {
  std::size_t free = 0;   ///< bytes that could be allocated now, by anyone
  std::size_t total = 0;  ///< bytes the device has
};

/// What a pointer points to.
struct PointerInfo {
  enum class Kind {
    unregistered,  ///< ordinary host memory, or nothing at all
    pinned,        ///< page-locked host memory, allocated or registered
    device,        ///< memory of `device`
  };
  Kind kind = Kind::unregistered;
  int device = -1;        ///< owner of device memory, else -1
  void* base = nullptr;   ///< start of the allocation it lies in; null when unregistered
  std::size_t bytes = 0;  ///< size of that allocation

  /// Whether [pointer, pointer + size) lies in the allocation, given that `pointer` does.
  bool holds(const void* pointer, std::size_t size) const noexcept {
    const std::ptrdiff_t before =
        static_cast<const std::byte*>(pointer) - static_cast<const std::byte*>(base);
    return size <= bytes - static_cast<std::size_t>(before);
  }
};

enum class CaptureMode { global, thread_local_, relaxed };
enum class CaptureStatus { none, active, invalidated };

/// `external`, in captures only (else Code::illegal_state): replays record it, or wait for it.
enum class EventScope { internal, external };

/// 64 opaque bytes that another process on this machine can open.
struct IpcHandle {
  unsigned char bytes[64] = {};
};

/// Part of the memory behind a range of addresses, in order: bytes of a file.
struct IpcPiece {
  int file = -1;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

}  // namespace ember::inline v0::driver
