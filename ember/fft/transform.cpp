#include "ember/fft/transform.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "ember/fft/host/variants.h"
#include "ember/fft/kernels.h"
#include "ember/fft/plans.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"

namespace ember::inline v0::fft {
namespace {

using driver::FftGeometry;
using driver::FftKind;

// ---- How tensors lie

/// Dimensions from the largest stride to the smallest, as far as `count` of them. By insertion: of
/// so few it is the fastest way that keeps those of equal strides in order.
void sort_by_stride(std::int64_t* dims, int count, const Shape& strides) {
  const auto stride = [&](int i) { return strides[static_cast<int>(dims[i])]; };
  for (int i = 1; i < count; ++i)
    for (int j = i; j > 0 && stride(j - 1) < stride(j); --j) std::swap(dims[j - 1], dims[j]);
}

Shape sorted(const Shape& dims, const Shape& strides, bool but_the_last) {
  Shape out = dims;
  if (!out.empty()) sort_by_stride(&out[0], out.size() - (but_the_last ? 1 : 0), strides);
  return out;
}

/// All dimensions: those of the batch by their strides, then those that are transformed.
Shape order_of(const Tensor& in, const Shape& dims) {
  DimSet transformed;
  for (const std::int64_t dim : dims) transformed.set(static_cast<std::size_t>(dim));
  Shape order;
  for (int d = 0; d < in.dim(); ++d)
    if (!transformed.test(static_cast<std::size_t>(d))) order.push_back(d);
  if (!order.empty()) sort_by_stride(&order[0], order.size(), in.strides());
  for (const std::int64_t dim : dims) order.push_back(dim);
  return order;
}

/// A new tensor without gaps in this order.
Tensor make_in_order(const Tensor& like, Dtype dtype, const Shape& sizes, const Shape& order) {
  Shape strides;
  strides.size_as(sizes);
  std::int64_t step = 1;
  for (int i = order.size() - 1; i >= 0; --i) {
    const int dim = static_cast<int>(order[i]);
    strides[dim] = step;
    step *= std::max<std::int64_t>(sizes[dim], 1);
  }
  return Tensor::make(like.device(), dtype, sizes, &strides);
}

Tensor copied(const Tensor& in, const Shape& order) {
  Tensor out = make_in_order(in, in.dtype(), in.sizes(), order);
  out.copy_(in);
  return out;
}

// ---- Geometries

struct Wanted {
  FftKind kind;
  bool forward;
  double scale;
};

/// The geometry of a transform of `dims`, in this order. False if there are more dimensions in the
/// batch than a kernel takes, or elements that share memory.
bool describe(const Tensor& out, const Tensor& in, std::span<const std::int64_t> dims,
              const Shape& order, FftKind kind, FftGeometry& g) {
  g = {};
  g.kind = kind;
  g.real_bytes = static_cast<std::uint8_t>(item_size(real_dtype(in.dtype())));
  const Shape& signal = kind == FftKind::c2r ? out.sizes() : in.sizes();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int dim = static_cast<int>(dims[i]);
    // A transform of one element changes nothing.
    const bool needed = i + 1 == dims.size() && (kind != FftKind::c2c || g.dims == 0);
    if (signal[dim] == 1 && !needed) continue;
    g.sizes[g.dims] = signal[dim];
    g.in_strides[g.dims] = in.sizes()[dim] == 1 ? 1 : in.strides()[dim];
    g.out_strides[g.dims] = out.sizes()[dim] == 1 ? 1 : out.strides()[dim];
    if (g.in_strides[g.dims] == 0) return false;
    ++g.dims;
  }
  const int batch = order.size() - static_cast<int>(dims.size());
  for (int i = 0; i < batch; ++i) {
    const int dim = static_cast<int>(order[i]);
    const std::int64_t size = in.sizes()[dim];
    if (size == 1) continue;
    const std::int64_t from = in.strides()[dim];
    const std::int64_t to = out.strides()[dim];
    if (from == 0) return false;
    if (const int last = g.batch_dims - 1; last >= 0 && g.in_batch_strides[last] == from * size &&
                                           g.out_batch_strides[last] == to * size) {
      g.batch_sizes[last] *= size;
      g.in_batch_strides[last] = from;
      g.out_batch_strides[last] = to;
      continue;
    }
    if (g.batch_dims == driver::kFftBatchDims) return false;
    g.batch_sizes[g.batch_dims] = size;
    g.in_batch_strides[g.batch_dims] = from;
    g.out_batch_strides[g.batch_dims] = to;
    ++g.batch_dims;
  }
  return true;
}

/// The dimension of a batch that a library goes over within a call: the longest one.
int inner_batch(const FftGeometry& g) {
  return static_cast<int>(std::max_element(g.batch_sizes, g.batch_sizes + g.batch_dims) -
                          g.batch_sizes);
}
/// In how many calls it computes all transforms.
std::int64_t calls_of(const FftGeometry& g) {
  return g.batch_dims == 0 ? 1 : g.transforms() / g.batch_sizes[inner_batch(g)];
}
constexpr std::int64_t kMostCalls = 16;

/// Whether a library of devices can read the input as it lies: each dimension's stride has to be a
/// multiple of the next one's, large enough for what lies between, and the address one of whole
/// complex numbers.
bool suits_devices(const Tensor& in, const FftGeometry& g) {
  const auto complex_bytes = static_cast<std::uintptr_t>(g.complex_bytes());
  if (reinterpret_cast<std::uintptr_t>(in.address()) % complex_bytes != 0) return false;
  for (int d = 0; d + 1 < g.dims; ++d) {
    const bool halved = g.kind == FftKind::c2r && d + 2 == g.dims;
    const std::int64_t inner = halved ? g.sizes[d + 1] / 2 + 1 : g.sizes[d + 1];
    const std::int64_t step = g.in_strides[d + 1];
    if (g.in_strides[d] % step != 0 || g.in_strides[d] / step < inner) return false;
  }
  // cuFFT takes no strides of real float16.
  if (g.real_bytes == 2 && g.kind == FftKind::r2c)
    for (int d = 0; d < g.dims; ++d)
      if (g.in_strides[d] != (d + 1 < g.dims ? g.in_strides[d + 1] * g.sizes[d + 1] : 1))
        return false;
  const std::int64_t calls = calls_of(g);
  if (calls == 1) return true;
  // Each call begins at an address of its own, which has to be as good.
  if (g.kind == FftKind::r2c)
    for (int d = 0; d < g.batch_dims; ++d)
      if (d != inner_batch(g) && g.in_batch_strides[d] % 2 != 0) return false;
  return calls <= kMostCalls;
}

/// float16 is transformed on devices, and there along powers of two.
void require_half_is_possible(const Tensor& in, const Shape& signal, const Shape& dims) {
  if (real_dtype(in.dtype()) != Dtype::float16) return;
  Shape sizes;
  bool powers_of_two = true;
  for (const std::int64_t dim : dims) {
    sizes.push_back(signal[static_cast<int>(dim)]);
    powers_of_two &= std::has_single_bit(static_cast<std::uint64_t>(sizes.back()));
  }
  if (!powers_of_two)
    throw Error(
        "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
        "precision, but got a signal size of" +
        sizes.str());
}

/// Whether the host had better bring the elements of signals in order first, which takes two thirds
/// of the time: where they lie a multiple of a page apart, and so in the same few places of a
/// cache; and where long signals lie beside each other, which are computed one after the other. So
/// it is with complex64; with complex128 it makes no difference.
bool better_in_order(const FftGeometry& g) {
  constexpr std::int64_t kPage = 4096 / 8;
  const bool meet = g.in_strides[0] % kPage == 0;
  const bool share_lines = g.in_strides[0] != 1 && g.batch_dims > 0 && g.sizes[0] >= host::kLong;
  return g.kind == FftKind::c2c && g.real_bytes == 4 && g.dims == 1 && g.out_strides[0] == 1 &&
         (meet || share_lines);
}

// ---- Running

/// Enqueues one kernel. The addresses are filled in here.
void run(const Tensor& out, const Tensor& in, driver::FftArgs& args) {
  const ops::Site site = ops::at(out, in);
  const driver::Kernel& kernel = transform_kernel(args.geometry);
  args.out = out.address();
  args.in = in.address();
  (void)ops::needs_of(site.device, kernel, driver::Params(args));  // whether there is one at all
  if (!site.device.is_cuda()) {
    if (!cuda::accesses_wanted()) [[likely]]
      return ops::run(site, kernel, args);
    const std::array<cuda::Access, 2> accesses{ops::writes_output(out), ops::reads(in, "self")};
    return ops::run(site, kernel, args, accesses);
  }

  const PlanLease plan = plan_for(site.device.index(), site.epoch, args.geometry);
  Tensor work;
  if (plan->state.work_bytes != 0) {
    work = empty({static_cast<std::int64_t>(plan->state.work_bytes)}, {Dtype::uint8, site.device});
    ops::require_same_epoch(site, work);
    args.work = work.address();
  }
  args.plan = &plan->state;
  driver::Kernel with_plan = kernel;
  with_plan.context = context_of(plan, site.device.index());
  if (!cuda::accesses_wanted()) [[likely]] {
    ops::run(site, with_plan, args);
  } else {
    std::array<cuda::Access, 3> accesses{ops::writes_output(out), ops::reads(in, "self"), {}};
    // What is read from may be overwritten on the way.
    if (args.geometry.kind == FftKind::c2r) accesses[1].writes = true;
    if (work.defined()) accesses[2] = ops::writes(work);
    ops::run(site, with_plan, args,
             std::span<const cuda::Access>(accesses).first(work.defined() ? 3 : 2));
  }
  if (!plan->state.scales && args.scale != 1) out.mul_(args.scale);
}

/// One pass over at most kFftDims dimensions, from `in` or, where that cannot be read as it lies, a
/// copy of it. `order` ends with those dimensions. `spare`: whether the input may be overwritten.
void pass(const Tensor& out, const Tensor& in, std::span<const std::int64_t> dims,
          const Shape& order, const Wanted& wanted, bool spare) {
  driver::FftArgs args;
  args.forward = wanted.forward;
  args.scale = wanted.scale;
  const bool on_device = in.is_cuda();
  const bool suits =
      describe(out, in, dims, order, wanted.kind, args.geometry) &&
      (!on_device || (suits_devices(in, args.geometry) && (wanted.kind != FftKind::c2r || spare)));
  if (suits && !on_device && better_in_order(args.geometry)) {
    Tensor(out).copy_(in);
    (void)describe(out, out, dims, order, wanted.kind, args.geometry);
    return run(out, out, args);
  }
  if (suits) return run(out, in, args);
  const Tensor copy = copied(in, order);
  if (describe(out, copy, dims, order, wanted.kind, args.geometry) &&
      (!on_device || calls_of(args.geometry) <= kMostCalls))
    return run(out, copy, args);
  const Tensor beside = make_in_order(out, out.dtype(), out.sizes(), order);
  (void)describe(beside, copy, dims, order, wanted.kind, args.geometry);
  run(beside, copy, args);
  Tensor(out).copy_(beside);
}

double scale_of(Norm norm, const Shape& signal, const Shape& dims) {
  if (norm == Norm::none) return 1;
  double count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<double>(signal[static_cast<int>(dim)]);
  return norm == Norm::by_n ? 1 / count : 1 / std::sqrt(count);
}

std::span<const std::int64_t> last_of(const Shape& dims) {
  const auto all = std::span<const std::int64_t>(dims);
  return all.last(std::min<std::size_t>(all.size(), driver::kFftDims));
}

/// The order of the dimensions in which those of one pass come last.
Shape order_for(const Shape& order, std::span<const std::int64_t> dims) {
  Shape out;
  for (const std::int64_t dim : order)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) out.push_back(dim);
  for (const std::int64_t dim : dims) out.push_back(dim);
  return out;
}

