#include <numeric>
#include <string>

#include "ember/base/error.h"
#include "ember/comm/side_streams.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/runtime/argument_names.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/work.h"

namespace ember::inline v0::cuda::comm {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

/// The given stream for a position, checked.
std::optional<Stream> stream_for(const Streams& streams, std::size_t i, int device) {
  if (i >= streams.size() || !streams[i]) return {};
  if (streams[i]->device_index() != device)
    throw Error("Expected the device associated with the stream at index " + std::to_string(i) +
                " (was " + text(streams[i]->device_index()) +
                ") to match the device supplied at that index (expected " + text(device) + ")");
  return streams[i];
}

std::vector<Tensor> scatter_into(const Tensor& tensor, const std::vector<Tensor>& out,
                                 std::int64_t given_dim, const Streams& streams) {
  if (out.empty()) throw Error("Expected at least one output tensor to scatter to");
  const int dim = wrap_dim(given_dim, tensor.dim());
  std::int64_t total = 0;
  std::vector<std::int64_t> chunk_sizes;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].is_cuda())
      throw Error("Expected all output tensors to be CUDA tensors, but output tensor at index " +
                  std::to_string(i) + " has device '" + out[i].device().str() + "'");
    Shape sizes = out[i].sizes();
    if (sizes.size() == tensor.dim() && !sizes.empty()) {
      total += sizes[dim];
      chunk_sizes.push_back(sizes[dim]);
      sizes[dim] = tensor.sizes()[dim];
    }
    if (sizes != tensor.sizes())
      throw Error("Output tensor at index " + std::to_string(i) + " has incorrect shape: " +
                  out[i].sizes().str() + ". Expected same shape except for scatter dim " +
                  text(dim) + " as the source tensor: " + tensor.sizes().str());
    ops::require_no_internal_overlap(out[i]);
    for (std::size_t j = 0; j < i; ++j) ops::require_apart(out[j], out[i]);
  }
  const std::int64_t expected = tensor.size(dim);
  if (total != expected)
    throw Error("Total size for output tensors along scatter dim " + text(dim) +
                " does not match the source tensor size at dim " + text(dim) + ". Expected " +
                text(expected) + ", but got total size " + text(total));
  for (std::size_t i = 0; i < out.size(); ++i)
    static_cast<void>(stream_for(streams, i, out[i].get_device()));
  const std::vector<Tensor> chunks = tensor.split(chunk_sizes, dim);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const OptionalStreamGuard guard(stream_for(streams, i, out[i].get_device()));
    Tensor(out[i]).copy_(chunks[i], true);
  }
  return out;
}

/// What gather checks, and the result's shape.
Shape gathered_sizes(const std::vector<Tensor>& tensors, int dim) {
  Shape expected = tensors[0].sizes();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor.is_cuda())
      throw Error("Expected all input tensors to be CUDA tensors, but tensor at index " +
                  std::to_string(i) + " has device '" + tensor.device().str() + "'");
    if (tensor.dim() != expected.size())
      throw Error(
          "Expected all input tensors to have the same number of dimensions, but tensor at index " +
          std::to_string(i) + "has " + text(tensor.dim()) + " dimensions, (expected " +
          text(expected.size()) + ")");
    expected[dim] = tensor.size(dim);
    if (expected != tensor.sizes())
      throw Error("Input tensor at index " + std::to_string(i) + " has invalid shape " +
                  tensor.sizes().str() + ", but expected " + expected.str());
    total += tensor.sizes()[dim];
  }
  expected[dim] = total;
  return expected;
}

bool all_channels_last(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors)
    if (!is_channels_last(tensor)) return false;
  return true;
}

