#include "ember/random/multinomial_kernels.h"

#include <cmath>

#include "ember/driver/kernels.h"

namespace ember::inline v0::random {
namespace {

using driver::HostLaunch;

template <class T>
Status parts_host(const driver::Params& params, const HostLaunch& on) {
  const auto& args = params.as<PartsArgs>();
  const auto all = static_cast<std::size_t>(args.rows * args.count);
  const T* weights = on.at(static_cast<const T*>(args.weights), all);
  if (weights == nullptr) return on.fault();
  const T* largest =
      on.at(static_cast<const T*>(args.largest), static_cast<std::size_t>(args.rows));
  if (largest == nullptr) return on.fault();
  std::int64_t* parts = on.at(args.parts, all);
  if (parts == nullptr) return on.fault();
  for (std::size_t i = 0; i < all; ++i)
    if (!is_weight(static_cast<double>(weights[i])))
      return Status(Code::device_assert,
                    "invalid multinomial distribution (encountering probability entry < 0)");
  const double whole = std::ldexp(1.0, args.shift);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const auto most = static_cast<double>(largest[row]);
    if (!(most > 0))
      return Status(Code::device_assert,
                    "invalid multinomial distribution (sum of probabilities <= 0)");
    for (std::int64_t i = row * args.count; i < (row + 1) * args.count; ++i)
      parts[i] = parts_of(static_cast<double>(weights[i]), most, whole);
  }
  return {};
}

Status search_host(const driver::Params& params, const HostLaunch& on) {
  const auto& args = params.as<SearchArgs>();
  const std::int64_t* sums = on.at(args.sums, static_cast<std::size_t>(args.rows * args.count));
  if (sums == nullptr) return on.fault();
  std::int64_t* drawn = on.at(args.drawn, static_cast<std::size_t>(args.rows * args.samples));
  if (drawn == nullptr) return on.fault();
  for (std::int64_t row = 0; row < args.rows; ++row, sums += args.count)
    for (std::int64_t i = 0; i < args.samples; ++i, ++drawn)
      *drawn = category_of(sums, args.count, *drawn);
  return {};
}

constinit driver::Kernel kernels[] = {
    {"multinomial.float32", &parts_host<float>, nullptr},
    {"multinomial.float64", &parts_host<double>, nullptr},
    {"multinomial_search", &search_host, nullptr},
};
const driver::kernels::Table table(kernels, driver::arguments<PartsArgs, SearchArgs>());

}  // namespace

const driver::Kernel& parts_kernel(Dtype dtype) noexcept {
  return kernels[dtype == Dtype::float64 ? 1 : 0];
}
const driver::Kernel& search_kernel() noexcept { return kernels[2]; }

}  // namespace ember::inline v0::random