/// Transforms `data` in place along all of `dims`, a few at a time.
void c2c_in_place(const Tensor& data, std::span<const std::int64_t> dims, const Shape& order,
                  bool forward, double scale) {
  while (!dims.empty()) {
    const auto now = dims.last(std::min<std::size_t>(dims.size(), driver::kFftDims));
    pass(data, data, now, order_for(order, now), {FftKind::c2c, forward, scale}, true);
    scale = 1;
    dims = dims.first(dims.size() - now.size());
  }
}

// Of many numbers of float16 cuFFT takes up to twice as long for several dimensions at once as for
// one after the other, and longer in place than where it may write what it transforms as rows.

bool apart(const Tensor& in) {
  // Of few the second call costs the host what the device gains. In batches and cubes it gains
  // later.
  const Shape& sizes = in.sizes();
  const auto dims = std::count_if(sizes.begin(), sizes.end(), [](std::int64_t n) { return n > 1; });
  const std::int64_t many = std::int64_t{1} << (dims <= 2 ? 20 : 22);
  return real_dtype(in.dtype()) == Dtype::float16 && in.numel() >= many;
}

/// The transform along each of `dims` in turn, into a tensor in which that one comes last. Where
/// `order` ends with `dims`, that is the result's order. Scaled last: on the way small numbers
/// would be lost.
Tensor c2c_in_turn(const Tensor& in, std::span<const std::int64_t> dims, Shape order, bool forward,
                   double scale) {
  Tensor out = in;
  for (const std::int64_t& dim : dims) {
    const std::span<const std::int64_t> now(&dim, 1);
    const bool last = &dim == &dims.back();
    order = order_for(order, now);
    if (in.sizes()[static_cast<int>(dim)] == 1 && !last) continue;
    const Tensor before = std::exchange(out, make_in_order(in, in.dtype(), in.sizes(), order));
    pass(out, before, now, order, {FftKind::c2c, forward, last ? scale : 1}, false);
  }
  return out;
}

