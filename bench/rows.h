// The names of the rows that several programs measure: what has the same name becomes one row.
#pragma once

#include <cstddef>
#include <string>

namespace ember::bench::rows {

inline constexpr const char* kCurrentStream = "current stream";
inline constexpr const char* kStreamGuard = "make a stream current and restore it";
inline constexpr const char* kDeviceGuard = "make a device current and restore it";
inline constexpr const char* kOtherDeviceGuard = "make another device current and restore it";
inline constexpr const char* kNewStream = "take a stream and give it back";

inline constexpr const char* kEventRecord = "event record";
inline constexpr const char* kEventQuery = "event query";
inline constexpr const char* kEventWait = "stream waits for an event";
inline constexpr const char* kNewEvent = "new event: make, record, drop";

inline constexpr const char* kLaunch = "launch an empty kernel";
inline constexpr const char* kUserLaunch = "launch an empty kernel with <<<>>>";
inline constexpr const char* kLaunchAnyDevice = "launch an empty kernel, a CUkernel";
inline constexpr const char* kLaunchDefault = "launch an empty kernel, default stream";
inline constexpr const char* kLaunchParameters = "launch an empty kernel, 128 bytes of parameters";
inline constexpr const char* kFill = "fill 4 KiB";
inline constexpr const char* kSmallCopy = "copy 4 KiB on the device";

inline constexpr const char* kRangePush = "NVTX range: push and pop, no tool";

inline constexpr const char* kMemoryAllocated = "memory allocated";

inline constexpr const char* kEmpty = "empty(1024)";
inline constexpr const char* kTransposedView = "transposed view";
inline constexpr const char* kAddOut = "add into an output";
inline constexpr const char* kAdd = "a + b";
inline constexpr const char* kAddNumber = "a + 2";
inline constexpr const char* kBroadcastAddCall = "a + b, broadcast";

inline constexpr const char* kCopy = "copy";
inline constexpr const char* kFillLarge = "fill";
inline constexpr const char* kMulNumber = "mul by a number";
inline constexpr const char* kAddLarge = "add";
inline constexpr const char* kExp = "exp";
inline constexpr const char* kCast = "cast float32 to bfloat16";
inline constexpr const char* kAddNarrow = "add bfloat16 in place";
inline constexpr const char* kTransposedCopy = "transposed copy";
inline constexpr const char* kBroadcastAdd = "broadcast add, bytes written";
inline constexpr const char* kStridedAdd = "add of every second column";

inline constexpr const char* kPin = "page-lock 1 GiB";

/// "512 B", "1 MiB"
inline std::string size(std::size_t bytes) {
  if (bytes >= 1U << 30) return std::to_string(bytes >> 30) + " GiB";
  if (bytes >= 1U << 20) return std::to_string(bytes >> 20) + " MiB";
  if (bytes >= 1U << 10) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}

inline std::string allocate_free(std::size_t bytes) { return "allocate + free " + size(bytes); }
inline std::string allocate_free_raw(std::size_t bytes) {
  return "allocate + free " + size(bytes) + ", bare pointers";
}
inline std::string mix_of(int threads) {
  return "random sizes, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}
inline std::string mix(int threads) { return mix_of(threads) + ", per operation"; }

inline std::string copy(const char* from, const char* to, std::size_t bytes) {
  return std::string(from) + " to " + to + ", " + size(bytes);
}

inline constexpr const char* kPinned = "pinned";
inline constexpr const char* kPageable = "pageable";
inline constexpr const char* kDevice = "device";

inline std::string peer(std::size_t bytes, bool access) {
  return "device to its peer, " + size(bytes) + (access ? "" : ", no peer access");
}

}  // namespace ember::bench::rows
