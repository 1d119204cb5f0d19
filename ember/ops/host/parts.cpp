#include "ember/ops/host/parts.h"

#include <algorithm>
#include <cstddef>

namespace ember::inline v0::ops::host {
namespace {

/// The steps [first, last) of a loop along a dimension, 0 for a flat one.
Loop part_of(const Loop& loop, const ItemSizes& items, int d, std::int64_t first,
             std::int64_t last) {
  Loop part = loop;
  const auto dim = static_cast<std::size_t>(d);
  for (std::size_t k = 0; k < kLoopOperands; ++k)
    if (items[k] != 0 && loop.data[k] != nullptr)  // there is nothing in what is no operand
      part.data[k] = static_cast<std::byte*>(loop.data[k]) + first * loop.stride[k][dim] * items[k];
  part.count = loop.count / (loop.flat() ? loop.count : loop.size[dim]) * (last - first);
  part.size[dim] = static_cast<std::uint32_t>(last - first);
  return part;
}

/// Whether an input lies in the output's memory, but not element upon element: there the order in
/// which elements are written shows, as in `x -= x[:, :1]`.
bool depends_on_order(const Loop& loop, const ItemSizes& items) {
  const auto* const out = static_cast<const std::byte*>(loop.data[0]);
  const std::byte* const end = out + loop.span(0) * items[0];
  for (std::size_t k = 1; k < kLoopOperands; ++k) {
    const auto* const in = static_cast<const std::byte*>(loop.data[k]);
    if (items[k] == 0 || in == nullptr) continue;
    if (in >= end || out >= in + loop.span(static_cast<int>(k)) * items[k]) continue;
    if (in != out || items[k] != items[0] ||
        !std::equal(loop.stride[k], loop.stride[k] + std::max<int>(loop.dims, 1), loop.stride[0]))
      return true;
  }
  return false;
}

}  // namespace

Status run_in_parts(const Loop& loop, const driver::HostLaunch& on, const ItemSizes& items,
                    Status (*run)(const Loop&, const driver::HostLaunch&)) {
  if (!on.has_pieces(loop.count, kLeastElements) || depends_on_order(loop, items))
    return run(loop, on);
  const int along = longest_dim(loop.size, loop.dims);
  const std::int64_t steps = loop.flat() ? loop.count : loop.size[along];
  return try_in_pieces(on, steps, least_steps(loop.count / steps),
                       [&](std::int64_t first, std::int64_t last) {
                         return run(part_of(loop, items, along, first, last), on);
                       });
}

}  // namespace ember::inline v0::ops::host