/// Transforms `data`, which is overwritten, along all of `dims`. As many of those as one pass
/// takes, the first ones, come last in the result.
Tensor c2c_reordered(const Tensor& data, std::span<const std::int64_t> dims, const Shape& order,
                     double scale) {
  const auto last = dims.first(std::min<std::size_t>(dims.size(), driver::kFftDims));
  c2c_in_place(data, dims.subspan(last.size()), order, true, 1);
  const Shape reordered = order_for(order, last);
  Tensor out = make_in_order(data, data.dtype(), data.sizes(), reordered);
  pass(out, data, last, reordered, {FftKind::c2c, true, scale}, true);
  return out;
}

/// Fills in the second half of a Hermitian signal along `dim`.
void mirror(const Tensor& out, int dim) {
  driver::FftMirrorArgs args;
  args.data = out.address();
  args.size = out.sizes()[dim];
  args.stride = out.strides()[dim];
  if (args.size < 3) return;
  // A new tensor lies in this order without gaps, so that the rest is one dimension.
  const std::int64_t signals = out.numel() / args.size;
  if (signals > 1) {
    args.batch_dims = 1;
    args.batch_sizes[0] = signals;
    args.batch_strides[0] = args.size * args.stride;
  }
  const ops::Site site = ops::at(out);
  const driver::Kernel& kernel = mirror_kernel(out.dtype());
  if (!cuda::accesses_wanted()) [[likely]]
    return ops::run(site, kernel, args);
  const std::array<cuda::Access, 1> accesses{ops::writes(out)};
  ops::run(site, kernel, args, accesses);
}

}  // namespace

