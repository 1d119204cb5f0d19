// The state of Philox as a part of what kernels get.
#pragma once

#include "ember/driver/arguments.h"
#include "ember/scalar/philox.h"

namespace ember::inline v0 {

EMBER_ARGUMENTS(PhiloxState, EMBER_FIELD(seed), EMBER_FIELD(offset))

}  // namespace ember::inline v0
