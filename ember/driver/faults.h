// Faults that simulated devices are asked for: EMBER_SIM_FAULTS. docs/faults.md is the guide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0::driver {

/// One thing that is to go wrong.
struct Fault {
  enum class What : std::uint8_t {
    // A call of the driver is refused, and enqueues nothing.
    alloc,   ///< device memory
    pinned,  ///< page-locked host memory
    stream,  ///< making a stream
    event,   ///< making an event
    launch,  ///< of a kernel
    copy,    ///< any copy
    peer,    ///< a copy between two devices
    fill,
    host,  ///< a host function
    // Something happens to a kernel that was enqueued.
    kernel,  ///< it faults when it runs
    slow,    ///< it begins so many milliseconds late
    late,    ///< it is seen to be done so many milliseconds late
    // Something happens to a device.
    lost,  ///< it falls off the bus: nothing works on it any more, not even a reset
    liar,  ///< copies between two devices with peer access arrive with wrong bytes
  };
  static constexpr std::size_t kWhats = 14;
  static constexpr std::uint64_t kMostNumber = 1'000'000'000'000;
  static constexpr std::uint32_t kMostMilliseconds = 60'000;

  What what = What::alloc;
  /// Which one, from 1: calls and kernels of all devices are counted together, each kind by itself;
  /// for `lost` the device's kernels, copies, fills and host functions.
  std::uint64_t number = 0;
  bool and_later = false;          ///< the ones after it, too
  std::uint32_t milliseconds = 0;  ///< of `slow` and `late`
  int device = 0;                  ///< of `lost` and `liar`
  int peer = 0;                    ///< of `liar`

  friend bool operator==(const Fault&, const Fault&) = default;
};
using Faults = std::vector<Fault>;

/// "alloc", "lost" and so on, as in EMBER_SIM_FAULTS.
EMBER_TEST_API const char* fault_name(Fault::What what) noexcept;

/// Parses EMBER_SIM_FAULTS: items with commas between them, without blanks, at most 64.
///
///     alloc:3       the third allocation fails; as well pinned, stream, event, launch, copy, peer,
///                   fill, host and kernel
///     alloc:3+      that, and all that follow
///     slow:2@50     the second kernel begins 50 ms late; slow:2+@50: and all that follow
///     late:2@50     the second kernel is seen to be done 50 ms late
///     lost:1@50     cuda:1 falls off the bus at its 50th operation
///     liar:0-1      copies between cuda:0 and cuda:1 with peer access lie
///
/// Numbers are 1 to 10^12, milliseconds 1 to 60000, devices 0 to 63. Nothing or an empty text: no
/// faults. Otherwise Code::invalid_value with a detail that names the variable, the value, the item
/// and what was expected, and `out` is untouched.
EMBER_TEST_API Status parse_faults(const std::optional<std::string>& text, Faults& out);

/// The text that parse_faults reads as these.
EMBER_TEST_API std::string faults_text(const Faults& faults);

}  // namespace ember::inline v0::driver
