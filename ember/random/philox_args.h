// The state of Philox as a part of what kernels get; what writes it for the kernels of a graph.
#pragma once

#include "ember/driver/arguments.h"
#include "ember/scalar/philox.h"

namespace ember::inline v0 {

EMBER_ARGUMENTS(PhiloxState, EMBER_FIELD(seed), EMBER_FIELD(offset))
EMBER_ARGUMENTS(PhiloxSource, EMBER_FIELD(own), EMBER_FIELD(replayed))

namespace random {

/// `philox_write`: what the kernels of a graph read when they draw.
struct PhiloxWriteArgs {
  PhiloxState* to;
  PhiloxState state;
};
EMBER_ARGUMENTS(PhiloxWriteArgs, EMBER_FIELD(to), EMBER_FIELD(state))

}  // namespace random
}  // namespace ember::inline v0
