#include "ember/ops/indexed.h"

#include <array>
#include <span>
#include <string>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/plan.h"
#include "ember/ops/run.h"
#include "ember/runtime/deferred.h"

namespace ember::inline v0::ops {
namespace {

/// On the CPU a bad index is an exception at once; on devices it is a fault later.
template <class Exception, class Args>
void run_checked(const Site& site, const driver::Kernel& kernel, const Args& args,
                 std::span<const cuda::Access> accesses) {
  if (site.device.is_cuda()) return run(site, kernel, args, accesses);
  const Status status = run_here(kernel, driver::Params(args), accesses);
  if (!status.ok()) throw Exception(status.detail());
}

/// Which exception: torch's for gather and scatter is a plain one.
constexpr bool raises_index_error(Reads op) { return op != Reads::gather; }
constexpr bool raises_index_error(Writes op) { return op != Writes::scatter; }
constexpr bool raises_index_error(Combines op) {
  return op != Combines::scatter_add && op != Combines::scatter_multiply;
}

constexpr std::array kCombinations = {
#define EMBER_KERNEL(name, how) #name,
    EMBER_FOR_EACH_COMBINATION(EMBER_KERNEL)
#undef EMBER_KERNEL
};

/// What schemas call a move's target and source.
struct Names {
  const char* target;
  const char* source;
};
constexpr Names names_of(Reads) { return {cuda::kOutputArgument, "self"}; }
constexpr Names names_of(Writes op) {
  switch (op) {
    case Writes::index_fill: return {"self", "value"};
    case Writes::scatter: return {"self", "src"};
    case Writes::index_put: return {"self", "values"};
    default: return {"self", "source"};
  }
}
constexpr Names names_of(Combines op) {
  switch (op) {
    case Combines::scatter_add:
    case Combines::scatter_multiply: return {"self", "src"};
    case Combines::index_put: return {"self", "values"};
    default: return {"self", "source"};
  }
}

/// A move in the form of its merged dimensions, and how it is launched.
class Launcher {
 public:
  template <class Op>
  Launcher(Op op, const IndexedMove& move)
      : move_(move),
        names_(names_of(op)),
        index_error_(raises_index_error(op)),
        reads_target_(std::is_same_v<Op, Combines>),
        writes_partly_(std::is_same_v<Op, Writes>) {}

  void launch(const driver::Kernel& kernel, const IndexedArgs& args) {
    const Site site = at(move_.target, move_.source, move_.index);
    if (!cuda::accesses_wanted()) {
      check_and_run(site, kernel, args, {});
      return;
    }
    std::array<cuda::Access, 4> accesses{
        writes(move_.target, names_.target), reads(move_.source, names_.source),
        reads(move_.index, "index"), reads(move_.target, names_.target)};
    accesses[0].partly = writes_partly_;
    check_and_run(site, kernel, args, std::span(accesses).first(reads_target_ ? 4 : 3));
  }

  /// More dimensions than a kernel takes: the slowest one index at a time. `unit`: bytes of what
  /// target and source count in.
  void cut(const driver::Kernel& kernel, IndexedArgs args, const Dims& dims, std::size_t unit) {
    if (dims.count > kIndexedDims) {
      Dims inner = dims;
      --inner.count;
      const auto last = static_cast<std::size_t>(inner.count);
      for (std::int64_t i = 0; i < dims.size[last]; ++i) {
        cut(kernel, args, inner, unit);
        const auto bytes = [&](std::size_t operand) {
          return dims.stride[operand][last] * static_cast<std::int64_t>(unit);
        };
        args.target = static_cast<std::byte*>(args.target) + bytes(0);
        args.source = static_cast<const std::byte*>(args.source) + bytes(1);
        args.index += dims.stride[2][last];
      }
      return;
    }
    for (int d = 0; d < dims.count; ++d) {
      const auto i = static_cast<std::size_t>(d);
      args.size[d] = dims.size[i];
      args.target_stride[d] = dims.stride[0][i];
      args.source_stride[d] = dims.stride[1][i];
      args.index_stride[d] = dims.stride[2][i];
    }
    args.dims = static_cast<std::int8_t>(dims.count);
    launch(kernel, args);
  }

 private:
  void check_and_run(const Site& site, const driver::Kernel& kernel, const IndexedArgs& args,
                     std::span<const cuda::Access> accesses) const {
    if (index_error_)
      run_checked<IndexError>(site, kernel, args, accesses);
    else
      run_checked<Error>(site, kernel, args, accesses);
  }

