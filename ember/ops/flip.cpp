#include "ember/ops/flip.h"

#include <array>
#include <cstddef>

#include "ember/ops/flip_kernels.h"
#include "ember/ops/plan.h"
#include "ember/ops/run.h"

namespace ember::inline v0::ops {
namespace {

/// Operands of `dims`: 0 is the output, 1 the input.
struct Flip {
  Dims dims;
  std::byte* out = nullptr;
  const std::byte* in = nullptr;  ///< the element of the first position
  std::size_t unit = 0;           ///< bytes that are moved at once

  std::int64_t bytes(std::size_t operand, std::size_t dim) const {
    return dims.stride[operand][dim] * static_cast<std::int64_t>(unit);
  }
  void advance(std::size_t dim, std::int64_t places) {
    out += places * bytes(0, dim);
    in += places * bytes(1, dim);
  }
};

Flip prepare(const Tensor& out, const Tensor& in, const DimSet& flipped) {
  Shape strides = in.strides();
  std::int64_t first = 0;
  for (int d = 0; d < in.dim(); ++d) {
    if (!flipped[static_cast<std::size_t>(d)]) continue;
    first += (in.sizes()[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  Flip made;
  made.unit = out.element_size();
  made.out = static_cast<std::byte*>(out.address());
  made.in =
      static_cast<const std::byte*>(in.address()) + first * static_cast<std::int64_t>(made.unit);
  const std::array<PlanOperand, 2> operands{{
      {out.address(), &out.sizes(), &out.strides(), made.unit},
      {in.address(), &in.sizes(), &strides, made.unit},
  }};
  made.dims = merge_dims(out.sizes(), operands);
  if (made.dims.count == 0) {  // a single position
    made.dims.count = 1;
    made.dims.size[0] = 1;
    made.dims.stride[0][0] = made.dims.stride[1][0] = 1;
  }
  return made;
}

/// Rows that keep their order are moved in the widest units that fit.
void widen(Flip& flip) {
  Dims& dims = flip.dims;
  if (dims.stride[0][0] != 1 || dims.stride[1][0] != 1) return;
  const auto count = static_cast<std::size_t>(dims.count);
  for (std::size_t unit = 16; unit > flip.unit; unit /= 2) {
    const auto factor = static_cast<std::int64_t>(unit / flip.unit);
    bool fits = reinterpret_cast<std::uintptr_t>(flip.out) % unit == 0 &&
                reinterpret_cast<std::uintptr_t>(flip.in) % unit == 0 && dims.size[0] % factor == 0;
    for (std::size_t d = 1; d < count; ++d)
      fits = fits && dims.stride[0][d] % factor == 0 && dims.stride[1][d] % factor == 0;
    if (!fits) continue;
    dims.size[0] /= factor;
    for (std::size_t d = 1; d < count; ++d) {
      dims.stride[0][d] /= factor;
      dims.stride[1][d] /= factor;
    }
    flip.unit = unit;
    return;
  }
}

void launch(const Site& site, const Flip& flip, std::span<const cuda::Access> accesses) {
  FlipArgs args{};
  args.out = flip.out;
  args.in = flip.in;
  args.dims = static_cast<std::int8_t>(flip.dims.count);
  for (int d = 0; d < flip.dims.count; ++d) {
    const auto i = static_cast<std::size_t>(d);
    args.size[d] = flip.dims.size[i];
    args.out_stride[d] = flip.dims.stride[0][i];
    args.in_stride[d] = flip.dims.stride[1][i];
  }
  run(site, flip_kernel(flip.unit), args, accesses);
}

/// Launches parts that one kernel can do.
void cut(const Site& site, const Flip& flip, std::span<const cuda::Access> accesses) {
  const auto count = static_cast<std::size_t>(flip.dims.count);
  Flip part = flip;
  if (count > kFlipDims) {  // the slowest dimension, one place at a time
    --part.dims.count;
    for (std::int64_t i = 0; i < flip.dims.size[count - 1]; ++i) {
      cut(site, part, accesses);
      part.advance(count - 1, 1);
    }
    return;
  }
  std::int64_t positions = 1;
  std::size_t longest = 0;
  for (std::size_t d = 0; d < count; ++d) {
    positions *= flip.dims.size[d];
    if (flip.dims.size[d] > flip.dims.size[longest]) longest = d;
  }
  if (positions <= INT32_MAX) return launch(site, flip, accesses);
  const std::int64_t half = flip.dims.size[longest] / 2;
  part.dims.size[longest] = half;
  cut(site, part, accesses);
  part.advance(longest, half);
  part.dims.size[longest] = flip.dims.size[longest] - half;
  cut(site, part, accesses);
}

}  // namespace

void copy_flipped(const Tensor& out, const Tensor& in, const DimSet& dims) {
  if (out.numel() == 0) return;
  Flip flip = prepare(out, in, dims);
  widen(flip);
  const std::array<cuda::Access, 2> accesses{writes_output(out), reads(in, "self")};
  cut(at(out, in), flip, accesses);
}

}  // namespace ember::inline v0::ops
