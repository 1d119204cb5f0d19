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
    else
      out[i] = convert<T>(args.real_first + static_cast<double>(i) * args.real_step);
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

}  // namespace

void ramp(const Tensor& out, const Scalar& start, const Scalar& step) {
  if (out.dtype() == Dtype::bool_) throw_not_implemented("arange", out.dtype());
  if (out.numel() == 0) return;
  const RampArgs args{out.address(),           out.numel(),        start.to<std::int64_t>(),
                      step.to<std::int64_t>(), start.to<double>(), step.to<double>()};
  const cuda::Access access = writes_output(out);
  run(at(out), arange_kernels[static_cast<int>(out.dtype())], args, std::span(&access, 1));
}

}  // namespace ember::inline v0::ops
