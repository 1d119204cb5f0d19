// The kernels that look places up in an index.
#include <bit>
#include <iterator>

#include "ember/driver/kernels.h"
#include "ember/ops/host/indexed_loop.h"
#include "ember/ops/indexed_kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0::ops {
namespace {

using namespace host;  // NOLINT(google-build-using-namespace)

constexpr int kUnits = 5;  // of 1, 2, 4, 8 and 16 bytes

// clang-format off
#define EMBER_KERNEL(name)                              \
  {#name ".1", &read_implementation<1>, nullptr},      \
  {#name ".2", &read_implementation<2>, nullptr},      \
  {#name ".4", &read_implementation<4>, nullptr},      \
  {#name ".8", &read_implementation<8>, nullptr},      \
  {#name ".16", &read_implementation<16>, nullptr},
constinit driver::Kernel reads_kernels[] = {EMBER_FOR_EACH_READ(EMBER_KERNEL)};
#undef EMBER_KERNEL
#define EMBER_KERNEL(name)                              \
  {#name ".1", &write_implementation<1>, nullptr},     \
  {#name ".2", &write_implementation<2>, nullptr},     \
  {#name ".4", &write_implementation<4>, nullptr},     \
  {#name ".8", &write_implementation<8>, nullptr},     \
  {#name ".16", &write_implementation<16>, nullptr},
constinit driver::Kernel writes_kernels[] = {EMBER_FOR_EACH_WRITE(EMBER_KERNEL)};
#undef EMBER_KERNEL

/// Null for the types that nothing computes with.
template <class How, class T>
constexpr driver::HostImplementation combining() {
  if constexpr (contains(dtypes::every_number_or_bool, dtype_of<T>))
    return &combine_implementation<How, T>;
  else
    return nullptr;
}
#define EMBER_KERNEL(name, how)                                      \
  {#name ".bool", combining<how, bool>(), nullptr},                  \
  {#name ".uint8", combining<how, std::uint8_t>(), nullptr},         \
  {#name ".int8", combining<how, std::int8_t>(), nullptr},           \
  {#name ".int16", combining<how, std::int16_t>(), nullptr},         \
  {#name ".int32", combining<how, std::int32_t>(), nullptr},         \
  {#name ".int64", combining<how, std::int64_t>(), nullptr},         \
  {#name ".float16", combining<how, Half>(), nullptr},               \
  {#name ".bfloat16", combining<how, BFloat16>(), nullptr},          \
  {#name ".float32", combining<how, float>(), nullptr},              \
  {#name ".float64", combining<how, double>(), nullptr},             \
  {#name ".complex32", combining<how, Complex<Half>>(), nullptr},    \
  {#name ".complex64", combining<how, Complex<float>>(), nullptr},   \
  {#name ".complex128", combining<how, Complex<double>>(), nullptr}, \
  {#name ".uint16", combining<how, std::uint16_t>(), nullptr},       \
  {#name ".uint32", combining<how, std::uint32_t>(), nullptr},       \
  {#name ".uint64", combining<how, std::uint64_t>(), nullptr},
constinit driver::Kernel combining_kernels[] = {EMBER_FOR_EACH_COMBINATION(EMBER_KERNEL)};
#undef EMBER_KERNEL
static_assert(std::size(combining_kernels) % kDtypes == 0, "one of each dtype, in their order");
// clang-format on

Status offsets_host(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<OffsetArgs>();
  const auto count = static_cast<std::size_t>(args.count);
  const std::int64_t* index = on.at(args.index, count);
  if (index == nullptr) return on.fault();
  std::int64_t* out = on.at(args.out, count);
  if (out == nullptr) return on.fault();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t place = place_of(index[i], args.limit, true);
    if (place < 0 || place >= args.limit) return out_of_bounds(index[i], args.dim, args.limit);
    out[i] = place * args.step;
  }
  return {};
}
constinit driver::Kernel offsets_kernels[] = {{"index.offsets", &offsets_host, nullptr}};

const driver::kernels::Table reads_table(reads_kernels,
                                         driver::arguments<IndexedArgs, OffsetArgs>());
const driver::kernels::Table writes_table(writes_kernels,
                                          driver::arguments<IndexedArgs, OffsetArgs>());
const driver::kernels::Table combining_table(combining_kernels,
                                             driver::arguments<IndexedArgs, OffsetArgs>());
const driver::kernels::Table offsets_table(offsets_kernels,
                                           driver::arguments<IndexedArgs, OffsetArgs>());

}  // namespace

const driver::Kernel& indexed_kernel(Reads op, std::size_t unit) noexcept {
  return reads_kernels[static_cast<int>(op) * kUnits + std::countr_zero(unit)];
}
const driver::Kernel& indexed_kernel(Writes op, std::size_t unit) noexcept {
  return writes_kernels[static_cast<int>(op) * kUnits + std::countr_zero(unit)];
}
const driver::Kernel* indexed_kernel(Combines op, Dtype dtype) noexcept {
  const driver::Kernel& kernel =
      combining_kernels[static_cast<int>(op) * kDtypes + static_cast<int>(dtype)];
  return kernel.host == nullptr ? nullptr : &kernel;
}
const driver::Kernel& offsets_kernel() noexcept { return offsets_kernels[0]; }

}  // namespace ember::inline v0::ops
