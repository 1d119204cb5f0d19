#include "ember/ops/cuda/reduce.cuh"

namespace ember::ops::cuda {
namespace {

constexpr driver::cuda::NamedColumn columns[] = {
    EMBER_REDUCE_EACH_FLOATING(EMBER_REDUCE_COLUMN, Variance, "var")};
const driver::cuda::Columns table(columns);

}  // namespace
}  // namespace ember::ops::cuda
