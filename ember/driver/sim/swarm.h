// What a schedule of kind swarm draws from its seed.
#pragma once

#include <cstdint>

#include "ember/base/export.h"
#include "ember/driver/faults.h"
#include "ember/driver/schedule.h"

namespace ember::inline v0::driver::sim {

/// A policy, and what goes wrong. Bugs that one policy hardly meets are common with another.
struct Drawn {
  Schedule schedule;  ///< of kind random, pct or model, with the swarm's seed
  Faults faults;
};

/// The same on every machine. In one of two the policy is random, in one of four pct of depth 1 to
/// 5, and in one of four a model whose times and rates are up to 8 times more or less than the
/// H200's, and which has other numbers of engines. One of four has a fault.
EMBER_TEST_API Drawn draw_swarm(std::uint64_t seed);

}  // namespace ember::inline v0::driver::sim
