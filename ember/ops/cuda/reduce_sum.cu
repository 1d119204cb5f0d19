#include "ember/ops/cuda/reduce.cuh"

namespace ember::ops::cuda {
namespace {

constexpr driver::cuda::NamedColumn columns[] = {
    EMBER_REDUCE_EACH(EMBER_REDUCE_COLUMN, Sum, "sum")};
const driver::cuda::Columns table(columns);

}  // namespace
}  // namespace ember::ops::cuda