void require_transformable(Dtype dtype, Device device) {
  const Dtype real = real_dtype(dtype);
  if (real == Dtype::float32 || real == Dtype::float64) return;
  if (real == Dtype::float16 && device.is_cuda()) return;
  const char* why = real == Dtype::float16
                        ? ": it is transformed on CUDA devices, on the CPU in a wider dtype"
                        : "";
  throw Error(std::string("Unsupported dtype ") + legacy_name(dtype) + why);
}

Tensor c2c(const Tensor& in, const Shape& dims, Norm norm, bool forward) {
  if (dims.empty()) return in.clone();
  require_half_is_possible(in, in.sizes(), dims);
  const Shape ordered = sorted(dims, in.strides(), false);
  const Shape order = order_of(in, ordered);
  const double scale = scale_of(norm, in.sizes(), dims);
  if (apart(in)) return c2c_in_turn(in, ordered, order, forward, scale);
  Tensor out = make_in_order(in, in.dtype(), in.sizes(), order);
  if (out.numel() == 0) return out;
  const auto first = last_of(ordered);
  pass(out, in, first, order, {FftKind::c2c, forward, scale}, false);
  c2c_in_place(out,
               std::span<const std::int64_t>(ordered).first(
                   static_cast<std::size_t>(ordered.size()) - first.size()),
               order, forward, 1);
  return out;
}

