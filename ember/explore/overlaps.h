// Orders in which the two events of a pair overlap. Pure functions; know nothing of devices.
#pragma once

#include <cstddef>
#include <vector>

#include "ember/driver/schedule.h"
#include "ember/explore/record.h"

namespace ember::inline v0::explore {

/// The steps of orders that are as near to `line` as can be (an order of all events), but for that
/// pair, which nothing that is kept may order:
///
/// - two kernels, copies or fills both read what was there before, and the writes of both are
///   applied, those of either one last: where that is neither of the two orders, because one reads
///   and both write, or each reads what the other one writes;
/// - a copy is cut in two, and the other event comes between its halves.
///
/// What lies finer is not among them.
std::vector<std::vector<driver::Step>> overlaps(const Graph& graph, const Unordered& pair,
                                                const std::vector<std::size_t>& line);

}  // namespace ember::inline v0::explore
