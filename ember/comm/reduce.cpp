#include <algorithm>
#include <optional>
#include <string>

#include "ember/base/error.h"
#include "ember/comm/lanes.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/runtime/work.h"

namespace ember::cuda::comm {
namespace {

// Note [Sums in chunks]
// ~~~~~~~~~~~~~~~~~~~~~
// What comes from other devices passes through a few buffers on the root: while one chunk is added
// on the root's current stream, the next ones arrive on a side stream. So a sum takes as long as
// its copies. For each element the root's number comes first and the others follow in the order of
// the inputs, whatever the chunks.

constexpr std::size_t kSmall = std::size_t{1} << 20;  ///< added straight from the peer's memory
constexpr std::size_t kSmallestChunk = std::size_t{2} << 20;
constexpr std::size_t kLargestChunk = std::size_t{32} << 20;
constexpr std::size_t kBuffers = 4;

std::string extents(const Shape& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// All but the root, in order.
std::vector<const Tensor*> others_of(const std::vector<Tensor>& inputs, std::size_t root) {
  std::vector<const Tensor*> others;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (i != root) others.push_back(&inputs[i]);
  return others;
}

/// One kernel per input, which reads the peer's memory.
void add_small(const Tensor& result, const Tensor& root, const std::vector<const Tensor*>& others) {
  const Stream stream = current_stream(root.device());
  for (const Tensor* other : others)
    if (other->device() != root.device()) order(current_stream(other->device()), stream);
  const Tensor* sum = &root;
  for (const Tensor* other : others) {
    add_by_kernel(result, *sum, *other);
    sum = &result;
  }
  const Event& done = mark(stream);
  for (const Tensor* other : others)
    if (other->device() != root.device()) done.wait(current_stream(other->device()));
}

void add_in_chunks(const Tensor& result, const Tensor& root,
                   const std::vector<const Tensor*>& others) {
  const auto item = root.element_size();
  const std::size_t bytes = root.nbytes();
  const std::size_t chunk_bytes = std::clamp(bytes / 32, kSmallestChunk, kLargestChunk);
  const auto chunk = static_cast<std::int64_t>(chunk_bytes / item);
  const Stream sums = current_stream(root.device());
  const Stream copies = side_stream(root.get_device());

  // The buffers belong to the current stream, which outlasts the side stream's use of them.
  struct Buffer {
    Tensor memory;
    Event free, full;
  };
  std::vector<Buffer> buffers(kBuffers);
  for (Buffer& buffer : buffers) buffer.memory = empty({chunk}, {root.dtype(), root.device()});
  order(sums, copies);
  for (const Tensor* other : others)
    if (other->device() != root.device()) order(current_stream(other->device()), copies);

  std::size_t turn = 0;
  for (std::int64_t start = 0; start < root.numel(); start += chunk) {
    const std::int64_t count = std::min(chunk, root.numel() - start);
    const Tensor target = flat_piece(result, start, count);
    Tensor sum = flat_piece(root, start, count);
    for (const Tensor* other : others) {
      const Tensor piece = flat_piece(*other, start, count);
      if (other->device() == root.device()) {
        add_by_kernel(target, sum, piece);
      } else {
        Buffer& buffer = buffers[turn++ % kBuffers];
        const Tensor arrived = flat_piece(buffer.memory, 0, count);
        buffer.free.wait(copies);
        copy_async(arrived.data_ptr(), piece.data_ptr(), piece.nbytes(), copies);
        buffer.full.record(copies);
        buffer.full.wait(sums);
        add_by_kernel(target, sum, arrived);
        buffer.free.record(sums);
      }
      sum = target;
    }
  }
  const Event& done = mark(copies);
  done.wait(sums);
  for (const Tensor* other : others)
    if (other->device() != root.device()) done.wait(current_stream(other->device()));
}

}  // namespace

Tensor reduce_add(const std::vector<Tensor>& inputs, const DeviceArg& destination) {
  if (inputs.empty()) throw ValueError("reduce_add: inputs is empty, expected at least one tensor");
  const int place = destination.existing();
  std::optional<std::size_t> root_index;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_cuda()) throw AssertionError("reduce_add expects all inputs to be on GPUs");
    if (inputs[i].get_device() == place) root_index = i;
    if (inputs[i].sizes() != inputs[0].sizes())
      throw ValueError("input " + std::to_string(i) + " has invalid size: got " +
                       extents(inputs[i].sizes()) + ", but expected " + extents(inputs[0].sizes()));
  }
  if (!root_index)
    throw Error("reduce_add expects destination to be on the same GPU with one of the tensors");
  if (inputs.size() == 1) return inputs[0];

  const Tensor& root = inputs[*root_index];
  const std::vector<const Tensor*> others = others_of(inputs, *root_index);
  bool alike = is_dense(root.sizes(), root.strides()) &&
               contains(ops::op_info(ops::OpId::add).dtypes, root.dtype());
  bool peers = true;
  for (const Tensor* other : others) {
    alike = alike && same_bytes(root, *other);
    peers =
        peers && (other->device() == root.device() || use_peer_access(place, other->get_device()));
  }
  if (!alike || !peers) {
    Tensor result;
    for (const Tensor* other : others) {
      const Tensor here = other->to(root.device(), other->dtype(), true);
      if (result.defined())
        result = result + here;
      else
        result = root + here;
    }
    return result;
  }
  Tensor result = new_tensor(root.sizes(), root.strides(), root.dtype(), root.device());
  if (root.numel() == 0) return result;
  if (root.nbytes() <= kSmall)
    add_small(result, root, others);
  else
    add_in_chunks(result, root, others);
  return result;
}

std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                         const DeviceArg& destination, std::size_t buffer_size) {
  if (inputs.empty())
    throw ValueError("reduce_add_coalesced: inputs is empty, expected a list per device");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].size() != inputs[0].size())
      throw ValueError("reduce_add_coalesced: list " + std::to_string(i) + " has " +
                       std::to_string(inputs[i].size()) + " tensors, expected " +
                       std::to_string(inputs[0].size()) + " as in list 0");
  std::vector<Tensor> results(inputs[0].size());
  // Tensors that do not match one by one are for reduce_add to judge.
  const auto matches = [&](std::size_t i) {
    return std::all_of(inputs.begin(), inputs.end(), [&](const std::vector<Tensor>& list) {
      return list[i].sizes() == inputs[0][i].sizes() && list[i].dtype() == inputs[0][i].dtype() &&
             list[i].device() == list[0].device();
    });
  };
  for (const auto& bundle : bundles(inputs[0], buffer_size)) {
    if (!std::all_of(bundle.begin(), bundle.end(), matches)) {
      for (const std::size_t i : bundle) {
        std::vector<Tensor> column;
        column.reserve(inputs.size());
        for (const std::vector<Tensor>& list : inputs) column.push_back(list[i]);
        results[i] = reduce_add(column, destination);
      }
      continue;
    }
    std::vector<Tensor> flats;
    flats.reserve(inputs.size());
    for (const std::vector<Tensor>& list : inputs) flats.push_back(flatten(list, bundle));
    unflatten(reduce_add(flats, destination), inputs[0], bundle, results);
  }
  return results;
}

}  // namespace ember::cuda::comm
