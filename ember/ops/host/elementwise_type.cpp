// The element-wise kernels of one element type, EMBER_TYPE; compiled once for each.
#include "ember/ops/host/elementwise_kernels.h"

namespace ember::inline v0::ops {
namespace {

using T = EMBER_TYPE;

#define EMBER_UNARY(name, ...) \
  {#name "." EMBER_TYPE_NAME, host::implementation_of<OpId::name, elementwise::name, T>(), nullptr},
#define EMBER_BINARY EMBER_UNARY
#define EMBER_TERNARY EMBER_UNARY
constinit driver::Kernel kernels[] = {
#include "ember/scalar/elementwise.inc"
    {"where." EMBER_TYPE_NAME, &host::implementation<Where<Bits<T>>>, nullptr},
    EMBER_UNARY(scaled_addcmul) EMBER_UNARY(scaled_addcdiv)};
#undef EMBER_UNARY

#define EMBER_UNARY(name, ...) host::float_row_of<elementwise::name, T>(),
constexpr host::RowKernel::Row rows[] = {
#include "ember/scalar/elementwise.inc"
    nullptr,  // where, which computes nothing
    EMBER_UNARY(scaled_addcmul) EMBER_UNARY(scaled_addcdiv)};
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY

constinit driver::Kernel casts[] = {
#define EMBER_DTYPE(enumerator, type, text, legacy) \
  {"copy." EMBER_TYPE_NAME "." text, &host::implementation<Copy<T, type>>, nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};

const driver::kernels::Table table(kernels, driver::arguments<Loop>());
const driver::kernels::Table casts_table(casts, driver::arguments<Loop>());

}  // namespace

template <>
const driver::Kernel* elementwise_kernels<T>() {
  return kernels;
}
template <>
const driver::Kernel* cast_kernels<T>() {
  return casts;
}
template <>
const host::RowKernel::Row* host::float_rows<T>() {
  return rows;
}

}  // namespace ember::inline v0::ops
