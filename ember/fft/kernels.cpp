#include "ember/fft/kernels.h"

#include <cstddef>

#include "ember/base/team.h"
#include "ember/driver/extent.h"
#include "ember/driver/kernels.h"
#include "ember/fft/host/transform.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::fft {
namespace {

using driver::FftArgs;
using driver::FftGeometry;
using driver::FftKind;
using driver::FftMirrorArgs;
using driver::FftPlanArgs;

/// The elements of one side.
driver::Extent extent(const FftGeometry& g, bool input) {
  const std::int64_t* strides = input ? g.in_strides : g.out_strides;
  const std::int64_t* batch_strides = input ? g.in_batch_strides : g.out_batch_strides;
  const bool is_half = g.kind == (input ? FftKind::c2r : FftKind::r2c);
  driver::Extent made;
  made.add(g.batch_dims, g.batch_sizes, batch_strides);
  for (int d = 0; d < g.dims; ++d) {
    const bool halved = is_half && d == g.dims - 1;
    made.add(halved ? g.sizes[d] / 2 + 1 : g.sizes[d], strides[d]);
  }
  return made;
}

template <class In, class Out>
Status run_transform(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<FftArgs>();
  const In* in = extent(args.geometry, true).place(on, static_cast<const In*>(args.in));
  if (in == nullptr) return on.fault();
  Out* out = extent(args.geometry, false).place(on, static_cast<Out*>(args.out));
  if (out == nullptr) return on.fault();
  const int threads = on.has_pieces(2, 1) ? get_num_threads() : 1;
  FftArgs placed = args;
  placed.in = const_cast<In*>(in);  // only read from
  placed.out = out;
  return host::transform<Real<In>>(placed, threads);
}

/// Said before anything is launched.
Status transform_needs(const driver::Params&, driver::KernelNeeds&) { return host::available(); }

template <class T>
Status run_mirror(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<FftMirrorArgs>();
  std::int64_t signals = 1;
  for (int d = 0; d < args.batch_dims; ++d) signals *= args.batch_sizes[d];
  T* const data = driver::Extent()
                      .add(args.size, args.stride)
                      .add(args.batch_dims, args.batch_sizes, args.batch_strides)
                      .place(on, static_cast<T*>(args.data));
  if (data == nullptr) return on.fault();
  constexpr std::int64_t kLeast = 1 << 15;  // elements for a thread
  on.in_pieces(signals, kLeast / args.size + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t signal = begin; signal < end; ++signal) {
      T* first = data;
      std::int64_t rest = signal;
      for (int d = args.batch_dims - 1; d >= 0; --d) {
        first += rest % args.batch_sizes[d] * args.batch_strides[d];
        rest /= args.batch_sizes[d];
      }
      for (std::int64_t k = 1; 2 * k < args.size; ++k) {
        const T value = first[k * args.stride];
        first[(args.size - k) * args.stride] = convert<T>(m::conj(convert<Compute<T>>(value)));
      }
    }
  });
  return {};
}

Status run_plan(const driver::Params&, const driver::HostLaunch&) { return {}; }

template <class In, class Out>
constexpr driver::HostImplementation transform_of() {
  return {&run_transform<In, Out>, &transform_needs};
}

// By the width of real numbers, and then in the order of FftKind.
constinit driver::Kernel transforms[] = {
    {"fft_c2c.float16", transform_of<Complex<Half>, Complex<Half>>(), nullptr},
    {"fft_r2c.float16", transform_of<Half, Complex<Half>>(), nullptr},
    {"fft_c2r.float16", transform_of<Complex<Half>, Half>(), nullptr},
    {"fft_c2c.float32", transform_of<Complex<float>, Complex<float>>(), nullptr},
    {"fft_r2c.float32", transform_of<float, Complex<float>>(), nullptr},
    {"fft_c2r.float32", transform_of<Complex<float>, float>(), nullptr},
    {"fft_c2c.float64", transform_of<Complex<double>, Complex<double>>(), nullptr},
    {"fft_r2c.float64", transform_of<double, Complex<double>>(), nullptr},
    {"fft_c2r.float64", transform_of<Complex<double>, double>(), nullptr},
};
const driver::kernels::Table transform_table(transforms,
                                             driver::arguments<FftArgs, driver::FftPlanState>());

constinit driver::Kernel mirrors[] = {
    {"fft_mirror.complex32", &run_mirror<Complex<Half>>, nullptr},
    {"fft_mirror.complex64", &run_mirror<Complex<float>>, nullptr},
    {"fft_mirror.complex128", &run_mirror<Complex<double>>, nullptr},
};
static_assert(static_cast<int>(Dtype::complex128) - static_cast<int>(Dtype::complex32) == 2,
              "the kernels are in the order of the dtypes");
const driver::kernels::Table mirror_table(mirrors, driver::arguments<FftMirrorArgs>());

constinit driver::Kernel plan_kernels[] = {{"fft_plan", &run_plan, nullptr}};
const driver::kernels::Table plan_table(plan_kernels,
                                        driver::arguments<FftPlanArgs, driver::FftPlanState>());

}  // namespace

const driver::Kernel& transform_kernel(const FftGeometry& geometry) noexcept {
  const int width = geometry.real_bytes == 2 ? 0 : geometry.real_bytes == 4 ? 1 : 2;
  return transforms[3 * width + static_cast<int>(geometry.kind)];
}
const driver::Kernel& mirror_kernel(Dtype dtype) noexcept {
  return mirrors[static_cast<int>(dtype) - static_cast<int>(Dtype::complex32)];
}
const driver::Kernel& plan_kernel() noexcept { return plan_kernels[0]; }

}  // namespace ember::inline v0::fft
