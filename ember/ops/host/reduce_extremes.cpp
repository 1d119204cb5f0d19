// The largest and the smallest elements, and where they are.
#include "ember/ops/host/reduce_loop.h"
#include "ember/ops/reduce_rows.h"

namespace ember::ops {
namespace {

constinit driver::Kernel largest[] = {EMBER_REDUCE_EACH_REAL(EMBER_REDUCE_ROW, Largest, "max")};
constinit driver::Kernel smallest[] = {EMBER_REDUCE_EACH_REAL(EMBER_REDUCE_ROW, Smallest, "min")};
const driver::kernels::Table largest_table(largest);
const driver::kernels::Table smallest_table(smallest);

}  // namespace

const driver::Kernel* max_rows() noexcept { return largest; }
const driver::Kernel* min_rows() noexcept { return smallest; }

}  // namespace ember::ops