  const IndexedMove& move_;
  const Names names_;
  const bool index_error_;
  const bool reads_target_, writes_partly_;
};

struct Prepared {
  IndexedArgs args{};
  Dims dims;
  std::size_t item = 0;
};

bool is_empty(const Shape& sizes) {
  for (const std::int64_t size : sizes)
    if (size == 0) return true;
  return false;
}

Prepared prepare(const IndexedMove& move) {
  Prepared made;
  made.item = move.target.element_size();
  const std::array<PlanOperand, 3> operands{{
      {move.target.address(), &move.sizes, &move.target_strides, made.item},
      {move.source.address(), &move.sizes, &move.source_strides, made.item},
      {move.index.address(), &move.sizes, &move.index_strides, sizeof(std::int64_t)},
  }};
  made.dims = merge_dims(move.sizes, operands);
  if (made.dims.count == 0) {  // a single position
    made.dims.count = 1;
    made.dims.size[0] = 1;
    for (auto& stride : made.dims.stride) stride[0] = 0;
  }
  made.args.target = move.target.address();
  made.args.source = move.source.address();
  made.args.index = static_cast<const std::int64_t*>(move.index.address());
  made.args.limit = move.limit;
  made.args.step = move.step;
  made.args.dim = static_cast<std::int8_t>(move.dim);
  made.args.wrap = move.wrap;
  return made;
}

/// Where rows of adjacent elements are moved whole, they are moved in the widest units that fit.
/// Returns the unit's bytes.
std::size_t widen(Prepared& move) {
  Dims& dims = move.dims;
  if (dims.stride[0][0] != 1 || dims.stride[1][0] != 1 || dims.stride[2][0] != 0) return move.item;
  const auto count = static_cast<std::size_t>(dims.count);
  for (std::size_t unit = 16; unit > move.item; unit /= 2) {
    const auto factor = static_cast<std::int64_t>(unit / move.item);
    bool fits = reinterpret_cast<std::uintptr_t>(move.args.target) % unit == 0 &&
                reinterpret_cast<std::uintptr_t>(move.args.source) % unit == 0 &&
                dims.size[0] % factor == 0 && move.args.step % factor == 0;
    for (std::size_t d = 1; d < count; ++d)
      fits = fits && dims.stride[0][d] % factor == 0 && dims.stride[1][d] % factor == 0;
    if (!fits) continue;
    dims.size[0] /= factor;
    move.args.step /= factor;
    for (std::size_t d = 1; d < count; ++d) {
      dims.stride[0][d] /= factor;
      dims.stride[1][d] /= factor;
    }
    return unit;
  }
  return move.item;
}

/// Nothing is read, but an index on the CPU can be wrong all the same. (Torch says so of reads
/// only.)
void check_alone(const IndexedMove& move) {
  if (move.index.is_cuda() || move.index.numel() == 0) return;
  const Tensor index = move.index.contiguous();
  host_reads("index", index);
  const auto* const places = static_cast<const std::int64_t*>(index.address());
  const std::int64_t least = move.wrap ? -move.limit : 0;
  for (std::int64_t i = 0; i < index.numel(); ++i)
    if (places[i] < least || places[i] >= move.limit)
      throw IndexError("index " + std::to_string(places[i]) + " is out of bounds for dimension " +
                       std::to_string(move.dim) + " with size " + std::to_string(move.limit));
}

template <class Op>
void run_units(Op op, const IndexedMove& move) {
  if (is_empty(move.sizes)) {
    if constexpr (std::is_same_v<Op, Reads>) check_alone(move);
    return;
  }
  Prepared prepared = prepare(move);
  const std::size_t unit = widen(prepared);
  Launcher(op, move).cut(indexed_kernel(op, unit), prepared.args, prepared.dims, unit);
}

}  // namespace

void move_indexed(Reads op, const IndexedMove& move) { run_units(op, move); }
void move_indexed(Writes op, const IndexedMove& move) { run_units(op, move); }

void move_indexed(Combines op, const IndexedMove& move) {
  if (is_empty(move.sizes)) return;
  const Dtype dtype = move.target.dtype();
  const bool narrow = dtype == Dtype::float16 || dtype == Dtype::bfloat16;
  // More elements than places: some place gets several, whose sum is rounded once. Else it is
  // rounded after each, as torch does, since a float32 copy of the target could cost any multiple
  // of what is added.
  if (narrow && element_count(move.sizes) > move.target.numel()) {
    IndexedMove wide = move;
    wide.target = empty_strided(move.target.sizes(), move.target.strides(),
                                {Dtype::float32, move.target.device()});
    wide.target.copy_(move.target);
    // In the form of the grid: of a source with strides of zero a copy has other strides.
    wide.source = move.source.as_strided(move.sizes, move.source_strides).to(Dtype::float32);
    wide.source_strides = wide.source.strides();
    move_indexed(op, wide);
    Tensor target = move.target;
    target.copy_(wide.target);
    return;
  }
  const driver::Kernel* const kernel = indexed_kernel(op, dtype);
  if (kernel == nullptr) throw_not_implemented(kCombinations[static_cast<std::size_t>(op)], dtype);
  const Prepared prepared = prepare(move);
  Launcher(op, move).cut(*kernel, prepared.args, prepared.dims, prepared.item);
}

Tensor index_offsets(const Tensor& index, std::int64_t limit, std::int64_t step, int dim) {
  Tensor out = empty(index.sizes(), {Dtype::int64, index.device()});
  if (index.numel() == 0) return out;
  const OffsetArgs args{static_cast<std::int64_t*>(out.address()),
                        static_cast<const std::int64_t*>(index.address()),
                        index.numel(),
                        limit,
                        step,
                        dim};
  const std::array<cuda::Access, 2> accesses{writes(out), reads(index, "index")};
  run_checked<IndexError>(at(index), offsets_kernel(), args, accesses);
  return out;
}

}  // namespace ember::inline v0::ops
