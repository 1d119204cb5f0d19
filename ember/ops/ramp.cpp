#include "ember/ops/ramp.h"

#include "ember/driver/kernels.h"
#include "ember/ops/checks.h"
#include "ember/ops/ramp_args.h"
#include "ember/ops/run.h"

namespace ember::inline v0::ops {
namespace {

template <class T>
Status host_implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<RampArgs>();
  T* out = on.at(static_cast<T*>(args.out), static_cast<std::size_t>(args.count));
  if (out == nullptr) return on.fault();
  for (std::int64_t i = 0; i < args.count; ++i) {
    if constexpr (std::is_integral_v<T>)
      out[i] = convert<T>(m::add(args.first, m::mul(i, args.step)));
    else if (i < args.turn)
      out[i] = convert<T>(args.real_first + static_cast<double>(i) * args.real_step);
    else
      out[i] =
          convert<T>(args.real_last - static_cast<double>(args.count - 1 - i) * args.real_step);
  }
  return {};
}

constinit driver::Kernel arange_kernels[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"arange." name, &host_implementation<type>, nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const driver::kernels::Table arange_table(arange_kernels, driver::arguments<RampArgs>());

void run_ramp(const Tensor& out, const RampArgs& args) {
  if (args.count == 0) return;
  const cuda::Access access = writes_output(out);
  run(at(out), arange_kernels[static_cast<int>(out.dtype())], args, std::span(&access, 1));
}

}  // namespace

void ramp(const Tensor& out, const Scalar& start, const Scalar& step) {
  if (out.dtype() == Dtype::bool_) throw_not_implemented("arange", out.dtype());
  const std::int64_t count = out.numel();
  run_ramp(out, {out.address(), count, start.to<std::int64_t>(), step.to<std::int64_t>(),
                 start.to<double>(), step.to<double>(), count, 0});
}

void ramp_between(const Tensor& out, double first, double last) {
  const std::int64_t count = out.numel();
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
  // One element is the first.
  run_ramp(out, {out.address(), count, 0, 0, first, step, count > 1 ? count / 2 : 1, last});
}

}  // namespace ember::inline v0::ops
