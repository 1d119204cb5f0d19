#include "ember/reduce/plan.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/reduce/functors.h"

namespace ember::inline v0::reduce {
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

/// Where the kernel of a dtype stands among those of a reduction; -1 where there is none.
using Places = std::array<int, kDtypes>;
constexpr Places places_of(std::initializer_list<Dtype> dtypes) {
  Places places{};
  places.fill(-1);
  int place = 0;
  for (const Dtype dtype : dtypes) places[static_cast<std::size_t>(dtype)] = place++;
  return places;
}
#define EMBER_REDUCE(functor, type, name) dtype_of<type>,
constexpr Places kPlaces_ALL = places_of({EMBER_REDUCE_EACH_ALL(EMBER_REDUCE, , "")});
constexpr Places kPlaces_REAL = places_of({EMBER_REDUCE_EACH_REAL(EMBER_REDUCE, , "")});
constexpr Places kPlaces_FLOATING = places_of({EMBER_REDUCE_EACH_FLOATING(EMBER_REDUCE, , "")});
#undef EMBER_REDUCE

const driver::Kernel& kernel(ReduceOp op, Dtype dtype) {
  struct Kernels {
    const driver::Kernel* (*all)() noexcept;
    const Places& places;
  };
  static constexpr Kernels kernels[] = {
#define EMBER_REDUCTION(op, functor, types) {&op##_kernels, kPlaces_##types},
#include "ember/reduce/reductions.inc"
#undef EMBER_REDUCTION
  };
  const Kernels& of = kernels[static_cast<std::size_t>(op)];
  const int place = of.places[static_cast<std::size_t>(dtype)];
  if (place < 0) [[unlikely]]
    ops::throw_not_implemented("a reduction", dtype);
  return of.all()[place];
}

}  // namespace

DimSet gone_dims(const DimList& dims, int count) {
  if (!dims.all()) return dim_set(dims.list(), count);
  DimSet all;
  for (int i = 0; i < count; ++i) all.set(static_cast<std::size_t>(i));
  return all;
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
  args.in = in.address();
  args.number = reduction.number;
  args.mode = reduction.mode;
  if (reduction.out != nullptr) {
    args.out = reduction.out->address();
    args.out_item = static_cast<std::uint8_t>(reduction.out->element_size());
  }
  if (reduction.indices != nullptr) args.indices = reduction.indices->address<std::int64_t>();

  const Dtype dtype = x.dtype() == Dtype::bool_ ? Dtype::uint8 : x.dtype();
  const driver::Kernel& chosen = kernel(reduction.op, dtype);
  const ops::Site site = ops::at(in);
  for (const Tensor* written : {reduction.out, reduction.indices})
    if (written != nullptr) ops::require_same_epoch(site, *written);
  const Tensor scratch = ops::scratch_for(site, chosen, args);
  if (scratch.defined()) args.scratch = scratch.address();
  std::array<cuda::Access, 4> accesses;
  std::size_t count = 0;
  if (cuda::accesses_wanted()) {
    accesses[count++] = ops::reads(in, "self");
    for (const Tensor* written : {reduction.out, reduction.indices})
      if (written != nullptr) accesses[count++] = ops::writes_output(*written);
    if (scratch.defined()) accesses[count++] = ops::writes(scratch);
  }
  ops::run(site, chosen, args, std::span(accesses).first(count));
}

}  // namespace ember::inline v0::reduce
