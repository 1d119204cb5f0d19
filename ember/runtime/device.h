// Devices: naming them, counting them, choosing one. Chapters 1 and 2 of the documents.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ember/base/export.h"
#include "ember/driver/choice.h"
#include "ember/driver/properties.h"

namespace ember::inline v0 {

/// A place where memory can be: the CPU, or a CUDA device by index. `cuda` without an index (-1)
/// means the current device at the time of use. Whether the device exists is checked when it is
/// used.
class EMBER_API Device {
 public:
  enum class Type : std::uint8_t { cpu, cuda };

  constexpr Device(Type type, int index = -1) noexcept : type_(type), index_(index) {}
  /// Parses "cpu", "cuda", "cuda:1". Throws Error `Invalid device string: '...'`, also for null.
  Device(std::string_view text);  // NOLINT: device strings are devices
  Device(const char* text) : Device(not_null(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}
  // A bare number is no device: it does not say of which kind. Nor is a null pointer.
  Device(int) = delete;
  Device(std::nullptr_t) = delete;

  Type type() const noexcept { return type_; }
  /// -1 when none was given.
  int index() const noexcept { return index_; }
  bool has_index() const noexcept { return index_ >= 0; }
  bool is_cuda() const noexcept { return type_ == Type::cuda; }
  std::string str() const;

  friend bool operator==(const Device&, const Device&) = default;
  /// The CPU first, then CUDA devices by their indices: for std::map and std::set.
  friend auto operator<=>(const Device&, const Device&) = default;

 private:
  static std::string_view not_null(const char* text);

  Type type_;
  int index_;
};

/// "cuda:1". A template, as for tensors: the library has no streams of text (tensor/print.h).
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream,
                                             Device device) {
  return stream << device.str();
}

namespace cuda {

using ember::Device;
using DeviceProperties = driver::DeviceProperties;

/// A device argument, as the documents' functions take it: an index, a string such as "cuda:1", a
/// Device, or nothing, which means the current device.
class EMBER_API DeviceArg {
 public:
  DeviceArg() noexcept = default;
  /// Any integer, also one that is the index of no device: errors show it as it is.
  template <std::integral Index>
  requires(!std::is_same_v<Index, bool>) DeviceArg(Index index)
  noexcept
      : given_(Given::index),
        index_(std::in_range<std::int64_t>(index) ? static_cast<std::int64_t>(index)
                                                  : std::numeric_limits<std::int64_t>::max()) {}
  DeviceArg(Device device) noexcept : given_(Given::device), device_(device) {}
  DeviceArg(const char* text) : DeviceArg(Device(text)) {}
  DeviceArg(std::string_view text) : DeviceArg(Device(text)) {}
  DeviceArg(const std::string& text) : DeviceArg(Device(std::string_view(text))) {}
  DeviceArg(std::nullptr_t) = delete;

  /// The index; a number as it is (also negative), nothing or plain "cuda" as the current device.
  /// Throws ValueError `Expected a cuda device, but got: cpu`. Plain "cuda" initialises.
  std::int64_t index() const;
  /// Whether that is the current device: for nothing and plain "cuda". Never initialises.
  bool means_current() const noexcept {
    return given_ == Given::nothing ||
           (given_ == Given::device && device_.is_cuda() && !device_.has_index());
  }
  /// As index() where an index is required: nothing or plain "cuda" is ValueError `Expected a
  /// torch.device with a specified index or an integer, but got:cuda`.
  std::int64_t required_index() const;
  /// The index of an existing device; negative means the current device. Throws AcceleratorError
  /// `CUDA error: invalid device ordinal` naming the value and the range. Initialises.
  int existing() const;

