// What tests of graphs share.
#pragma once

#include "ember/ember.h"
#include "tests/support/devices.h"

namespace ember::test {

/// Numbers on the first device.
inline const Options kFloats(float32, Device(Device::Type::cuda, 0));

}  // namespace ember::test
