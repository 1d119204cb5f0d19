// Reductions with many outputs on the CPU, in parts on several threads.
#pragma once

#include "ember/driver/kernel.h"
#include "ember/reduce/args.h"

namespace ember::inline v0::reduce::host {

/// Whether columns are worked on side by side: a few only are not worth the rows of accumulators.
constexpr bool by_columns(const ReduceArgs& args) noexcept {
  constexpr std::int64_t kFewColumns = 8;
  return args.kept_dims > 0 && args.kept_stride[0] == 1 && args.kept_size[0] >= kFewColumns &&
         args.reduced > 1;
}

/// Runs a reduction: as it is, or cut along a dimension that stays, so that results do not depend
/// on it. `item` is the size of an input element. `run` may be called on several threads at once.
void reduce_in_parts(const ReduceArgs& args, std::size_t item, const driver::HostLaunch& on,
                     void (*run)(const ReduceArgs&, const driver::HostLaunch&));

}  // namespace ember::inline v0::reduce::host