 private:
  enum class Given : std::uint8_t { nothing, index, device };
  Given given_ = Given::nothing;
  std::int64_t index_ = -1;
  Device device_{Device::Type::cuda};
};

/// Chooses simulated devices for this process, whatever EMBER_DEVICES says, on the machine that
/// EMBER_SIM_MACHINE names if it does. All of them are visible: CUDA_VISIBLE_DEVICES, in which
/// there may be the numbers of real GPUs, leaves out devices of EMBER_DEVICES alone. Only before
/// the first use of a device: Error afterwards. ValueError unless `count` is 1 to 64 and
/// `memory_bytes` (of each) 2 MiB to 1 TiB.
EMBER_API void simulate(int count,
                        std::uint64_t memory_bytes = driver::SimulatedSpec::kDefaultMemory);
/// Whether it is settled which devices there are: by simulate(), EMBER_DEVICES, or a first use.
/// Makes no driver. Thread-safe, does not block.
EMBER_API bool devices_chosen();

/// Makes the driver if that has not happened. Everything that needs a device calls it; thread-safe;
/// may block for seconds the first time. Errors, after which a later call tries again:
///   Error           `Cannot re-initialize CUDA in forked subprocess. ...` in a child of a process
///                   that had initialised, or whose other threads were initialising, or counting
///                   real devices, at the moment of the fork
///   ValueError      malformed EMBER_DEVICES or EMBER_SIM_MACHINE, or the machine that this names
///                   has other devices
///   Error           that machine cannot be joined
///   AssertionError  `Torch not compiled with CUDA enabled`: a build without its CUDA object;
///                   `libcudart functions unavailable. ...`: a CUDA object that cannot be opened
///   DeferredCudaCallError  a call that was put off until now (random/seed.h) has failed; the
///                   devices can be used, and init() makes the call again
///   Error           `Found no NVIDIA driver on your system. ...`,
///                   `The NVIDIA driver on your system is too old (found version N). ...`,
///                   `No CUDA GPUs are available`
EMBER_API void init();

/// True when initialised, and not in a forked child.
EMBER_API bool is_initialized() noexcept;

/// Whether the process was forked from one that had initialised, or was about to: init() is refused
/// then. Never initialises, never throws.
EMBER_API bool is_in_bad_fork() noexcept;

/// Whether there is at least one device: device_count() > 0, and all that is said there. Never
/// throws. It is what the documents describe under PYTORCH_NVML_BASED_CUDA_CHECK=1: as long as NVML
/// can tell, nothing is initialised and the process may still fork; where NVML cannot (it is
/// missing, or devices are cut into MIG instances), devices are initialised to count them. The
/// documents' default, to initialise CUDA in any case, is not offered. True is no promise that
/// init() succeeds: NVML counts the devices of a driver that is too old as well.
EMBER_API bool is_available() noexcept;

/// Number of visible devices (CUDA_VISIBLE_DEVICES is respected on both kinds, but for those of
/// simulate()); zero on any trouble: no CUDA object, no driver, a child that was forked in the
/// middle of a first use, a malformed EMBER_DEVICES. A warning `CUDA initialization: ...`
/// (base/embedding.h) tells of the last, of a driver that is too old and of errors of the driver.
/// Does not initialise as long as NVML can tell, so that the process may still fork, but not while
/// another thread is counting real devices: NVML and the loader are of no use in that child. The
/// answer is constant once initialised, also in children, in which init() is refused.
EMBER_API int device_count() noexcept;

/// A simulated machine, as another process joins it.
struct SimulatedMachine {
  int devices = 0;
  std::uint64_t memory_bytes = 0;  ///< of each
  std::string name;
  std::string folder;  ///< where its record lies
  /// Whether CUDA_VISIBLE_DEVICES leaves out none of the devices, as after simulate().
  bool all_visible = false;

