// Variances and norms.
#include "ember/ops/host/reduce_loop.h"
#include "ember/ops/reduce_rows.h"

namespace ember::ops {
namespace {

constinit driver::Kernel variances[] = {
    EMBER_REDUCE_EACH_FLOATING(EMBER_REDUCE_ROW, Variance, "var")};
constinit driver::Kernel euclidean[] = {
    EMBER_REDUCE_EACH_FLOATING(EMBER_REDUCE_ROW, Norm2, "norm2")};
constinit driver::Kernel norms[] = {EMBER_REDUCE_EACH_FLOATING(EMBER_REDUCE_ROW, Norm, "norm")};
const driver::kernels::Table variances_table(variances);
const driver::kernels::Table euclidean_table(euclidean);
const driver::kernels::Table norms_table(norms);

}  // namespace

const driver::Kernel* var_rows() noexcept { return variances; }
const driver::Kernel* norm2_rows() noexcept { return euclidean; }
const driver::Kernel* norm_rows() noexcept { return norms; }

}  // namespace ember::ops
