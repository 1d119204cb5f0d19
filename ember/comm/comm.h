// Tensors between the devices of one process. Chapter 6 of the documents.
//
// Nothing blocks, unless a comment says so: copies are ordered by the current streams of the
// devices they touch, so that results may be used, and inputs changed or freed, by work on those
// streams. Peer access is enabled where it is needed. Sums are added in a fixed order. Large
// tensors travel in chunks, so that a chain of devices passes them on while they arrive.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda::comm {

/// A list of devices, or none given: `{0, 1}`, `{"cuda:0", "cuda:1"}`, a vector. Each needs an
/// index: ValueError `Expected a torch.device with a specified index or an integer, but got:cuda`.
class EMBER_API Devices {
 public:
  Devices() = default;
  Devices(std::initializer_list<DeviceArg> devices) : Devices(std::vector(devices)) {}
  Devices(const std::vector<DeviceArg>& devices);
  Devices(const std::vector<Device>& devices)
      : Devices(std::vector<DeviceArg>(devices.begin(), devices.end())) {}
  Devices(const std::vector<int>& devices) : given_(true), list_(devices.begin(), devices.end()) {}

  bool given() const noexcept { return given_; }
  /// As they were given: whether such devices exist is not checked here.
  const std::vector<std::int64_t>& list() const noexcept { return list_; }
  /// Their indices. Error `Expected non-negative device index, but got N`; AcceleratorError for one
  /// that does not exist.
  std::vector<int> existing() const;
  /// "None" or "[0, 1]".
  std::string str() const;

 private:
  bool given_ = false;
  std::vector<std::int64_t> list_;
};

/// Where gather puts its result: nothing or "cuda" for the current device, an index, a device, the
/// CPU as "cpu" or as -1, which warns.
class EMBER_API Destination {
 public:
  Destination() = default;
  template <std::integral Index>
  Destination(Index index) : given_(std::to_string(index)), where_(index) {}
  Destination(Device device);
  Destination(const char* device) : Destination(Device(device)) {}

  const std::optional<std::string>& given() const noexcept { return given_; }
  /// Resolved: the CPU, or an existing CUDA device.
  Device device() const;

 private:
  std::optional<std::string> given_;
  std::optional<DeviceArg> where_;  ///< nothing for the current device
  bool by_name_ = false;
};

using Outputs = std::optional<std::vector<Tensor>>;
using Streams = std::vector<std::optional<Stream>>;
/// 10 MiB.
inline constexpr std::size_t kBufferSize = 10485760;

/// A tensor, of the CPU or of a device, on every device of a list: the tensor itself where it lives
/// already, new tensors elsewhere, contiguous or in the source's channels-last format. Or into
/// `out`, which is returned. Errors: `Exactly one of 'devices' and 'out' must be specified, but got
/// devices=... and out=...`, `Expected non-negative device index, but got N`, `Expected all output
/// tensors to be CUDA tensors, ...`, `Expected all output tensors to have same shape as the source
/// tensor ...`. Blocks only for a source in ordinary memory of the host.
EMBER_API std::vector<Tensor> broadcast(const Tensor& tensor, const Devices& devices,
                                        const Outputs& out = {});

/// Many tensors, all on the first device of the list, on every device: one list per device, the
/// first one the tensors themselves. Small ones travel together, by dtype, in up to `buffer_size`
/// bytes at once, and are contiguous views of what arrived. Error `All tensors must be on
/// devices[0]: N`.
EMBER_API std::vector<std::vector<Tensor>> broadcast_coalesced(
    const std::vector<Tensor>& tensors, const Devices& devices,
    std::size_t buffer_size = kBufferSize);

/// The sum of tensors of one shape on several devices, on `destination` (the current device unless
/// given), where one of them must live (the root; the last one if there are several). The root
/// comes first, the others are added in order. A single input is returned as it is. Errors:
/// AssertionError `reduce_add expects all inputs to be on GPUs`, ValueError `input i has invalid
/// size: got AxB, but expected CxD`, Error `reduce_add expects destination to be on the same GPU
/// with one of the tensors`.
EMBER_API Tensor reduce_add(const std::vector<Tensor>& inputs, const DeviceArg& destination = {});

/// The same for lists of tensors, one list per device: the sums of the first tensors, of the second
/// ones, and so on. Small ones travel together. ValueError if the lists differ in length.
EMBER_API std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                                   const DeviceArg& destination = {},
                                                   std::size_t buffer_size = kBufferSize);

/// A tensor, of the CPU or of a device, in pieces along a dimension, one per device: `chunk_sizes`
/// says how large, else they are equal as by chunk(), which may give fewer pieces than there are
/// devices. A piece for the tensor's own device is a view. `streams`, for each device one or none,
/// are current while its piece is copied. Or into `out`, whose sizes say how large the pieces are.
/// Errors: `Expected at least one device to scatter to`, `Expected devices and chunk_sizes to be of
/// same length, ...`, `Expected the device associated with the stream at index i (was a) to match
/// the device supplied at that index (expected b)`, `'devices' must not be specified when 'out' is
/// specified, but got devices=...`, and so on. Blocks only for a source in ordinary host memory.
EMBER_API std::vector<Tensor> scatter(
    const Tensor& tensor, const Devices& devices,
    const std::optional<std::vector<std::int64_t>>& chunk_sizes = {}, std::int64_t dim = 0,
    const Streams& streams = {}, const Outputs& out = {});

/// Tensors of several devices as one, along a dimension, on `destination` or in `out`. New ones are
/// channels-last if all tensors are, else contiguous, and of the first one's dtype. Errors:
/// `Expected at least one tensor to gather from`, `Input tensor at index i has invalid shape ...`,
/// `Expected out tensor to have shape ...`, `'destination' must not be specified when 'out' is
/// specified, ...` and so on. Blocks if the result is on the CPU.
EMBER_API Tensor gather(const std::vector<Tensor>& tensors, std::int64_t dim = 0,
                        const Destination& destination = {}, const std::optional<Tensor>& out = {});

}  // namespace ember::inline v0::cuda::comm
