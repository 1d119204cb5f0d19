#include "ember/comm/side_streams.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/ops/cat.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise_kernels.h"
#include "ember/ops/factories.h"
#include "ember/ops/plan.h"
#include "ember/ops/run.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::comm {
namespace {

// ---- Streams that are used again

constexpr std::size_t kSideStreams = 8;  // per device

struct SideStreams {
  Mutex mutex;
  std::vector<std::vector<Stream>> of_device EMBER_GUARDED_BY(mutex);
};

SideStreams& side_streams() {
  // Streams may be asked for until the process ends.
  static NoDestructor<SideStreams> made;
  return *made;
}

}  // namespace

Stream side_stream(int device) {
  // One that may become part of it is nobody else's, and none is looked at.
  if (any_capture()) return Stream(device);
  const std::uint32_t epoch = device_epoch(device);
  const MutexLock lock(side_streams().mutex);
  auto& all = side_streams().of_device;
  const auto index = static_cast<std::size_t>(device);
  if (all.size() <= index) all.resize(index + 1);
  std::erase_if(all[index], [&](const Stream& stream) { return stream.handle().epoch != epoch; });
  for (const Stream& stream : all[index])
    if (stream.query()) return stream;
  if (all[index].size() >= kSideStreams) {
    // All are busy: the one that has waited longest is most likely to be done first.
    std::rotate(all[index].begin(), all[index].begin() + 1, all[index].end());
    return all[index].back();
  }
  all[index].emplace_back(device);
  return all[index].back();
}

// ---- Layouts

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.strides() == b.strides() && is_dense(a.sizes(), a.strides());
}

Shape channels_last_strides(const Shape& sizes) {
  Shape strides = sizes;
  std::int64_t next = 1;
  const auto put = [&](int dim) {
    strides[dim] = next;
    next *= std::max<std::int64_t>(sizes[dim], 1);
  };
  put(1);
  for (int dim = sizes.size() - 1; dim > 1; --dim) put(dim);
  put(0);
  return strides;
}

bool is_channels_last(const Tensor& tensor) {
  if ((tensor.dim() != 4 && tensor.dim() != 5) || tensor.is_contiguous()) return false;
  const Shape expected = channels_last_strides(tensor.sizes());
  for (int i = 0; i < tensor.dim(); ++i)
    if (tensor.sizes()[i] != 1 && tensor.strides()[i] != expected[i]) return false;
  return true;
}

Shape kept_strides(const Tensor& tensor) {
  return is_channels_last(tensor) ? channels_last_strides(tensor.sizes())
                                  : contiguous_strides(tensor.sizes());
}

Tensor new_tensor(const Shape& sizes, const Shape& strides, Dtype dtype, Device device) {
  return empty_strided(sizes, strides, {dtype, device});
}

// ---- Kernels across devices

void add_by_kernel(const Tensor& target, const Tensor& left, const Tensor& right) {
  const Shape sizes{target.numel()};
  const Shape strides{1};
  const auto flat = [&](const Tensor& tensor, std::uint32_t epoch) {
    return ops::PlanOperand{tensor.address(), &sizes, &strides, tensor.element_size(), epoch};
  };
  const std::uint32_t epoch = target.storage()->epoch();
  const driver::PeerMemory peer = ops::peer_of(target.device(), right);
  const std::array operands{
      flat(target, epoch), flat(left, left.storage()->epoch()),
      flat(right, peer.device < 0 ? right.storage()->epoch() : driver::kAnyEpoch)};
  ops::Loop loop{};
  ops::run_loop(target.device(), ops::elementwise_kernel(ops::OpId::add, target.dtype()), sizes,
                operands, loop, peer);
}

Tensor flat_piece(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  return Tensor(tensor.storage(), tensor.dtype(), {count}, {1}, tensor.storage_offset() + first);
}

// ---- Many small tensors as one

std::vector<std::vector<std::size_t>> bundles(const std::vector<Tensor>& tensors,
                                              std::size_t limit) {
  struct Open {
    std::vector<std::size_t> positions;
    std::size_t bytes = 0;
  };
  std::array<Open, kDtypes> open;
  std::vector<std::vector<std::size_t>> done;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t bytes = tensors[i].nbytes();
    Open& bundle = open[static_cast<std::size_t>(tensors[i].dtype())];
    if (!bundle.positions.empty() && bundle.bytes + bytes > limit) {
      done.push_back(std::move(bundle.positions));
      bundle = {};
    }
    bundle.positions.push_back(i);
    bundle.bytes += bytes;
  }
  for (Open& bundle : open)
    if (!bundle.positions.empty()) done.push_back(std::move(bundle.positions));
  return done;
}

Tensor flatten(const std::vector<Tensor>& tensors, const std::vector<std::size_t>& bundle) {
  if (bundle.size() == 1) return tensors[bundle[0]].contiguous().view({tensors[bundle[0]].numel()});
  std::vector<const Tensor*> parts;
  parts.reserve(bundle.size());
  for (const std::size_t i : bundle) parts.push_back(&tensors[i]);
  return ops::flat_cat(parts);
}

void unflatten(const Tensor& flat, const std::vector<Tensor>& like,
               const std::vector<std::size_t>& bundle, std::vector<Tensor>& out) {
  std::int64_t offset = flat.storage_offset();
  for (const std::size_t i : bundle) {
    const Shape& sizes = like[i].sizes();
    out[i] = Tensor(flat.storage(), flat.dtype(), sizes, contiguous_strides(sizes), offset);
    offset += like[i].numel();
  }
}

// ---- Arguments

Devices::Devices(const std::vector<DeviceArg>& devices) : given_(true) {
  list_.reserve(devices.size());
  for (const DeviceArg& device : devices) list_.push_back(device.required_index());
}

std::vector<int> Devices::existing() const {
  std::vector<int> places;
  places.reserve(list_.size());
  for (const std::int64_t device : list_) {
    if (device < 0)
      throw Error("Expected non-negative device index, but got " + std::to_string(device));
    places.push_back(DeviceArg(device).existing());
  }
  return places;
}

std::string Devices::str() const {
  if (!given_) return "None";
  std::string text = "[";
  for (const std::int64_t device : list_)
    text += (text.size() > 1 ? ", " : "") + std::to_string(device);
  return text + "]";
}

Destination::Destination(Device device) : given_(device.str()), by_name_(true) {
  if (!device.is_cuda())
    where_ = -1;
  else if (device.has_index())
    where_ = device.index();
}

Device Destination::device() const {
  const std::int64_t index = where_ ? where_->index() : 0;
  if (index == -1) {
    if (!by_name_)
      warn(Warning::future,
           "Using -1 to represent CPU tensor is deprecated. Please use a device object or string "
           "instead, e.g., \"cpu\".");
    return Device(Device::Type::cpu);
  }
  if (index < 0)
    throw Error("Expected non-negative device index, but got " + std::to_string(index));
  return Device(Device::Type::cuda, where_ ? where_->existing() : current_device());
}

}  // namespace ember::inline v0::cuda::comm