  friend bool operator==(const SimulatedMachine&, const SimulatedMachine&) = default;
};

/// Makes this process's simulated machine one that other processes can join, with all that the
/// process holds of it; what EMBER_SIM_MACHINE does by name. From then on limits, what
/// mem_get_info says, processes and utilization are those of all processes on the machine, which
/// goes with the last of them. Nothing where devices are not simulated, a variable is malformed, or
/// in a child of a process that had initialised. Does not initialise. Error if there can be no
/// record of the machine: it names the file, and says why. May block for ten seconds while another
/// process joins. Thread-safe, but not beside simulate().
EMBER_API std::optional<SimulatedMachine> share_simulated_machine();

/// Makes a machine that another process shares this process's: what simulate() does, on that
/// machine. True if it is now; false, and nothing has changed, if this process uses other devices
/// already. Error and blocking as above, ValueError for a machine that has other devices.
EMBER_API bool join_simulated_machine(const SimulatedMachine& machine);

/// For a process that ends without std::exit: the machines that it shares no longer wait for its
/// end. Does nothing in one that shares none. Never throws.
EMBER_API void leave_simulated_machine() noexcept;

/// True when devices are simulated. Initialises.
EMBER_API bool is_simulated();

/// The calling thread's current device. Initialises. A new thread starts with device 0.
EMBER_API int current_device();

/// Makes a device current for the calling thread. Negative: no effect. ValueError without an index,
/// AcceleratorError `invalid device ordinal` for one that does not exist. Makes the device ready
/// for use (on CUDA: its context), which blocks for up to a second the first time.
EMBER_API void set_device(DeviceArg device);

/// Properties, read once per device. AssertionError `Invalid device id` when there is no such
/// device (also for negative numbers). Initialises.
EMBER_API const DeviceProperties& get_device_properties(DeviceArg device = {});
EMBER_API std::string get_device_name(DeviceArg device = {});
EMBER_API std::pair<int, int> get_device_capability(DeviceArg device = {});

/// "sm_90", "compute_90": what this build's CUDA object was compiled for; empty without one.
EMBER_API std::vector<std::string> get_arch_list();
/// The same as flags: "-gencode compute=compute_90,code=sm_90 ..."; empty without a CUDA object.
EMBER_API std::string get_gencode_flags();

/// Makes a device ready for use, if it was not, so that programs can warm devices up with it. Then
/// blocks until all work of the device is done and throws AcceleratorError if some of it faulted,
/// and `operation not permitted` in a host function and in a kernel's host implementation, which
/// would wait for themselves; `context is destroyed` if the device was reset meanwhile. Not
/// affected by the sync debug mode.
EMBER_API void synchronize(DeviceArg device = {});

/// Whether anything has used the device yet: on CUDA, whether its primary context exists, be it by
/// another library's doing. Never makes one and never initialises: false before that.
/// AcceleratorError `invalid device ordinal` once initialised.
EMBER_API bool has_primary_context(DeviceArg device);

/// Drops everything a device holds (streams, events, memory) and clears its fault. Objects made
/// before refuse to work with `context is destroyed`; they can still be destroyed. Blocks until
/// work in progress has stopped; who interrupts that (Ctrl-C, on simulated devices) has a device
/// that was reset, whose memory from before goes with the next reset. Other threads may go on: a
/// call of theirs is done before the reset or after it, or ends with `context is destroyed`. On
/// real GPUs a fault cannot be cleared within the process: then the fault is thrown again, and
/// nothing has changed.
EMBER_API void reset_device(DeviceArg device = {});

/// Whether `device` can be given access to memory of `peer`. AssertionError `Invalid device id` or
/// `Invalid peer device id`; ValueError if `peer` has no index.
EMBER_API bool can_device_access_peer(DeviceArg device, DeviceArg peer);

/// Lets work on `device` touch memory of `peer`; repeating it has no effect. AcceleratorError 217
/// when the two cannot be peers.
EMBER_API void enable_peer_access(DeviceArg device, DeviceArg peer);
/// The same both ways, at the first need of it: for copies between the two. Whether they can reach
/// each other's memory; false for a device and itself. Costs two loads once it is known.
EMBER_API bool use_peer_access(int device, int peer);
/// Takes it back. AcceleratorError 705 when it was not enabled.
EMBER_API void disable_peer_access(DeviceArg device, DeviceArg peer);

}  // namespace cuda
}  // namespace ember::inline v0

template <>
struct std::hash<ember::Device> {
  std::size_t operator()(ember::Device device) const noexcept {
    return static_cast<std::size_t>(device.type()) * 4099 +
           static_cast<std::size_t>(device.index());
  }
};
