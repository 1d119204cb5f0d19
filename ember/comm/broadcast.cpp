#include <algorithm>
#include <array>
#include <string>

#include "ember/base/error.h"
#include "ember/comm/side_streams.h"
#include "ember/ops/cat.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/runtime/argument_names.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::comm {
namespace {

// Note [Chains]
// ~~~~~~~~~~~~~
// A large tensor goes from device to device: each passes a chunk on while it receives the next one,
// so that every link carries the tensor once, all at the same time, and n devices cost about as
// much as one. Each hop has a side stream on the device that it starts from. It waits for the
// chunk's previous hop; its own chunks follow each other by themselves. Before the first chunk it
// waits for the receiver's current stream, whose earlier work may still use the memory; afterwards
// the current streams at both ends wait for it, so that everything is as if it had run on them.

/// What is larger goes in chunks; what is smaller is not worth the events.
constexpr std::size_t kChunk = std::size_t{4} << 20;
/// What is smaller is copied by a kernel: that costs the host and the device less than a copy.
constexpr std::size_t kSmall = std::size_t{256} << 10;
constexpr std::size_t kMostChunks = 64;

std::size_t chunk_size(std::size_t bytes) {
  constexpr std::size_t kUnit = std::size_t{1} << 20;
  const std::size_t share = (bytes / kMostChunks + kUnit) / kUnit * kUnit;
  return std::max(kChunk, share);
}

/// From one device to the next, piece by piece.
struct Hop {
  const std::byte* from;
  std::byte* to;
  Stream stream;
  std::uint32_t epoch;      // of the sender's memory
  driver::PeerMemory peer;  // the receiver's
  Stream sender, receiver;  // current ones
};

void send(const std::vector<Hop>& hops, std::size_t bytes) {
  order(hops.front().sender, hops.front().stream);
  for (const Hop& hop : hops) order(hop.receiver, hop.stream);
  const std::size_t chunk = chunk_size(bytes);
  for (std::size_t start = 0; start < bytes; start += chunk) {
    const std::size_t size = std::min(chunk, bytes - start);
    for (std::size_t h = 0; h < hops.size(); ++h) {
      if (h > 0) order(hops[h - 1].stream, hops[h].stream);
      copy_in_epoch(hops[h].stream, hops[h].epoch, hops[h].peer, hops[h].to + start,
                    hops[h].from + start, size);
    }
  }
  for (const Hop& hop : hops) {
    const Event& done = mark(hop.stream);
    done.wait(hop.receiver);
    done.wait(hop.sender);
  }
}

void chain(const Tensor& source, const std::vector<Tensor>& targets) {
  std::vector<Hop> hops;
  std::vector<ops::Use> uses;
  const Tensor* previous = &source;
  for (const Tensor& target : targets) {
    hops.push_back({static_cast<const std::byte*>(previous->address()),
                    static_cast<std::byte*>(target.address()), side_stream(previous->get_device()),
                    previous->storage()->epoch(), ops::peer_of(previous->device(), target),
                    current_stream(previous->device()), current_stream(target.device())});
    uses.push_back({*previous, hops.back().stream});
    uses.push_back({target, hops.back().stream});
    previous = &target;
  }
  ops::with_uses(uses, [&] { send(hops, source.nbytes()); });
}

/// To peers that lie like the source: all of them at once, and none waits for another.
void copy_small(const Tensor& source, const std::vector<Tensor>& targets) {
  const Stream from = current_stream(source.device());
  const Event& ready = mark(from);
  for (const Tensor& target : targets) {
    const Stream to = current_stream(target.device());
    ops::with_uses(std::array{ops::Use{source, to}}, [&] {
      ready.wait(to);
      ops::move_bytes(target, source);
      order(to, from);
    });
  }
}

bool all_different(const std::vector<Tensor>& targets) {
  for (std::size_t i = 0; i < targets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (targets[i].get_device() == targets[j].get_device()) return false;
  return true;
}

/// Copies to other devices.
void spread(const Tensor& source, const std::vector<Tensor>& targets) {
  if (targets.empty() || source.numel() == 0) return;
  bool alike = source.is_cuda();
  bool peers = alike;
  int previous = source.get_device();
  bool chained = alike;
  for (const Tensor& target : targets) {
    alike = alike && same_bytes(source, target);
    peers = peers && use_peer_access(source.get_device(), target.get_device());
    chained = chained && use_peer_access(previous, target.get_device());
    previous = target.get_device();
  }
  if (alike && peers && source.nbytes() <= kSmall) {
    copy_small(source, targets);
  } else if (alike && chained && targets.size() > 1 && source.nbytes() > kChunk &&
             all_different(targets)) {
    chain(source, targets);
  } else {
    for (const Tensor& target : targets) target.copy_(source, true);
  }
}

/// The bytes that travel: gaps would make every copy a packing of its own.
Tensor without_gaps(const Tensor& tensor) {
  if (!tensor.is_cuda() || tensor.is_contiguous() || is_channels_last(tensor)) return tensor;
  return tensor.contiguous();
}

std::vector<Tensor> broadcast_into(const Tensor& tensor, const std::vector<Tensor>& out) {
  std::vector<Tensor> elsewhere;
  std::vector<Tensor> here;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].is_cuda())
      throw Error("Expected all output tensors to be CUDA tensors, but output tensor at index " +
                  std::to_string(i) + " has device '" + out[i].device().str() + "'");
    if (out[i].sizes() != tensor.sizes())
      throw Error("Expected all output tensors to have same shape as the source tensor " +
                  tensor.sizes().str() + ", but output tensor at index " + std::to_string(i) +
                  " has shape " + out[i].sizes().str());
    ops::require_no_internal_overlap(out[i]);
    if (out[i].is(tensor)) continue;
    (out[i].device() == tensor.device() ? here : elsewhere).push_back(out[i]);
  }
  if (!elsewhere.empty()) spread(without_gaps(tensor), elsewhere);
  for (const Tensor& target : here) target.copy_(tensor, true);
  return out;
}

}  // namespace