Tensor r2c(const Tensor& in, const Shape& dims, Norm norm, bool onesided) {
  require_half_is_possible(in, in.sizes(), dims);
  const Shape ordered = sorted(dims, in.strides(), true);
  const Shape order = order_of(in, ordered);
  const int last = static_cast<int>(ordered.back());
  const std::int64_t half = in.sizes()[last] / 2 + 1;
  Shape sizes = in.sizes();
  if (onesided) sizes[last] = half;
  Tensor out = make_in_order(in, complex_dtype(in.dtype()), sizes, order);
  if (out.numel() == 0) return out;
  const auto all = std::span<const std::int64_t>(ordered);
  const auto first = apart(in) ? all.last(1) : last_of(ordered);
  const auto rest = all.first(all.size() - first.size());
  const double scale = scale_of(norm, in.sizes(), dims);
  const bool reordered = apart(in) && !rest.empty();
  const Wanted wanted{FftKind::r2c, true, reordered ? 1 : scale};
  pass(onesided ? out : out.narrow(last, 0, half), in, first, order, wanted, false);
  if (!onesided) {
    mirror(out, last);
    return out;
  }
  if (reordered) return c2c_reordered(out, rest, order, scale);
  c2c_in_place(out, rest, order, true, 1);
  return out;
}

Tensor c2r(const Tensor& in, const Shape& dims, Norm norm, std::int64_t last_size) {
  const Shape ordered = sorted(dims, in.strides(), true);
  const Shape order = order_of(in, ordered);
  Shape sizes = in.sizes();
  sizes[static_cast<int>(ordered.back())] = last_size;
  require_half_is_possible(in, sizes, dims);
  Tensor out = make_in_order(in, real_dtype(in.dtype()), sizes, order);
  if (out.numel() == 0) return out;
  const Wanted wanted{FftKind::c2r, false, scale_of(norm, sizes, dims)};
  const auto all = std::span<const std::int64_t>(ordered);
  const auto last = apart(in) ? all.last(1) : last_of(ordered);
  const auto before = all.first(all.size() - last.size());
  if (before.empty()) {
    pass(out, in, last, order, wanted, false);
    return out;
  }
  Tensor half;
  if (apart(in)) {
    half = c2c_in_turn(in, before, order, false, 1);
  } else {
    half = copied(in, order);
    c2c_in_place(half, before, order, false, 1);
  }
  pass(out, half, last, order, wanted, true);
  return out;
}

}  // namespace ember::inline v0::fft
