// CUPTI as a table of function pointers: what is needed of cupti.h, which is not part of every
// toolkit. Of the records, the few fields that have stood at the same place since CUDA 9.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/base/status.h"

namespace ember::inline v0::driver::cuda::cupti {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kOtherSubscriber = 39;  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED

using Subscriber = struct CUpti_Subscriber_st*;

enum class Kind : std::uint32_t {
  copy = 1,           // CUPTI_ACTIVITY_KIND_MEMCPY
  fill = 2,           // ..._MEMSET
  driver_call = 4,    // ..._DRIVER
  runtime_call = 5,   // ..._RUNTIME, by which libraries launch
  kernel = 10,        // ..._CONCURRENT_KERNEL
  peer_copy = 22,     // ..._MEMCPY2
  external_call = 39  // ..._EXTERNAL_CORRELATION
};
/// The name of a call is recorded in front of the call itself, so that is asked for as well.
inline constexpr Kind kKinds[] = {Kind::external_call, Kind::driver_call, Kind::runtime_call,
                                  Kind::kernel,        Kind::copy,        Kind::peer_copy,
                                  Kind::fill};
inline constexpr int kOurs = 3;  // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0

/// Where the fields of records are, in bytes.
inline constexpr std::size_t kBeginAt = 16;
inline constexpr std::size_t kEndAt = 24;
inline constexpr std::size_t kKernelCallAt = 92;
inline constexpr std::size_t kCopyCallAt = 44;  // and a fill's
inline constexpr std::size_t kPeerCopyCallAt = 60;
inline constexpr std::size_t kExternalKindAt = 4;
inline constexpr std::size_t kExternalNumberAt = 8;
inline constexpr std::size_t kExternalCallAt = 16;

struct Calls {
  Result (*subscribe)(Subscriber*, void* callback, void* argument) = nullptr;
  Result (*unsubscribe)(Subscriber) = nullptr;
  Result (*enable)(Kind) = nullptr;
  Result (*disable)(Kind) = nullptr;
  Result (*set_buffers)(void (*ask)(std::uint8_t**, std::size_t*, std::size_t*),
                        void (*take)(void*, std::uint32_t, std::uint8_t*, std::size_t,
                                     std::size_t)) = nullptr;
  Result (*set_clock)(std::uint64_t (*)()) = nullptr;
  Result (*next_record)(std::uint8_t* buffer, std::size_t valid, std::uint8_t** record) = nullptr;
  Result (*push)(int kind, std::uint64_t number) = nullptr;
  Result (*pop)(int kind, std::uint64_t* number) = nullptr;
  Result (*flush)(std::uint32_t forced) = nullptr;
  Result (*error_text)(Result, const char**) = nullptr;
};

/// Opens the library at the first call, which may block for a second. Code::not_supported, naming
/// it, where it is missing or too old.
Status load(const Calls*& out) noexcept;

/// "what: CUPTI_ERROR_INVALID_PARAMETER"
Status failure(const Calls& calls, const char* what, Result result);

}  // namespace ember::inline v0::driver::cuda::cupti
