#include "ember/reduce/host/parts.h"

#include <algorithm>
#include <cstddef>

#include "ember/ops/host/parts.h"

namespace ember::inline v0::reduce::host {
namespace {

/// The steps [first, last) along a dimension that stays.
ReduceArgs part_of(const ReduceArgs& args, std::size_t item, int along, std::int64_t first,
                   std::int64_t last) {
  ReduceArgs part = args;
  const auto bytes = static_cast<std::ptrdiff_t>(item);
  if (part.in != nullptr)
    part.in = static_cast<const std::byte*>(part.in) + first * args.kept_stride[along] * bytes;
  if (part.out != nullptr)
    part.out = static_cast<std::byte*>(part.out) + first * args.kept_out[along] * args.out_item;
  if (part.indices != nullptr) part.indices += first * args.kept_out[along];
  part.kept_size[along] = last - first;
  part.outputs = args.outputs / args.kept_size[along] * (last - first);
  return part;
}

}  // namespace

void reduce_in_parts(const ReduceArgs& args, std::size_t item, const driver::HostLaunch& on,
                     void (*run)(const ReduceArgs&, const driver::HostLaunch&)) {
  constexpr std::int64_t kColumnsAtLeast = 64;  // more than decide between rows and columns
  const std::int64_t elements = args.outputs * std::max<std::int64_t>(args.reduced, 1);
  if (args.outputs < 2 || !on.has_pieces(elements, ops::host::kLeastElements)) return run(args, on);
  const int along = ops::host::longest_dim(args.kept_size, args.kept_dims);
  std::int64_t least = ops::host::least_steps(elements / args.kept_size[along]);
  if (along == 0 && by_columns(args)) least = std::max(least, kColumnsAtLeast);
  on.in_pieces(args.kept_size[along], least, [&](std::int64_t first, std::int64_t last) {
    run(part_of(args, item, along, first, last), on);
  });
}

}  // namespace ember::inline v0::reduce::host