std::vector<Tensor> broadcast(const Tensor& tensor, const Devices& devices, const Outputs& out) {
  const ArgumentNames named("tensor", out ? "out" : kOutputArgument);
  if (devices.given() == out.has_value())
    throw Error(
        "Exactly one of 'devices' and 'out' must be specified, but got devices=" + devices.str() +
        " and out=" + (out ? "[" + std::to_string(out->size()) + " tensors]" : "None"));
  if (out) return broadcast_into(tensor, *out);
  const std::vector<int> places = devices.existing();
  std::vector<Tensor> results;
  std::vector<Tensor> targets;
  const Shape strides = kept_strides(tensor);
  for (const int device : places) {
    if (tensor.get_device() == device) {
      results.push_back(tensor);
      continue;
    }
    results.push_back(
        new_tensor(tensor.sizes(), strides, tensor.dtype(), Device(Device::Type::cuda, device)));
    targets.push_back(results.back());
  }
  if (!targets.empty()) spread(without_gaps(tensor), targets);
  return results;
}

std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors,
                                                     const Devices& devices,
                                                     std::size_t buffer_size) {
  const ArgumentNames named("tensors");
  if (devices.list().empty()) throw Error("Expected at least one device to broadcast to");
  const std::int64_t root = devices.list()[0];
  for (const Tensor& tensor : tensors)
    if (tensor.get_device() != root)
      throw Error("All tensors must be on devices[0]: " + std::to_string(root));
  static_cast<void>(devices.existing());
  std::vector<std::vector<Tensor>> results(devices.list().size());
  results[0] = tensors;
  if (results.size() == 1) return results;
  for (std::size_t d = 1; d < results.size(); ++d) results[d].resize(tensors.size());
  for (const auto& bundle : bundles(tensors, buffer_size)) {
    const Tensor flat = flatten(tensors, bundle);
    const std::vector<Tensor> copies = broadcast(flat, devices);
    for (std::size_t d = 1; d < results.size(); ++d)
      unflatten(copies[d], tensors, bundle, results[d]);
  }
  return results;
}

}  // namespace ember::inline v0::cuda::comm