/// Into pieces of one result. Those that only need bytes moved come from all devices at once,
/// beside what the result's own device does.
void collect(const std::vector<Tensor>& pieces, const std::vector<Tensor>& tensors) {
  std::vector<std::size_t> arriving;
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].numel() == 0) continue;
    const bool bytes = pieces[i].is_cuda() && tensors[i].device() != pieces[i].device() &&
                       same_bytes(pieces[i], tensors[i]) &&
                       use_peer_access(tensors[i].get_device(), pieces[i].get_device());
    (bytes ? arriving : rest).push_back(i);
  }
  std::vector<ops::Use> uses;
  uses.reserve(arriving.size());
  for (const std::size_t i : arriving)
    uses.push_back({pieces[i], current_stream(tensors[i].device())});
  ops::with_uses(uses, [&] {
    if (!arriving.empty()) {
      const Stream into = current_stream(pieces[0].device());
      const Event& ready = mark(into);
      for (const std::size_t i : arriving) {
        const Stream from = current_stream(tensors[i].device());
        ready.wait(from);
        ops::copy_bytes(pieces[i], tensors[i], from);
      }
    }
    for (const std::size_t i : rest) pieces[i].copy_(tensors[i], pieces[i].is_cuda());
    for (const std::size_t i : arriving)
      ops::order_behind(tensors[i], current_stream(tensors[i].device()),
                        current_stream(pieces[i].device()));
  });
}

}  // namespace

std::vector<Tensor> scatter(const Tensor& tensor, const Devices& devices,
                            const std::optional<std::vector<std::int64_t>>& chunk_sizes,
                            std::int64_t dim, const Streams& streams, const Outputs& out) {
  const ArgumentNames named("tensor", out ? "out" : kOutputArgument);
  if (out) {
    if (devices.given())
      throw Error("'devices' must not be specified when 'out' is specified, but got devices=" +
                  devices.str());
    if (chunk_sizes)
      throw Error(
          "'chunk_sizes' must not be specified when 'out' is specified, but got chunk_sizes=" +
          Shape(*chunk_sizes).str());
    return scatter_into(tensor, *out, dim, streams);
  }
  if (devices.list().empty()) throw Error("Expected at least one device to scatter to");
  if (chunk_sizes && chunk_sizes->size() != devices.list().size())
    throw Error("Expected devices and chunk_sizes to be of same length, but got len(devices) = " +
                std::to_string(devices.list().size()) +
                " and len(chunk_sizes) = " + std::to_string(chunk_sizes->size()));
  const int along = wrap_dim(dim, tensor.dim());
  const std::vector<int> places = devices.existing();
  std::vector<Tensor> chunks = chunk_sizes
                                   ? tensor.split(*chunk_sizes, along)
                                   : tensor.chunk(static_cast<std::int64_t>(places.size()), along);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (places[i] == tensor.get_device()) continue;
    static_cast<void>(stream_for(streams, i, places[i]));
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (places[i] == tensor.get_device()) continue;
    const OptionalStreamGuard guard(stream_for(streams, i, places[i]));
    chunks[i] = chunks[i].to(Device(Device::Type::cuda, places[i]), true);
  }
  return chunks;
}

Tensor gather(const std::vector<Tensor>& tensors, std::int64_t dim, const Destination& destination,
              const std::optional<Tensor>& out) {
  const ArgumentNames named("tensors", out ? "out" : kOutputArgument);
  if (out && destination.given())
    throw Error(
        "'destination' must not be specified when 'out' is specified, but got destination=" +
        *destination.given());
  if (tensors.empty()) throw Error("Expected at least one tensor to gather from");
  const int along = wrap_dim(dim, tensors[0].dim());
  static_cast<void>(tensors[0].size(along));  // a number has no dimension to gather along
  const Shape sizes = gathered_sizes(tensors, along);
  Tensor result;
  if (out) {
    if (out->sizes() != sizes)
      throw Error("Expected out tensor to have shape " + sizes.str() + ", but got " +
                  out->sizes().str());
    ops::require_no_internal_overlap(*out);
    result = *out;
  } else {
    const Shape strides =
        all_channels_last(tensors) ? channels_last_strides(sizes) : contiguous_strides(sizes);
    result = new_tensor(sizes, strides, tensors[0].dtype(), destination.device());
  }
  std::vector<std::int64_t> chunk_sizes;
  chunk_sizes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) chunk_sizes.push_back(tensor.sizes()[along]);
  collect(result.split(chunk_sizes, along), tensors);
  return result;
}

}  // namespace ember::inline v0::cuda::comm
