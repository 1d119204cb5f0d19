#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/comm/side_streams.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/runtime/argument_names.h"

namespace ember::inline v0::cuda::comm {
namespace {

// Note [Sums across devices]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// The root's device adds what lies on other devices straight from their memory: one kernel per
// input, no memory in between, and nothing to wait for but the inputs. That gives about 0.94 of
// what the link can take. A copy engine takes it all, so for large tensors the first input of
// another device is copied, piece by piece, to where the result will be, on a side stream, and the
// pieces are added there while the next ones arrive. Each piece costs some microseconds beside its
// bytes, and adding takes about a third as long as copying. So every piece is 5/8 of what is left,
// and 3/8 of the one before: that one is added by the time it has come, and only the last, small
// one's sum is not hidden.
// For each element the root's number comes first and the others follow in the order of the inputs,
// whatever the pieces.

/// What is larger is worth the copy engine.
constexpr std::size_t kDirect = std::size_t{192} << 20;
/// What is left then is the last piece.
constexpr std::size_t kLastPiece = std::size_t{24} << 20;
/// The other pieces have a multiple of it.
constexpr std::size_t kPieceUnit = std::size_t{2} << 20;

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

bool is_elsewhere(const Tensor& tensor, const Tensor& root) {
  return tensor.device() != root.device();
}

/// result += every input, or root + the first one, for elements from `first` on.
void add_piece(const Tensor& result, const Tensor& root, const std::vector<const Tensor*>& others,
               std::int64_t first, std::int64_t count) {
  const Tensor target = flat_piece(result, first, count);
  Tensor sum = flat_piece(root, first, count);
  for (const Tensor* other : others) {
    add_by_kernel(target, sum, flat_piece(*other, first, count));
    sum = target;
  }
}

/// How many elements of `rest` come next.
std::int64_t piece_of(std::int64_t rest, std::size_t item) {
  if (rest <= static_cast<std::int64_t>(kLastPiece / item)) return rest;
  const auto unit = static_cast<std::int64_t>(kPieceUnit / item);
  return rest / 8 * 5 / unit * unit;
}

/// The first of the others comes by copies on a side stream, piece by piece, beside the sums.
void copy_and_add(const Tensor& result, const Tensor& root,
                  const std::vector<const Tensor*>& others) {
  const Stream sums = current_stream(root.device());
  const Stream copies = side_stream(root.get_device());
  std::vector<const Tensor*> terms = others;
  terms.front() = &result;
  order(sums, copies);
  for (std::int64_t first = 0, count = 0; first < root.numel(); first += count) {
    count = piece_of(root.numel() - first, root.element_size());
    const Tensor arriving = flat_piece(result, first, count);
    ops::copy_bytes(arriving, flat_piece(*others.front(), first, count), copies);
    order(copies, sums);
    add_piece(result, root, terms, first, count);
  }
}

/// Adds in order; `others` are those of the inputs that are not the root.
void add_up(const Tensor& result, const Tensor& root, const std::vector<const Tensor*>& others) {
  const Stream sums = current_stream(root.device());
  // What is copied becomes the result, so it must be what is added to the root itself.
  const Tensor& copied = *others.front();
  const bool copies_first = root.nbytes() > kDirect && is_elsewhere(copied, root);
  std::vector<ops::Use> uses;
  for (const Tensor* other : others)
    if (is_elsewhere(*other, root)) uses.push_back({*other, sums});
  if (copies_first) {
    const Stream copies = side_stream(root.get_device());
    uses.push_back({result, copies});
    uses.push_back({copied, copies});
  }
  ops::with_uses(uses, [&] {
    for (const Tensor* other : others)
      if (is_elsewhere(*other, root)) order(current_stream(other->device()), sums);
    if (copies_first)
      copy_and_add(result, root, others);
    else
      add_piece(result, root, others, 0, root.numel());
    const Event& done = mark(sums);
    for (const Tensor* other : others)
      if (is_elsewhere(*other, root)) done.wait(current_stream(other->device()));
  });
}

}  // namespace

Tensor reduce_add(const std::vector<Tensor>& inputs, const DeviceArg& destination) {
  const ArgumentNames named("inputs");
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
  add_up(result, root, others);
  return result;
}

std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                         const DeviceArg& destination, std::size_t buffer_size) {
  const ArgumentNames named("inputs");
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

}  // namespace ember::inline v0::cuda::comm
