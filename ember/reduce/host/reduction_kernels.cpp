// The kernels of one reduction of the list; compiled once for each.
#include "ember/reduce/host/loop.h"
#include "ember/reduce/kernels.h"

namespace ember::inline v0::reduce {
namespace {

constinit driver::Kernel kernels[] = {
    EMBER_REDUCTION_TYPES(EMBER_REDUCE_KERNEL, EMBER_REDUCTION_FUNCTOR, EMBER_REDUCTION_NAME)};
const driver::kernels::Table table(kernels, driver::arguments<ReduceArgs>());

}  // namespace

const driver::Kernel* EMBER_REDUCTION_KERNELS() noexcept { return kernels; }

}  // namespace ember::inline v0::reduce
