#include "ember/ops/host/parts.h"

#include <cstddef>

namespace ember::inline v0::ops::host {
namespace {

/// The steps [first, last) of a loop along a dimension, 0 for a flat one.
Loop part_of(const Loop& loop, const ItemSizes& items, int d, std::int64_t first,
             std::int64_t last) {
  Loop part = loop;
  const auto dim = static_cast<std::size_t>(d);
  for (std::size_t k = 0; k < kLoopOperands; ++k)
    if (loop.data[k] != nullptr)
      part.data[k] = static_cast<std::byte*>(loop.data[k]) + first * loop.stride[k][dim] * items[k];
  part.count = loop.count / (loop.flat() ? loop.count : loop.size[dim]) * (last - first);
  part.size[dim] = static_cast<std::uint32_t>(last - first);
  return part;
}

}  // namespace

Status run_in_parts(const Loop& loop, const driver::HostLaunch& on, const ItemSizes& items,
                    Status (*run)(const Loop&, const driver::HostLaunch&)) {
  if (!on.has_pieces(loop.count, kLeastElements)) return run(loop, on);
  // Along the longest dimension, of equal ones the outermost: its parts lie far from each other.
  int along = 0;
  for (int d = 1; d < loop.dims; ++d)
    if (loop.size[d] >= loop.size[along]) along = d;
  const std::int64_t steps = loop.flat() ? loop.count : loop.size[along];
  return try_in_pieces(on, steps, least_steps(loop.count / steps),
                       [&](std::int64_t first, std::int64_t last) {
                         return run(part_of(loop, items, along, first, last), on);
                       });
}

}  // namespace ember::inline v0::ops::host
