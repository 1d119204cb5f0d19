#include "ember/ops/reduce_plan.h"

#include <algorithm>
#include <limits>

#include "ember/base/error.h"
#include "ember/ops/factories.h"
#include "ember/ops/reduce_functors.h"
#include "ember/ops/run.h"

namespace ember::ops {
namespace {

struct OneDim {
  std::int64_t size;
  std::int64_t stride;
  std::int64_t out;  ///< stride of the output; zero for what is reduced
};

/// Dimensions of one kind, fastest first; neighbours that can be walked as one become one.
struct DimRow {
  std::array<OneDim, kMaxDims> dims;
  int count = 0;

  void add(const OneDim& dim) { dims[static_cast<std::size_t>(count++)] = dim; }
  void sort() {
    // The same element again and again is no neighbourhood: stride zero goes last.
    const auto step = [](const OneDim& dim) {
      return dim.stride == 0 ? std::numeric_limits<std::int64_t>::max() : dim.stride;
    };
    std::stable_sort(dims.begin(), dims.begin() + count,
                     [&](const OneDim& a, const OneDim& b) { return step(a) < step(b); });
  }
  void merge() {
    int kept = 0;
    for (int i = 1; i < count; ++i) {
      OneDim& last = dims[static_cast<std::size_t>(kept)];
      const OneDim& next = dims[static_cast<std::size_t>(i)];
      if (next.stride == last.stride * last.size && next.out == last.out * last.size)
        last.size *= next.size;
      else
        dims[static_cast<std::size_t>(++kept)] = next;
    }
    if (count > 0) count = kept + 1;
  }
};

/// False if the tensor's dimensions do not fit into the arguments.
bool lay_out(const Tensor& x, const DimSet& gone, bool ordered, ReduceArgs& args) {
  DimRow kept;
  DimRow reduced;
  std::int64_t out = 1;
  for (int i = x.dim() - 1; i >= 0; --i) {
    const std::int64_t size = x.sizes()[i];
    const bool goes = gone[static_cast<std::size_t>(i)];
    if (size != 1) (goes ? reduced : kept).add({size, x.strides()[i], goes ? 0 : out});
    if (!goes) out *= size;
  }
  kept.sort();
  kept.merge();
  if (!ordered) reduced.sort();
  reduced.merge();
  if (args.reduced == 0) reduced.count = 0;
  if (kept.count > kReduceDims || reduced.count > kReduceDims || (ordered && reduced.count > 1))
    return false;
  args.kept_dims = static_cast<std::int8_t>(kept.count);
  args.reduced_dims = static_cast<std::int8_t>(reduced.count);
  for (int d = 0; d < kept.count; ++d) {
    const OneDim& dim = kept.dims[static_cast<std::size_t>(d)];
    args.kept_size[d] = dim.size;
    args.kept_stride[d] = dim.stride;
    args.kept_out[d] = dim.out;
  }
  for (int d = 0; d < reduced.count; ++d) {
    const OneDim& dim = reduced.dims[static_cast<std::size_t>(d)];
    args.size[d] = dim.size;
    args.stride[d] = dim.stride;
  }
  return true;
}

/// The same elements without gaps, those of one output beside each other.
Tensor gathered(const Tensor& x, const DimSet& gone) {
  Shape order;
  for (const bool goes : {false, true})
    for (int i = 0; i < x.dim(); ++i)
      if (gone[static_cast<std::size_t>(i)] == goes) order.push_back(i);
  return x.permute(order).contiguous();
}

std::size_t accumulator_bytes(ReduceOp op, Dtype dtype) {
  return with_type(dtype, [&]<class T>() -> std::size_t {
    switch (op) {
      case ReduceOp::sum: return sizeof(typename reduce::Sum<T>::Acc);
      case ReduceOp::prod: return sizeof(typename reduce::Prod<T>::Acc);
      case ReduceOp::count: return sizeof(typename reduce::Count<T>::Acc);
      case ReduceOp::max:
      case ReduceOp::min: return sizeof(typename reduce::Largest<T>::Acc);
      case ReduceOp::var: return sizeof(typename reduce::Variance<T>::Acc);
      case ReduceOp::norm2: return sizeof(typename reduce::Norm2<T>::Acc);
      case ReduceOp::norm: break;
    }
    return sizeof(typename reduce::Norm<T>::Acc);
  });
}

/// Into how many parts every output is cut, so that there is enough to do for a whole GPU. Depends
/// on the shape only, and so do the results.
std::int32_t part_count(const ReduceArgs& args, std::size_t item) {
  // What an H200 runs at once. If there are a few more blocks it waits for the last ones alone, so
  // it gets either no more, or so many that this makes no difference.
  constexpr std::int64_t kOneRound = 512;
  constexpr std::int64_t kManyRounds = 4096;
  const auto width = static_cast<std::int64_t>(item);
  const bool by_columns = args.kept_dims > 0 && args.kept_stride[0] == 1 && args.kept_size[0] >= 8;
  // What a block of 256 threads reads along, and the least that is worth another block.
  std::int64_t blocks = args.outputs;
  std::int64_t least = std::max<std::int64_t>(1, 16384 / width);
  if (by_columns) {
    const std::int64_t columns = std::max<std::int64_t>(32, 1024 / width);
    blocks = (args.kept_size[0] + columns - 1) / columns * (args.outputs / args.kept_size[0]);
    least = 64;
  }
  const std::int64_t wanted = blocks <= kOneRound ? kOneRound : kManyRounds;
  if (blocks >= wanted) return 1;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      args.reduced / least, 1, wanted / std::max<std::int64_t>(blocks, 1)));
}

