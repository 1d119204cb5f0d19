// Sums, products and counts.
#include "ember/ops/host/reduce_loop.h"
#include "ember/ops/reduce_rows.h"

namespace ember::ops {
namespace {

constinit driver::Kernel sums[] = {EMBER_REDUCE_EACH(EMBER_REDUCE_ROW, Sum, "sum")};
constinit driver::Kernel products[] = {EMBER_REDUCE_EACH(EMBER_REDUCE_ROW, Prod, "prod")};
constinit driver::Kernel counts[] = {EMBER_REDUCE_EACH(EMBER_REDUCE_ROW, Count, "count_nonzero")};
const driver::kernels::Table sums_table(sums);
const driver::kernels::Table products_table(products);
const driver::kernels::Table counts_table(counts);

}  // namespace

const driver::Kernel* sum_rows() noexcept { return sums; }
const driver::Kernel* prod_rows() noexcept { return products; }
const driver::Kernel* count_rows() noexcept { return counts; }

}  // namespace ember::ops
