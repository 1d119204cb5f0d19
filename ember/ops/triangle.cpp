#include "ember/ops/triangle.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ember/ops/run.h"
#include "ember/ops/triangle_kernels.h"

namespace ember::inline v0::ops {
namespace {

/// Makes arguments for the matrices of `in`; false if a kernel cannot read it: rows whose elements
/// are not adjacent, or batch dimensions that are too many.
bool prepare(TriangleArgs& args, const Tensor& in) {
  const Shape& sizes = in.sizes();
  const Shape& strides = in.strides();
  const int last = in.dim() - 1;
  args.rows = sizes[last - 1];
  args.columns = sizes[last];
  args.row_stride = args.rows == 1 ? args.columns : strides[last - 1];
  if (args.columns > 1 && strides[last] != 1) return false;
  for (int d = last - 2; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    const int before = args.dims - 1;
    if (before >= 0 && strides[d] == args.size[before] * args.stride[before]) {
      args.size[before] *= sizes[d];
      continue;
    }
    if (args.dims == kTriangleDims) return false;
    args.size[args.dims] = sizes[d];
    args.stride[args.dims] = strides[d];
    ++args.dims;
  }
  return true;
}

/// Launches parts that one kernel can do.
class Cutter {
 public:
  Cutter(const Site& site, std::size_t item, std::span<const cuda::Access> accesses)
      : site_(site), kernel_(triangle_kernel(item)), accesses_(accesses), item_(item) {}

  void cut(const TriangleArgs& args) const {
    std::int64_t elements = args.rows * args.columns;
    for (int d = 0; d < args.dims; ++d) elements *= args.size[d];
    if (elements <= INT32_MAX) return launch(args);
    // The output is contiguous, so are its halves along the slowest dimension.
    TriangleArgs first = args;
    TriangleArgs second = args;
    if (args.dims > 0) {
      const int d = args.dims - 1;
      const std::int64_t half = args.size[d] / 2;
      if (half == 0) {
        --first.dims;
        return cut(first);
      }
      first.size[d] = half;
      second.size[d] -= half;
      advance(second, elements / args.size[d] * half, half * args.stride[d]);
    } else if (args.rows > 1) {
      const std::int64_t half = args.rows / 2;
      first.rows = half;
      second.rows -= half;
      second.edge += half;
      advance(second, half * args.columns, half * args.row_stride);
    } else {
      const std::int64_t half = args.columns / 2;
      first.columns = half;
      second.columns -= half;
      second.edge -= half;
      advance(second, half, half);
    }
    cut(first);
    cut(second);
  }

 private:
  void advance(TriangleArgs& args, std::int64_t out, std::int64_t in) const {
    const bool in_place = args.out == args.in;
    const auto item = static_cast<std::int64_t>(item_);
    args.out = static_cast<std::byte*>(args.out) + out * item;
    args.in = in_place ? args.out : static_cast<const std::byte*>(args.in) + in * item;
  }
  void launch(TriangleArgs args) const {
    args.edge = std::clamp(args.edge, -args.rows, args.columns);
    run(site_, kernel_, args, accesses_);
  }

  Site site_;
  const driver::Kernel& kernel_;
  std::span<const cuda::Access> accesses_;
  std::size_t item_;
};

}  // namespace

void copy_triangle(const Tensor& out, const Tensor& in, std::int64_t diagonal, bool lower) {
  if (out.numel() == 0) return;
  TriangleArgs args{};
  if (!prepare(args, in)) {
    out.copy_(in);
    return copy_triangle(out, out, diagonal, lower);
  }
  args.out = out.address();
  args.in = in.address();
  args.lower = lower;
  // Beyond the matrix all diagonals are alike; so nothing overflows.
  args.edge = std::clamp(diagonal, -args.rows - 1, args.columns) + (lower ? 1 : 0);
  const std::array<cuda::Access, 2> accesses{writes_output(out), reads(in, "self")};
  const std::size_t touched = args.out == args.in ? 1 : 2;
  Cutter(at(out, in), out.element_size(), std::span(accesses).first(touched)).cut(args);
}

}  // namespace ember::inline v0::ops