const driver::Kernel& kernel(ReduceOp op, Dtype dtype) {
  const int all = static_cast<int>(dtype) - static_cast<int>(Dtype::uint8);
  const int floating = static_cast<int>(dtype) - static_cast<int>(Dtype::float16);
  switch (op) {
    case ReduceOp::sum: return sum_rows()[all];
    case ReduceOp::prod: return prod_rows()[all];
    case ReduceOp::count: return count_rows()[all];
    case ReduceOp::max: return max_rows()[all];
    case ReduceOp::min: return min_rows()[all];
    case ReduceOp::var: return var_rows()[floating];
    case ReduceOp::norm2: return norm2_rows()[floating];
    case ReduceOp::norm: break;
  }
  return norm_rows()[floating];
}

}  // namespace

DimSet dim_set(const DimList& dims, int count) {
  DimSet set;
  if (dims.all()) {
    for (int i = 0; i < count; ++i) set.set(static_cast<std::size_t>(i));
    return set;
  }
  for (const std::int64_t dim : dims.list()) {
    const auto i = static_cast<std::size_t>(wrap_dim(dim, count));
    if (set[i])
      throw Error("dim " + std::to_string(i) + " appears multiple times in the list of dims");
    set.set(i);
  }
  return set;
}

Shape reduced_sizes(const Shape& sizes, const DimSet& gone, bool keepdim) {
  Shape out;
  for (int i = 0; i < sizes.size(); ++i) {
    if (!gone[static_cast<std::size_t>(i)])
      out.push_back(sizes[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

std::int64_t reduced_count(const Shape& sizes, const DimSet& gone) {
  std::int64_t count = 1;
  for (int i = 0; i < sizes.size(); ++i)
    if (gone[static_cast<std::size_t>(i)]) count *= sizes[i];
  return count;
}

void run_reduction(const Tensor& x, const DimSet& gone, const Reduction& reduction) {
  ReduceArgs args{};
  args.reduced = reduced_count(x.sizes(), gone);
  args.outputs = (reduction.out != nullptr ? reduction.out : reduction.indices)->numel();
  if (args.outputs == 0) return;
  // Positions count elements in the order of the dimensions.
  Tensor in = x;
  if (!lay_out(in, gone, reduction.indices != nullptr, args)) {
    in = gathered(x, gone);
    DimSet behind;
    const auto count = static_cast<std::size_t>(x.dim());
    for (std::size_t i = count - gone.count(); i < count; ++i) behind.set(i);
    lay_out(in, behind, reduction.indices != nullptr, args);
  }
  args.in = in.data_ptr();
  args.number = reduction.number;
  args.mode = reduction.mode;
  args.parts = 1;
  if (reduction.out != nullptr) {
    args.out = reduction.out->data_ptr();
    args.out_item = static_cast<std::uint8_t>(reduction.out->element_size());
  }
  if (reduction.indices != nullptr) args.indices = reduction.indices->data<std::int64_t>();

  const Dtype dtype = x.dtype() == Dtype::bool_ ? Dtype::uint8 : x.dtype();
  Tensor partial;
  if (x.is_cuda() && !cuda::is_simulated()) {
    args.parts = part_count(args, in.element_size());
    if (args.parts > 1) {
      const auto bytes = static_cast<std::int64_t>(accumulator_bytes(reduction.op, dtype));
      partial = empty({args.parts * args.outputs * bytes}, {Dtype::uint8, x.device()});
      args.partial = partial.data_ptr();
    }
  }
  std::array<cuda::Access, 4> accesses;
  std::size_t count = 0;
  if (cuda::observed()) {
    accesses[count++] = reads(in);
    for (const Tensor* written : {reduction.out, reduction.indices})
      if (written != nullptr) accesses[count++] = writes(*written);
    if (partial.defined()) accesses[count++] = writes(partial);
  }
  run(x.device(), kernel(reduction.op, dtype), args, std::span(accesses).first(count));
}

}  // namespace ember::ops
