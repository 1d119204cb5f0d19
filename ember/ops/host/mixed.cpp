// The host implementation of kernels of mixed dtypes (mixed_kernel), by the rows of float32.
#include "ember/ops/elementwise_kernels.h"
#include "ember/ops/host/narrow.h"

namespace ember::inline v0::ops {
namespace {

using driver::HostLaunch;

host::Widening widening(Dtype dtype) {
  switch (dtype) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator:                           \
    if constexpr (is_complex<type>)                 \
      break;                                        \
    else                                            \
      return host::widening_of<type>;
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  __builtin_unreachable();
}

template <OpId op, class Op>
Status mixed_implementation(const driver::Params& params, const HostLaunch& on) {
  const auto& loop = params.as<Loop>();
  using Output = typename Apply<Op, float>::Output;
  host::Widening widenings[host::kLoopInputs] = {};
  host::ItemSizes items = {sizeof(Output)};
  for (std::size_t k = 0; k < Op::info.operands; ++k)
    if (loop.number[k + 1] < 0) {
      widenings[k] = widening(loop.stored[k + 1]);
      items[k + 1] = widenings[k].item;
    }
  return host::run_rows(loop, on,
                        host::narrow_kernel<Output>(op, Op::info.operands, items, widenings));
}

template <OpId op, class Op>
constexpr driver::HostImplementation mixed_implementation_of() {
  if constexpr (contains(Op::info.dtypes, Dtype::float32))
    return &mixed_implementation<op, Op>;
  else
    return nullptr;
}

#define EMBER_UNARY(name, ...) \
  {#name ".mixed", mixed_implementation_of<OpId::name, elementwise::name>(), nullptr},
#define EMBER_BINARY EMBER_UNARY
#define EMBER_TERNARY EMBER_UNARY
constinit driver::Kernel kernels[] = {
#include "ember/scalar/elementwise.inc"
    {"where.mixed", nullptr, nullptr}, EMBER_UNARY(scaled_addcmul) EMBER_UNARY(scaled_addcdiv)};
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY

const driver::kernels::Table table(kernels, driver::arguments<Loop>());

}  // namespace

const driver::Kernel& mixed_kernel(OpId op) noexcept { return kernels[static_cast<int>(op)]; }

}  // namespace ember::inline v0::ops
